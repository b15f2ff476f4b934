#include "model/routing_record.h"

#include <numeric>

namespace di {

RoutingRecord::RoutingRecord(int32_t layer_count, int32_t expert_count, int32_t slots)
    : expert_count_(expert_count), slots_(slots), rows_(static_cast<size_t>(layer_count), 0) {}

Tensor RoutingRecord::place(int32_t layer, int64_t rows, const Tensor& buffer) {
    const int64_t before = std::accumulate(rows_.begin(), rows_.begin() + layer, int64_t{0});
    rows_[static_cast<size_t>(layer)] = static_cast<int32_t>(rows);
    return {buffer.ptr<int32_t>() + before * slots_, DType::kI32, {rows, slots_}};
}

Model::RoutingCounts RoutingRecord::counts(Backend& backend, const Tensor& buffer) {
    if (expert_count_ == 0) {
        return {};
    }
    const int64_t count = std::accumulate(rows_.begin(), rows_.end(), int64_t{0}) * slots_;
    experts_.resize(static_cast<size_t>(count));
    expert_rows_.assign(rows_.size() * static_cast<size_t>(expert_count_), 0);
    if (count > 0) {
        backend.download({buffer.data, DType::kI32, {count}}, experts_.data());
    }
    const int32_t* expert = experts_.data();
    int32_t* layer_rows = expert_rows_.data();
    for (const int32_t rows : rows_) {
        for (const int32_t* end = expert + int64_t{rows} * slots_; expert < end; ++expert) {
            ++layer_rows[*expert];
        }
        layer_rows += expert_count_;
    }
    return {.layer_count = static_cast<int32_t>(rows_.size()),
            .expert_count = expert_count_,
            .rows_of_layer = rows_,
            .rows_of_expert = expert_rows_};
}

}  // namespace di
