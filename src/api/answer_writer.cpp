#include "api/answer_writer.h"

#include <utility>

#include "api/answer_writers.h"

namespace di {

std::string event_text(const StreamEvent& event) {
    std::string text;
    text.reserve(event.name.size() + event.data.size() + 16);
    if (!event.name.empty()) {
        text += "event: " + event.name + "\n";
    }
    text += "data: ";
    text += event.data;
    text += "\n\n";
    return text;
}

std::unique_ptr<AnswerWriter> make_answer_writer(const Request& request, AnswerHead head, const AnswerWriterOptions& options) {
    const int32_t choice_count = head.choice_count;
    // No reasoning part is to be expected where it is left out or part of the content.
    head.is_thinking = head.is_thinking && request.includes_reasoning && request.separates_reasoning;
    std::unique_ptr<AnswerWriter> writer;
    switch (request.dialect) {
        case Dialect::kChat: writer = make_chat_writer(request, std::move(head), options); break;
        case Dialect::kCompletions: return make_completions_writer(request, std::move(head), options);
        case Dialect::kResponses: writer = make_responses_writer(request, std::move(head), options); break;
        case Dialect::kMessages: writer = make_messages_writer(request, std::move(head), options); break;
    }
    return shape_reasoning(request, std::move(writer), choice_count);
}

}  // namespace di
