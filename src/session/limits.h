#pragma once

#include <cstddef>

#include "api/limits.h"

// Every bound on what src/session takes from outside, with its reason. Those of a request as a client writes it (stop
// strings, images) stand in api/limits.h and hold for every way in.
namespace di {

// Requests handed to the engine and not finished, per sequence of a step: enough that the engine never waits for the
// tokeniser, few enough that a hundred thousand prompts do not all lie prepared in memory.
inline constexpr size_t kPreparedPerSequence = 4;

}  // namespace di
