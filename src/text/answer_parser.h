#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_encoding.h"
#include "text/conversation.h"

// What a model's output means: reasoning, answer text, tool calls (spec: chat encoding, section 9).
namespace di {

// The real tokens that mean something; letters that only look like them are text (unless text is all there is).
enum class AnswerMarker : uint8_t { kThink, kThinkEnd, kToolMarker };

struct AnswerParserOptions {
    AnswerStart start = AnswerStart::kContent;
    bool may_call_tools = false;
    bool is_json_object = false;         // JSON mode: text around the JSON is no part of the answer
    bool finds_markers_in_text = false;  // no ids are to be had: the letters are the marker
    std::vector<Tool> tools{};           // declared ones: types of arguments; may be empty
    std::vector<std::string> stop{};     // searched in the answer only; valid by validate_stop_strings()
    bool includes_stop_text = false;     // the matched stop string stays in the answer
    int64_t calls_max = 0;               // generation is over behind so many calls; 0: no limit
};

// A piece of the answer. Pieces of one kind are joined by whoever wants the whole.
struct AnswerEvent {
    enum class Kind : uint8_t {
        kReasoning,      // `text`
        kContent,        // `text`
        kCallBegin,      // `text` is the name
        kCallArguments,  // `text` is a piece of the JSON text; never ends inside an escape or a character
        kCallEnd,
    };
    Kind kind = Kind::kContent;
    int32_t call_index = 0;  // of calls, from 0, in order; they do not interleave
    std::string text{};      // not empty but for kCallBegin (never) and kCallEnd (always)
};

// Reads one answer, however it is cut: the joined result is the same. One thread.
class AnswerParser {
  public:
    explicit AnswerParser(AnswerParserOptions options);
    ~AnswerParser();
    AnswerParser(AnswerParser&&) noexcept;
    AnswerParser& operator=(AnswerParser&&) noexcept;

    // Takes the next piece of ordinary text, or a marker, and appends what became final. Behind is_over() nothing comes.
    void push_text(std::string_view piece, std::vector<AnswerEvent>& events);
    void push_marker(AnswerMarker marker, std::vector<AnswerEvent>& events);
    // The end of the output; `is_cut`: it was not the model that ended it (length, content filter). What was held back is
    // given out. A call that is open keeps the arguments that came; kCallEnd follows unless the output was cut.
    void finish(bool is_cut, std::vector<AnswerEvent>& events);

    // The answer is complete whatever comes: a stop string was found, or calls_max calls have ended.
    [[nodiscard]] bool is_over() const;
    // Index of the stop string that was found.
    [[nodiscard]] std::optional<size_t> matched_stop() const;
    // What the next token is part of. Of tokens in the answer log-probabilities are reported, those before `</think>` are
    // counted as reasoning.
    enum class Region : uint8_t { kReasoning, kContent, kCalls };
    [[nodiscard]] Region region() const;
    [[nodiscard]] int32_t call_count() const;  // announced so far

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace di
