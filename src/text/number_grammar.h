#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "text/grammar_rules.h"
#include "text/json_text.h"

namespace di {

// One bound of a range of numbers.
struct NumberBound {
    JsonValue value;  // a number
    bool is_exclusive = false;
};

// JSON integers, or numbers, between two bounds. Without bounds integers have up to 18 digits, numbers also a fraction of
// up to 17 and an exponent; between bounds numbers are written without exponent, so that digits alone decide. Nothing
// fits an empty range. An error: a bound that is no plain decimal number of up to 15 digits.
[[nodiscard]] Result<GrammarNode> integer_grammar(const std::optional<NumberBound>& least,
                                                  const std::optional<NumberBound>& most);
[[nodiscard]] Result<GrammarNode> number_grammar(const std::optional<NumberBound>& least,
                                                 const std::optional<NumberBound>& most);

}  // namespace di
