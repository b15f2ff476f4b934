#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/answer_items.h"
#include "text/answer_parser.h"
#include "text/call_arguments.h"

namespace di {

// Reads what stands from the first tag of a tool call to the end of the output. Everything but calls is dropped. Missing
// block tags, and tags of several spellings next to each other, are read as well.
class DsmlParser {
  public:
    // The tools must outlive this.
    explicit DsmlParser(const std::vector<Tool>& tools) : tools_(&tools) {}

    // `events` get what became final.
    void push(const AnswerItem& item, std::vector<AnswerEvent>& events);
    // The end of the output inside a call: its arguments stay as far as they came. It counts as ended unless it `is_cut`.
    void finish(bool is_cut, std::vector<AnswerEvent>& events);

    [[nodiscard]] int32_t begun_calls() const { return begun_calls_; }
    [[nodiscard]] int32_t ended_calls() const { return ended_calls_; }

  private:
    enum class State : uint8_t {
        kBetweenCalls,
        kName,
        kInvokeTag,  // behind the name, up to the end of the tag
        kBody,       // between the parameters of a call
        kKey,
        kAttributes,
        kValue,
        kAfterValue,  // behind the `</｜DSML｜` that ended a value
    };

    void push_close();
    void push_text(std::string_view text);
    [[nodiscard]] std::string_view push_after_value(std::string_view text);
    // Moves text up to `end` into word_ and returns the rest behind it; none: it has not come yet.
    [[nodiscard]] std::optional<std::string_view> take_word(std::string_view text, char end);
    void open_invoke();
    void begin_call();
    void end_call();
    // Hands on what the arguments have become.
    void flush();

    const std::vector<Tool>* tools_;
    std::vector<AnswerEvent>* events_ = nullptr;  // of the call of push() or finish() that is going on
    State state_ = State::kBetweenCalls;
    std::string word_;  // name, key, attributes or what follows a value, while it arrives
    std::string key_;
    std::optional<CallArguments> arguments_;  // of the open call
    bool is_dropped_ = false;                 // the open call has no name
    int32_t begun_calls_ = 0;
    int32_t ended_calls_ = 0;
};

}  // namespace di
