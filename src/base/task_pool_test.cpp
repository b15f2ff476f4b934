#include "base/task_pool.h"

#include <atomic>
#include <future>

#include <gtest/gtest.h>

namespace di {
namespace {

TEST(TaskPool, RunsEveryTaskThatItTookAlsoWhileItEnds) {
    std::atomic<int> count{0};
    {
        TaskPool pool(3, 1000);
        for (int i = 0; i < 1000; ++i) {
            ASSERT_TRUE(pool.submit([&count] { count.fetch_add(1); }));
        }
    }
    EXPECT_EQ(count.load(), 1000);
}

TEST(TaskPool, RefusesWhatIsTooMuchAndTakesWorkAgainLater) {
    std::promise<void> begun;
    std::promise<void> go;
    std::shared_future<void> wait = go.get_future().share();
    TaskPool pool(1, 2);
    ASSERT_TRUE(pool.submit([&begun, wait] {
        begun.set_value();
        wait.wait();
    }));
    begun.get_future().wait();  // nothing waits now
    EXPECT_TRUE(pool.submit([] {}));
    EXPECT_TRUE(pool.submit([] {}));
    EXPECT_FALSE(pool.submit([] {}));
    std::promise<void> done;
    go.set_value();
    while (!pool.submit([&done] { done.set_value(); })) {
        std::this_thread::yield();
    }
    done.get_future().wait();
}

TEST(TaskPool, KeepsTheOrderOnOneThread) {
    std::vector<int> order;
    {
        TaskPool pool(1, 100);
        for (int i = 0; i < 50; ++i) {
            ASSERT_TRUE(pool.submit([&order, i] { order.push_back(i); }));
        }
    }
    for (int i = 0; i < 50; ++i) {
        EXPECT_EQ(order[static_cast<size_t>(i)], i);
    }
}

}  // namespace
}  // namespace di
