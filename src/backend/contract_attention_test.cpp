// Cases: sparse attention and the compressor over ring, local and block caches; full attention.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "backend/contract_cases.h"

namespace di::contract {

namespace {

constexpr int kRows = 33;
constexpr int kSequences = 4;
constexpr int64_t kRing = 16;

// Row i of a case is a token of sequence i mod 4, at falling distance from where that sequence stands.
int sequence_of(int row) { return row % kSequences; }
int position_of(int row) { return 3 + 13 * sequence_of(row) + row / kSequences; }

// The sequences of a step: their first local position is that of their earliest row in it, so that what comes from the ring
// and what from the step's own rows differs from selection to selection. Values never do.
struct Step {
    std::vector<int32_t> sequence;        // [rows]
    std::vector<int32_t> local_position;  // [sequences of the step]
    std::vector<int32_t> local_row;
    std::vector<int32_t> state_slots;
    std::vector<int> id;  // of the case
    std::vector<int> local_count;
    int64_t local_total = 0;

    explicit Step(const std::vector<int>& rows, int reach = 1) {
        std::map<int, int> index;
        for (const int row : rows) {
            const auto found = index.try_emplace(sequence_of(row), static_cast<int>(id.size()));
            if (found.second) {
                id.push_back(sequence_of(row));
                local_position.push_back(position_of(row));
                local_count.push_back(0);
            }
            const auto at = static_cast<size_t>(found.first->second);
            sequence.push_back(found.first->second);
            local_position[at] = std::min(local_position[at], position_of(row));
        }
        for (size_t i = 0; i < rows.size(); ++i) {
            const auto at = static_cast<size_t>(sequence[i]);
            local_count[at] = std::max(local_count[at], position_of(rows[i]) + reach - local_position[at]);
        }
        for (size_t at = 0; at < id.size(); ++at) {
            local_row.push_back(static_cast<int32_t>(local_total + 1));  // row 0 belongs to nobody
            local_total += local_count[at];
            state_slots.push_back((id[at] * 3 + 1) % kSequences);
        }
    }
};

struct AttentionShape {
    int64_t heads;
    int64_t dim;
    RowFormat window;
    RowFormat compressed;
    bool has_compressed;
};

struct AttentionData {
    static constexpr int64_t kPositions = 80;
    static constexpr int64_t kCompressed = 24;
    static constexpr int64_t kTopk = 7;
    static constexpr int64_t kBlockRows = 3;
    static constexpr int64_t kBlocks = kCompressed / kBlockRows;

    explicit AttentionData(const AttentionShape& s)
        : shape(s),
          numbers(static_cast<uint32_t>(s.heads * s.dim)),
          query(numbers.reals(kRows * s.heads * s.dim)),
          keys(numbers.reals(kSequences * kPositions * s.dim)),
          sink(numbers.reals(s.heads)),
          compressed(s.compressed, s.dim, kBlocks * kSequences, kBlockRows) {
        for (int64_t sequence = 0; sequence < kSequences; ++sequence) {
            for (int64_t row = 0; row < kCompressed; ++row) {
                compressed.put(block(sequence, row / kBlockRows), row % kBlockRows, numbers.reals(s.dim));
            }
        }
        for (int row = 0; row < kRows; ++row) {
            int64_t last = -1;
            for (int64_t i = 0; i < kTopk; ++i) {
                last = last + 1 + numbers.below(4);
                // Some rows select nothing at all, others all they may.
                const bool is_used = row % 5 != 0 && i < 2 + row % 6 && last < kCompressed;
                selected.push_back(is_used ? static_cast<int32_t>(last) : -1);
            }
        }
    }
    [[nodiscard]] static int64_t block(int64_t sequence, int64_t column) {
        return (sequence * kBlocks + column) * 5 % (kBlocks * kSequences);
    }
    [[nodiscard]] std::span<const float> key(int64_t sequence, int64_t position) const {
        return {keys.data() + (sequence * kPositions + position) * shape.dim, static_cast<size_t>(shape.dim)};
    }

