#include "model/routing_record.h"

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include <gtest/gtest.h>

namespace di {
namespace {

std::vector<int32_t> to_vector(std::span<const int32_t> values) { return {values.begin(), values.end()}; }

struct RoutedStep {
    std::unique_ptr<Backend> backend = std::move(*create_backend("ref", {}));
    std::vector<int32_t> memory = std::vector<int32_t>(2 * 4 * 2, -1);
    Tensor buffer{memory.data(), DType::kI32, {2, 4, 2}};  // layers, rows, slots
    RoutingRecord record{2, 3, 2};

    void route(int32_t layer, const std::vector<int32_t>& experts) {
        const Tensor place = record.place(layer, static_cast<int64_t>(experts.size()) / 2, buffer);
        std::copy(experts.begin(), experts.end(), place.ptr<int32_t>());
    }
};

TEST(RoutingRecord, CountsTheRowsOfEveryLayerAndExpert) {
    RoutedStep step;
    step.route(0, {0, 1, 1, 2, 1, 0});
    step.route(1, {2, 0});  // a layer that fewer rows reach stands right behind
    EXPECT_EQ(std::vector<int32_t>(step.memory.begin(), step.memory.begin() + 8), (std::vector{0, 1, 1, 2, 1, 0, 2, 0}));
    const Model::RoutingCounts counts = step.record.counts(*step.backend, step.buffer);
    EXPECT_EQ(counts.layer_count, 2);
    EXPECT_EQ(counts.expert_count, 3);
    EXPECT_EQ(to_vector(counts.rows_of_layer), (std::vector{3, 1}));
    EXPECT_EQ(to_vector(counts.rows_of_expert), (std::vector{2, 3, 1, 1, 0, 1}));
}

TEST(RoutingRecord, AStepBeginsWithNothing) {
    RoutedStep step;
    step.route(0, {0, 1});
    step.route(1, {0, 1});
    step.record.begin_step();
    EXPECT_EQ(to_vector(step.record.counts(*step.backend, step.buffer).rows_of_expert), std::vector<int32_t>(6, 0));
    step.route(1, {2, 1});
    const Model::RoutingCounts counts = step.record.counts(*step.backend, step.buffer);
    EXPECT_EQ(to_vector(counts.rows_of_layer), (std::vector{0, 1}));
    EXPECT_EQ(to_vector(counts.rows_of_expert), (std::vector{0, 0, 0, 0, 1, 1}));
}

TEST(RoutingRecord, AModelWithoutExpertsHasNone) {
    RoutedStep step;
    RoutingRecord record(2, 0, 0);
    EXPECT_EQ(record.counts(*step.backend, {}).layer_count, 0);
}

}  // namespace
}  // namespace di
