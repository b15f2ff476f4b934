// Attention over cached keys, the indexer's scores and choices, and the vision tower's full attention.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "backend/cpu/cpu_backend.h"
#include "base/check.h"

namespace di::cpu {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Block and row inside the block of compressed row `index` of a sequence.
struct CachePlace {
    int64_t block;
    int64_t row;
};

CachePlace place_of(const CacheView& cache, const Tensor& block_tables, int32_t sequence, int64_t index) {
    const int64_t column = index / cache.rows_per_block;
    DI_CHECK(column < block_tables.row_size(), "a compressed row lies behind the block table");
    const int32_t block = block_tables.row<int32_t>(sequence)[column];
    DI_CHECK(block >= 0, "a compressed row lies in a block that the sequence does not have");
    return {block, index % cache.rows_per_block};
}

int64_t selected_count(const SparseAttentionArgs& args, int64_t row) {
    if (args.compressed.base == nullptr) {
        return 0;
    }
    const auto* selected = args.selected.row<const int32_t>(row);
    int64_t count = 0;
    while (count < args.selected.row_size() && selected[count] >= 0) {
        ++count;
    }
    return count;
}

// Larger scores first, then lower ids: one integer that orders so. NaN counts as the lowest score.
uint64_t order_key(float score, int32_t id) {
    const float value = std::isnan(score) ? -kInfinity : score + 0.0F;
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    const uint32_t ascending = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
    return (static_cast<uint64_t>(~ascending) << 32) | static_cast<uint32_t>(id);
}

// The best `capacity` of `count` keys, ids ascending, then -1.
void put_best(uint64_t* keys, int64_t count, int32_t* out, int64_t capacity) {
    const int64_t chosen = std::min(count, capacity);
    if (chosen < count) {
        std::nth_element(keys, keys + chosen, keys + count);
    }
    for (int64_t i = 0; i < chosen; ++i) {
        out[i] = static_cast<int32_t>(keys[i] & 0xffffffffU);
    }
    std::sort(out, out + chosen);
    std::fill(out + chosen, out + capacity, -1);
}

}  // namespace

// --- sparse attention ---------------------------------------------------------------

// The list of decoded keys in the order of the contract. Rows of this step may be decoded already (`local_rows`).
CpuBackend::AttentionRowKeys CpuBackend::attention_keys(const SparseAttentionArgs& args, int64_t row, const float* local_rows,
                                                        ThreadScratch& own) {
    const int64_t dim = args.query.shape[2];
    const int32_t sequence = args.sequence.ptr<int32_t>()[row];
    const int32_t first = args.window_first.ptr<int32_t>()[row];
    const int32_t last = args.window_last.ptr<int32_t>()[row];
    const int32_t local_position = args.local_position.ptr<int32_t>()[sequence];
    const int64_t window = std::max<int64_t>(0, int64_t{last} - first + 1);
    const int64_t selected = selected_count(args, row);
    const auto** keys = own.pointers.get<const float*>(window + selected);
    if (own.cached_row == row) {
        return {keys, own.cached_count};
    }
    auto* values = own.keys.get<float>((window + selected) * dim);
    int64_t count = 0;
    const auto append = [&](const CacheView& cache, int64_t block, int64_t cache_row) {
        float* out = values + count * dim;
        kernels_.decode_cache_row(cache_format(cache.format), cache.data(block, cache_row), cache.scale(block, cache_row), dim,
                                  out);
        keys[count++] = out;
    };
    for (int64_t t = first; t <= last; ++t) {
        if (t < local_position) {
            append(args.ring, args.state_slots.ptr<int32_t>()[sequence], t % args.ring.rows_per_block);
            continue;
        }
        const int64_t local = args.local_row.ptr<int32_t>()[sequence] + t - local_position;
        if (local_rows == nullptr) {
            append(args.local, 0, local);
        } else {
            keys[count++] = local_rows + local * dim;
        }
    }
    for (int64_t i = 0; i < selected; ++i) {
        const CachePlace place = place_of(args.compressed, args.block_tables, sequence, args.selected.row<int32_t>(row)[i]);
        append(args.compressed, place.block, place.row);
    }
    own.cached_row = row;
    own.cached_count = count;
    return {keys, count};
}

void CpuBackend::attend_row(const SparseAttentionArgs& args, int64_t row, int64_t first_head, const float* local_rows,
                            ThreadScratch& own) {
    const int64_t dim = args.query.shape[2];
    const int64_t heads = std::min(kHeadBlock, args.query.shape[1] - first_head);
    const AttentionRowKeys keys = attention_keys(args, row, local_rows, own);
    const float* queries[kHeadBlock];
    float* outputs[kHeadBlock];
    for (int64_t h = 0; h < heads; ++h) {
        queries[h] = args.query.row<float>(row) + (first_head + h) * dim;
        outputs[h] = args.output.row<float>(row) + (first_head + h) * dim;
    }
    kernels_.attention({.queries = queries,
                        .heads = heads,
                        .keys = keys.keys,
                        .count = keys.count,
                        .dim = dim,
                        .scale = args.scale,
                        .sinks = args.sink.ptr<float>() + first_head,
                        .round = rounds(),
                        .scores = own.scores.get<float>(heads * keys.count),
                        .outputs = outputs});
}

