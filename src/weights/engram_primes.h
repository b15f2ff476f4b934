#pragma once

#include <cstdint>
#include <vector>

namespace di {

// The `count` smallest primes >= `first`, ascending. These are the moduli of Engram's tables: over the Engram
// layers in list order, in each over n = 2 .. max_ngram_size, in each over the heads, every modulus is the next prime not
// yet taken, starting at engram_vocab_size; so layer i takes the primes [i * rows_per_token, (i + 1) * rows_per_token)
// of one ascending run.
[[nodiscard]] std::vector<int64_t> primes_from(int64_t first, int64_t count);

}  // namespace di
