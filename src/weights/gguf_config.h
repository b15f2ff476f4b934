#pragma once

#include "base/result.h"
#include "weights/gguf_file.h"
#include "weights/model_config.h"

// The model inside a GGUF file: its metadata as the same typed values that a config.json gives, and its tensors by the names
// of the inventory.
namespace di {

// Whether the architecture is "llama", "qwen2", "qwen3" or "qwen3moe" is for the file to say; others, and what those may ask
// for and this version cannot do, are kUnsupported. Errors name key, value and what was expected.
[[nodiscard]] Result<ModelConfig> read_gguf_config(const GgufFile& file);

}  // namespace di
