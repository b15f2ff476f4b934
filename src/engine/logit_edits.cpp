#include "engine/logit_edits.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace di {

namespace {

constexpr float kBanned = -std::numeric_limits<float>::infinity();

float to_float(double value) {
    constexpr double kMost = std::numeric_limits<float>::max();
    return static_cast<float>(std::clamp(value, -kMost, kMost));
}

bool has_bans(const SampleRow& row) {
    return !row.params->banned_token_ids.empty() || !row.params->allowed_token_ids.empty() ||
           (row.bans_end_tokens && !row.end_token_ids.empty());
}

}  // namespace

LogitEditor::LogitEditor(int64_t vocab_size)
    : values_(static_cast<size_t>(vocab_size)), words_(static_cast<size_t>((vocab_size + 31) / 32)) {}

std::span<const float> LogitEditor::edit(const SampleRow& row) {
    const SamplingParams& params = *row.params;
    const bool is_penalised = has_penalties(params);
    DI_CHECK(row.mask.empty() || row.mask.size() == words_.size(), "a mask of another vocabulary");
    DI_CHECK(!is_penalised || row.history != nullptr, "penalties without a history");
    if (!has_bans(row) && params.logit_bias.empty() && !is_penalised && row.mask.empty()) {
        return row.logits;
    }
    std::copy(row.logits.begin(), row.logits.end(), values_.begin());
    add_bias(params);
    if (is_penalised) {
        penalise(row);
    }
    // -inf stays -inf under bias and penalties, so that bans may as well come behind them.
    ban(row);
    if (!row.mask.empty()) {
        keep_allowed(row.mask);
    }
    return values_;
}

void LogitEditor::add_bias(const SamplingParams& params) {
    for (const TokenBias& entry : params.logit_bias) {
        float& value = values_[static_cast<size_t>(entry.token_id)];
        value = to_float(static_cast<double>(value) + static_cast<double>(entry.bias));
    }
}

void LogitEditor::penalise(const SampleRow& row) {
    const SamplingParams& params = *row.params;
    for (const int32_t id : row.history->token_ids()) {
        auto value = static_cast<double>(values_[static_cast<size_t>(id)]);
        value = value > 0.0 ? value / params.repetition_penalty : value * params.repetition_penalty;
        const uint32_t count = row.history->output_count(id);
        if (count > 0) {
            value -= params.presence_penalty + params.frequency_penalty * static_cast<double>(count);
        }
        values_[static_cast<size_t>(id)] = to_float(value);
    }
}

void LogitEditor::ban(const SampleRow& row) {
    if (!row.params->allowed_token_ids.empty()) {
        std::fill(words_.begin(), words_.end(), 0U);
        for (const std::span<const int32_t> ids :
             {std::span<const int32_t>(row.params->allowed_token_ids), row.end_token_ids}) {
            for (const int32_t id : ids) {
                words_[static_cast<size_t>(id) / 32] |= 1U << (static_cast<uint32_t>(id) % 32);
            }
        }
        keep_allowed(words_);
    }
    for (const int32_t id : row.params->banned_token_ids) {
        values_[static_cast<size_t>(id)] = kBanned;
    }
    if (row.bans_end_tokens) {
        for (const int32_t id : row.end_token_ids) {
            values_[static_cast<size_t>(id)] = kBanned;
        }
    }
}

void LogitEditor::keep_allowed(std::span<const uint32_t> words) {
    for (size_t index = 0; index < words.size(); ++index) {
        const uint32_t word = words[index];
        const size_t begin = index * 32;
        const size_t count = std::min<size_t>(32, values_.size() - begin);
        if (word == 0) {
            std::fill_n(values_.begin() + static_cast<std::ptrdiff_t>(begin), count, kBanned);
        } else if (word != 0xFFFFFFFFU) {
            for (size_t bit = 0; bit < count; ++bit) {
                // No branch: whether a token may come looks random to the processor.
                const float kept_or_banned[] = {kBanned, values_[begin + bit]};
                values_[begin + bit] = kept_or_banned[word >> bit & 1U];
            }
        }
    }
}

}  // namespace di
