#pragma once

#include <string>
#include <string_view>

#include "weights/config_reader.h"
#include "weights/model_config.h"

// config.json of the Llama-like families, in the layout of Hugging Face.
namespace di {

// "LlamaForCausalLM" and its relatives.
[[nodiscard]] bool is_transformer(std::string_view architecture);
// All of them, for messages.
[[nodiscard]] std::string transformer_architectures();

// The errors name key, value and what was expected; what the file asks for and this version cannot do is kUnsupported.
[[nodiscard]] Result<ModelConfig> read_transformer_config(ConfigReader& top, std::string_view architecture);

// Widths and counts that must fit each other, whatever file they come from.
[[nodiscard]] Status check_transformer_config(const ModelConfig& config);

}  // namespace di
