#include "model/deepseek_v41/step_plan.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace di::v41 {

namespace {

void clear(RowSet& set) {
    for (auto* values : {&set.batch_row, &set.position, &set.sequence, &set.window_first, &set.window_last, &set.local_position,
                         &set.local_row, &set.ring_source, &set.ring_slot, &set.ring_row}) {
        values->clear();
    }
    set.is_image.clear();
}

// How a set of layers looks at a sequence: rows before `first_kept` see nothing of the window and are not stored; `drops` also
// leaves them out.
struct Cut {
    int32_t first_kept = 0;
    bool drops = false;
};

// Rows at positions [first, end), the newest `ring` of them, go to `slot`; `local_row` is the number of the row at `first` in
// this set.
void add_ring_rows(int32_t first, int32_t end, int32_t local_row, int32_t slot, int32_t ring, RowSet& set) {
    // Only the newest `ring` rows have a place of their own in the ring.
    for (int32_t position = std::max(first, end - ring); position < end; ++position) {
        set.ring_source.push_back(local_row + position - first);
        set.ring_slot.push_back(slot);
        set.ring_row.push_back(position % ring);
    }
}

void add_sequence(const Batch& batch, int32_t sequence, int32_t window, int32_t ring, Cut cut, RowSet& set) {
    const SequenceRows& rows = batch.sequences[static_cast<size_t>(sequence)];
    const int32_t first = cut.drops ? std::max(rows.first_position, cut.first_kept) : rows.first_position;
    const int32_t end = rows.first_position + rows.row_count;
    const int32_t local_row = set.rows();
    set.local_position.push_back(first);
    set.local_row.push_back(local_row);
    const int32_t first_stored = std::max(first, cut.first_kept);
    const int32_t first_stored_row = local_row + first_stored - first;
    add_ring_rows(first_stored, end, first_stored_row, rows.state_slot, ring, set);
    for (const StateSnapshot& snapshot : rows.snapshots) {
        add_ring_rows(first_stored, snapshot.position, first_stored_row, snapshot.state_slot, ring, set);
    }
    for (int32_t position = first; position < end; ++position) {
        const int32_t batch_row = rows.first_row + position - rows.first_position;
        set.batch_row.push_back(batch_row);
        set.position.push_back(position);
        set.sequence.push_back(sequence);
        set.window_first.push_back(std::max({0, position - window + 1, cut.first_kept}));
        set.window_last.push_back(position);
        set.is_image.push_back(batch.is_image.empty() ? uint8_t{0} : batch.is_image[static_cast<size_t>(batch_row)]);
    }
}

// The newest tokens before `end`, as many as a roll-back and an open group can need, go to `slot`.
void add_partial_rows(const SequenceRows& rows, int32_t end, int32_t slot, int32_t partial_tokens, GroupSet& set) {
    for (int32_t position = std::max(rows.first_position, end - partial_tokens); position < end; ++position) {
        set.partial_source.push_back(rows.first_row + position - rows.first_position);
        set.partial_slot.push_back(slot);
        set.partial_row.push_back(position % partial_tokens);
    }
}

void add_groups(const CacheGeometry& geometry, const Batch& batch, int32_t sequence, int32_t partial_tokens, GroupSet& set) {
    const SequenceRows& rows = batch.sequences[static_cast<size_t>(sequence)];
    const int32_t end = rows.first_position + rows.row_count;
    const auto block_tokens = static_cast<int32_t>(geometry.block_tokens);
    for (int32_t group = rows.first_position / set.ratio; (group + 1) * set.ratio <= end; ++group) {
        const int32_t position = group * set.ratio;
        const auto column = static_cast<size_t>(position / block_tokens);
        DI_CHECK(column < rows.block_table.size(), "a sequence has too few cache blocks for its rows");
        set.sequence.push_back(sequence);
        set.position.push_back(position);
        set.block.push_back(rows.block_table[column]);
        set.block_row.push_back(position % block_tokens / set.ratio);
    }
    if (set.ratio == 1) {
        return;  // no group is ever open
    }
    add_partial_rows(rows, end, rows.state_slot, partial_tokens, set);
    for (const StateSnapshot& snapshot : rows.snapshots) {
        add_partial_rows(rows, snapshot.position, snapshot.state_slot, partial_tokens, set);
    }
}

void check_snapshots(const SequenceRows& rows) {
    int32_t before = rows.first_position;
    for (const StateSnapshot& snapshot : rows.snapshots) {
        DI_CHECK(snapshot.position > before && snapshot.position <= rows.first_position + rows.row_count,
                 "snapshots of a step are not of its tokens, one each, oldest first");
        DI_CHECK(snapshot.state_slot != rows.state_slot, "a snapshot would go where the sequence itself runs");
        before = snapshot.position;
    }
}

void prepare_groups(const ModelConfig& config, StepPlan& plan) {
    if (plan.groups.empty()) {
        for (int32_t layer = 0; layer < config.layer_count; ++layer) {
            const int32_t ratio = config.ratio(layer);
            const bool known =
                std::any_of(plan.groups.begin(), plan.groups.end(), [&](const GroupSet& set) { return set.ratio == ratio; });
            if (ratio > 0 && !known) {
                plan.groups.emplace_back().ratio = ratio;
            }
        }
    }
    for (GroupSet& set : plan.groups) {
        for (auto* values : {&set.sequence, &set.position, &set.block, &set.block_row, &set.partial_source, &set.partial_slot,
                             &set.partial_row}) {
            values->clear();
        }
    }
}

void fill_block_tables(const Batch& batch, StepPlan& plan) {
    plan.block_columns = 1;
    for (const SequenceRows& rows : batch.sequences) {
        plan.block_columns = std::max(plan.block_columns, static_cast<int32_t>(rows.block_table.size()));
    }
    plan.block_tables.clear();
    for (const SequenceRows& rows : batch.sequences) {
        plan.block_tables.insert(plan.block_tables.end(), rows.block_table.begin(), rows.block_table.end());
        plan.block_tables.resize(plan.block_tables.size() + static_cast<size_t>(plan.block_columns) - rows.block_table.size(),
                                 -1);
    }
}

void fill_logit_rows(const Batch& batch, StepPlan& plan) {
    plan.logit_rows.clear();
    for (const int32_t row : batch.logit_rows) {
        const auto found = std::lower_bound(plan.tail.batch_row.begin(), plan.tail.batch_row.end(), row);
        DI_CHECK(found != plan.tail.batch_row.end() && *found == row, "logits are wanted of a row that replay drops");
        plan.logit_rows.push_back(static_cast<int32_t>(found - plan.tail.batch_row.begin()));
    }
}

}  // namespace

