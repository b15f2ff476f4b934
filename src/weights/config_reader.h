#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace di {

struct IntegerRange {
    int64_t min = 0;
    int64_t max = 0;
};

struct NumberRange {
    double min = 0.0;
    double max = 0.0;
};

// Typed access to the keys of one object of a config file. The first thing that is wrong is kept as an error that names the
// key with its place, the value and what was expected; reading goes on with harmless values, so that a page of
// reads needs one look at status(). A key whose value is null counts as absent.
class ConfigReader {
  public:
    // Reads strictly (json_events.h) a text that must be one object.
    [[nodiscard]] static Result<ConfigReader> parse(std::string_view json_text);

    [[nodiscard]] bool has(std::string_view key) const;

    // Without a fallback an absent key is an error. A number with a fraction or in quotes is no integer.
    int64_t integer(std::string_view key, IntegerRange range, std::optional<int64_t> fallback = std::nullopt);
    int32_t small_integer(std::string_view key, IntegerRange range, std::optional<int64_t> fallback = std::nullopt);
    double number(std::string_view key, NumberRange range, std::optional<double> fallback = std::nullopt);
    bool boolean(std::string_view key, bool fallback);
    std::string text(std::string_view key, std::string_view fallback);
    // A list of at most `count_max` integers; an absent key is an error, or empty with `is_optional`.
    std::vector<int64_t> integers(std::string_view key, IntegerRange range, int64_t count_max, bool is_optional = false);
    std::vector<int32_t> small_integers(std::string_view key, IntegerRange range, int64_t count_max, bool is_optional = false);

    // The integers of a list, or the one that stands there without a list; absent: none.
    std::vector<int32_t> one_or_more(std::string_view key, IntegerRange range, int64_t count_max);

    enum class Presence : uint8_t { kRequired, kOptional };
    // Keys that have one legal value here; another one is a model that we do not know.
    void must_be_text(std::string_view key, std::string_view value, Presence presence);
    void must_be_boolean(std::string_view key, bool value, Presence presence);
    void must_be_number(std::string_view key, double value, Presence presence);
    void must_be_integers(std::string_view key, const std::vector<int64_t>& values, Presence presence);

    // The one string of a list; none (and no error) when something else stands there.
    [[nodiscard]] std::optional<std::string> only_text(std::string_view key) const;

    // A reader of the object at `key`, with errors of its own; none when absent or (an error) something else.
    [[nodiscard]] std::optional<ConfigReader> object(std::string_view key, Presence presence);

    // Notes an error of the caller's own: "{place}{key} is {value}, expected {expected}". Only the first one is kept.
    void reject(std::string_view key, std::string_view expected, ErrorCode code = ErrorCode::kInvalidFile);

    [[nodiscard]] const Status& status() const { return status_; }

  private:
    struct Node;  // an object inside a parsed text
    ConfigReader(std::shared_ptr<const Node> node, std::string place);

    std::shared_ptr<const Node> node_;  // shared: readers of inner objects keep the whole text alive
    std::string place_;                 // stands before the key in messages: "" or "text_config."
    Status status_;
};

}  // namespace di
