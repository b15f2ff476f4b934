// Sparse attention: window and selected compressed keys, the compressor, the indexer.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "backend/ref/ref_backend.h"
#include "base/check.h"

namespace di::ref {

namespace {

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

void append_key(const CacheView& cache, int64_t block, int64_t row, std::vector<float>& keys) {
    const size_t first = keys.size();
    keys.resize(first + static_cast<size_t>(cache.dim));
    dequantise_row(cache.format, cache.data(block, row), cache.scale(block, row),
                   {keys.data() + first, static_cast<size_t>(cache.dim)});
}

// All keys of a row, in the order of the contract.
std::vector<float> gather_keys(const SparseAttentionArgs& args, int64_t row) {
    std::vector<float> keys;
    const int32_t sequence = args.sequence.ptr<int32_t>()[row];
    const int32_t local_position = args.local_position.ptr<int32_t>()[sequence];
    for (int32_t t = args.window_first.ptr<int32_t>()[row]; t <= args.window_last.ptr<int32_t>()[row]; ++t) {
        if (t < local_position) {
            append_key(args.ring, args.state_slots.ptr<int32_t>()[sequence], t % args.ring.rows_per_block, keys);
        } else {
            append_key(args.local, 0, args.local_row.ptr<int32_t>()[sequence] + t - local_position, keys);
        }
    }
    if (args.compressed.base != nullptr) {
        for (int64_t i = 0; i < args.selected.row_size(); ++i) {
            const int32_t index = args.selected.row<int32_t>(row)[i];
            if (index < 0) {
                break;
            }
            const CachePlace place = place_of(args.compressed, args.block_tables, sequence, index);
            append_key(args.compressed, place.block, place.row, keys);
        }
    }
    return keys;
}

// The `count` best of the entries, higher score first, then lower id; ids ascending, then -1.
void select_best(std::vector<int32_t> ids, const std::vector<float>& scores, std::span<int32_t> out) {
    const size_t count = std::min(out.size(), ids.size());
    std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count), ids.end(), [&](int32_t a, int32_t b) {
        const float x = scores[static_cast<size_t>(a)];
        const float y = scores[static_cast<size_t>(b)];
        return x != y ? x > y : a < b;
    });
    std::sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count));
    std::fill(out.begin(), out.end(), -1);
    std::copy_n(ids.begin(), count, out.begin());
}

// Compressed rows that the row may score: all visible ones, or those in its candidate blocks.
std::vector<int32_t> scored_rows(const IndexSelectArgs& args, int64_t row) {
    const int32_t visible = args.visible.ptr<int32_t>()[row];
    std::vector<int32_t> ids;
    if (args.candidates.empty()) {
        ids.resize(static_cast<size_t>(visible));
        std::iota(ids.begin(), ids.end(), 0);
        return ids;
    }
    for (int64_t i = 0; i < args.candidates.row_size(); ++i) {
        const int32_t block = args.candidates.row<int32_t>(row)[i];
        if (block < 0) {
            break;
        }
        const auto first = static_cast<int32_t>(block * args.candidate_block);
        const int32_t last = std::min(visible, first + static_cast<int32_t>(args.candidate_block));
        for (int32_t id = first; id < last; ++id) {
            ids.push_back(id);
        }
    }
    return ids;
}

void select_candidates(const IndexSelectArgs& args, int64_t row, int32_t visible, const std::vector<float>& scores) {
    const int64_t size = args.candidate_block;
    const auto count = static_cast<int32_t>((visible + size - 1) / size);
    std::vector<float> block_scores(static_cast<size_t>(count));
    for (int32_t block = 0; block < count; ++block) {
        const auto first = scores.begin() + block * size;
        const auto last = scores.begin() + std::min<int64_t>(visible, (block + 1) * size);
        // Below infinity, which is for the block with the newest entry: it is always in.
        block_scores[static_cast<size_t>(block)] = std::min(*std::max_element(first, last), 0x1.fep127F);
    }
    if (count > 0) {
        block_scores.back() = std::numeric_limits<float>::infinity();
    }
    std::vector<int32_t> blocks(static_cast<size_t>(count));
    std::iota(blocks.begin(), blocks.end(), 0);
    select_best(blocks, block_scores,
                {args.candidates_out.row<int32_t>(row), static_cast<size_t>(args.candidates_out.row_size())});
}

}  // namespace

void RefBackend::sparse_attention(const SparseAttentionArgs& args) {
    const int64_t heads = args.query.shape[1];
    const int64_t dim = args.query.shape[2];
    const auto size = static_cast<size_t>(dim);
    for (int64_t row = 0; row < args.query.rows(); ++row) {
        const std::vector<float> keys = gather_keys(args, row);
        const size_t count = keys.size() / size;
        std::vector<float> scores(count);
        for (int64_t head = 0; head < heads; ++head) {
            const std::span<const float> q{args.query.row<float>(row) + head * dim, size};
            const float sink = args.sink.ptr<float>()[head];
            float top = sink;
            for (size_t t = 0; t < count; ++t) {
                scores[t] = args.scale * static_cast<float>(dot(q, {keys.data() + t * size, size}));
                top = std::max(top, scores[t]);
            }
            double denominator = std::exp(static_cast<double>(sink - top));
            for (size_t t = 0; t < count; ++t) {
                const float p = std::exp(scores[t] - top);
                denominator += static_cast<double>(p);
                scores[t] = stored(p);
            }
            float* out = args.output.row<float>(row) + head * dim;
            for (size_t i = 0; i < size; ++i) {
                double sum = 0.0;
                for (size_t t = 0; t < count; ++t) {
                    sum += static_cast<double>(scores[t]) * static_cast<double>(keys[t * size + i]);
                }
                out[i] = stored(static_cast<float>(sum / denominator));
            }
        }
    }
}

