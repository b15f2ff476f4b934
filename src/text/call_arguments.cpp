#include "text/call_arguments.h"

#include <algorithm>
#include <array>

#include "text/json_text.h"

namespace di {
namespace {

constexpr std::string_view kBlanks = " \n\r\t";

std::string_view trimmed(std::string_view text) {
    const size_t first = text.find_first_not_of(kBlanks);
    return first == std::string_view::npos ? std::string_view()
                                           : text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// Looked at inside of an array: a value that fits there keeps the arguments around it within the parser's depth too.
bool is_json_value(std::string_view text) {
    const Result<JsonValue> parsed = parse_json("[" + std::string(text) + "]");
    return parsed && parsed->as_array().size() == 1;
}

std::string quoted(std::string_view text) {
    std::string out = "\"";
    append_json_escaped(out, text);
    return out + "\"";
}

struct PythonWord {
    std::string_view word;
    std::string_view json;
};

constexpr std::array kPythonWords = {PythonWord{"True", "true"}, PythonWord{"False", "false"}, PythonWord{"None", "null"}};

}  // namespace

void CallArguments::begin_parameter(std::string_view key, std::string_view attributes) {
    release_wrapper();
    body_.clear();
    ++parameter_count_;
    kind_ = value_kind(key, attributes);
    value_.clear();
    is_value_open_ = true;
    if (parameter_count_ == 1 && may_be_wrapper(key)) {
        wrapper_key_ = key;
        return;
    }
    open_member(key);
    open_value();
}

void CallArguments::push_value(std::string_view text) {
    if (kind_ == ValueKind::kString && wrapper_key_.empty()) {
        append_json_escaped(out_, text);
    } else {
        value_ += text;
    }
}

void CallArguments::end_value() {
    is_value_open_ = false;
    if (wrapper_key_.empty()) {
        close_value();
    }
}

void CallArguments::push_body(std::string_view text) {
    if (parameter_count_ > 0) {
        return;
    }
    if (body_.empty()) {
        text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
    }
    // Other text than an object can never be the arguments: its first character is enough to know.
    if (body_.empty() || body_.front() == '{') {
        body_ += text;
    }
}

void CallArguments::end() {
    if (!wrapper_key_.empty()) {
        if (std::optional<std::string> arguments = unwrapped(value_)) {
            out_ += *arguments;
            return;
        }
        release_wrapper();
    }
    out_ += parameter_count_ > 0 ? "}" : body_arguments();
}

void CallArguments::cut(std::optional<std::string_view> key) {
    if (!is_value_open_) {
        release_wrapper();
    } else if (!wrapper_key_.empty()) {
        open_member(std::exchange(wrapper_key_, {}));
        open_value();
        kind_ == ValueKind::kString ? append_json_escaped(out_, value_) : void(out_ += value_);
    } else if (kind_ != ValueKind::kString) {
        out_ += value_;
    }
    if (key) {
        out_ += is_object_open_ ? ", \"" : "{\"";
        append_json_escaped(out_, *key);
    } else if (parameter_count_ == 0 && body_.starts_with('{')) {
        out_ += body_;
    }
}

const JsonValue* CallArguments::declared_properties() const {
    const JsonValue* properties = tool_ == nullptr ? nullptr : tool_->parameters.find("properties");
    return properties != nullptr && properties->is_object() ? properties : nullptr;
}

CallArguments::ValueKind CallArguments::value_kind(std::string_view key, std::string_view attributes) const {
    const std::string_view attribute = trimmed(attributes);
    if (attribute == "string=\"true\"") {
        return ValueKind::kString;
    }
    if (attribute == "string=\"false\"") {
        return ValueKind::kJson;
    }
    const JsonValue* properties = declared_properties();
    const JsonValue* schema = properties == nullptr ? nullptr : properties->find(key);
    const JsonValue* type = schema == nullptr ? nullptr : schema->find("type");
    const bool is_string = type != nullptr && type->is_string() && type->as_string() == "string";
    return is_string ? ValueKind::kString : ValueKind::kJsonOrString;
}

// Models that were trained on other formats put all arguments into one of these names.
bool CallArguments::may_be_wrapper(std::string_view key) const {
    if (key != "arguments" && key != "input") {
        return false;
    }
    if (tool_ == nullptr || tool_->parameters.find("type") == nullptr) {
        return false;  // no schema was given
    }
    const JsonValue* properties = declared_properties();
    return properties == nullptr || properties->find(key) == nullptr;
}

// The object in a wrapper's value, or in the string that the value is.
std::optional<std::string> CallArguments::unwrapped(std::string_view text) const {
    std::string object(trimmed(text));
    Result<JsonValue> parsed = parse_json(object);
    if (parsed && parsed->is_string() && kind_ != ValueKind::kString) {
        object = trimmed(parsed->as_string());
        parsed = parse_json(object);
    }
    if (!parsed || !parsed->is_object()) {
        return std::nullopt;
    }
    const JsonValue* properties = declared_properties();
    const JsonValue::Object& members = parsed->as_object();
    const bool are_declared = std::all_of(members.begin(), members.end(), [properties](const JsonMember& member) {
        return properties != nullptr && properties->find(member.key) != nullptr;
    });
    return are_declared ? std::optional(std::move(object)) : std::nullopt;
}

std::string CallArguments::body_arguments() const {
    const std::string_view object = trimmed(body_);
    const Result<JsonValue> parsed = parse_json(object);
    if (!parsed || !parsed->is_object()) {
        return "{}";
    }
    const JsonValue::Object& members = parsed->as_object();
    if (members.size() == 1 && may_be_wrapper(members.front().key)) {
        const JsonValue& value = members.front().value;
        std::optional<std::string> inner = unwrapped(value.is_string() ? value.as_string() : json_text(value));
        return inner ? std::move(*inner) : std::string(object);
    }
    return std::string(object);
}

void CallArguments::open_member(std::string_view key) {
    out_ += is_object_open_ ? ", " : "{";
    out_ += quoted(key) + ": ";
    is_object_open_ = true;
}

void CallArguments::open_value() { out_ += kind_ == ValueKind::kString ? "\"" : ""; }

void CallArguments::close_value() {
    if (kind_ == ValueKind::kString) {
        out_ += '"';
        return;
    }
    const std::string_view text = trimmed(value_);
    if (is_json_value(text)) {
        out_ += text;
        return;
    }
    const auto word =
        std::find_if(kPythonWords.begin(), kPythonWords.end(), [text](const PythonWord& known) { return known.word == text; });
    out_ += kind_ == ValueKind::kJson && word != kPythonWords.end() ? std::string(word->json) : quoted(value_);
}

// A value that waited as a wrapper is an argument like others.
void CallArguments::release_wrapper() {
    if (wrapper_key_.empty()) {
        return;
    }
    open_member(std::exchange(wrapper_key_, {}));
    open_value();
    if (kind_ == ValueKind::kString) {
        append_json_escaped(out_, value_);
    }
    close_value();
}

}  // namespace di