int64_t StepPlan::stores_max() const {
    size_t stores = std::max(all.ring_source.size(), tail.ring_source.size());
    for (const GroupSet& set : groups) {
        stores = std::max(stores, set.partial_source.size());
    }
    return static_cast<int64_t>(stores);
}

const GroupSet& StepPlan::group_set(int32_t ratio) const {
    for (const GroupSet& set : groups) {
        if (set.ratio == ratio) {
            return set;
        }
    }
    DI_CHECK(false, "no layer has this ratio");
    return groups.front();
}

int32_t replay_keep(const ModelConfig& config, const ModelOptions& options, const CacheGeometry& geometry) {
    const int32_t split = config.split_layer();
    if (options.replay == Replay::kOff || split < 0) {
        return std::numeric_limits<int32_t>::max();
    }
    const auto window = static_cast<int32_t>(config.sliding_window);
    if (options.replay == Replay::kExact) {
        // Each layer below the last needs window - 1 more rows for the last `window` inputs of the last layer to be exact.
        return window + (window - 1) * (config.layer_count - 1 - split);
    }
    return options.replay_keep > 0 ? options.replay_keep : window + geometry.backtrack_tokens;
}

bool replay_drops_rows(Replay replay) { return replay == Replay::kCompact || replay == Replay::kExact; }

void make_step_plan(const ModelConfig& config, const ModelOptions& options, const CacheGeometry& geometry, const Batch& batch,
                    StepPlan& plan) {
    clear(plan.all);
    clear(plan.tail);
    prepare_groups(config, plan);
    fill_block_tables(batch, plan);
    plan.state_slots.clear();
    const int32_t keep = replay_keep(config, options, geometry);
    const auto window = static_cast<int32_t>(config.sliding_window);
    const int32_t ring = window + geometry.backtrack_tokens;
    const bool drops = replay_drops_rows(options.replay);
    plan.tail_is_all = keep == std::numeric_limits<int32_t>::max();
    for (int32_t sequence = 0; sequence < static_cast<int32_t>(batch.sequences.size()); ++sequence) {
        const SequenceRows& rows = batch.sequences[static_cast<size_t>(sequence)];
        check_snapshots(rows);
        plan.state_slots.push_back(rows.state_slot);
        add_sequence(batch, sequence, window, ring, {}, plan.all);
        if (!plan.tail_is_all) {
            add_sequence(batch, sequence, window, ring, {.first_kept = std::max(0, rows.prompt_length - keep), .drops = drops},
                         plan.tail);
        }
        for (GroupSet& set : plan.groups) {
            add_groups(geometry, batch, sequence, set.ratio + geometry.backtrack_tokens - 1, set);
        }
    }
    if (plan.tail_is_all) {
        plan.tail = plan.all;
    }
    fill_logit_rows(batch, plan);
}

void visible_rows(const RowSet& rows, int32_t ratio, std::vector<int32_t>& visible) {
    visible.clear();
    for (const int32_t position : rows.position) {
        visible.push_back((position + 1) / ratio);
    }
}

}  // namespace di::v41
