#include "text/number_grammar.h"

#include <cmath>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace di {
namespace {

constexpr int64_t kDigitsMax = 18;
constexpr int64_t kIntegerMax = 999'999'999'999'999'999;
constexpr int64_t kFractionMax = 16;  // digits behind the one that decides

GrammarNode digit(char first, char last) {
    return class_node(CharacterClass({{static_cast<char32_t>(first), static_cast<char32_t>(last)}}));
}
GrammarNode digits(int64_t least, int64_t most) { return repeat_node(digit('0', '9'), least, most); }
GrammarNode nothing() { return choice_node({}); }

GrammarNode sequence(GrammarNode a, GrammarNode b) {
    std::vector<GrammarNode> items;
    items.push_back(std::move(a));
    items.push_back(std::move(b));
    return sequence_node(std::move(items));
}

std::string one(char c) { return std::string(1, c); }

// --- integers ---------------------------------------------------------------

// Texts of as many digits as `bound` that are at least (or at most) it.
GrammarNode same_length_beyond(std::string_view bound, bool is_lower) {
    if (bound.empty()) {
        return text_node("");
    }
    std::vector<GrammarNode> items;
    items.push_back(sequence(text_node(one(bound[0])), same_length_beyond(bound.substr(1), is_lower)));
    const auto count = static_cast<int64_t>(bound.size()) - 1;
    if (is_lower && bound[0] < '9') {
        items.push_back(sequence(digit(static_cast<char>(bound[0] + 1), '9'), digits(count, count)));
    }
    if (!is_lower && bound[0] > '0') {
        items.push_back(sequence(digit('0', static_cast<char>(bound[0] - 1)), digits(count, count)));
    }
    return choice_node(std::move(items));
}

GrammarNode same_length_between(std::string_view least, std::string_view most) {
    if (least.empty()) {
        return text_node("");
    }
    if (least[0] == most[0]) {
        return sequence(text_node(one(least[0])), same_length_between(least.substr(1), most.substr(1)));
    }
    std::vector<GrammarNode> items;
    items.push_back(sequence(text_node(one(least[0])), same_length_beyond(least.substr(1), true)));
    if (most[0] - least[0] > 1) {
        const auto count = static_cast<int64_t>(least.size()) - 1;
        items.push_back(sequence(digit(static_cast<char>(least[0] + 1), static_cast<char>(most[0] - 1)), digits(count, count)));
    }
    items.push_back(sequence(text_node(one(most[0])), same_length_beyond(most.substr(1), false)));
    return choice_node(std::move(items));
}

// Decimal texts of least..most, both from 0 and without leading zeros.
GrammarNode whole_between(int64_t least, int64_t most) {
    std::vector<GrammarNode> items;
    while (least <= most) {
        const std::string text = std::to_string(least);
        int64_t end = 9;
        for (size_t i = 1; i < text.size(); ++i) {
            end = end * 10 + 9;
        }
        end = std::min(end, most);
        items.push_back(same_length_between(text, std::to_string(end)));
        least = end + 1;
    }
    return choice_node(std::move(items));
}

// --- decimal numbers --------------------------------------------------------

// A bound without its sign: digits before the point as a number, and behind it without trailing zeros.
struct Magnitude {
    int64_t whole = 0;
    std::string fraction;
    bool is_exclusive = false;

