#include "server/quotas.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "base/check.h"
#include "server/limits.h"

namespace di {
namespace {

constexpr double kMicrosecondsPerMinute = 60e6;
// When one of a key's requests ends is not known; asking again every second is cheap.
constexpr int kConcurrencyRetryS = 1;

// Sums of fractions: a request is not refused for the last bit of one.
constexpr double kOneRequest = 1.0 - 1e-6;

// What a bucket of `per_minute` holds after some time.
double refilled(double left, int64_t per_minute, int64_t passed_us) {
    const double size = static_cast<double>(per_minute);
    return std::min(size, left + size * static_cast<double>(passed_us) / kMicrosecondsPerMinute);
}

// Whole seconds until `missing` has come back, from 1 to an hour, behind which nobody waits.
int seconds_until(double missing, int64_t per_minute) {
    const double seconds = std::ceil(missing * 60.0 / static_cast<double>(per_minute));
    return static_cast<int>(std::clamp(seconds, 1.0, 3600.0));
}

std::string owner_text(std::string_view key) {
    return key.empty() ? std::string("this server") : fmt::format("key \"{}\"", key);
}

Admission refusal(int retry_after_s, std::string text) {
    return {.is_admitted = false, .retry_after_s = retry_after_s, .text = std::move(text)};
}

}  // namespace

Admission Quotas::admit(std::string_view key, const QuotaLimits& limits, int64_t now_us) {
    Bucket& bucket = bucket_of(key, limits, now_us);
    if (limits.concurrent > 0 && bucket.running >= limits.concurrent) {
        return refusal(kConcurrencyRetryS, fmt::format("{} requests of {} are running, at most {} may run at one time",
                                                       bucket.running, owner_text(key), limits.concurrent));
    }
    if (limits.requests_per_minute > 0 && bucket.requests < kOneRequest) {
        return refusal(seconds_until(1.0 - bucket.requests, limits.requests_per_minute),
                       fmt::format("{} has used its {} requests a minute", owner_text(key), limits.requests_per_minute));
    }
    if (limits.tokens_per_minute > 0 && bucket.tokens <= 0.0) {
        // One whole token: at exactly nothing there would be no time to wait for.
        return refusal(seconds_until(1.0 - bucket.tokens, limits.tokens_per_minute),
                       fmt::format("{} has used its {} tokens a minute", owner_text(key), limits.tokens_per_minute));
    }
    bucket.requests -= limits.requests_per_minute > 0 ? 1.0 : 0.0;
    ++bucket.running;
    return {};
}

void Quotas::release(std::string_view key) {
    const auto found = buckets_.find(key);
    DI_CHECK(found != buckets_.end() && found->second.running > 0, "a request is released once");
    --found->second.running;
}

void Quotas::charge_tokens(std::string_view key, const QuotaLimits& limits, int64_t tokens, int64_t now_us) {
    if (limits.tokens_per_minute > 0) {
        bucket_of(key, limits, now_us).tokens -= static_cast<double>(tokens);
    }
}

int64_t Quotas::running(std::string_view key) const {
    const auto found = buckets_.find(key);
    return found == buckets_.end() ? 0 : found->second.running;
}

Quotas::Bucket& Quotas::bucket_of(std::string_view key, const QuotaLimits& limits, int64_t now_us) {
    auto found = buckets_.find(key);
    if (found == buckets_.end()) {
        if (buckets_.size() >= kQuotaBucketsMax) {
            drop_full_buckets(now_us);
        }
        found = buckets_.emplace(key, Bucket{}).first;
        found->second = {.requests = static_cast<double>(limits.requests_per_minute),
                         .tokens = static_cast<double>(limits.tokens_per_minute),
                         .updated_us = now_us,
                         .limits = limits};
        return found->second;
    }
    Bucket& bucket = found->second;
    if (bucket.limits != limits) {
        // New limits (the key file was read again) begin with what has been used, not with a fresh minute.
        bucket.requests += static_cast<double>(limits.requests_per_minute - bucket.limits.requests_per_minute);
        bucket.tokens += static_cast<double>(limits.tokens_per_minute - bucket.limits.tokens_per_minute);
        bucket.limits = limits;
    }
    const int64_t passed_us = std::max<int64_t>(0, now_us - bucket.updated_us);
    bucket.requests = refilled(bucket.requests, limits.requests_per_minute, passed_us);
    bucket.tokens = refilled(bucket.tokens, limits.tokens_per_minute, passed_us);
    bucket.updated_us = std::max(bucket.updated_us, now_us);
    return bucket;
}

void Quotas::drop_full_buckets(int64_t now_us) {
    std::erase_if(buckets_, [&](const auto& entry) {
        const Bucket& bucket = entry.second;
        const int64_t passed_us = std::max<int64_t>(0, now_us - bucket.updated_us);
        const auto is_full = [&](double left, int64_t per_minute) {
            return refilled(left, per_minute, passed_us) >= static_cast<double>(per_minute);
        };
        return bucket.running == 0 && is_full(bucket.requests, bucket.limits.requests_per_minute) &&
               is_full(bucket.tokens, bucket.limits.tokens_per_minute);
    });
}

}  // namespace di
