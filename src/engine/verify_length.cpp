#include "engine/verify_length.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"

namespace di {

namespace {

// A draft as one integer: ascending keys are falling rates, then rising indices. Rates are >= 0, where the bits of a float
// rise with its value.
uint64_t rank_key(float rate, size_t index) {
    return (uint64_t{~std::bit_cast<uint32_t>(rate)} << 32) | static_cast<uint64_t>(index);
}

float key_rate(uint64_t key) { return std::bit_cast<float>(~static_cast<uint32_t>(key >> 32)); }
size_t key_index(uint64_t key) { return static_cast<size_t>(key & 0xFFFFFFFFU); }

// Kept in order even if rounding or a fault made a product rise; what is no number is worth nothing.
float ordered_rate(std::span<const float> rates, int32_t draft, float before) {
    const float rate = rates.empty() ? 1.0F : rates[static_cast<size_t>(draft)];
    return rate > 0.0F ? std::min(rate, before) : 0.0F;
}

// In no order yet.
std::vector<uint64_t> drafts_of(std::span<const VerifyRates> sequences, std::span<const float> VerifyRates::*which) {
    std::vector<uint64_t> keys;
    for (size_t i = 0; i < sequences.size(); ++i) {
        const std::span<const float> rates = sequences[i].*which;
        DI_CHECK(sequences[i].draft_count >= 0, "a sequence has a negative number of drafts");
        DI_CHECK(rates.empty() || static_cast<int32_t>(rates.size()) >= sequences[i].draft_count,
                 "a sequence has fewer rates than drafts");
        float rate = 1.0F;
        for (int32_t draft = 0; draft < sequences[i].draft_count; ++draft) {
            rate = ordered_rate(rates, draft, rate);
            keys.push_back(rank_key(rate, i));
        }
    }
    return keys;
}

}  // namespace

VerifyRates choose_rates(VerifyMode mode, bool newest_known, int32_t draft_count, std::span<const float> newest,
                         std::span<const float> previous) {
    const bool newest_decides = mode == VerifyMode::kExact || !newest_known;
    return {.draft_count = draft_count, .budget = newest_decides ? newest : previous, .split = newest};
}

std::vector<double> expected_tokens(std::span<const VerifyRates> sequences) {
    std::vector<double> expected = {static_cast<double>(sequences.size())};
    std::vector<uint64_t> drafts = drafts_of(sequences, &VerifyRates::budget);
    std::sort(drafts.begin(), drafts.end());
    for (const uint64_t draft : drafts) {
        expected.push_back(expected.back() + static_cast<double>(key_rate(draft)));
    }
    return expected;
}

VerifyTotal choose_verify_total(std::span<const VerifyRates> sequences, const StepMilliseconds& cost_ms, int32_t rows_max) {
    return choose_verify_total(expected_tokens(sequences), static_cast<int32_t>(sequences.size()), cost_ms, rows_max);
}

VerifyTotal choose_verify_total(std::span<const double> expected, int32_t sequence_count, const StepMilliseconds& cost_ms,
                                int32_t rows_max) {
    DI_CHECK(rows_max >= sequence_count, "a step has less room than one row a sequence");
    VerifyTotal best = {.rows = sequence_count, .expected_tokens = expected[0]};
    const auto drafts_end = std::min(expected.size(), static_cast<size_t>(rows_max - sequence_count) + 1);
    for (size_t drafts = 0; drafts < drafts_end; ++drafts) {
        const int32_t rows = sequence_count + static_cast<int32_t>(drafts);
        const double ms = cost_ms(rows);
        if (std::isinf(ms)) {
            break;
        }
        const double tokens_per_ms = expected[drafts] / std::max(ms, 1e-9);  // a clock may say that a step took no time at all
        if (tokens_per_ms > best.tokens_per_ms) {
            best = {.rows = rows, .expected_tokens = expected[drafts], .tokens_per_ms = tokens_per_ms};
        }
    }
    return best;
}

void split_verify_rows(std::span<const VerifyRates> sequences, int32_t total_rows, std::vector<int32_t>& rows) {
    std::vector<uint64_t> drafts = drafts_of(sequences, &VerifyRates::split);
    DI_CHECK(total_rows >= static_cast<int32_t>(sequences.size()), "a total has less than one row a sequence");
    rows.assign(sequences.size(), 1);
    const size_t taken = std::min(drafts.size(), static_cast<size_t>(total_rows) - sequences.size());
    // Which ones they are does not depend on how they are found: equal keys are drafts of one sequence.
    std::nth_element(drafts.begin(), drafts.begin() + static_cast<std::ptrdiff_t>(taken), drafts.end());
    for (size_t i = 0; i < taken; ++i) {
        ++rows[key_index(drafts[i])];
    }
}

VerifyTotal choose_verify_rows(std::span<const VerifyRates> sequences, const StepMilliseconds& cost_ms, int32_t rows_max,
                               std::vector<int32_t>& rows) {
    const VerifyTotal total = choose_verify_total(sequences, cost_ms, rows_max);
    split_verify_rows(sequences, total.rows, rows);
    return total;
}

void resplit_verify_rows(std::span<const float> confidences, int32_t depth, std::span<const int32_t> remap, int32_t total_rows,
                         std::vector<int32_t>& rows) {
    DI_CHECK(depth >= 1, "a split needs drafts");
    DI_CHECK(total_rows >= static_cast<int32_t>(remap.size()) && total_rows <= static_cast<int32_t>(remap.size()) * (depth + 1),
             "a total is outside of what its sequences can have");
    std::vector<uint64_t> keys;
    for (size_t i = 0; i < remap.size(); ++i) {
        const int64_t first = int64_t{remap[i]} * depth;
        DI_CHECK(remap[i] < 0 || first + depth <= static_cast<int64_t>(confidences.size()),
                 "a sequence's row lies outside of the previous step");
        float rate = 1.0F;
        for (int32_t draft = 0; draft < depth; ++draft) {
            const float confidence = remap[i] < 0 ? 0.0F : confidences[static_cast<size_t>(first + draft)];
            rate = confidence > 0.0F ? rate * std::min(confidence, 1.0F) : 0.0F;
            keys.push_back(rank_key(rate, i * static_cast<size_t>(depth) + static_cast<size_t>(draft)));
        }
    }
    std::sort(keys.begin(), keys.end());
    rows.assign(remap.size(), 1);
    for (size_t i = 0; i < static_cast<size_t>(total_rows) - remap.size(); ++i) {
        ++rows[key_index(keys[i]) / static_cast<size_t>(depth)];
    }
}

}  // namespace di