    AttentionShape shape;
    Numbers numbers;
    std::vector<float> query;
    std::vector<float> keys;
    std::vector<float> sink;
    OwnedCache compressed;
    std::vector<int32_t> selected;  // [rows, topk]
};

std::vector<RowResult> run_attention(AttentionData& data, Backend& backend, const std::vector<int>& rows) {
    const AttentionShape& s = data.shape;
    const auto count = static_cast<int64_t>(rows.size());
    Step step(rows);
    const auto sequences = static_cast<int64_t>(step.id.size());
    OwnedCache ring(s.window, s.dim, kSequences, kRing);
    OwnedCache local(s.window, s.dim, 1, step.local_total + 1);
    std::vector<int32_t> tables;
    for (size_t at = 0; at < step.id.size(); ++at) {
        for (int64_t t = std::max<int64_t>(0, step.local_position[at] - kRing); t < step.local_position[at]; ++t) {
            ring.put(step.state_slots[at], t % kRing, data.key(step.id[at], t));
        }
        for (int i = 0; i < step.local_count[at]; ++i) {
            local.put(0, step.local_row[at] + i, data.key(step.id[at], step.local_position[at] + i));
        }
        for (int64_t column = 0; column < AttentionData::kBlocks; ++column) {
            tables.push_back(static_cast<int32_t>(AttentionData::block(step.id[at], column)));
        }
    }
    std::vector<int32_t> first;
    std::vector<int32_t> last;
    for (const int row : rows) {
        // A window of up to 6 keys; every seventh row has none.
        first.push_back(row % 7 == 0 ? position_of(row) + 1 : std::max(0, position_of(row) - 5));
        last.push_back(position_of(row));
    }
    std::vector<float> query = pick(data.query, s.heads * s.dim, rows);
    std::vector<int32_t> selected = pick(data.selected, AttentionData::kTopk, rows);
    std::vector<float> output(query.size(), -1.0F);
    SparseAttentionArgs args{.query = view(query, {count, s.heads, s.dim}),
                             .local = local.view,
                             .ring = ring.view,
                             .sequence = view(step.sequence, {count}),
                             .window_first = view(first, {count}),
                             .window_last = view(last, {count}),
                             .state_slots = view(step.state_slots, {sequences}),
                             .local_position = view(step.local_position, {sequences}),
                             .local_row = view(step.local_row, {sequences}),
                             .compressed = {},
                             .block_tables = {},
                             .selected = {},
                             .sink = view(data.sink, {s.heads}),
                             .output = view(output, {count, s.heads, s.dim}),
                             .scale = 0.125F};
    if (s.has_compressed) {
        args.compressed = data.compressed.view;
        args.block_tables = view(tables, {sequences, AttentionData::kBlocks});
        args.selected = view(selected, {count, AttentionData::kTopk});
    }
    backend.sparse_attention(args);
    return split(output, rows.size());
}

void add_compress(std::vector<OpCase>& cases, int64_t ratio, int64_t dim) {
    constexpr int64_t kPositions = 80;
    Numbers numbers(static_cast<uint32_t>(ratio));
    auto tokens = std::make_shared<std::vector<float>>(numbers.reals(kSequences * kPositions * 2 * dim, 2.0F));
    const auto run = [=](Backend& backend, const std::vector<int>& rows) {
        const auto count = static_cast<int64_t>(rows.size());
        // Groups begin at the row's position; a later cut than that moves their first tokens into the ring.
        Step step(rows, static_cast<int>(ratio));
        for (size_t at = 0; at < step.id.size(); ++at) {
            if (step.local_count[at] > 1 && rows.size() % 2 == 1) {
                ++step.local_position[at];
                --step.local_count[at];
            }
        }
        const auto sequences = static_cast<int64_t>(step.id.size());
        OwnedCache partial(RowFormat::kF32, 2 * dim, kSequences, kRing);
        std::vector<float> local(static_cast<size_t>((step.local_total + 1) * 2 * dim), 9.0F);
        const auto token = [&](int sequence, int64_t position) {
            return std::span<const float>(tokens->data() + (sequence * kPositions + position) * 2 * dim,
                                          static_cast<size_t>(2 * dim));
        };
        for (size_t at = 0; at < step.id.size(); ++at) {
            for (int64_t t = std::max<int64_t>(0, step.local_position[at] - kRing); t < step.local_position[at]; ++t) {
                partial.put(step.state_slots[at], t % kRing, token(step.id[at], t));
            }
            for (int i = 0; i < step.local_count[at]; ++i) {
                const auto values = token(step.id[at], step.local_position[at] + i);
                std::copy(values.begin(), values.end(), local.begin() + (step.local_row[at] + i) * 2 * dim);
            }
        }
        std::vector<int32_t> positions;
        for (const int row : rows) {
            positions.push_back(position_of(row));
        }
        std::vector<float> output(rows.size() * static_cast<size_t>(dim));
        backend.compress({.value_score = view(local, {step.local_total + 1, 2, dim}),
                          .partial = partial.view,
                          .group_sequence = view(step.sequence, {count}),
                          .group_position = view(positions, {count}),
                          .state_slots = view(step.state_slots, {sequences}),
                          .local_position = view(step.local_position, {sequences}),
                          .local_row = view(step.local_row, {sequences}),
                          .output = view(output, {count, dim}),
                          .ratio = ratio});
        return split(output, rows.size());
    };
    cases.push_back({fmt::format("compress ratio {}", ratio), kRows, run});
}

struct CausalShape {
    int64_t heads;
    int64_t kv_heads;
    int64_t dim;
    RowFormat format;
    int position_step;  // rows of a sequence stand this far apart
};

// Sequences of a few hundred tokens in blocks that stand in no order; a row is a token of one of them.
void add_causal(std::vector<OpCase>& cases, const CausalShape& s) {
    constexpr int64_t kBlockRows = 8;
    const int64_t positions_max = 4 + 13 * kSequences + int64_t{kRows} * s.position_step;
    const int64_t blocks = positions_max / kBlockRows + 1;
    const auto block_of = [=](int64_t sequence, int64_t column) {
        return (sequence * blocks + column) * 7 % (blocks * kSequences + 1);
    };
    Numbers numbers(static_cast<uint32_t>(s.heads * s.dim + s.position_step));
    const int64_t width = s.kv_heads * s.dim;
    // One spare block, so that the step of 7 meets all of them where their number is a multiple of it.
    auto keys = std::make_shared<OwnedCache>(s.format, width, blocks * kSequences + 1, kBlockRows);
    auto values = std::make_shared<OwnedCache>(s.format, width, blocks * kSequences + 1, kBlockRows);
    for (int64_t block = 0; block <= blocks * kSequences; ++block) {
        for (int64_t row = 0; row < kBlockRows; ++row) {
            keys->put(block, row, numbers.reals(width));
            values->put(block, row, numbers.reals(width));
        }
    }
    auto queries = std::make_shared<std::vector<float>>(numbers.reals(kRows * s.heads * s.dim, 2.0F));
    const auto run = [=](Backend& backend, const std::vector<int>& rows) {
        const auto count = static_cast<int64_t>(rows.size());
        std::vector<int32_t> sequence;
        std::vector<int32_t> positions;
        for (const int row : rows) {
            // Three rows of a sequence stand together, as those of a prompt do.
            sequence.push_back(row / 3 % kSequences);
            positions.push_back(row % 3 == 0 && row < 6 ? 0 : 3 + 13 * (row / 3 % kSequences) + row * s.position_step);
        }
        std::vector<int32_t> tables;
        for (int64_t id = 0; id < kSequences; ++id) {
            for (int64_t column = 0; column < blocks; ++column) {
                tables.push_back(static_cast<int32_t>(block_of(id, column)));
            }
        }
        std::vector<float> query = pick(*queries, s.heads * s.dim, rows);
        std::vector<float> output(query.size(), -1.0F);
        backend.causal_attention({.query = view(query, {count, s.heads, s.dim}),
                                  .key = keys->view,
                                  .value = values->view,
                                  .sequence = view(sequence, {count}),
                                  .positions = view(positions, {count}),
                                  .block_tables = view(tables, {kSequences, blocks}),
                                  .output = view(output, {count, s.heads, s.dim}),
                                  .scale = 0.125F});
        return split(output, rows.size());
    };
    cases.push_back(
        {fmt::format("causal_attention {}/{} heads dim {} step {}", s.heads, s.kv_heads, s.dim, s.position_step), kRows, run});
}

// Every row meets every other, so the whole is one row of the sweep: only threads vary.
void add_full_attention(std::vector<OpCase>& cases, int64_t count, int64_t heads, int64_t dim) {
    Numbers numbers(static_cast<uint32_t>(count));
    auto qkv = std::make_shared<std::vector<float>>(numbers.reals(count * 3 * heads * dim));
    const auto run = [=](Backend& backend, const std::vector<int>&) {
        Tensor all = view(*qkv, {count, 3 * heads * dim});
        std::vector<float> output(static_cast<size_t>(count * heads * dim));
        backend.full_attention({.query = all.columns(0, heads * dim).as({count, heads, dim}),
                                .key = all.columns(heads * dim, heads * dim).as({count, heads, dim}),
                                .value = all.columns(2 * heads * dim, heads * dim).as({count, heads, dim}),
                                .output = view(output, {count, heads, dim}),
                                .scale = 0.2F});
        return split(output, 1);
    };
    cases.push_back({fmt::format("full_attention {} rows", count), 1, run});
}

}  // namespace

std::vector<OpCase> attention_cases() {
    std::vector<OpCase> cases;
    constexpr AttentionShape kShapes[] = {
        {8, 64, RowFormat::kFp8, RowFormat::kNvfp4, true},
        {5, 32, RowFormat::kFp8, RowFormat::kFp8, true},
        {3, 36, RowFormat::kF32, RowFormat::kF32, true},
        {6, 96, RowFormat::kFp8, RowFormat::kNvfp4, false},
    };
    for (const AttentionShape& s : kShapes) {
        auto data = std::make_shared<AttentionData>(s);
        cases.push_back(
            {fmt::format("sparse_attention heads {} dim {} compressed {}", s.heads, s.dim, s.has_compressed), kRows,
             [data](Backend& backend, const std::vector<int>& rows) { return run_attention(*data, backend, rows); }});
    }
    add_compress(cases, 1, 37);
    add_compress(cases, 2, 64);
    add_compress(cases, 4, 20);
    for (const CausalShape& s : {CausalShape{6, 2, 64, RowFormat::kF16, 1}, CausalShape{3, 3, 20, RowFormat::kF32, 1},
                                 CausalShape{9, 3, 36, RowFormat::kF16, 17}, CausalShape{8, 1, 48, RowFormat::kF32, 5}}) {
        add_causal(cases, s);
    }
    add_full_attention(cases, 1, 2, 16);
    add_full_attention(cases, 39, 3, 20);
    return cases;
}

}  // namespace di::contract
