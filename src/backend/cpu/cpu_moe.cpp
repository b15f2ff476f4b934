// Router and experts.
#include <algorithm>
#include <cmath>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/check.h"

namespace di::cpu {

namespace {

float softplus(float x) { return x > 20.0F ? x : std::log1p(std::exp(x)); }

// Logits become scores, in place.
void apply_score(RouterScore score, float* values, int64_t count) {
    if (score == RouterScore::kSqrtSoftplus) {
        std::transform(values, values + count, values, [](float x) { return std::sqrt(softplus(x)); });
        return;
    }
    const float top = *std::max_element(values, values + count);
    double sum = 0.0;
    for (int64_t e = 0; e < count; ++e) {
        sum += std::exp(static_cast<double>(values[e] - top));
    }
    std::transform(values, values + count, values,
                   [&](float x) { return static_cast<float>(std::exp(static_cast<double>(x - top)) / sum); });
}

// Chooses topk of the experts by corrected score, ties to the lower id. `scores` [experts].
void choose_experts(const float* scores, const float* bias, int64_t expert_count, int32_t* experts, int64_t topk) {
    for (int64_t k = 0; k < topk; ++k) {
        int64_t best = -1;
        float best_score = 0.0F;
        for (int64_t e = 0; e < expert_count; ++e) {
            const float corrected = bias == nullptr ? scores[e] : scores[e] + bias[e];
            // Equal scores come in ascending order of ids, so the first of them stays.
            const bool is_taken = std::find(experts, experts + k, static_cast<int32_t>(e)) != experts + k;
            if (!is_taken && (best < 0 || corrected > best_score)) {
                best = e;
                best_score = corrected;
            }
        }
        experts[k] = static_cast<int32_t>(best);
    }
}

}  // namespace

void CpuBackend::router(const RouterArgs& args) {
    const int64_t rows = args.input.rows();
    const int64_t count = args.weight.rows;
    const int64_t topk = args.experts.row_size();
    DI_CHECK(topk <= count, "more experts asked for than there are");
    const auto** inputs = inputs_.get<const float*>(rows);
    auto** outputs = outputs_.get<float*>(rows);
    auto* scores = hidden_.get<float>(rows * count);
    for (int64_t row = 0; row < rows; ++row) {
        inputs[row] = args.input.row<float>(row);
        outputs[row] = scores + row * count;
    }
    product({.inputs = inputs, .outputs = outputs, .rows = rows, .weight = args.weight});
    for_items(rows, rows * count * 40, [&](int64_t row, int) {
        float* s = scores + row * count;
        apply_score(args.score, s, count);
        const bool is_image = !args.is_image.empty() && args.is_image.ptr<uint8_t>()[row] != 0;
        auto* experts = args.experts.row<int32_t>(row);
        choose_experts(s, (is_image ? args.bias_image : args.bias).ptr<const float>(), count, experts, topk);
        float sum = 0.0F;
        for (int64_t k = 0; k < topk; ++k) {
            sum += s[experts[k]];
        }
        for (int64_t k = 0; k < topk; ++k) {
            const float share = args.scaling * s[experts[k]];
            args.weights.row<float>(row)[k] = args.normalises ? share / (sum + 1e-20F) : share;
        }
    });
}

// --- experts -------------------------------------------------------------------------

namespace {

int64_t output_blocks(int64_t outputs) { return (outputs + kLinearOutputBlock - 1) / kLinearOutputBlock; }

// Experts of a row, the shared one included.
int64_t slot_count(const MoeArgs& args) { return args.experts.row_size() + (args.shared.gate.empty() ? 0 : 1); }

void plan_moe(const MoeArgs& args, const MoeBuffers& buffers, MoePlan& plan) {
    const int64_t dim = args.input.row_size();
    const int64_t topk = args.experts.row_size();
    const int64_t slots = slot_count(args);
    const int64_t rows = args.input.rows();
    const auto expert_count = static_cast<int64_t>(args.routed.size());
    const auto expert_of = [&](int64_t row, int64_t slot) {
        const int64_t expert = slot == topk ? expert_count : args.experts.row<int32_t>(row)[slot];
        DI_CHECK(expert >= 0 && expert <= expert_count, "an expert number is outside the layer's experts");
        return static_cast<size_t>(expert);
    };
    plan.starts.assign(static_cast<size_t>(expert_count + 1), 0);
    for (int64_t i = 0; i < rows * slots; ++i) {
        ++plan.starts[expert_of(i / slots, i % slots)];
    }
    plan.groups.clear();
    plan.hidden_items = plan.output_items = 0;
    int64_t start = 0;
    for (size_t expert = 0; expert < plan.starts.size(); ++expert) {
        const int64_t count = plan.starts[expert];
        plan.starts[expert] = start;
        if (count > 0) {
            const ExpertWeights& weights = expert < args.routed.size() ? args.routed[expert] : args.shared;
            plan.groups.push_back({&weights, start, count, plan.hidden_items, plan.output_items});
            plan.hidden_items += output_blocks(weights.gate.rows);
            plan.output_items += output_blocks(weights.down.rows);
        }
        start += count;
    }
    const auto pairs = static_cast<size_t>(rows * slots);
    plan.inputs.resize(pairs);
    plan.hidden.resize(pairs);
    plan.outputs.resize(pairs);
    plan.route_weights.resize(pairs);
    for (int64_t i = 0; i < rows * slots; ++i) {
        const int64_t row = i / slots;
        const int64_t slot = i % slots;
        const auto at = static_cast<size_t>(plan.starts[expert_of(row, slot)]++);
        plan.inputs[at] = buffers.quantised != nullptr ? buffers.quantised + row * dim : args.input.row<float>(row);
        plan.hidden[at] = buffers.hidden + i * buffers.hidden_stride;
        plan.outputs[at] = buffers.results + i * dim;
        plan.route_weights[at] = slot == topk ? 1.0F : args.weights.row<float>(row)[slot];
    }
}

}  // namespace

// Gate, up and activation for outputs [first, first + block) of every pair of the group.
void CpuBackend::moe_hidden_item(const MoeArgs& args, const ExpertGroup& group, int64_t first, ThreadScratch& own) {
    const int64_t dim = group.weights->gate.cols;
    const int64_t count = std::min(kLinearOutputBlock, group.weights->gate.rows - first);
    const int64_t pairs = group.pair_count;
    const auto at = static_cast<size_t>(group.first_pair);
    auto* values = own.scores.get<float>(2 * pairs * kLinearOutputBlock);
    auto** outputs = own.pointers.get<float*>(pairs);
    for (int64_t half = 0; half < 2; ++half) {
        // The kernels index outputs from 0; the block starts at `first`.
        for (int64_t pair = 0; pair < pairs; ++pair) {
            outputs[pair] = values + (half * pairs + pair) * kLinearOutputBlock - first;
        }
        run_linear({.inputs = moe_plan_.inputs.data() + at,
                    .outputs = outputs,
                    .rows = pairs,
                    .k = dim,
                    .weight = weight_rows(half == 0 ? group.weights->gate : group.weights->up),
                    .first = first,
                    .count = count,
                    .round = rounds()},
                   own);
    }
    for (int64_t pair = 0; pair < pairs; ++pair) {
        const size_t index = at + static_cast<size_t>(pair);
        kernels_.swiglu(values + pair * kLinearOutputBlock, values + (pairs + pair) * kLinearOutputBlock, args.limit,
                        moe_plan_.route_weights[index], count, rounds(), moe_plan_.hidden[index] + first);
    }
}

void CpuBackend::moe_rows(const MoeArgs& args) {
    const int64_t dim = args.input.row_size();
    const int64_t slots = slot_count(args);
    const int64_t pairs = args.input.rows() * slots;
    MoePlan& plan = moe_plan_;
    MoeBuffers buffers;
    buffers.hidden_stride = args.shared.gate.rows;
    for (const ExpertWeights& expert : args.routed) {
        buffers.hidden_stride = std::max(buffers.hidden_stride, expert.gate.rows);
    }
    buffers.quantised = args.quantise_input ? quantised_rows(args.input, quantised_) : nullptr;
    buffers.hidden = hidden_.get<float>(pairs * buffers.hidden_stride);
    buffers.results = expert_out_.get<float>(pairs * dim);
    plan_moe(args, buffers, plan);

    const int64_t work = pairs * dim * buffers.hidden_stride;
    for_items(plan.hidden_items, 2 * work, [&](int64_t item, int thread) {
        const auto after = std::upper_bound(plan.groups.begin(), plan.groups.end(), item,
                                            [](int64_t i, const ExpertGroup& g) { return i < g.first_hidden_item; });
        const ExpertGroup& group = *(after - 1);
        moe_hidden_item(args, group, (item - group.first_hidden_item) * kLinearOutputBlock, scratch(thread));
    });
    if (args.quantise_input) {
        for_items(static_cast<int64_t>(plan.groups.size()), pairs * buffers.hidden_stride * 4, [&](int64_t index, int) {
            const ExpertGroup& group = plan.groups[static_cast<size_t>(index)];
            for (int64_t pair = group.first_pair; pair < group.first_pair + group.pair_count; ++pair) {
                float* row = plan.hidden[static_cast<size_t>(pair)];
                kernels_.fake_quantise(CacheFormat::kFp8, row, group.weights->gate.rows, row);
            }
        });
    }
    for_items(plan.output_items, work, [&](int64_t item, int thread) {
        const auto after = std::upper_bound(plan.groups.begin(), plan.groups.end(), item,
                                            [](int64_t i, const ExpertGroup& g) { return i < g.first_output_item; });
        const ExpertGroup& group = *(after - 1);
        const int64_t first = (item - group.first_output_item) * kLinearOutputBlock;
        const auto at = static_cast<size_t>(group.first_pair);
        run_linear({.inputs = plan.hidden.data() + at,
                    .outputs = plan.outputs.data() + at,
                    .rows = group.pair_count,
                    .k = group.weights->down.cols,
                    .weight = weight_rows(group.weights->down),
                    .first = first,
                    .count = std::min(kLinearOutputBlock, group.weights->down.rows - first),
                    .round = rounds()},
                   scratch(thread));
    });
    // Slots ascending, the shared expert last, whatever the order they were computed in.
    plan.ones.assign(static_cast<size_t>(slots), 1.0F);
    for_items(args.input.rows(), pairs * dim, [&](int64_t row, int) {
        kernels_.collapse(buffers.results + row * slots * dim, plan.ones.data(), slots, dim, rounds(),
                          args.output.row<float>(row));
    });
}

void CpuBackend::moe(const MoeArgs& args) {
    DI_CHECK(args.experts.rows() >= args.input.rows() && args.output.row_size() == args.input.row_size(),
             "the expert layer's arguments do not fit each other");
    for (int64_t first = 0; first < args.input.rows(); first += kMoeRowsMax) {
        const int64_t count = std::min(kMoeRowsMax, args.input.rows() - first);
        MoeArgs part = args;
        part.input = args.input.slice(first, count);
        part.experts = args.experts.slice(first, count);
        part.weights = args.weights.slice(first, count);
        part.output = args.output.slice(first, count);
        moe_rows(part);
    }
}

}  // namespace di::cpu
