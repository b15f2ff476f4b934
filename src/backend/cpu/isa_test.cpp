#include "backend/cpu/isa.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string>

#include <gtest/gtest.h>

namespace di::cpu {

namespace {

// Sets DEEPINFER_CPU_ISA for one test and puts the old value back.
class ForcedIsa {
  public:
    explicit ForcedIsa(const char* value) {
        if (const char* old = std::getenv("DEEPINFER_CPU_ISA"); old != nullptr) {
            old_ = old;
        }
        ::setenv("DEEPINFER_CPU_ISA", value, 1);
    }
    ~ForcedIsa() {
        if (old_) {
            ::setenv("DEEPINFER_CPU_ISA", old_->c_str(), 1);
        } else {
            ::unsetenv("DEEPINFER_CPU_ISA");
        }
    }
    ForcedIsa(const ForcedIsa&) = delete;
    ForcedIsa& operator=(const ForcedIsa&) = delete;

  private:
    std::optional<std::string> old_;
};

TEST(CpuIsa, GenericIsAlwaysThereAndLast) { EXPECT_EQ(available_isas().back(), "generic"); }

TEST(CpuIsa, EnvironmentForcesAnAvailableSet) {
    for (const std::string& name : available_isas()) {
        const ForcedIsa forced(name.c_str());
        const auto kernels = choose_kernels("");
        ASSERT_TRUE(kernels.has_value()) << kernels.error().text;
        EXPECT_EQ((*kernels)->name, name);
    }
}

TEST(CpuIsa, UnknownNameIsAnErrorThatListsWhatThereIs) {
    const ForcedIsa forced("sse9");
    const auto kernels = choose_kernels("");
    ASSERT_FALSE(kernels.has_value());
    EXPECT_EQ(kernels.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(kernels.error().text.find("unknown instruction set 'sse9'"), std::string::npos) << kernels.error().text;
    EXPECT_NE(kernels.error().text.find("generic"), std::string::npos) << kernels.error().text;
}

TEST(CpuIsa, SetThatTheMachineLacksIsAnError) {
#if defined(__aarch64__)
    const ForcedIsa forced("avx2");
#else
    const ForcedIsa forced("neon");
#endif
    const auto kernels = choose_kernels("");
    ASSERT_FALSE(kernels.has_value());
    EXPECT_EQ(kernels.error().code, ErrorCode::kUnsupported);
}

TEST(CpuIsa, EmptyEnvironmentMeansTheBest) {
    const ForcedIsa forced("");
    const auto kernels = choose_kernels("");
    ASSERT_TRUE(kernels.has_value());
    EXPECT_EQ((*kernels)->name, available_isas().front());
}

}  // namespace

}  // namespace di::cpu
