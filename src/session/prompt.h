#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "engine/load.h"
#include "text/chat_format.h"
#include "text/conversation.h"
#include "text/grammar_spec.h"
#include "text/image_plan.h"
#include "text/tokenizer.h"

namespace di {

// What is to be continued: text, token ids or a conversation that asks for an answer.
struct PromptRequest {
    std::variant<std::string, std::vector<int32_t>, Conversation> prompt;
    // Encoded images (PNG, JPEG, WebP), in the order of their places in the prompt: the image parts of a
    // conversation, the image placeholders of a text or of ids. A text without any placeholder has its images in front.
    std::vector<std::string> images;
    SamplingParams sampling;        // Session::default_sampling() with the caller's changes
    std::vector<std::string> stop;  // strings that end the answer and are no part of it
    // As in TokenRequest.
    std::string user{};
    int32_t priority = 0;
    std::optional<double> deadline_ms{};
    std::string cache_salt{};
    // What the answer must look like. A conversation's response format says it too; both are an error.
    std::optional<GrammarSpec> grammar{};
};

// What turns a request into tokens. Owns nothing.
struct PromptContext {
    const ModelConfig* config = nullptr;
    const Tokenizer* tokenizer = nullptr;
    const ChatFormat* chat_format = nullptr;
};

// The engine's request of a prompt: ids with their begin-of-sentence, every image placeholder replaced by the image's
// span, images decoded. Errors are the caller's fault: empty prompt, broken text, wrong images, sampling out of range.
// A text gets the begin of sentence in front when the model wants it (ModelConfig::adds_bos) and it does not begin with it
// already; special tokens spelled in a text become those tokens, in a conversation they never do.
[[nodiscard]] Result<TokenRequest> build_token_request(PromptRequest request, const PromptContext& context);

// What the answer of the prompt must look like: its grammar, or that of its conversation (format and tools). A grammar
// beside a response format is an error; beside tools it binds the whole answer.
[[nodiscard]] Result<std::optional<GrammarSpec>> prompt_grammar(const PromptRequest& request, const Tokenizer& tokenizer);

// The image layout of a model with a vision tower.
[[nodiscard]] ImageGeometry image_geometry(const VisionConfig& vision);

}  // namespace di
