#include "text/dsml_parser.h"

#include <algorithm>
#include <array>
#include <utility>

namespace di {
namespace {

using Kind = AnswerItem::Kind;

// Behind a value's end: tags that end more than the value. Others end the value alone.
constexpr std::array<std::string_view, 5> kCallEnds = {" invoke>", "invoke>", " calls>", "tool_calls>", "function_calls>"};

}  // namespace

void DsmlParser::push(const AnswerItem& item, std::vector<AnswerEvent>& events) {
    events_ = &events;
    const bool is_inside_call = state_ == State::kBody || state_ == State::kInvokeTag || state_ == State::kAfterValue;
    switch (item.kind) {
        case Kind::kToolClose: push_close(); break;
        case Kind::kInvokeOpen:
            if (is_inside_call || state_ == State::kBetweenCalls) {
                open_invoke();
            } else {
                push_text(item.text);
            }
            break;
        case Kind::kParameterOpen:
            if (is_inside_call) {
                word_.clear();
                state_ = State::kKey;
            } else {
                push_text(item.text);
            }
            break;
        case Kind::kText:
        case Kind::kThink:
        case Kind::kThinkEnd:
        case Kind::kToolMarker:
        case Kind::kBlockOpen: push_text(item.text); break;
    }
    flush();
}

void DsmlParser::finish(bool is_cut, std::vector<AnswerEvent>& events) {
    events_ = &events;
    if (!arguments_) {
        return;
    }
    if (state_ == State::kKey) {
        arguments_->cut(word_);
    } else if (state_ == State::kAttributes) {
        arguments_->cut(key_);
    } else {
        arguments_->cut(std::nullopt);
    }
    flush();
    if (!is_cut && !is_dropped_) {
        events_->push_back({.kind = AnswerEvent::Kind::kCallEnd, .call_index = begun_calls_ - 1});
        ++ended_calls_;
    }
    arguments_.reset();
}

void DsmlParser::push_close() {
    static constexpr std::string_view kLetters = "</｜DSML｜";
    switch (state_) {
        case State::kBetweenCalls: return;
        case State::kName:
        case State::kKey: push_text(kLetters); return;
        case State::kInvokeTag:
        case State::kBody:
        case State::kAfterValue: end_call(); return;
        case State::kAttributes:
            arguments_->begin_parameter(key_, word_);
            arguments_->end_value();
            break;
        case State::kValue: arguments_->end_value(); break;
    }
    word_.clear();
    state_ = State::kAfterValue;
}

void DsmlParser::push_text(std::string_view text) {
    while (!text.empty()) {
        std::optional<std::string_view> rest;
        switch (state_) {
            case State::kBetweenCalls: return;
            case State::kName:
                rest = take_word(text, '"');
                if (rest) {
                    begin_call();
                }
                break;
            case State::kInvokeTag:
                rest = take_word(text, '>');
                if (rest) {
                    state_ = State::kBody;
                }
                break;
            case State::kBody: arguments_->push_body(text); return;
            case State::kKey:
                rest = take_word(text, '"');
                if (rest) {
                    key_ = std::exchange(word_, {});
                    state_ = State::kAttributes;
                }
                break;
            case State::kAttributes:
                rest = take_word(text, '>');
                if (rest) {
                    arguments_->begin_parameter(key_, word_);
                    state_ = State::kValue;
                }
                break;
            case State::kValue: arguments_->push_value(text); return;
            case State::kAfterValue: rest = push_after_value(text); break;
        }
        text = rest.value_or(std::string_view());
    }
}

std::string_view DsmlParser::push_after_value(std::string_view text) {
    word_ += text.front();
    const auto end =
        std::find_if(kCallEnds.begin(), kCallEnds.end(), [this](std::string_view tag) { return tag.starts_with(word_); });
    if (end == kCallEnds.end()) {
        state_ = State::kBody;
    } else if (*end == word_) {
        end_call();
    }
    return text.substr(1);
}

std::optional<std::string_view> DsmlParser::take_word(std::string_view text, char end) {
    const size_t at = text.find(end);
    word_ += text.substr(0, at);
    return at == std::string_view::npos ? std::nullopt : std::optional(text.substr(at + 1));
}

void DsmlParser::open_invoke() {
    if (arguments_) {
        end_call();
    }
    word_.clear();
    state_ = State::kName;
}

void DsmlParser::begin_call() {
    const auto tool =
        std::find_if(tools_->begin(), tools_->end(), [this](const Tool& declared) { return declared.name == word_; });
    arguments_.emplace(tool == tools_->end() ? nullptr : &*tool);
    is_dropped_ = word_.empty();
    if (!is_dropped_) {
        events_->push_back({.kind = AnswerEvent::Kind::kCallBegin, .call_index = begun_calls_, .text = word_});
        ++begun_calls_;
    }
    word_.clear();
    state_ = State::kInvokeTag;
}

void DsmlParser::end_call() {
    arguments_->end();
    flush();
    if (!is_dropped_) {
        events_->push_back({.kind = AnswerEvent::Kind::kCallEnd, .call_index = begun_calls_ - 1});
        ++ended_calls_;
    }
    arguments_.reset();
    word_.clear();
    state_ = State::kBetweenCalls;
}

void DsmlParser::flush() {
    if (!arguments_) {
        return;
    }
    std::string text = arguments_->take();
    if (!text.empty() && !is_dropped_) {
        events_->push_back(
            {.kind = AnswerEvent::Kind::kCallArguments, .call_index = begun_calls_ - 1, .text = std::move(text)});
    }
}

}  // namespace di
