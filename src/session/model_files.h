#pragma once

#include <string>

#include "base/result.h"
#include "text/generation_config.h"
#include "text/tokenizer.h"

// What the text side takes from a model's files: from a directory (Hugging Face layout) or from one .gguf file.
namespace di {

// Errors begin with the path.
[[nodiscard]] Result<Tokenizer> open_tokenizer(const std::string& model);

// How the model's authors want it sampled, and every token that ends an answer. A .gguf names some of those by key
// (eos, eot, eom); control tokens with the spelling of a known end of turn count, too.
[[nodiscard]] Result<GenerationConfig> open_generation_config(const std::string& model, const Tokenizer& tokenizer);

}  // namespace di
