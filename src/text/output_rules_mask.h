#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/token_mask.h"

namespace di {

// Rules on an output that need no grammar, beside one or alone.
struct OutputRules {
    // At most so many tokens come before `reasoning_end_id`; then that token is forced. Only for outputs that begin inside
    // the reasoning.
    std::optional<int64_t> reasoning_tokens_max{};
    int32_t reasoning_end_id = -1;
    std::optional<int32_t> call_marker_id{};  // ends the reasoning too: a call began in it
    // Sequences that never come: the last token of one is not drawn behind the others. None is empty.
    std::vector<std::vector<int32_t>> banned_sequences{};

    [[nodiscard]] bool any() const { return reasoning_tokens_max.has_value() || !banned_sequences.empty(); }
};

// `inner` may be null: then every token is free but for the rules, and an end token ends the output.
[[nodiscard]] std::unique_ptr<TokenMask> output_rules_mask(OutputRules rules, std::unique_ptr<TokenMask> inner,
                                                           std::vector<int32_t> end_token_ids);

// The same for a constraint that may still be in the making.
[[nodiscard]] std::shared_ptr<TokenMaskSource> output_rules_source(OutputRules rules, std::shared_ptr<TokenMaskSource> inner,
                                                                   std::vector<int32_t> end_token_ids);

}  // namespace di