    bool is_zero() const { return whole == 0 && fraction.empty(); }
};

struct Decimal {
    bool is_negative = false;
    Magnitude magnitude;
};

Result<Decimal> decimal_of(const NumberBound& bound) {
    const std::string& spelling = bound.value.as_number().spelling;
    std::string_view rest = spelling;
    Decimal decimal;
    if (rest.starts_with('-')) {
        decimal.is_negative = true;
        rest.remove_prefix(1);
    }
    std::string text(rest);
    if (text.find_first_of("eE") != std::string::npos && std::abs(bound.value.as_double()) < 1e15) {
        const std::string plain = fmt::format("{:.15f}", std::abs(bound.value.as_double()));
        text = std::stod(plain) == std::abs(bound.value.as_double()) ? plain : text;
    }
    const size_t point = std::min(text.find('.'), text.size());
    std::string fraction = point < text.size() ? text.substr(point + 1) : "";
    fraction.erase(fraction.find_last_not_of('0') + 1);
    if (text.find_first_of("eE") != std::string::npos || point > 15 || fraction.size() > 15) {
        return fail(ErrorCode::kInvalidArgument, "{}, expected a number of at most 15 digits on each side of the point",
                    spelling);
    }
    decimal.magnitude = {.whole = std::stoll(text.substr(0, point)), .fraction = fraction, .is_exclusive = bound.is_exclusive};
    return decimal;
}

// What may stand behind the point, from a place where the digits so far equal those of the bound. `is_open`: a digit was
// written already, so that nothing more may follow.

GrammarNode fraction_from(std::string_view bound, bool is_exclusive, bool is_open) {
    if (bound.empty()) {
        if (!is_exclusive) {
            return digits(is_open ? 0 : 1, kFractionMax);
        }
        return sequence(repeat_node(text_node("0"), 0, 4), sequence(digit('1', '9'), digits(0, kFractionMax)));
    }
    std::vector<GrammarNode> items;
    items.push_back(sequence(text_node(one(bound[0])), fraction_from(bound.substr(1), is_exclusive, true)));
    if (bound[0] < '9') {
        items.push_back(sequence(digit(static_cast<char>(bound[0] + 1), '9'), digits(0, kFractionMax)));
    }
    return choice_node(std::move(items));
}

GrammarNode fraction_to(std::string_view bound, bool is_exclusive, bool is_open) {
    if (bound.empty()) {
        return is_exclusive ? nothing() : repeat_node(text_node("0"), is_open ? 0 : 1, 4);
    }
    std::vector<GrammarNode> items;
    if (is_open) {
        items.push_back(text_node(""));
    }
    if (bound[0] > '0') {
        items.push_back(sequence(digit('0', static_cast<char>(bound[0] - 1)), digits(0, kFractionMax)));
    }
    items.push_back(sequence(text_node(one(bound[0])), fraction_to(bound.substr(1), is_exclusive, true)));
    return choice_node(std::move(items));
}

GrammarNode fraction_between(std::string_view least, bool excludes_least, std::string_view most, bool excludes_most,
                             bool is_open) {
    if (least.empty() && !excludes_least) {
        return fraction_to(most, excludes_most, is_open);
    }
    if (most.empty()) {
        return nothing();  // at least something above zero, at most zero
    }
    const char first = least.empty() ? '0' : least[0];
    const std::string_view least_rest = least.empty() ? least : least.substr(1);
    if (first > most[0]) {
        return nothing();
    }
    if (first == most[0]) {
        return sequence(text_node(one(first)),
                        fraction_between(least_rest, excludes_least, most.substr(1), excludes_most, true));
    }
    std::vector<GrammarNode> items;
    items.push_back(sequence(text_node(one(first)), fraction_from(least_rest, excludes_least, true)));
    if (most[0] - first > 1) {
        items.push_back(sequence(digit(static_cast<char>(first + 1), static_cast<char>(most[0] - 1)), digits(0, kFractionMax)));
    }
    items.push_back(sequence(text_node(one(most[0])), fraction_to(most.substr(1), excludes_most, true)));
    return choice_node(std::move(items));
}

// A number with this whole part: alone where zero behind the point fits, or with a fraction.
GrammarNode with_fraction(GrammarNode whole, GrammarNode fraction, bool fits_without) {
    GrammarNode tail = sequence(text_node("."), std::move(fraction));
    if (fits_without) {
        std::vector<GrammarNode> items;
        items.push_back(text_node(""));
        items.push_back(std::move(tail));
        tail = choice_node(std::move(items));
    }
    return sequence(std::move(whole), std::move(tail));
}

// Numbers without sign.
GrammarNode magnitude_between(const Magnitude& least, const Magnitude& most) {
    if (least.whole > most.whole) {
        return nothing();
    }
    const bool fits_least = least.fraction.empty() && !least.is_exclusive;
    if (least.whole == most.whole) {
        const bool fits_most = !most.fraction.empty() || !most.is_exclusive;
        return with_fraction(text_node(std::to_string(least.whole)),
                             fraction_between(least.fraction, least.is_exclusive, most.fraction, most.is_exclusive, false),
                             fits_least && fits_most);
    }
    std::vector<GrammarNode> items;
    items.push_back(with_fraction(text_node(std::to_string(least.whole)),
                                  fraction_from(least.fraction, least.is_exclusive, false), fits_least));
    if (most.whole - least.whole > 1) {
        items.push_back(with_fraction(whole_between(least.whole + 1, most.whole - 1), digits(1, kFractionMax), true));
    }
    items.push_back(with_fraction(text_node(std::to_string(most.whole)), fraction_to(most.fraction, most.is_exclusive, false),
                                  !most.fraction.empty() || !most.is_exclusive));
    return choice_node(std::move(items));
}

GrammarNode negative(GrammarNode magnitude) { return sequence(text_node("-"), std::move(magnitude)); }

GrammarNode plain_whole() {
    std::vector<GrammarNode> items;
    items.push_back(text_node("0"));
    items.push_back(sequence(digit('1', '9'), digits(0, kDigitsMax - 1)));
    return sequence(optional_node(text_node("-")), choice_node(std::move(items)));
}

GrammarNode plain_number() {
    std::vector<GrammarNode> items;
    items.push_back(plain_whole());
    items.push_back(optional_node(sequence(text_node("."), digits(1, kFractionMax + 1))));
    std::vector<GrammarNode> exponent;
    exponent.push_back(class_node(CharacterClass::of("eE")));
    exponent.push_back(optional_node(class_node(CharacterClass::of("+-"))));
    exponent.push_back(digits(1, 2));
    items.push_back(optional_node(sequence_node(std::move(exponent))));
    return sequence_node(std::move(items));
}

// The smallest integer from a lower bound on, or the largest up to an upper one.
int64_t whole_bound(const Decimal& decimal, bool is_lower) {
    const Magnitude& magnitude = decimal.magnitude;
    int64_t value = decimal.is_negative ? -magnitude.whole : magnitude.whole;
    if (magnitude.fraction.empty()) {
        return value + (magnitude.is_exclusive ? (is_lower ? 1 : -1) : 0);
    }
    if (is_lower && !decimal.is_negative) {
        ++value;
    }
    if (!is_lower && decimal.is_negative) {
        --value;
    }
    return value;
}

}  // namespace

