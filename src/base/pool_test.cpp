#include "base/pool.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include <gtest/gtest.h>

namespace di {
namespace {

// More threads than any machine of the suite has cores: workers get descheduled in the middle of loops.
constexpr int kOversubscribed = 33;

TEST(ThreadPool, CoversEveryIndexOnce) {
    for (const int threads : {1, 2, 3, 7, kOversubscribed}) {
        ThreadPool pool(threads);
        EXPECT_EQ(pool.thread_count(), threads);
        for (const int64_t count : {1, 2, 3, 5, 31, 32, 33, 100, 1000}) {
            for (const int64_t grain : {-1, 0, 1, 3, 32, 5000}) {
                std::vector<int> hits(static_cast<size_t>(count), 0);  // each index is written by one thread only
                pool.parallel_for(count, grain, [&](int64_t begin, int64_t end, int) {
                    for (int64_t i = begin; i < end; ++i) {
                        ++hits[static_cast<size_t>(i)];
                    }
                });
                EXPECT_EQ(std::ranges::count(hits, 1), count)
                    << "threads " << threads << " count " << count << " grain " << grain;
            }
        }
    }
}

TEST(ThreadPool, DoesNothingForAnEmptyLoop) {
    ThreadPool pool(3);
    bool is_called = false;
    pool.parallel_for(0, 1, [&](int64_t, int64_t, int) { is_called = true; });
    pool.parallel_for(-4, 1, [&](int64_t, int64_t, int) { is_called = true; });
    EXPECT_FALSE(is_called);
}

TEST(ThreadPool, GivesOutAtMostOneRangeAThreadEachStartingOnAGrain) {
    ThreadPool pool(3);
    std::mutex mutex;  // guards the lists below
    std::vector<int64_t> begins;
    std::vector<int> threads;
    pool.parallel_for(100, 8, [&](int64_t begin, int64_t end, int thread_index) {
        const std::lock_guard lock(mutex);
        EXPECT_LT(begin, end);
        EXPECT_LE(end, 100);
        begins.push_back(begin);
        threads.push_back(thread_index);
    });
    EXPECT_LE(begins.size(), 3U);
    for (const int64_t begin : begins) {
        EXPECT_EQ(begin % 8, 0);
    }
    for (const int thread : threads) {  // one thread may take several
        EXPECT_GE(thread, 0);
        EXPECT_LT(thread, 3);
    }
}

TEST(ThreadPool, PublishesWhatOneLoopWroteToTheNext) {
    for (const int threads : {2, 3, kOversubscribed}) {
        ThreadPool pool(threads);
        std::vector<int64_t> values(64, 0);
        const int rounds = threads == kOversubscribed ? 50 : 500;
        for (int round = 0; round < rounds; ++round) {
            // Each index is computed from its neighbour of the round before, which another thread may have written.
            std::vector<int64_t> next(values.size());
            pool.parallel_for(std::ssize(values), 1, [&](int64_t begin, int64_t end, int) {
                for (int64_t i = begin; i < end; ++i) {
                    next[static_cast<size_t>(i)] = values[static_cast<size_t>((i + 1) % std::ssize(values))] + 1;
                }
            });
            values = next;
        }
        EXPECT_EQ(std::ranges::count(values, rounds), std::ssize(values));
    }
}

TEST(ThreadPool, WakesWorkersThatFellAsleep) {
    ThreadPool pool(3);
    std::atomic<int64_t> sum{0};
    for (int round = 0; round < 5; ++round) {
        // Longer than the workers spin: burn time without a sleep of our own.
        const auto start = std::chrono::steady_clock::now();
        while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(5)) {
        }
        pool.parallel_for(3, 1, [&](int64_t begin, int64_t end, int) { sum += end - begin; });
    }
    EXPECT_EQ(sum.load(), 15);
}

TEST(ThreadPool, EndsCleanlyWithoutAnyLoop) {
    for (int i = 0; i < 50; ++i) {
        const ThreadPool pool(4);
        EXPECT_EQ(pool.thread_count(), 4);
    }
}

TEST(UsableCpuCount, IsAtLeastOneAndAtMostTheMachines) {
    EXPECT_GE(usable_cpu_count(), 1);
    EXPECT_LE(usable_cpu_count(), static_cast<int>(std::max(1U, std::thread::hardware_concurrency())));
}

}  // namespace
}  // namespace di
