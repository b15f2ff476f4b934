#include "backend/cpu/limits_probe.h"

#include <gtest/gtest.h>

#include "backend/contract_cases.h"
#include "backend/cpu/isa.h"

namespace di::cpu {

namespace {

TEST(MachineLimits, AreThoseOfAMachineThatRuns) {
    if (contract::is_small_sweep()) {
        GTEST_SKIP() << "skipped: an emulator has no limits worth measuring";
    }
    const MachineLimits limits = measure_limits(2);
    EXPECT_EQ(limits.threads, 2);
    EXPECT_EQ(limits.isa, (*choose_kernels(""))->name);
    // Wide bounds: any machine of the last fifteen years, however busy, and none that exists.
    EXPECT_GT(limits.memory_gb_s, 0.05);
    EXPECT_LT(limits.memory_gb_s, 20e3);
    EXPECT_GT(limits.cache_gb_s, 0.05);
    EXPECT_GT(limits.gflop_s, 0.1);
    EXPECT_LT(limits.gflop_s, 50e3);
}

}  // namespace

}  // namespace di::cpu
