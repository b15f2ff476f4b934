// Cases: the indexer. Scores are small multiples of a power of two: exact in any order, with many ties.
#include <algorithm>

#include <fmt/format.h>

#include "backend/contract_cases.h"

namespace di::contract {

namespace {

constexpr int kRows = 33;
constexpr int kSequences = 3;
constexpr int64_t kBlockRows = 4;
constexpr int64_t kTopk = 9;
constexpr int64_t kCandidateBlock = 4;
constexpr int64_t kCandidates = 5;

struct IndexShape {
    int64_t heads;
    int64_t dim;
    int64_t keys;  // of a sequence, at most
    bool has_candidates;
    bool makes_candidates;
    bool is_exact;
};

struct IndexData {
    explicit IndexData(const IndexShape& s)
        : shape(s),
          numbers(static_cast<uint32_t>(s.heads + s.keys)),
          query(s.is_exact ? numbers.halves(kRows * s.heads * s.dim) : numbers.reals(kRows * s.heads * s.dim)),
          weights(s.is_exact ? numbers.halves(kRows * s.heads) : numbers.reals(kRows * s.heads)),
          cache(RowFormat::kMxfp4, s.dim, blocks() * kSequences, kBlockRows) {
        for (int64_t sequence = 0; sequence < kSequences; ++sequence) {
            for (int64_t row = 0; row < s.keys; ++row) {
                std::vector<float> key = s.is_exact ? numbers.halves(s.dim) : numbers.reals(s.dim);
                for (int64_t i = 0; i < s.dim && s.is_exact; i += 32) {
                    key[static_cast<size_t>(i)] = 6.0F;  // the group's scale becomes 1
                }
                cache.put(block(sequence, row / kBlockRows), row % kBlockRows, key);
            }
        }
        for (int row = 0; row < kRows; ++row) {
            const int32_t count = row == 3 ? 0 : row == 4 ? 1 : static_cast<int32_t>(1 + numbers.below(s.keys));
            visible.push_back(row == 5 ? static_cast<int32_t>(s.keys) : count);
            int32_t last = -1;
            const int64_t candidate_total = (visible.back() + kCandidateBlock - 1) / kCandidateBlock;
            for (int64_t i = 0; i < kCandidates; ++i) {
                last += static_cast<int32_t>(1 + numbers.below(3));
                candidates.push_back(last < candidate_total && i < 1 + row % kCandidates ? last : -1);
            }
        }
    }
    [[nodiscard]] int64_t blocks() const { return (shape.keys + kBlockRows - 1) / kBlockRows; }
    [[nodiscard]] int64_t block(int64_t sequence, int64_t column) const {
        return (sequence * blocks() + column + 2) % (blocks() * kSequences);
    }

    IndexShape shape;
    Numbers numbers;
    std::vector<float> query;
    std::vector<float> weights;
    OwnedCache cache;
    std::vector<int32_t> visible;
    std::vector<int32_t> candidates;  // [rows, kCandidates]
};

std::vector<RowResult> run_index(IndexData& data, Backend& backend, const std::vector<int>& rows) {
    const IndexShape& s = data.shape;
    const auto count = static_cast<int64_t>(rows.size());
    std::vector<float> query = pick(data.query, s.heads * s.dim, rows);
    std::vector<float> weights = pick(data.weights, s.heads, rows);
    std::vector<int32_t> visible = pick(data.visible, 1, rows);
    std::vector<int32_t> candidates = pick(data.candidates, kCandidates, rows);
    std::vector<int32_t> sequence;
    for (const int row : rows) {
        sequence.push_back(row % kSequences);
    }
    std::vector<int32_t> tables;
    for (int64_t i = 0; i < kSequences; ++i) {
        for (int64_t column = 0; column < data.blocks(); ++column) {
            tables.push_back(static_cast<int32_t>(data.block(i, column)));
        }
    }
    std::vector<int32_t> selected(rows.size() * kTopk, -7);
    std::vector<int32_t> made(rows.size() * kCandidates, -7);
    std::vector<float> scores(rows.size() * static_cast<size_t>(s.keys), 7.0F);
    IndexSelectArgs args{.query = view(query, {count, s.heads, s.dim}),
                         .weights = view(weights, {count, s.heads}),
                         .keys = data.cache.view,
                         .block_tables = view(tables, {kSequences, data.blocks()}),
                         .sequence = view(sequence, {count}),
                         .visible = view(visible, {count}),
                         .candidates = {},
                         .selected = view(selected, {count, kTopk}),
                         .candidates_out = {},
                         .scores_out = view(scores, {count, s.keys}),
                         .candidate_block = kCandidateBlock,
                         .scale = 0.0625F};
    if (s.has_candidates) {
        args.candidates = view(candidates, {count, kCandidates});
    }
    if (s.makes_candidates) {
        args.candidates_out = view(made, {count, kCandidates});
    }
    backend.index_select(args);
    auto results = split(scores, rows.size());
    if (s.is_exact) {
        const auto chosen = split(selected, rows.size());
        const auto blocks = split(made, rows.size());
        for (size_t i = 0; i < rows.size(); ++i) {
            results[i].insert(results[i].end(), chosen[i].begin(), chosen[i].end());
            results[i].insert(results[i].end(), blocks[i].begin(), blocks[i].end());
        }
    }
    return results;
}

}  // namespace

std::vector<OpCase> index_cases() {
    std::vector<OpCase> cases;
    constexpr IndexShape kShapes[] = {
        {4, 32, 40, false, false, true}, {1, 32, 60, false, true, true}, {6, 64, 300, true, false, true},
        {2, 32, 290, false, true, true}, {5, 96, 45, true, true, true},  {16, 32, 150, false, false, false},
    };
    for (const IndexShape& s : kShapes) {
        auto data = std::make_shared<IndexData>(s);
        const float tolerance = s.is_exact ? 0.0F : 1e-5F;
        cases.push_back({fmt::format("index_select heads {} dim {} keys {} candidates {} {} exact {}", s.heads, s.dim, s.keys,
                                     s.has_candidates, s.makes_candidates, s.is_exact),
                         kRows,
                         [data](Backend& backend, const std::vector<int>& rows) { return run_index(*data, backend, rows); },
                         tolerance, tolerance});
    }
    return cases;
}

}  // namespace di::contract