void CpuBackend::sparse_attention(const SparseAttentionArgs& args) {
    const int64_t rows = args.query.rows();
    const int64_t heads = args.query.shape[1];
    const int64_t dim = args.query.shape[2];
    if (rows == 0) {
        return;
    }
    for (ThreadScratch& own : threads_) {
        own.cached_row = -1;
    }
    int64_t keys_total = 0;
    int64_t local_end = 0;
    for (int64_t row = 0; row < rows; ++row) {
        const int32_t sequence = args.sequence.ptr<int32_t>()[row];
        const int64_t last = args.window_last.ptr<int32_t>()[row];
        const int64_t first = args.window_first.ptr<int32_t>()[row];
        const int32_t local_position = args.local_position.ptr<int32_t>()[sequence];
        keys_total += std::max<int64_t>(0, last - first + 1) + selected_count(args, row);
        if (last >= first && last >= local_position) {
            local_end = std::max(local_end, args.local_row.ptr<int32_t>()[sequence] + last - local_position + 1);
        }
    }
    // Neighbouring rows share most of their window: decode the rows of this step once.
    float* local_rows = nullptr;
    if (rows > 1 && local_end > 0) {
        local_rows = local_rows_.get<float>(local_end * dim);
        for_items(local_end, local_end * dim * 2, [&](int64_t row, int) {
            kernels_.decode_cache_row(cache_format(args.local.format), args.local.data(0, row), args.local.scale(0, row), dim,
                                      local_rows + row * dim);
        });
    }
    const int64_t head_blocks = (heads + kHeadBlock - 1) / kHeadBlock;
    const int64_t work = keys_total * heads * dim * 2;
    // With many rows one item is a row; with few its heads are spread, and each thread decodes the keys for itself.
    if (rows >= 2 * pool_.thread_count()) {
        for_items(rows, work, [&](int64_t row, int thread) {
            for (int64_t block = 0; block < head_blocks; ++block) {
                attend_row(args, row, block * kHeadBlock, local_rows, scratch(thread));
            }
        });
        return;
    }
    for_items(rows * head_blocks, work, [&](int64_t item, int thread) {
        attend_row(args, item / head_blocks, item % head_blocks * kHeadBlock, local_rows, scratch(thread));
    });
}

// --- indexer --------------------------------------------------------------------------

// Scores of keys [first, last) into scores[first ..].
void CpuBackend::index_scores(const IndexSelectArgs& args, int64_t row, int64_t first, int64_t last, float* scores,
                              ThreadScratch& own) {
    const int64_t heads = args.query.shape[1];
    const int64_t dim = args.query.shape[2];
    const int64_t count = last - first;
    const int32_t sequence = args.sequence.ptr<int32_t>()[row];
    const CacheFormat format = cache_format(args.keys.format);
    auto* values = own.keys.get<float>(count * dim);
    const auto** pointers = own.pointers.get<const float*>(count + heads);
    for (int64_t j = 0; j < count; ++j) {
        const CachePlace place = place_of(args.keys, args.block_tables, sequence, first + j);
        kernels_.decode_cache_row(format, args.keys.data(place.block, place.row), args.keys.scale(place.block, place.row), dim,
                                  values + j * dim);
        pointers[j] = values + j * dim;
    }
    const float** queries = pointers + count;
    for (int64_t head = 0; head < heads; ++head) {
        queries[head] = args.query.row<float>(row) + head * dim;
    }
    auto* dots = own.scores.get<float>(heads * count);
    kernels_.dots(queries, heads, pointers, count, dim, 1.0F, dots, count);
    kernels_.relu_sum(dots, count, args.weights.row<float>(row), heads, count, args.scale, scores + first);
}

// From the scores of all visible keys (-infinity: not a candidate) to the row's outputs.
void CpuBackend::index_choose(const IndexSelectArgs& args, int64_t row, const float* scores, ThreadScratch& own) {
    const int64_t visible = args.visible.ptr<int32_t>()[row];
    auto* keys = own.order.get<uint64_t>(visible + 1);
    int64_t count = 0;
    if (args.candidates.empty()) {
        for (int64_t id = 0; id < visible; ++id) {
            keys[count++] = order_key(scores[id], static_cast<int32_t>(id));
        }
    } else {
        const auto* blocks = args.candidates.row<const int32_t>(row);
        for (int64_t i = 0; i < args.candidates.row_size() && blocks[i] >= 0; ++i) {
            const int64_t end = std::min(visible, (blocks[i] + 1) * args.candidate_block);
            for (int64_t id = blocks[i] * args.candidate_block; id < end; ++id) {
                keys[count++] = order_key(scores[id], static_cast<int32_t>(id));
            }
        }
    }
    put_best(keys, count, args.selected.row<int32_t>(row), args.selected.row_size());
    if (!args.scores_out.empty()) {
        float* out = args.scores_out.row<float>(row);
        std::copy_n(scores, visible, out);
        std::fill(out + visible, out + args.scores_out.row_size(), -kInfinity);
    }
    if (args.candidates_out.empty()) {
        return;
    }
    const int64_t size = args.candidate_block;
    const int64_t blocks = (visible + size - 1) / size;
    for (int64_t block = 0; block < blocks; ++block) {
        // The block with the newest entry is always in: above all others, which stay below infinity.
        const float top = *std::max_element(scores + block * size, scores + std::min(visible, (block + 1) * size));
        keys[block] = order_key(block == blocks - 1 ? kInfinity : std::min(top, 0x1.fep127F), static_cast<int32_t>(block));
    }
    put_best(keys, blocks, args.candidates_out.row<int32_t>(row), args.candidates_out.row_size());
}

