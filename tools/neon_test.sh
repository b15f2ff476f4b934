#!/usr/bin/env bash
# The CPU backend's NEON kernels: cross-built, and its contract test (reduced sweep) run under qemu.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset neon
ninja -C build/neon
ctest --test-dir build/neon --output-on-failure -j 2 --timeout 900
