#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/hash.h"

namespace di {

// Stands for everything that a cache block's content depends on: its own tokens and images, all before them, and what
// the root names. Two prompts that agree up to the end of a block have the same keys up to there, and others have not.
using PrefixKey = Hash128;

// An image among the tokens. Its ids are the same whatever it shows, so its pixels must be in the key.
struct PrefixImage {
    int32_t first_token = 0;
    int32_t token_count = 0;
    Hash128 content;  // of what the model is given: all 128 bits count
};

// The parent of every first block. `identity` names what else the bits depend on (model, cache formats); requests whose
// `salt` differs share nothing.
[[nodiscard]] PrefixKey prefix_root(std::string_view identity, std::string_view salt);

// Appends the keys of the whole blocks of `tokens` that `keys` does not have yet; its size is the number of blocks that
// it has. The tokens of those must be as they were then. `images` by ascending first_token, without overlap.
void extend_prefix_keys(const PrefixKey& root, std::span<const int32_t> tokens, std::span<const PrefixImage> images,
                        int64_t block_tokens, std::vector<PrefixKey>& keys);

}  // namespace di
