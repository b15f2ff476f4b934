#include "engine/waiting_queue.h"

#include <deque>
#include <map>

#include <gtest/gtest.h>

#include "base/random.h"

namespace di {
namespace {

Sequence make_sequence(int64_t arrival, int32_t length, int32_t priority = 0, std::string user = {}) {
    Sequence sequence;
    sequence.arrival_index = arrival;
    sequence.tokens.assign(static_cast<size_t>(length), 5);
    sequence.prompt_length = length;
    sequence.priority = priority;
    sequence.user = std::move(user);
    return sequence;
}

std::vector<int64_t> drain(WaitingQueue& queue) {
    std::vector<int64_t> order;
    std::vector<Sequence*> candidates;
    while (!queue.empty()) {
        queue.candidates(1, candidates);
        order.push_back(candidates.at(0)->arrival_index);
        queue.charge(candidates[0]->user, candidates[0]->length());
        queue.admit(*candidates[0]);
    }
    return order;
}

TEST(WaitingQueue, OrdersByThePolicy) {
    const auto order = [](SchedulingPolicy policy) {
        std::deque<Sequence> sequences;
        sequences.push_back(make_sequence(0, 30, 1));
        sequences.push_back(make_sequence(1, 10, 0));
        sequences.push_back(make_sequence(2, 20, 7));
        sequences.push_back(make_sequence(3, 10, 1));
        WaitingQueue queue(policy, 100);
        for (Sequence& sequence : sequences) {
            queue.push(sequence);
        }
        EXPECT_EQ(queue.rows_wanted(), 70);
        const std::vector<int64_t> result = drain(queue);
        EXPECT_EQ(queue.rows_wanted(), 0);
        return result;
    };
    EXPECT_EQ(order(SchedulingPolicy::kFirstCome), (std::vector<int64_t>{0, 1, 2, 3}));
    EXPECT_EQ(order(SchedulingPolicy::kPriority), (std::vector<int64_t>{2, 0, 3, 1}));
    EXPECT_EQ(order(SchedulingPolicy::kShortestPrefill), (std::vector<int64_t>{1, 3, 2, 0}));
    EXPECT_EQ(order(SchedulingPolicy::kFairShare), (std::vector<int64_t>{0, 1, 2, 3}));
}

TEST(WaitingQueue, FairShareGivesUsersTheSameNumberOfRows) {
    std::deque<Sequence> sequences;
    WaitingQueue queue(SchedulingPolicy::kFairShare, 1 << 20);
    for (int64_t i = 0; i < 300; ++i) {  // one user floods, with long prompts; two others come behind
        sequences.push_back(make_sequence(i, i < 200 ? 40 : 10, 0, i < 200 ? "a" : (i % 2 == 0 ? "b" : "c")));
        queue.push(sequences.back());
    }
    std::map<std::string, int64_t> served;
    std::vector<Sequence*> candidates;
    for (int i = 0; i < 90; ++i) {
        queue.candidates(1, candidates);
        served[candidates[0]->user] += candidates[0]->length();
        queue.charge(candidates[0]->user, candidates[0]->length());
        queue.admit(*candidates[0]);
    }
    EXPECT_NEAR(static_cast<double>(served["a"]), static_cast<double>(served["b"]), 40.0);
    EXPECT_NEAR(static_cast<double>(served["b"]), static_cast<double>(served["c"]), 40.0);
}

TEST(WaitingQueue, WhoReturnsHasNoClaimOnThePast) {
    std::deque<Sequence> sequences;
    WaitingQueue queue(SchedulingPolicy::kFairShare, 1 << 20);
    queue.charge("busy", 100000);
    for (int64_t i = 0; i < 20; ++i) {
        sequences.push_back(make_sequence(i, 10, 0, "busy"));
        queue.push(sequences.back());
    }
    for (int64_t i = 20; i < 40; ++i) {
        sequences.push_back(make_sequence(i, 10, 0, "new"));
        queue.push(sequences.back());
    }
    const std::vector<int64_t> order = drain(queue);
    const auto busy = std::count_if(order.begin(), order.begin() + 20, [](int64_t i) { return i < 20; });
    EXPECT_NEAR(static_cast<double>(busy), 10.0, 1.0);
}

// Under every policy and any stream of arrivals nobody is passed by more later arrivals than allowed.
TEST(WaitingQueue, NobodyIsPassedTooOften) {
    constexpr int32_t kPassedMax = 5;
    for (const SchedulingPolicy policy : {SchedulingPolicy::kFirstCome, SchedulingPolicy::kPriority,
                                          SchedulingPolicy::kShortestPrefill, SchedulingPolicy::kFairShare}) {
        constexpr uint64_t kSeed = 11;
        SCOPED_TRACE(testing::Message() << "seed " << kSeed << " policy " << static_cast<int>(policy));
        SeededRandom random(kSeed);
        std::deque<Sequence> sequences;
        WaitingQueue queue(policy, kPassedMax);
        std::vector<Sequence*> candidates;
        int64_t arrivals = 0;
        for (int step = 0; step < 3000; ++step) {
            for (int64_t more = random.below(3); more > 0; --more) {
                sequences.push_back(make_sequence(arrivals++, static_cast<int32_t>(1 + random.below(50)),
                                                  static_cast<int32_t>(random.below(3)),
                                                  std::string(1, static_cast<char>('a' + random.below(3)))));
                queue.push(sequences.back());
            }
            queue.candidates(4, candidates);
            if (!candidates.empty()) {
                // Any of them may be the one that fits.
                Sequence& chosen = *candidates[static_cast<size_t>(random.below(static_cast<int64_t>(candidates.size())))];
                queue.charge(chosen.user, chosen.length());
                queue.admit(chosen);
            }
            for (const Sequence* waiting : queue.all()) {
                ASSERT_LE(waiting->passed, kPassedMax);
            }
        }
    }
}

TEST(WaitingQueue, RemovedSequencesLeaveNoTrace) {
    std::deque<Sequence> sequences;
    WaitingQueue queue(SchedulingPolicy::kShortestPrefill, 8);
    for (int64_t i = 0; i < 5; ++i) {
        sequences.push_back(make_sequence(i, static_cast<int32_t>(10 - i)));
        queue.push(sequences.back());
    }
    queue.remove(sequences[4]);
    queue.remove(sequences[0]);
    EXPECT_EQ(queue.size(), 3);
    EXPECT_EQ(drain(queue), (std::vector<int64_t>{3, 2, 1}));
}

TEST(WaitingQueueDeathTest, WrongUseEndsTheProcess) {
    Sequence sequence = make_sequence(0, 3);
    WaitingQueue queue(SchedulingPolicy::kFirstCome, 8);
    EXPECT_DEATH(queue.remove(sequence), "does not wait");
    queue.push(sequence);
    EXPECT_DEATH(queue.push(sequence), "waits twice");
}

}  // namespace
}  // namespace di
