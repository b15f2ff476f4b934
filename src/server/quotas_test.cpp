#include "server/quotas.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "server/limits.h"

namespace di {
namespace {

constexpr int64_t kSecond = 1'000'000;

TEST(Quotas, WithoutLimitsEverythingIsAdmitted) {
    Quotas quotas;
    for (int i = 0; i < 1000; ++i) {
        EXPECT_TRUE(quotas.admit("a", {}, 0).is_admitted);
        quotas.charge_tokens("a", {}, 1'000'000, 0);
    }
    EXPECT_EQ(quotas.running("a"), 1000);
}

TEST(Quotas, AMinuteOfRequestsMayComeAtOnceThenEvenly) {
    Quotas quotas;
    const QuotaLimits limits{.requests_per_minute = 6};
    for (int i = 0; i < 6; ++i) {
        EXPECT_TRUE(quotas.admit("a", limits, 0).is_admitted);
    }
    const Admission refused = quotas.admit("a", limits, 0);
    EXPECT_FALSE(refused.is_admitted);
    EXPECT_EQ(refused.retry_after_s, 10);
    EXPECT_EQ(refused.text, "key \"a\" has used its 6 requests a minute");
    EXPECT_FALSE(quotas.admit("a", limits, 9 * kSecond).is_admitted);
    EXPECT_TRUE(quotas.admit("a", limits, 10 * kSecond).is_admitted) << "whoever waits as told is admitted";
    EXPECT_FALSE(quotas.admit("a", limits, 10 * kSecond).is_admitted);
    EXPECT_TRUE(quotas.admit("b", limits, 10 * kSecond).is_admitted) << "keys do not share";
}

TEST(Quotas, RefusedRequestsAreNotCounted) {
    Quotas quotas;
    const QuotaLimits limits{.requests_per_minute = 1};
    EXPECT_TRUE(quotas.admit("a", limits, 0).is_admitted);
    for (int i = 0; i < 100; ++i) {
        EXPECT_FALSE(quotas.admit("a", limits, i * kSecond / 2).is_admitted);
    }
    EXPECT_EQ(quotas.running("a"), 1);
    EXPECT_TRUE(quotas.admit("a", limits, 60 * kSecond).is_admitted);
}

TEST(Quotas, TokensArePaidBackBeforeTheNextRequest) {
    Quotas quotas;
    const QuotaLimits limits{.tokens_per_minute = 600};
    EXPECT_TRUE(quotas.admit("a", limits, 0).is_admitted);
    quotas.charge_tokens("a", limits, 500, 0);
    EXPECT_TRUE(quotas.admit("a", limits, 0).is_admitted) << "100 are left";
    quotas.charge_tokens("a", limits, 700, 0);  // 600 of debt
    const Admission refused = quotas.admit("a", limits, 0);
    EXPECT_FALSE(refused.is_admitted);
    EXPECT_EQ(refused.retry_after_s, 61);
    EXPECT_EQ(refused.text, "key \"a\" has used its 600 tokens a minute");
    EXPECT_FALSE(quotas.admit("a", limits, 60 * kSecond).is_admitted);
    EXPECT_TRUE(quotas.admit("a", limits, 61 * kSecond).is_admitted);
}

TEST(Quotas, SoManyRunAtOneTime) {
    Quotas quotas;
    const QuotaLimits limits{.concurrent = 2};
    EXPECT_TRUE(quotas.admit("", limits, 0).is_admitted);
    EXPECT_TRUE(quotas.admit("", limits, 0).is_admitted);
    const Admission refused = quotas.admit("", limits, 1000 * kSecond);
    EXPECT_FALSE(refused.is_admitted);
    EXPECT_EQ(refused.retry_after_s, 1);
    EXPECT_EQ(refused.text, "2 requests of this server are running, at most 2 may run at one time");
    quotas.release("");
    EXPECT_TRUE(quotas.admit("", limits, 0).is_admitted);
    EXPECT_EQ(quotas.running(""), 2);
}

TEST(Quotas, NewLimitsKeepWhatWasUsed) {
    Quotas quotas;
    for (int i = 0; i < 5; ++i) {
        EXPECT_TRUE(quotas.admit("a", {.requests_per_minute = 5}, 0).is_admitted);
    }
    EXPECT_FALSE(quotas.admit("a", {.requests_per_minute = 4}, 0).is_admitted);
    EXPECT_TRUE(quotas.admit("a", {.requests_per_minute = 6}, 0).is_admitted);
    EXPECT_FALSE(quotas.admit("a", {.requests_per_minute = 6}, 0).is_admitted);
    EXPECT_TRUE(quotas.admit("a", {}, 0).is_admitted) << "no limit any more";
}

TEST(Quotas, OverAnHourNobodyGetsMoreThanTheLimit) {
    Quotas quotas;
    SeededRandom random(1);
    const QuotaLimits limits{.requests_per_minute = 30};
    int64_t admitted = 0;
    int64_t now_us = 0;
    while (now_us < 3600 * kSecond) {
        now_us += random.below(kSecond);
        if (quotas.admit("a", limits, now_us).is_admitted) {
            ++admitted;
            quotas.release("a");
        }
    }
    EXPECT_LE(admitted, 30 * 61);
    EXPECT_GE(admitted, 30 * 59);
}

TEST(Quotas, ATimeThatGoesBackGivesNothing) {
    Quotas quotas;
    const QuotaLimits limits{.requests_per_minute = 1};
    EXPECT_TRUE(quotas.admit("a", limits, 60 * kSecond).is_admitted);
    EXPECT_FALSE(quotas.admit("a", limits, 0).is_admitted);
    EXPECT_FALSE(quotas.admit("a", limits, 60 * kSecond).is_admitted);
}

TEST(Quotas, KeysThatUseNothingAreForgotten) {
    Quotas quotas;
    const QuotaLimits limits{.requests_per_minute = 1};
    EXPECT_TRUE(quotas.admit("runs", limits, 0).is_admitted);
    for (size_t i = 1; i < 3 * kQuotaBucketsMax; ++i) {
        const std::string name = std::to_string(i);
        EXPECT_TRUE(quotas.admit(name, limits, static_cast<int64_t>(i) * kSecond).is_admitted);
        quotas.release(name);
    }
    EXPECT_LE(quotas.bucket_count(), kQuotaBucketsMax);
    EXPECT_EQ(quotas.running("runs"), 1);
}

}  // namespace
}  // namespace di
