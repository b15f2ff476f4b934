#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "text/tokenizer.h"

namespace di {

// The token compression map of Engram: tokens that differ only in case, accents, compatibility form or blanks share a
// class. Entry i is the class of id i; classes are numbered from 0 by first appearance, so their count is the highest
// entry plus one.
// Covers ids below `vocabulary_size` (the model's, which may be larger than the tokenizer's: ids without a token form one
// class). Unicode tables differ between libraries: the caller must compare the count with the checkpoint's config.
[[nodiscard]] Result<std::vector<int32_t>> token_classes(const Tokenizer& tokenizer, int64_t vocabulary_size);

// The classes of `map`: its highest entry plus one.
[[nodiscard]] int64_t token_class_count(const std::vector<int32_t>& map);

}  // namespace di