void CpuBackend::index_select(const IndexSelectArgs& args) {
    const int64_t rows = args.query.rows();
    const int64_t size = args.query.row_size();
    int64_t total = 0;
    int64_t most = 0;
    for (int64_t row = 0; row < rows; ++row) {
        const int64_t visible = args.visible.ptr<int32_t>()[row];
        total += visible;
        most = std::max(most, visible);
    }
    // Runs of keys that count for the row, in pieces of one work item.
    const auto score_piece = [&](int64_t row, int64_t first, int64_t last, float* scores, ThreadScratch& own) {
        if (args.candidates.empty()) {
            index_scores(args, row, first, last, scores, own);
            return;
        }
        std::fill(scores + first, scores + last, -kInfinity);
        const auto* blocks = args.candidates.row<const int32_t>(row);
        for (int64_t i = 0; i < args.candidates.row_size() && blocks[i] >= 0; ++i) {
            const int64_t begin = std::max(first, blocks[i] * args.candidate_block);
            const int64_t end = std::min(last, (blocks[i] + 1) * args.candidate_block);
            if (begin < end) {
                index_scores(args, row, begin, end, scores, own);
            }
        }
    };
    const auto score_row = [&](int64_t row, float* scores, ThreadScratch& own) {
        const int64_t visible = args.visible.ptr<int32_t>()[row];
        for (int64_t first = 0; first < visible; first += kIndexKeyBlock) {
            score_piece(row, first, std::min(visible, first + kIndexKeyBlock), scores, own);
        }
    };
    if (rows >= 2 * pool_.thread_count()) {
        const int64_t stride = most;
        auto* scores = index_scores_.get<float>(stride * pool_.thread_count());
        for_items(rows, total * size, [&](int64_t row, int thread) {
            score_row(row, scores + thread * stride, scratch(thread));
            index_choose(args, row, scores + thread * stride, scratch(thread));
        });
        return;
    }
    const int64_t pieces = (most + kIndexKeyBlock - 1) / kIndexKeyBlock;
    auto* scores = index_scores_.get<float>(rows * most);
    for_items(rows * pieces, total * size, [&](int64_t item, int thread) {
        const int64_t row = item / pieces;
        const int64_t first = item % pieces * kIndexKeyBlock;
        const int64_t last = std::min<int64_t>(args.visible.ptr<int32_t>()[row], first + kIndexKeyBlock);
        if (first < last) {
            score_piece(row, first, last, scores + row * most, scratch(thread));
        }
    });
    for_items(rows, total * 8, [&](int64_t row, int thread) { index_choose(args, row, scores + row * most, scratch(thread)); });
}

// --- vision tower -----------------------------------------------------------------------

void CpuBackend::full_attention(const FullAttentionArgs& args) {
    const int64_t count = args.query.rows();
    const int64_t heads = args.query.shape[1];
    const int64_t dim = args.query.shape[2];
    const int64_t row_blocks = (count + kQueryBlock - 1) / kQueryBlock;
    for_items(heads * row_blocks, count * count * heads * dim * 2, [&](int64_t item, int thread) {
        const int64_t head = item / row_blocks;
        const int64_t first = item % row_blocks * kQueryBlock;
        const int64_t rows = std::min(kQueryBlock, count - first);
        ThreadScratch& own = scratch(thread);
        const auto** pointers = own.pointers.get<const float*>(2 * count + kQueryBlock);
        for (int64_t t = 0; t < count; ++t) {
            pointers[t] = args.key.row<float>(t) + head * dim;
            pointers[count + t] = args.value.row<float>(t) + head * dim;
        }
        float* outputs[kQueryBlock];
        for (int64_t r = 0; r < rows; ++r) {
            pointers[2 * count + r] = args.query.row<float>(first + r) + head * dim;
            outputs[r] = args.output.row<float>(first + r) + head * dim;
        }
        // The tower's probabilities are not rounded, only its result.
        kernels_.attention({.queries = pointers + 2 * count,
                            .heads = rows,
                            .keys = pointers,
                            .values = pointers + count,
                            .count = count,
                            .dim = dim,
                            .scale = args.scale,
                            .scores = own.scores.get<float>(rows * count),
                            .outputs = outputs});
        for (int64_t r = 0; r < rows && rounds(); ++r) {
            kernels_.round_row(outputs[r], dim);
        }
    });
}

}  // namespace di::cpu
