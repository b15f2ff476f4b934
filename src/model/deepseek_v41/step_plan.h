#pragma once

#include <cstdint>
#include <vector>

#include "model/batch.h"
#include "model/geometry.h"
#include "model/model.h"
#include "weights/model_config.h"

// Integers of one step, worked out on the host from the batch: who sees which keys, and where rows are stored.
namespace di::v41 {

// Rows that a run of layers works on: all rows of the batch, or those that replay keeps.
struct RowSet {
    std::vector<int32_t> batch_row;       // [rows] number in the batch
    std::vector<int32_t> position;        // [rows]
    std::vector<int32_t> sequence;        // [rows]
    std::vector<int32_t> window_first;    // [rows]
    std::vector<int32_t> window_last;     // [rows]
    std::vector<uint8_t> is_image;        // [rows]
    std::vector<int32_t> local_position;  // [sequences] position of the sequence's first row here
    std::vector<int32_t> local_row;       // [sequences] its number here
    // Rows that go to the window rings: the last ones of every sequence, and the last ones before each of its snapshots.
    std::vector<int32_t> ring_source;  // row number here
    std::vector<int32_t> ring_slot;    // state slot
    std::vector<int32_t> ring_row;     // place in the ring

    [[nodiscard]] int32_t rows() const { return static_cast<int32_t>(position.size()); }
};

// What a compression ratio needs: groups that this step completes, and the tokens to keep of the group left open,
// in the sequence's own state and in its snapshots.
struct GroupSet {
    int32_t ratio = 1;
    std::vector<int32_t> sequence;        // [groups]
    std::vector<int32_t> position;        // [groups] of the group's first token
    std::vector<int32_t> block;           // [groups] where the compressed row goes
    std::vector<int32_t> block_row;       // [groups]
    std::vector<int32_t> partial_source;  // rows of the batch
    std::vector<int32_t> partial_slot;    // state slot
    std::vector<int32_t> partial_row;     // place in the ring

    [[nodiscard]] int32_t groups() const { return static_cast<int32_t>(position.size()); }
};

struct StepPlan {
    RowSet all;
    RowSet tail;  // behind the split
    bool tail_is_all = true;
    std::vector<GroupSet> groups;       // one for every distinct ratio > 0
    std::vector<int32_t> state_slots;   // [sequences]
    std::vector<int32_t> block_tables;  // [sequences, block_columns], -1 padded
    int32_t block_columns = 0;
    std::vector<int32_t> logit_rows;  // numbers in `tail`

    [[nodiscard]] const GroupSet& group_set(int32_t ratio) const;
    // The longest list of rows to store: more than the step's rows when there are snapshots.
    [[nodiscard]] int64_t stores_max() const;
};

// Rows of a prompt that go behind the split in replay modes (INT32_MAX: all).
[[nodiscard]] int32_t replay_keep(const ModelConfig& config, const ModelOptions& options, const CacheGeometry& geometry);

// Whether rows that go no further than the split leave the batch there, instead of being masked.
[[nodiscard]] bool replay_drops_rows(Replay replay);

// Fills `plan` again; its vectors keep their memory.
void make_step_plan(const ModelConfig& config, const ModelOptions& options, const CacheGeometry& geometry, const Batch& batch,
                    StepPlan& plan);

// Compressed rows that a query at each position may see.
void visible_rows(const RowSet& rows, int32_t ratio, std::vector<int32_t>& visible);

}  // namespace di::v41
