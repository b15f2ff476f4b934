#include "session/option_row.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>

namespace di {
namespace {

template <typename T>
std::optional<T> parse_number(std::string_view text) {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || text.empty()) {
        return std::nullopt;
    }
    return value;
}

std::string plain_number(double value) {
    return std::abs(value) < 1e15 && value == std::floor(value) ? fmt::format("{}", static_cast<int64_t>(value))
                                                                : fmt::format("{}", value);
}

std::string choices_text(std::string_view choices) {
    std::string text;
    for (const char c : choices) {
        text += c == '|' ? std::string(", ") : std::string(1, c);
    }
    if (const size_t last = text.rfind(", "); last != std::string::npos) {
        text.replace(last, 2, " or ");
    }
    return text;
}

}  // namespace

Status set_text(const OptionRule& rule, const std::string& value, std::string_view where, std::string& target) {
    if (!rule.choices.empty()) {
        const std::string all = fmt::format("|{}|", rule.choices);
        if (value.empty() || value.find('|') != std::string::npos || all.find("|" + value + "|") == std::string::npos) {
            return fail(ErrorCode::kInvalidArgument, "{}: \"{}\", expected {}", where, value, choices_text(rule.choices));
        }
    }
    target = value;
    return {};
}

Status set_switch(const std::string& value, std::string_view where, bool& target) {
    if (value != "true" && value != "false" && value != "1" && value != "0") {
        return fail(ErrorCode::kInvalidArgument, "{}: \"{}\", expected true or false", where, value);
    }
    target = value == "true" || value == "1";
    return {};
}

Status set_integer(const OptionRule& rule, const std::string& value, std::string_view where, std::optional<int64_t>& target) {
    const std::optional<int64_t> number = rule.is_bytes ? parse_bytes(value) : parse_number<int64_t>(value);
    if (!number || static_cast<double>(*number) < rule.lowest || static_cast<double>(*number) > rule.highest) {
        return rule.is_bytes
                   ? fail(ErrorCode::kInvalidArgument, "{}: \"{}\", expected bytes such as 512MiB or 2GB", where, value)
                   : fail(ErrorCode::kInvalidArgument, "{}: \"{}\", expected an integer from {} to {}", where, value,
                          plain_number(rule.lowest), plain_number(rule.highest));
    }
    target = *number;
    return {};
}

Status set_unsigned(const std::string& value, std::string_view where, std::optional<uint64_t>& target) {
    const std::optional<uint64_t> number = parse_number<uint64_t>(value);
    if (!number) {
        return fail(ErrorCode::kInvalidArgument, "{}: \"{}\", expected an integer from 0 to {}", where, value,
                    std::numeric_limits<uint64_t>::max());
    }
    target = *number;
    return {};
}

Status set_real(const OptionRule& rule, const std::string& value, std::string_view where, std::optional<double>& target) {
    const std::optional<double> number = parse_number<double>(value);
    if (!number || !std::isfinite(*number) || *number < rule.lowest || *number > rule.highest ||
        (rule.excludes_lowest && *number == rule.lowest)) {
        return fail(ErrorCode::kInvalidArgument, "{}: \"{}\", expected a number {} {} to {}", where, value,
                    rule.excludes_lowest ? "above" : "from", plain_number(rule.lowest), plain_number(rule.highest));
    }
    target = *number;
    return {};
}

std::optional<int64_t> parse_bytes(std::string_view text) {
    const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    const std::optional<int64_t> number = parse_number<int64_t>(text.substr(0, digits));
    if (!number) {
        return std::nullopt;
    }
    std::string unit(text.substr(digits));
    std::transform(unit.begin(), unit.end(), unit.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    static constexpr std::array<std::string_view, 5> kPrefixes = {"", "k", "m", "g", "t"};
    int64_t binary = 1;
    int64_t decimal = 1;
    for (const std::string_view prefix : kPrefixes) {
        const std::string letter(prefix);
        const bool is_decimal = unit == letter + "b";
        if (is_decimal || unit == letter || unit == letter + "ib") {
            int64_t bytes = 0;
            if (__builtin_mul_overflow(*number, is_decimal ? decimal : binary, &bytes)) {
                return std::nullopt;
            }
            return bytes;
        }
        binary *= 1024;
        decimal *= 1000;
    }
    return std::nullopt;
}

}  // namespace di
