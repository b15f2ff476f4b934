#include "base/memory.h"

#include <gtest/gtest.h>

namespace di {
namespace {

TEST(Memory, ReadsMeminfo) {
    const std::string text = "MemTotal:        2048 kB\nMemAvailable:    1000 kB\nSwapTotal: 0 kB\n";
    EXPECT_EQ(meminfo_bytes(text, "MemAvailable"), 1000 * 1024);
    EXPECT_EQ(meminfo_bytes(text, "MemTotal"), 2048 * 1024);
    EXPECT_EQ(meminfo_bytes(text, "SwapTotal"), 0);
    EXPECT_EQ(meminfo_bytes(text, "Available"), -1);
    EXPECT_EQ(meminfo_bytes("MemTotal:\nx", "MemTotal"), -1);
    EXPECT_EQ(meminfo_bytes("", "MemTotal"), -1);
}

TEST(Memory, ThisMachineHasSome) { EXPECT_GT(available_memory_bytes(), 1 << 20); }

TEST(Memory, SizesReadWell) {
    EXPECT_EQ(format_bytes(317), "317 B");
    EXPECT_EQ(format_bytes(1536), "1.50 KiB");
    EXPECT_EQ(format_bytes(int64_t{510286023000}), "475.24 GiB");
}

}  // namespace
}  // namespace di
