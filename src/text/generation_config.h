#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace di {

// How a model's authors want it sampled: generation_config.json. What the file does not say is absent.
struct GenerationConfig {
    std::optional<double> temperature;  // 0 when the file says do_sample: false
    std::optional<double> top_p;
    std::optional<int32_t> top_k;
    std::vector<int32_t> eos_token_ids;  // ids that end an answer
};

// Keys that are not sampling are left alone; a known key with a wrong value is an error that names it.
[[nodiscard]] Result<GenerationConfig> parse_generation_config(std::string_view json);
// Reads `directory`/generation_config.json; without that file everything is absent.
[[nodiscard]] Result<GenerationConfig> load_generation_config(const std::string& directory);

}  // namespace di
