#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace di {

struct ResponseStoreOptions {
    bool is_on = true;
    std::string path{};  // a file that survives restarts; "": in memory
    int64_t entries_max = 10'000;
    int64_t bytes_max = int64_t{1} << 30;
    int64_t lifetime_s = 24 * 3600;
};

// A response of the Responses API, kept so that it can be asked for and continued.
struct StoredResponse {
    std::string id;                   // "resp_..."
    std::string owner;                // name of the key that made it; "" where there are no keys
    int64_t created_s = 0;            // since 1970
    std::string parent_id{};          // previous_response_id; "": none
    std::string input_items = "[]";   // JSON: of this request alone, without those of its chain
    std::string output_items = "[]";  // JSON
    std::string body{};               // JSON: the response object
    bool is_complete = true;          // false: a background response that still runs
};

struct ResponseStoreCounts {
    int64_t entries = 0;
    int64_t bytes = 0;
    int64_t evicted = 0;  // to make room, since the store was opened
};

// Bounded: when it is full, what was not used for longest goes. A response belongs to its owner; for any other it does not exist.
// What put() has reported as kept is there after the process was killed at any moment, if the store has a file. Any thread;
// calls wait for each other and for the file. Time is passed in, in seconds since 1970.
class ResponseStore {
  public:
    // kInvalidFile, kNotFound or kUnavailable (another process has it) name the file.
    [[nodiscard]] static Result<std::unique_ptr<ResponseStore>> open(const ResponseStoreOptions& options, int64_t now_s);
    ~ResponseStore();
    ResponseStore(const ResponseStore&) = delete;
    ResponseStore& operator=(const ResponseStore&) = delete;

    // Keeps a response, in place of the one of that id and owner, whose events stay. An id of another owner, and a response that is
    // larger than the whole store, are errors (kInvalidArgument). It lives for lifetime_s from its creation.
    [[nodiscard]] Status put(const StoredResponse& response, int64_t now_s);
    // Nothing: unknown, expired, evicted, or of another owner.
    [[nodiscard]] Result<std::optional<StoredResponse>> get(std::string_view id, std::string_view owner, int64_t now_s);
    // Whether it was there.
    [[nodiscard]] Result<bool> erase(std::string_view id, std::string_view owner, int64_t now_s);

    // A response and all before it, oldest first. kNotFound if one of them is not there, kInvalidArgument beyond the limits of
    // limits.h.
    [[nodiscard]] Result<std::vector<StoredResponse>> chain(std::string_view id, std::string_view owner, int64_t now_s);

    // Events of a background response, in the order of their sequence numbers from 0. kNotFound if the response is not there.
    [[nodiscard]] Status append_events(std::string_view id, std::string_view owner, std::span<const std::string> events,
                                       int64_t now_s);
    // Those from number `first` on, at most `count_max`.
    [[nodiscard]] Result<std::vector<std::string>> events(std::string_view id, std::string_view owner, int64_t first,
                                                          int64_t count_max, int64_t now_s);

    // Responses that an earlier process began and did not end, oldest use first. Whoever opens the store asks before the first put(),
    // and ends them.
    [[nodiscard]] Result<std::vector<StoredResponse>> unfinished();

    [[nodiscard]] ResponseStoreCounts counts() const;

  private:
    class Database;
    ResponseStore(const ResponseStoreOptions& options, std::unique_ptr<Database> database);

    ResponseStoreOptions options_;
    mutable std::mutex mutex_;  // guards database_, which serves one thread at a time
    std::unique_ptr<Database> database_;
};

}  // namespace di
