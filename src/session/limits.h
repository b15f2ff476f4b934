#pragma once

#include <cstddef>
#include <cstdint>

#include "api/limits.h"

// Every bound on what src/session takes from outside, with its reason. Those of a request as a client writes it
// (images) stand in api/limits.h, those of stop strings in text/limits.h; they hold for every way in.
namespace di {

// Requests handed to the engine and not finished, per sequence of a step: enough that the engine never waits for the
// tokeniser, few enough that a hundred thousand prompts do not all lie prepared in memory.
inline constexpr size_t kPreparedPerSequence = 4;

// Priorities of clients are cut to +- this: what is added to them still fits.
inline constexpr int64_t kPriorityMax = 1'000'000;

// Merges of a vocabulary: one makes one token, so there are about as many.
inline constexpr int64_t kMergesMax = int64_t{1} << 22;

}  // namespace di
