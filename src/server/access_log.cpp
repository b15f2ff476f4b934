#include "server/access_log.h"

#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <unistd.h>

#include "base/json_string.h"
#include "base/log.h"

namespace di {
namespace {

// Enough to find a request by; no client makes the log grow faster than that.
constexpr size_t kClientTextBytesMax = 256;

class LineWriter {
  public:
    void text(std::string_view key, std::string_view value) {
        begin(key);
        append_json_string(line_, value.substr(0, kClientTextBytesMax));
    }
    void number(std::string_view key, int64_t value) {
        begin(key);
        line_ += std::to_string(value);
    }
    void milliseconds(std::string_view key, double value) {
        begin(key);
        line_ += fmt::format("{:.3f}", value);
    }
    void boolean(std::string_view key, bool value) {
        begin(key);
        line_ += value ? "true" : "false";
    }
    [[nodiscard]] std::string end() && { return std::move(line_) + "}\n"; }

  private:
    void begin(std::string_view key) {
        line_ += line_.empty() ? '{' : ',';
        append_json_string(line_, key);
        line_ += ':';
    }

    std::string line_;
};

// "2026-01-31T12:00:00.123Z"
std::string utc_text(int64_t time_us) {
    const std::time_t seconds = static_cast<std::time_t>(time_us / 1'000'000);
    std::tm parts{};
    ::gmtime_r(&seconds, &parts);
    return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                       parts.tm_hour, parts.tm_min, parts.tm_sec, time_us / 1000 % 1000);
}

Result<int> open_file(const std::string& path) {
    if (path == "-") {
        return STDOUT_FILENO;
    }
    const int file = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
    if (file < 0) {
        return fail(ErrorCode::kInvalidFile, "access-log {}: {}, expected a file that can be written", path,
                    std::strerror(errno));
    }
    return file;
}

void close_file(int file) {
    if (file != STDOUT_FILENO) {
        ::close(file);
    }
}

// 0, or what is wrong.
int write_all(int file, std::string_view line) {
    while (!line.empty()) {
        const ssize_t written = ::write(file, line.data(), line.size());
        if (written < 0 && errno != EINTR) {
            return errno;
        }
        line.remove_prefix(written < 0 ? 0 : static_cast<size_t>(written));
    }
    return 0;
}

}  // namespace

std::string access_line(const AccessRecord& record) {
    LineWriter line;
    line.text("time", utc_text(record.time_us));
    line.text("request_id", record.request_id);
    line.text("key", record.key_name);
    line.text("remote", record.remote_address);
    line.text("method", record.method);
    line.text("route", record.route);
    line.number("status", record.status);
    line.text("finish", record.finish);
    line.text("error", record.error);
    line.text("model", record.model);
    line.boolean("streamed", record.is_streamed);
    line.number("prompt_tokens", record.prompt_tokens);
    line.number("cached_tokens", record.cached_tokens);
    line.number("completion_tokens", record.completion_tokens);
    line.number("reasoning_tokens", record.reasoning_tokens);
    line.milliseconds("queue_ms", record.queue_ms);
    line.milliseconds("first_token_ms", record.first_token_ms);
    line.milliseconds("total_ms", record.total_ms);
    line.text("trace_id", record.trace_id);
    return std::move(line).end();
}

Result<std::unique_ptr<AccessLog>> AccessLog::open(const std::string& path) {
    DI_TRY(const int file, open_file(path));
    return std::unique_ptr<AccessLog>(new AccessLog(path, file));
}

AccessLog::~AccessLog() { close_file(file_); }

void AccessLog::write(const AccessRecord& record) {
    const std::string line = access_line(record);
    const std::lock_guard lock(mutex_);
    const int error = write_all(file_, line);
    lost_count_ += error != 0 ? 1 : 0;
    if (error != 0 && !is_losing_) {
        log_warning("access-log {}: {}; lines are lost until it can be written again", path_, std::strerror(error));
    }
    is_losing_ = error != 0;
}

Status AccessLog::reopen() {
    DI_TRY(const int file, open_file(path_));
    const std::lock_guard lock(mutex_);
    close_file(file_);
    file_ = file;
    return {};
}

int64_t AccessLog::lost_count() const {
    const std::lock_guard lock(mutex_);
    return lost_count_;
}

}  // namespace di
