#pragma once

#include "apps/options.h"

// One function a sub-command: flags -> library call -> print. Each returns the exit code of the process.
namespace di {

[[nodiscard]] int run_command(const Options& options);
[[nodiscard]] int chat_command(const Options& options);
[[nodiscard]] int inspect_command(const Options& options);
[[nodiscard]] int logits_command(const Options& options);
[[nodiscard]] int doctor_command(const Options& options);
[[nodiscard]] int serve_command(const Options& options);
[[nodiscard]] int bench_command(const Options& options);
[[nodiscard]] int recipe_command(const Options& options);

}  // namespace di
