#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "text/conversation.h"

namespace di {

// The JSON text of one call's arguments, made of its parameters as they arrive: `{"key": value, "key2": value2}`. Strings
// stream; other values wait for their end, because text that is no JSON must become a string.
class CallArguments {
  public:
    // The declared tool, which must outlive this; null: nothing is known of it.
    explicit CallArguments(const Tool* tool) : tool_(tool) {}

    // A parameter: what stands behind the key in its tag ("" or ` string="true"`), then its value in pieces.
    void begin_parameter(std::string_view key, std::string_view attributes);
    void push_value(std::string_view text);
    void end_value();
    // Text between the tags. Without any parameter it may be the arguments themselves.
    void push_body(std::string_view text);
    // The call is complete.
    void end();
    // The output ended inside the call: what was held back comes as far as it is known. `key`: a parameter's that had begun.
    void cut(std::optional<std::string_view> key);

    // What became final since the last time. Never ends inside an escape.
    [[nodiscard]] std::string take() { return std::exchange(out_, {}); }

  private:
    enum class ValueKind : uint8_t {
        kString,
        kJson,          // where it is none, Python's words for true, false and null count, then it is a string
        kJsonOrString,  // nothing is said: JSON if it is some
    };

    [[nodiscard]] const JsonValue* declared_properties() const;
    [[nodiscard]] ValueKind value_kind(std::string_view key, std::string_view attributes) const;
    [[nodiscard]] bool may_be_wrapper(std::string_view key) const;
    [[nodiscard]] std::optional<std::string> unwrapped(std::string_view text) const;
    [[nodiscard]] std::string body_arguments() const;
    void open_member(std::string_view key);
    void open_value();
    void close_value();
    void release_wrapper();

    const Tool* tool_;
    std::string out_;
    std::string body_;
    int64_t parameter_count_ = 0;
    bool is_object_open_ = false;  // its bracket was given out
    bool is_value_open_ = false;
    ValueKind kind_ = ValueKind::kString;  // of the current parameter
    std::string value_;                    // of a value that waits for its end
    std::string wrapper_key_;              // of a first parameter that may turn out to hold all arguments; "": none
};

}  // namespace di