Result<GrammarNode> integer_grammar(const std::optional<NumberBound>& least, const std::optional<NumberBound>& most) {
    if (!least && !most) {
        return plain_whole();
    }
    int64_t first = -kIntegerMax;
    int64_t last = kIntegerMax;
    if (least) {
        DI_TRY(const Decimal decimal, decimal_of(*least));
        first = whole_bound(decimal, true);
    }
    if (most) {
        DI_TRY(const Decimal decimal, decimal_of(*most));
        last = whole_bound(decimal, false);
    }
    std::vector<GrammarNode> items;
    if (first < 0 && first <= last) {
        items.push_back(negative(whole_between(std::max<int64_t>(1, -last), -first)));
    }
    if (last >= 0) {
        items.push_back(whole_between(std::max<int64_t>(0, first), last));
    }
    return choice_node(std::move(items));
}

Result<GrammarNode> number_grammar(const std::optional<NumberBound>& least, const std::optional<NumberBound>& most) {
    if (!least && !most) {
        return plain_number();
    }
    const Magnitude endless{.whole = kIntegerMax, .fraction = {}, .is_exclusive = false};
    Decimal first{.is_negative = true, .magnitude = endless};
    Decimal last{.is_negative = false, .magnitude = endless};
    if (least) {
        DI_TRY(first, decimal_of(*least));
    }
    if (most) {
        DI_TRY(last, decimal_of(*most));
    }
    // "-0" is zero: a bound at zero belongs to the positive side alone.
    first.is_negative = first.is_negative && !first.magnitude.is_zero();
    last.is_negative = last.is_negative && !last.magnitude.is_zero();
    const Magnitude zero;
    const Magnitude above_zero{.whole = 0, .fraction = {}, .is_exclusive = true};
    std::vector<GrammarNode> items;
    if (first.is_negative) {
        items.push_back(negative(magnitude_between(last.is_negative ? last.magnitude : above_zero, first.magnitude)));
    }
    if (!last.is_negative) {
        items.push_back(magnitude_between(first.is_negative ? zero : first.magnitude, last.magnitude));
    }
    return choice_node(std::move(items));
}

}  // namespace di
