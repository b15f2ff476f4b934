#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace di {

// What a key may use; 0: no limit.
struct QuotaLimits {
    int64_t requests_per_minute = 0;
    int64_t tokens_per_minute = 0;  // of prompts and answers
    int64_t concurrent = 0;         // requests at one time

    friend bool operator==(const QuotaLimits&, const QuotaLimits&) = default;
};

struct Admission {
    bool is_admitted = true;
    int retry_after_s = 0;  // else: header Retry-After, at least 1
    std::string text{};     // and what the client is told
};

// Who has used how much. A key may use a minute's worth at once; then it comes back evenly. Tokens are known when they have
// been used: a key goes into debt by its last requests and waits until that is paid. One thread. Time is passed in
// (microseconds of any clock that never goes back).
class Quotas {
  public:
    // Every admitted request is released exactly once. `key` is the name of a key, "" where there are none. Limits may change between
    // calls.
    [[nodiscard]] Admission admit(std::string_view key, const QuotaLimits& limits, int64_t now_us);
    void release(std::string_view key);
    // Tokens that an admitted or released request has used, in as many calls as is convenient.
    void charge_tokens(std::string_view key, const QuotaLimits& limits, int64_t tokens, int64_t now_us);

    [[nodiscard]] int64_t running(std::string_view key) const;
    [[nodiscard]] size_t bucket_count() const { return buckets_.size(); }

  private:
    // What is left, as of `updated_us`.
    struct Bucket {
        double requests = 0.0;
        double tokens = 0.0;
        int64_t updated_us = 0;
        int64_t running = 0;
        QuotaLimits limits{};
    };

    Bucket& bucket_of(std::string_view key, const QuotaLimits& limits, int64_t now_us);
    void drop_full_buckets(int64_t now_us);

    std::map<std::string, Bucket, std::less<>> buckets_;
};

}  // namespace di
