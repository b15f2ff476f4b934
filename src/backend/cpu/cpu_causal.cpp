// Dense causal attention over paged keys and values.
#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "base/check.h"

namespace di::cpu {

namespace {

// Decodes one head's part of rows [first, first + count) of a sequence, [count, dim].
void decode_head_rows(const Kernels& kernels, const CacheView& cache, const int32_t* table, int64_t first, int64_t count,
                      int64_t head, int64_t dim, float* out) {
    const int64_t bytes = row_data_bytes(cache.format, dim);
    for (int64_t t = first; t < first + count; ++t) {
        const int32_t block = table[t / cache.rows_per_block];
        DI_CHECK(block >= 0, "a key lies in a block that the sequence does not have");
        kernels.decode_cache_row(cache_format(cache.format), cache.data(block, t % cache.rows_per_block) + head * bytes,
                                 nullptr, dim, out + (t - first) * dim);
    }
}

}  // namespace

// Two passes over the keys in pieces: all scores, their softmax, then the weighted sum. A result's order is that of ascending
// keys whatever the pieces and whatever rows share them.
void CpuBackend::causal_item(const CausalAttentionArgs& args, const CausalItem& item, ThreadScratch& own) {
    const int64_t dim = args.query.shape[2];
    const int64_t group = args.query.shape[1] / (args.key.dim / dim);
    const int64_t rows = item.end - item.first;
    const auto* positions = args.positions.ptr<const int32_t>() + item.first;
    const int64_t keys_end = int64_t{*std::max_element(positions, positions + rows)} + 1;
    const int32_t sequence = args.sequence.ptr<int32_t>()[item.first];
    const auto* table = args.block_tables.row<const int32_t>(sequence);
    DI_CHECK((keys_end - 1) / args.key.rows_per_block < args.block_tables.row_size(), "a key lies behind the block table");
    auto* decoded = own.keys.get<float>(kCausalKeyBlock * dim);
    auto* scores = own.scores.get<float>(rows * group * keys_end);
    const auto** pointers = own.pointers.get<const float*>(kCausalKeyBlock + 3 * rows * group);
    const float** queries = pointers + kCausalKeyBlock;
    auto** sums = const_cast<float**>(queries + rows * group);
    const float** weights = queries + 2 * rows * group;
    for (int64_t j = 0; j < kCausalKeyBlock; ++j) {
        pointers[j] = decoded + j * dim;
    }
    for (int64_t i = 0; i < rows * group; ++i) {
        const int64_t at = (item.kv_head * group + i % group) * dim;
        queries[i] = args.query.row<float>(item.first + i / group) + at;
        sums[i] = args.output.row<float>(item.first + i / group) + at;
    }
    // Calls body(first query, queries, keys that they see of this piece): all rows at once where they see all of it.
    const auto for_rows = [&](int64_t first, int64_t count, const auto& body) {
        if (*std::min_element(positions, positions + rows) + 1 >= first + count) {
            body(int64_t{0}, rows * group, count);
            return;
        }
        for (int64_t row = 0; row < rows; ++row) {
            const int64_t seen = std::min(count, positions[row] + 1 - first);
            if (seen > 0) {
                body(row * group, group, seen);
            }
        }
    };
    for (int64_t first = 0; first < keys_end; first += kCausalKeyBlock) {
        const int64_t count = std::min(kCausalKeyBlock, keys_end - first);
        decode_head_rows(kernels_, args.key, table, first, count, item.kv_head, dim, decoded);
        for_rows(first, count, [&](int64_t query, int64_t query_count, int64_t seen) {
            kernels_.dots(queries + query, query_count, pointers, seen, dim, args.scale, scores + query * keys_end + first,
                          keys_end);
        });
    }
    auto* totals = own.order.get<float>(rows * group);
    for (int64_t i = 0; i < rows * group; ++i) {
        totals[i] = kernels_.softmax_row(scores + i * keys_end, positions[i / group] + 1);
        std::fill_n(sums[i], dim, 0.0F);
    }
    for (int64_t first = 0; first < keys_end; first += kCausalKeyBlock) {
        const int64_t count = std::min(kCausalKeyBlock, keys_end - first);
        decode_head_rows(kernels_, args.value, table, first, count, item.kv_head, dim, decoded);
        for (int64_t i = 0; i < rows * group; ++i) {
            weights[i] = scores + i * keys_end + first;
        }
        for_rows(first, count, [&](int64_t query, int64_t query_count, int64_t seen) {
            kernels_.add_values({.weights = weights + query,
                                 .sums = sums + query,
                                 .rows = query_count,
                                 .values = pointers,
                                 .count = seen,
                                 .dim = dim});
        });
    }
    for (int64_t i = 0; i < rows * group; ++i) {
        kernels_.divide_row(sums[i], totals[i], dim, rounds());
    }
}

void CpuBackend::causal_attention(const CausalAttentionArgs& args) {
    const int64_t rows = args.query.rows();
    const int64_t heads = args.query.shape[1];
    const int64_t dim = args.query.shape[2];
    const int64_t kv_heads = args.key.dim / dim;
    DI_CHECK(args.key.dim % dim == 0 && heads % kv_heads == 0 && args.value.dim == args.key.dim,
             "the heads of queries, keys and values do not fit each other");
    DI_CHECK(row_scale_bytes(args.key.format, args.key.dim) == 0 && row_scale_bytes(args.value.format, args.key.dim) == 0,
             "dense attention reads caches without scales");
    const auto* sequence = args.sequence.ptr<const int32_t>();
    causal_items_.clear();
    int64_t keys_total = 0;
    for (int64_t first = 0; first < rows;) {
        int64_t end = first;
        while (end < rows && end - first < kCausalRowBlock && sequence[end] == sequence[first]) {
            keys_total += args.positions.ptr<int32_t>()[end++] + 1;
        }
        for (int64_t head = 0; head < kv_heads; ++head) {
            causal_items_.push_back({.first = first, .end = end, .kv_head = head});
        }
        first = end;
    }
    for_items(static_cast<int64_t>(causal_items_.size()), keys_total * heads * dim * 2,
              [&](int64_t item, int thread) { causal_item(args, causal_items_[static_cast<size_t>(item)], scratch(thread)); });
}

}  // namespace di::cpu
