#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/batch.h"
#include "weights/model_config.h"

// Which table rows a token looks up: n-gram hashes over classes of token ids. Integers only, the same on every
// machine (model description, section 8).
namespace di::v41 {

// One Engram layer.
struct EngramHash {
    std::vector<int64_t> primes;       // [(max_ngram - 1) * heads], n-major: n = 2 first
    std::vector<int64_t> offsets;      // of each head's range in the table
    std::vector<int64_t> multipliers;  // [max_ngram]
};

// All Engram layers, in the order of config.layer_ids: primes are not repeated across layers.
[[nodiscard]] std::vector<EngramHash> engram_hashes(const EngramConfig& config);

// classes[0] is the class of the token itself, classes[i] that of the token i places before it (the pad class where there is
// none). Writes rows.size() = (max_ngram - 1) * heads row numbers.
void engram_rows(const EngramHash& hash, std::span<const int32_t> classes, std::span<int64_t> rows);

// The same for all rows of a step: [batch rows, (max_ngram - 1) * heads]. A text token looks back until the start of its sequence or
// an image; from there on it sees the pad class. `token_classes` is the class of every id.
void engram_step_rows(const EngramHash& hash, const EngramConfig& config, std::span<const int32_t> token_classes,
                      const Batch& batch, std::vector<int64_t>& rows);

}  // namespace di::v41
