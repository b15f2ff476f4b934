#include "api/custom_input.h"

#include <utility>

#include "text/json_text.h"

namespace di {
namespace {

size_t skip_blanks(std::string_view text, size_t at) {
    const size_t next = text.find_first_not_of(" \t\r\n", at);
    return next == std::string_view::npos ? text.size() : next;
}

constexpr size_t kUnit = 6;  // of \uXXXX

// Bytes of the escape at the start of `text`, "\n" or "\ud83d\ude00"; 0: it is not whole yet.
size_t escape_length(std::string_view text) {
    if (text.size() < 2) {
        return 0;
    }
    if (text[1] != 'u') {
        return 2;
    }
    if (text.size() < kUnit) {
        return 0;
    }
    const bool is_high_half =
        (text[2] == 'd' || text[2] == 'D') && std::string_view("89abAB").find(text[3]) != std::string_view::npos;
    const bool may_be_pair = text.substr(kUnit, 2) == std::string_view("\\u").substr(0, text.size() - kUnit);
    if (!is_high_half || !may_be_pair) {
        return kUnit;
    }
    return text.size() < 2 * kUnit ? 0 : 2 * kUnit;
}

}  // namespace

std::string CustomInput::push(std::string_view piece) {
    std::string out;
    pending_ += piece;
    if (state_ == State::kOpening && take_opening()) {
        state_ = State::kText;
    }
    if (state_ == State::kText) {
        take_text(out);
    }
    if (state_ == State::kClosed) {
        pending_.clear();
    }
    return out;
}

std::string CustomInput::finish() {
    std::string rest = std::exchange(pending_, {});
    switch (std::exchange(state_, State::kClosed)) {
        case State::kText: return {};  // half an escape
        case State::kClosed: return {};
        case State::kOpening: break;
    }
    const auto arguments = parse_json(rest);
    if (!arguments) {
        return rest;
    }
    const JsonValue* input = arguments->find("input");
    if (input != nullptr && input->is_string()) {
        return input->as_string();
    }
    return rest == "{}" ? std::string() : rest;
}

std::string CustomInput::whole(std::string_view arguments) {
    CustomInput input;
    std::string text = input.push(arguments);
    text += input.finish();
    return text;
}

// {"input": " with blanks between.
bool CustomInput::take_opening() {
    size_t at = 0;
    for (const std::string_view part : {"{", "\"input\"", ":", "\""}) {
        at = skip_blanks(pending_, at);
        if (pending_.compare(at, part.size(), part) != 0) {
            return false;
        }
        at += part.size();
    }
    pending_.erase(0, at);
    return true;
}

void CustomInput::take_text(std::string& out) {
    size_t at = 0;
    while (at < pending_.size()) {
        const size_t plain_end = std::min(pending_.find_first_of("\\\"", at), pending_.size());
        out.append(pending_, at, plain_end - at);
        at = plain_end;
        if (at == pending_.size()) {
            break;
        }
        if (pending_[at] == '"') {
            state_ = State::kClosed;
            return;
        }
        const size_t length = escape_length(std::string_view(pending_).substr(at));
        if (length == 0) {
            break;
        }
        const auto text = parse_json("\"" + pending_.substr(at, length) + "\"");
        out += text ? text->as_string() : "\xef\xbf\xbd";  // half a surrogate pair has no text
        at += text ? length : std::min(length, kUnit);
    }
    pending_.erase(0, at);
}

}  // namespace di