void RefBackend::causal_attention(const CausalAttentionArgs& args) {
    const int64_t heads = args.query.shape[1];
    const int64_t dim = args.query.shape[2];
    const auto size = static_cast<size_t>(dim);
    const int64_t group = heads / (args.key.dim / dim);
    for (int64_t row = 0; row < args.query.rows(); ++row) {
        const int32_t sequence = args.sequence.ptr<int32_t>()[row];
        const auto count = static_cast<size_t>(args.positions.ptr<int32_t>()[row]) + 1;
        std::vector<float> keys;
        std::vector<float> values;
        for (size_t t = 0; t < count; ++t) {
            const CachePlace place = place_of(args.key, args.block_tables, sequence, static_cast<int64_t>(t));
            append_key(args.key, place.block, place.row, keys);
            append_key(args.value, place.block, place.row, values);
        }
        const auto width = static_cast<size_t>(args.key.dim);
        std::vector<float> scores(count);
        for (int64_t head = 0; head < heads; ++head) {
            const size_t first = static_cast<size_t>(head / group) * size;
            const std::span<const float> q{args.query.row<float>(row) + head * dim, size};
            float top = -std::numeric_limits<float>::infinity();
            for (size_t t = 0; t < count; ++t) {
                scores[t] = args.scale * static_cast<float>(dot(q, {keys.data() + t * width + first, size}));
                top = std::max(top, scores[t]);
            }
            std::vector<double> sums(size, 0.0);
            double denominator = 0.0;
            for (size_t t = 0; t < count; ++t) {
                const double p = std::exp(static_cast<double>(scores[t] - top));
                denominator += p;
                for (size_t i = 0; i < size; ++i) {
                    sums[i] += p * static_cast<double>(values[t * width + first + i]);
                }
            }
            float* out = args.output.row<float>(row) + head * dim;
            for (size_t i = 0; i < size; ++i) {
                out[i] = stored(static_cast<float>(sums[i] / denominator));
            }
        }
    }
}

void RefBackend::compress(const CompressArgs& args) {
    const int64_t dim = args.output.row_size();
    const auto ratio = static_cast<size_t>(args.ratio);
    std::vector<const float*> tokens(ratio);
    std::vector<double> scores(ratio);
    for (int64_t group = 0; group < args.output.rows(); ++group) {
        const int32_t sequence = args.group_sequence.ptr<int32_t>()[group];
        const int32_t local_position = args.local_position.ptr<int32_t>()[sequence];
        for (size_t i = 0; i < ratio; ++i) {
            const int32_t position = args.group_position.ptr<int32_t>()[group] + static_cast<int32_t>(i);
            if (position < local_position) {
                tokens[i] = reinterpret_cast<const float*>(
                    args.partial.data(args.state_slots.ptr<int32_t>()[sequence], position % args.partial.rows_per_block));
            } else {
                tokens[i] = args.value_score.row<float>(args.local_row.ptr<int32_t>()[sequence] + position - local_position);
            }
        }
        for (int64_t d = 0; d < dim; ++d) {
            double top = -std::numeric_limits<double>::infinity();
            for (size_t i = 0; i < ratio; ++i) {
                scores[i] = static_cast<double>(tokens[i][dim + d]);
                top = std::max(top, scores[i]);
            }
            double sum = 0.0;
            double value = 0.0;
            for (size_t i = 0; i < ratio; ++i) {
                scores[i] = std::exp(scores[i] - top);
                sum += scores[i];
            }
            for (size_t i = 0; i < ratio; ++i) {
                value += scores[i] / sum * static_cast<double>(tokens[i][d]);
            }
            args.output.row<float>(group)[d] = stored(static_cast<float>(value));
        }
    }
}

void RefBackend::index_select(const IndexSelectArgs& args) {
    const int64_t heads = args.query.shape[1];
    const int64_t dim = args.query.shape[2];
    const auto size = static_cast<size_t>(dim);
    std::vector<float> key(size);
    for (int64_t row = 0; row < args.query.rows(); ++row) {
        const int32_t visible = args.visible.ptr<int32_t>()[row];
        const int32_t sequence = args.sequence.ptr<int32_t>()[row];
        std::vector<float> scores(static_cast<size_t>(visible), -std::numeric_limits<float>::infinity());
        const std::vector<int32_t> ids = scored_rows(args, row);
        for (const int32_t id : ids) {
            const CachePlace place = place_of(args.keys, args.block_tables, sequence, id);
            dequantise_row(args.keys.format, args.keys.data(place.block, place.row), args.keys.scale(place.block, place.row),
                           key);
            double sum = 0.0;
            for (int64_t head = 0; head < heads; ++head) {
                const double d = dot({args.query.row<float>(row) + head * dim, size}, key);
                sum += std::max(d, 0.0) * static_cast<double>(args.weights.row<float>(row)[head]);
            }
            scores[static_cast<size_t>(id)] = static_cast<float>(sum * static_cast<double>(args.scale));
        }
        if (!args.scores_out.empty()) {
            float* out = args.scores_out.row<float>(row);
            std::fill_n(out, args.scores_out.row_size(), -std::numeric_limits<float>::infinity());
            std::copy(scores.begin(), scores.end(), out);
        }
        if (!args.candidates_out.empty()) {
            select_candidates(args, row, visible, scores);
        }
        select_best(ids, scores, {args.selected.row<int32_t>(row), static_cast<size_t>(args.selected.row_size())});
    }
}

}  // namespace di::ref
