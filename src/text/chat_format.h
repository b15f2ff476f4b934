#pragma once

#include <string>
#include <variant>

#include "base/result.h"
#include "text/chat_encoding.h"
#include "text/conversation.h"
#include "text/jinja_template.h"
#include "text/tokenizer.h"

namespace di {

// A chat template with what it needs of its model.
struct ChatTemplate {
    std::string source;  // Jinja
    std::string bos;     // spellings, "" without such a token
    std::string eos;
    bool adds_bos = false;  // the prompt begins with `bos` even where the template does not write it
};

// How a model wants its conversations written: DeepSeek's format, which we write ourselves, or the template that lies beside
// the weights. Any thread.
class ChatFormat {
  public:
    static ChatFormat deepseek(ChatDialect dialect);
    // A template that cannot be read is the error of every conversation; the model still continues texts.
    static ChatFormat of_template(const ChatTemplate& chat_template);
    // For a model without any; `reason` is the error of every conversation.
    static ChatFormat none(std::string reason);

    // The prompt text. Special tokens are recognized in what the template itself writes, never in the messages. Templates
    // render system, user and assistant text; tools, images, prefixes and quick tasks are kUnsupported for them.
    [[nodiscard]] Result<EncodedPrompt> encode(const Conversation& conversation, const Tokenizer& tokenizer) const;

  private:
    struct Template {
        JinjaTemplate program;
        std::string bos;
        std::string eos;
        bool adds_bos;
    };
    using Kind = std::variant<ChatDialect, Template, Error>;

    explicit ChatFormat(Kind kind) : kind_(std::move(kind)) {}
    [[nodiscard]] static Result<EncodedPrompt> render(const Template& chat_template, const Conversation& conversation,
                                                      const Tokenizer& tokenizer);

    Kind kind_;
};

}  // namespace di
