#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/result.h"

// An option as a row of a table: how it is called, what it may be, which member of a struct it sets. The same row reads a flag,
// a variable of the environment, a key of a file, an argument of Python and of the C ABI.
namespace di {

// What a row allows. `name` is "max-tokens"; positional arguments of the program are written in capitals.
struct OptionRule {
    std::string_view name;
    std::string_view choices = {};  // "auto|dummy"; empty: any text
    double lowest = 0.0;            // of numbers
    double highest = static_cast<double>(std::numeric_limits<int32_t>::max());
    bool is_bytes = false;         // "512MiB", "2GB" or a plain number
    bool excludes_lowest = false;  // of numbers with a fraction
};

template <typename Owner>
using OptionTargetOf =
    std::variant<bool Owner::*, std::string Owner::*, std::optional<std::string> Owner::*, std::vector<std::string> Owner::*,
                 std::optional<int64_t> Owner::*, std::optional<uint64_t> Owner::*, std::optional<double> Owner::*>;

// Each checks one text and sets the target. `where` begins the message: "--top-p", "DEEPINFER_THREADS".
[[nodiscard]] Status set_text(const OptionRule& rule, const std::string& value, std::string_view where, std::string& target);
[[nodiscard]] Status set_switch(const std::string& value, std::string_view where, bool& target);
[[nodiscard]] Status set_integer(const OptionRule& rule, const std::string& value, std::string_view where,
                                 std::optional<int64_t>& target);
[[nodiscard]] Status set_unsigned(const std::string& value, std::string_view where, std::optional<uint64_t>& target);
[[nodiscard]] Status set_real(const OptionRule& rule, const std::string& value, std::string_view where,
                              std::optional<double>& target);

// "1024", "512MiB" (powers of 1024: KiB, MiB, GiB, TiB, K, M, G, T) or "2GB" (powers of 1000: KB, MB, GB, TB).
[[nodiscard]] std::optional<int64_t> parse_bytes(std::string_view text);

// Checks the values and puts them into `owner`, replacing what was there.
template <typename Owner>
[[nodiscard]] Status set_target(const OptionRule& rule, const OptionTargetOf<Owner>& target,
                                const std::vector<std::string>& values, std::string_view where, Owner& owner) {
    const auto set = [&](auto member) -> Status {
        using Member = std::remove_reference_t<decltype(owner.*member)>;
        if constexpr (std::is_same_v<Member, std::vector<std::string>>) {
            owner.*member = values;
            return {};
        } else {
            if (values.size() != 1) {
                return fail(ErrorCode::kInvalidArgument, "{}: {} values, expected one", where, values.size());
            }
            const std::string& value = values.front();
            if constexpr (std::is_same_v<Member, bool>) {
                return set_switch(value, where, owner.*member);
            } else if constexpr (std::is_same_v<Member, std::string>) {
                return set_text(rule, value, where, owner.*member);
            } else if constexpr (std::is_same_v<Member, std::optional<std::string>>) {
                return set_text(rule, value, where, (owner.*member).emplace());
            } else if constexpr (std::is_same_v<Member, std::optional<int64_t>>) {
                return set_integer(rule, value, where, owner.*member);
            } else if constexpr (std::is_same_v<Member, std::optional<double>>) {
                return set_real(rule, value, where, owner.*member);
            } else {
                return set_unsigned(value, where, owner.*member);
            }
        }
    };
    return std::visit(set, target);
}

}  // namespace di
