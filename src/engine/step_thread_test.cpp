#include "engine/step_thread.h"

#include <gtest/gtest.h>

namespace di {
namespace {

TEST(StepThread, RunsJobsOneAfterAnother) {
    StepThread thread;
    thread.wait();  // nothing was started
    int value = 0;  // handed over by start() and wait()
    for (int i = 1; i <= 200; ++i) {
        thread.start([&value] { ++value; });
        thread.wait();
        ASSERT_EQ(value, i);
    }
}

TEST(StepThread, EndsBehindTheJobUnderWay) {
    int value = 0;
    {
        StepThread thread;
        thread.start([&value] { value = 7; });
    }
    EXPECT_EQ(value, 7);
    const StepThread unused;
}

TEST(StepThreadDeathTest, TakesOneJobAtATime) {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    EXPECT_DEATH(
        {
            StepThread thread;
            std::mutex mutex;
            mutex.lock();
            thread.start([&mutex] { mutex.lock(); });
            thread.start([] {});
        },
        "while one runs");
}

}  // namespace
}  // namespace di
