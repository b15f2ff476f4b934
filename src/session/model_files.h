#pragma once

#include <string>

#include "base/result.h"
#include "text/chat_format.h"
#include "text/generation_config.h"
#include "text/tokenizer.h"

// What the text side takes from a model's files: from a directory (Hugging Face layout) or from one .gguf file.
namespace di {

// Errors begin with the path.
[[nodiscard]] Result<Tokenizer> open_tokenizer(const std::string& model);

// How the model's authors want it sampled, and every token that ends an answer. A .gguf names some of those by key
// (eos, eot, eom); control tokens with the spelling of a known end of turn count, too.
[[nodiscard]] Result<GenerationConfig> open_generation_config(const std::string& model, const Tokenizer& tokenizer);

// Whether a text begins with the begin of sentence: what a directory's tokenizer_config.json (add_bos_token) or the template of
// tokenizer.json's post-processor says; `otherwise` for a .gguf, whose config knows, and where neither says anything.
[[nodiscard]] Result<bool> open_adds_bos(const std::string& model, const Tokenizer& tokenizer, bool otherwise);

// How conversations are written: in DeepSeek's own format where the tokenizer has all of its tokens, else by the template
// beside the weights (chat_template.jinja, tokenizer_config.json, or the key tokenizer.chat_template). `adds_bos`: of the
// model's config.
[[nodiscard]] Result<ChatFormat> open_chat_format(const std::string& model, const Tokenizer& tokenizer, bool adds_bos);

}  // namespace di
