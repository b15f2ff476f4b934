#include "weights/config_reader.h"

#include <cmath>
#include <utility>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "weights/json_events.h"
#include "weights/limits.h"

namespace di {

namespace {

using json = nlohmann::ordered_json;

std::string shown(const json& value) { return quoted_for_message(value.dump(-1, ' ', true, json::error_handler_t::replace)); }

std::optional<int64_t> as_integer(const json& value) {
    if (value.is_number_unsigned()) {
        const auto number = value.get<uint64_t>();
        return std::in_range<int64_t>(number) ? std::optional(static_cast<int64_t>(number)) : std::nullopt;
    }
    return value.is_number_integer() ? std::optional(value.get<int64_t>()) : std::nullopt;
}

bool is_within(int64_t value, IntegerRange range) { return value >= range.min && value <= range.max; }

// The value at `key` of an object; null when absent.
const json* find(const json& object, std::string_view key) {
    const auto found = object.find(std::string(key));
    return found == object.end() || found->is_null() ? nullptr : &*found;
}

}  // namespace

struct ConfigReader::Node {
    std::shared_ptr<const json> tree;  // owns the object below
    const json& object;

    [[nodiscard]] const json* find(std::string_view key) const { return di::find(object, key); }
};

ConfigReader::ConfigReader(std::shared_ptr<const Node> node, std::string place)
    : node_(std::move(node)), place_(std::move(place)) {}

Result<ConfigReader> ConfigReader::parse(std::string_view json_text) {
    if (std::cmp_greater(json_text.size(), limits::kConfigBytesMax)) {
        return fail(ErrorCode::kInvalidFile, "text has {} bytes, expected at most {}", json_text.size(),
                    limits::kConfigBytesMax);
    }
    JsonEvents no_events;
    DI_TRY_STATUS(read_json_events(json_text, no_events));
    auto tree = std::make_shared<const json>(json::parse(json_text, nullptr, false));
    if (tree->is_discarded() || !tree->is_object()) {
        return fail(ErrorCode::kInvalidFile, "text is not a JSON object");
    }
    const json& object = *tree;
    return ConfigReader(std::make_shared<const Node>(Node{std::move(tree), object}), "");
}

bool ConfigReader::has(std::string_view key) const { return node_->find(key) != nullptr; }

void ConfigReader::reject(std::string_view key, std::string_view expected, ErrorCode code) {
    if (!status_) {
        return;
    }
    const json* value = node_->find(key);
    status_ = value == nullptr ? fail(code, "{}{} is missing, expected {}", place_, key, expected)
                               : fail(code, "{}{} is {}, expected {}", place_, key, shown(*value), expected);
}

int64_t ConfigReader::integer(std::string_view key, IntegerRange range, std::optional<int64_t> fallback) {
    const json* value = node_->find(key);
    if (value == nullptr && fallback) {
        return *fallback;
    }
    const auto number = value == nullptr ? std::nullopt : as_integer(*value);
    if (!number || !is_within(*number, range)) {
        reject(key, fmt::format("an integer from {} to {}", range.min, range.max));
        return range.min;
    }
    return *number;
}

int32_t ConfigReader::small_integer(std::string_view key, IntegerRange range, std::optional<int64_t> fallback) {
    DI_CHECK(std::in_range<int32_t>(range.min) && std::in_range<int32_t>(range.max),
             "the range of a small integer fits 32 bits");
    return static_cast<int32_t>(integer(key, range, fallback));
}

double ConfigReader::number(std::string_view key, NumberRange range, std::optional<double> fallback) {
    const json* value = node_->find(key);
    if (value == nullptr && fallback) {
        return *fallback;
    }
    const double number = value != nullptr && value->is_number() ? value->get<double>() : NAN;
    if (!(number >= range.min && number <= range.max)) {
        reject(key, fmt::format("a number from {} to {}", range.min, range.max));
        return range.min;
    }
    return number;
}

bool ConfigReader::boolean(std::string_view key, bool fallback) {
    const json* value = node_->find(key);
    if (value == nullptr) {
        return fallback;
    }
    if (!value->is_boolean()) {
        reject(key, "true or false");
        return fallback;
    }
    return value->get<bool>();
}

std::string ConfigReader::text(std::string_view key, std::string_view fallback) {
    const json* value = node_->find(key);
    if (value == nullptr) {
        return std::string(fallback);
    }
    if (!value->is_string()) {
        reject(key, "a string");
        return std::string(fallback);
    }
    return value->get<std::string>();
}

std::vector<int64_t> ConfigReader::integers(std::string_view key, IntegerRange range, int64_t count_max, bool is_optional) {
    const auto expected = fmt::format("a list of at most {} integers from {} to {}", count_max, range.min, range.max);
    const json* value = node_->find(key);
    std::vector<int64_t> numbers;
    if (value == nullptr) {
        if (!is_optional) {
            reject(key, expected);
        }
        return numbers;
    }
    bool is_good = value->is_array() && std::cmp_less_equal(value->size(), count_max);
    for (size_t i = 0; is_good && i < value->size(); ++i) {
        const auto number = as_integer((*value)[i]);
        is_good = number && is_within(*number, range);
        numbers.push_back(number.value_or(0));
    }
    if (!is_good) {
        reject(key, expected);
        return {};
    }
    return numbers;
}

std::vector<int32_t> ConfigReader::small_integers(std::string_view key, IntegerRange range, int64_t count_max,
                                                  bool is_optional) {
    DI_CHECK(std::in_range<int32_t>(range.min) && std::in_range<int32_t>(range.max),
             "the range of a small integer fits 32 bits");
    std::vector<int32_t> numbers;
    for (const int64_t number : integers(key, range, count_max, is_optional)) {
        numbers.push_back(static_cast<int32_t>(number));
    }
    return numbers;
}

std::vector<int32_t> ConfigReader::one_or_more(std::string_view key, IntegerRange range, int64_t count_max) {
    const json* value = node_->find(key);
    if (value != nullptr && !value->is_array()) {
        return {small_integer(key, range)};
    }
    return small_integers(key, range, count_max, true);
}

void ConfigReader::must_be_text(std::string_view key, std::string_view value, Presence presence) {
    const auto expected = fmt::format("\"{}\"", value);
    const json* found = node_->find(key);
    const bool is_wrong = found == nullptr ? presence == Presence::kRequired
                                           : !found->is_string() || found->get_ref<const std::string&>() != value;
    if (is_wrong) {
        reject(key, expected, ErrorCode::kUnsupported);
    }
}

void ConfigReader::must_be_boolean(std::string_view key, bool value, Presence presence) {
    const auto expected = fmt::format("{}", value);
    const json* found = node_->find(key);
    const bool is_wrong =
        found == nullptr ? presence == Presence::kRequired : !found->is_boolean() || found->get<bool>() != value;
    if (is_wrong) {
        reject(key, expected, ErrorCode::kUnsupported);
    }
}

void ConfigReader::must_be_number(std::string_view key, double value, Presence presence) {
    const auto expected = fmt::format("{}", value);
    const json* found = node_->find(key);
    const bool is_wrong =
        found == nullptr ? presence == Presence::kRequired : !found->is_number() || found->get<double>() != value;
    if (is_wrong) {
        reject(key, expected, ErrorCode::kUnsupported);
    }
}

void ConfigReader::must_be_integers(std::string_view key, const std::vector<int64_t>& values, Presence presence) {
    const auto expected = fmt::format("[{}]", fmt::join(values, ", "));
    const json* found = node_->find(key);
    if (found == nullptr && presence == Presence::kOptional) {
        return;
    }
    bool is_equal = found != nullptr && found->is_array() && found->size() == values.size();
    for (size_t i = 0; is_equal && i < values.size(); ++i) {
        is_equal = as_integer((*found)[i]) == values[i];
    }
    if (!is_equal) {
        reject(key, expected, ErrorCode::kUnsupported);
    }
}

std::optional<std::string> ConfigReader::only_text(std::string_view key) const {
    const json* found = node_->find(key);
    if (found == nullptr || !found->is_array() || found->size() != 1 || !(*found)[0].is_string()) {
        return std::nullopt;
    }
    return (*found)[0].get<std::string>();
}

std::optional<ConfigReader> ConfigReader::object(std::string_view key, Presence presence) {
    const json* found = node_->find(key);
    if (found == nullptr ? presence == Presence::kRequired : !found->is_object()) {
        reject(key, "an object");
        return std::nullopt;
    }
    if (found == nullptr) {
        return std::nullopt;
    }
    return ConfigReader(std::make_shared<const Node>(Node{node_->tree, *found}), fmt::format("{}{}.", place_, key));
}

}  // namespace di
