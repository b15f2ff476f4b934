#pragma once

#include <memory>

#include "api/answer_writer.h"

// The writers behind make_answer_writer(), one a dialect.
namespace di {

[[nodiscard]] std::unique_ptr<AnswerWriter> make_chat_writer(const Request& request, AnswerHead head,
                                                             const AnswerWriterOptions& options);
[[nodiscard]] std::unique_ptr<AnswerWriter> make_completions_writer(const Request& request, AnswerHead head,
                                                                    const AnswerWriterOptions& options);
[[nodiscard]] std::unique_ptr<AnswerWriter> make_responses_writer(const Request& request, AnswerHead head,
                                                                  const AnswerWriterOptions& options);
[[nodiscard]] std::unique_ptr<AnswerWriter> make_messages_writer(const Request& request, AnswerHead head,
                                                                 const AnswerWriterOptions& options);

// Puts a writer behind what a request wants of the reasoning: left out, in the content, in one piece. Gives `writer` back where
// it wants nothing special.
[[nodiscard]] std::unique_ptr<AnswerWriter> shape_reasoning(const Request& request, std::unique_ptr<AnswerWriter> writer,
                                                            int32_t choice_count);

}  // namespace di
