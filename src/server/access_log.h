#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/result.h"

namespace di {

// One request that has ended, without a word of what it said.
struct AccessRecord {
    int64_t time_us = 0;  // of its end, since 1970
    std::string request_id;
    std::string key_name{};  // "" where there are no keys
    std::string remote_address{};
    std::string method{};
    std::string route{};   // "/v1/responses/{id}"; of an unknown path the path, cut
    int status = 0;        // 0: the client left before there was one
    std::string finish{};  // "stop", "length", "cancelled", ...; "" where nothing was generated
    std::string error{};   // code of the error that the client was told
    std::string model{};
    bool is_streamed = false;
    int64_t prompt_tokens = 0;
    int64_t cached_tokens = 0;
    int64_t completion_tokens = 0;
    int64_t reasoning_tokens = 0;
    double queue_ms = 0.0;
    double first_token_ms = 0.0;
    double total_ms = 0.0;
    std::string trace_id{};  // "" where it is not traced
};

// A JSON object on one line, with its line feed. What clients wrote themselves (request id, path, model) is cut.
[[nodiscard]] std::string access_line(const AccessRecord& record);

// Appends lines to a file or standard output. Any thread.
class AccessLog {
  public:
    // "-": standard output. The error names the file.
    [[nodiscard]] static Result<std::unique_ptr<AccessLog>> open(const std::string& path);
    ~AccessLog();
    AccessLog(const AccessLog&) = delete;
    AccessLog& operator=(const AccessLog&) = delete;

    // A whole line or nothing, in one write. A line that cannot be written is counted, and the first of a row of them is a warning in
    // the log.
    void write(const AccessRecord& record);
    // Opens the file again, after it was moved away. On an error the old one stays.
    [[nodiscard]] Status reopen();
    [[nodiscard]] int64_t lost_count() const;

  private:
    AccessLog(std::string path, int file) : path_(std::move(path)), file_(file) {}

    const std::string path_;
    mutable std::mutex mutex_;  // guards what follows
    int file_;
    int64_t lost_count_ = 0;
    bool is_losing_ = false;
};

}  // namespace di
