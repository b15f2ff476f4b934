#pragma once

#include "apps/options.h"

// One function a benchmark that loads the engine with many requests: flags -> load -> print. Each returns the exit code of the process.
namespace di {

// All requests at once.
[[nodiscard]] int bench_throughput(const Options& options);
// The same requests with more and more of them in flight.
[[nodiscard]] int bench_sweep(const Options& options);

}  // namespace di
