#include "weights/json_events.h"

#include <set>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "weights/limits.h"

namespace di {

namespace {

// The library's own words, line and column, and the token it stumbled over (which may be of any length).
constexpr int64_t kParserTextMax = 240;

// The parser calls these by name; a virtual base of its own would bring its headers into ours.
class Adapter {
  public:
    using json = nlohmann::json;

    explicit Adapter(JsonEvents& events) : events_(events) {}

    [[nodiscard]] Status take_status() { return std::move(status_); }

    bool null() { return events_.null(); }
    bool boolean(bool value) { return events_.boolean(value); }
    bool number_integer(json::number_integer_t value) { return events_.integer(value); }
    bool number_unsigned(json::number_unsigned_t value) {
        return std::in_range<int64_t>(value) ? events_.integer(static_cast<int64_t>(value))
                                             : events_.real(static_cast<double>(value));
    }
    bool number_float(json::number_float_t value, const json::string_t& /*text*/) { return events_.real(value); }
    bool string(json::string_t& value) { return events_.string(value); }
    bool binary(json::binary_t& /*value*/) { return false; }  // JSON text has none

    bool start_object(std::size_t /*size*/) {
        keys_.emplace_back();
        return is_depth_allowed(keys_.size() + array_depth_) && events_.start_object();
    }
    bool end_object() {
        keys_.pop_back();
        return events_.end_object();
    }
    bool start_array(std::size_t /*size*/) {
        ++array_depth_;
        return is_depth_allowed(keys_.size() + array_depth_) && events_.start_array();
    }
    bool end_array() {
        --array_depth_;
        return events_.end_array();
    }
    bool key(json::string_t& name) {
        if (!keys_.back().insert(name).second) {
            status_ = fail(ErrorCode::kInvalidFile, "key \"{}\" occurs twice in one object", quoted_for_message(name));
            return false;
        }
        return events_.key(name);
    }

    template <typename Exception>
    bool parse_error(std::size_t position, const std::string& /*last_token*/, const Exception& exception) {
        // The library's text begins with its own name in brackets.
        std::string_view text = exception.what();
        if (const size_t bracket = text.find("] "); bracket != std::string_view::npos) {
            text.remove_prefix(bracket + 2);
        }
        status_ = fail(ErrorCode::kInvalidFile, "not JSON at byte {}: {}", position, quoted_for_message(text, kParserTextMax));
        return false;
    }

  private:
    bool is_depth_allowed(size_t depth) {
        if (depth <= static_cast<size_t>(limits::kJsonNestingMax)) {
            return true;
        }
        status_ = fail(ErrorCode::kInvalidFile, "JSON nested more than {} deep", limits::kJsonNestingMax);
        return false;
    }

    JsonEvents& events_;
    Status status_;
    std::vector<std::set<std::string, std::less<>>> keys_;  // of the open objects
    size_t array_depth_ = 0;
};

}  // namespace

Status read_json_events(std::string_view text, JsonEvents& events) {
    Adapter adapter(events);
    if (!nlohmann::json::sax_parse(text, &adapter)) {
        return adapter.take_status();
    }
    return {};
}

std::string quoted_for_message(std::string_view text, int64_t bytes_max) {
    // Foreign bytes go to a terminal: control characters and broken UTF-8 do not.
    std::string quoted;
    for (const char c : text.substr(0, static_cast<size_t>(bytes_max))) {
        quoted += static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f ? '?' : c;
    }
    return std::cmp_greater(text.size(), bytes_max) ? quoted + "..." : quoted;
}

}  // namespace di
