#include "server/access_log.h"

#include <filesystem>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/file_io.h"
#include "base/log.h"
#include "temporary_directory.h"
#include "text/json_text.h"

namespace di {
namespace {

std::vector<std::string> lines_of(const std::string& path) {
    const std::string text = read_file(path, 1 << 24).value();
    std::vector<std::string> lines;
    size_t begin = 0;
    for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
        lines.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    EXPECT_EQ(begin, text.size()) << "the last line has no end";
    return lines;
}

TEST(AccessLine, SaysWhatHappenedAndWhen) {
    const AccessRecord record{.time_us = 1'769'860'800'123'456,
                              .request_id = "req-1",
                              .key_name = "alice",
                              .remote_address = "10.0.0.7",
                              .method = "POST",
                              .route = "/v1/chat/completions",
                              .status = 200,
                              .finish = "stop",
                              .model = "v41-mini",
                              .is_streamed = true,
                              .prompt_tokens = 812,
                              .cached_tokens = 768,
                              .completion_tokens = 97,
                              .reasoning_tokens = 40,
                              .queue_ms = 0.4,
                              .first_token_ms = 61.2,
                              .total_ms = 1480.7,
                              .trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"};
    EXPECT_EQ(access_line(record),
              R"({"time":"2026-01-31T12:00:00.123Z","request_id":"req-1","key":"alice","remote":"10.0.0.7","method":"POST",)"
              R"("route":"/v1/chat/completions","status":200,"finish":"stop","error":"","model":"v41-mini","streamed":true,)"
              R"("prompt_tokens":812,"cached_tokens":768,"completion_tokens":97,"reasoning_tokens":40,"queue_ms":0.400,)"
              R"("first_token_ms":61.200,"total_ms":1480.700,"trace_id":"4bf92f3577b34da6a3ce929d0e0e4736"})"
              "\n");
}

TEST(AccessLine, IsOneLineOfJsonWhateverClientsWrite) {
    AccessRecord record;
    record.request_id = "a\"\n{\"";
    record.route = "/" + std::string(100'000, 'x');
    record.model = "\xff\xfe";
    const std::string line = access_line(record);
    EXPECT_EQ(line.find('\n'), line.size() - 1);
    EXPECT_LT(line.size(), 2000U);
    const JsonValue value = parse_json(std::string_view(line).substr(0, line.size() - 1)).value();
    EXPECT_EQ(value.find("request_id")->as_string(), record.request_id);
    EXPECT_EQ(value.find("route")->as_string().size(), 256U);
}

TEST(AccessLog, AppendsWholeLinesFromManyThreads) {
    const TemporaryDirectory directory;
    const std::string path = directory.write("access.log", "an earlier line\n");
    {
        const auto log = AccessLog::open(path).value();
        std::vector<std::thread> threads;
        for (int t = 0; t < 4; ++t) {
            threads.emplace_back([&] {
                for (int i = 0; i < 100; ++i) {
                    log->write({.request_id = "r"});
                }
            });
        }
        for (std::thread& thread : threads) {
            thread.join();
        }
        EXPECT_EQ(log->lost_count(), 0);
    }
    const std::vector<std::string> lines = lines_of(path);
    ASSERT_EQ(lines.size(), 401U);
    EXPECT_EQ(lines[0], "an earlier line");
    for (size_t i = 1; i < lines.size(); ++i) {
        EXPECT_TRUE(parse_json(lines[i]).has_value()) << lines[i];
    }
}

TEST(AccessLog, AFileThatWasMovedAwayIsMadeAgain) {
    const TemporaryDirectory directory;
    const std::string path = directory.file("access.log");
    const auto log = AccessLog::open(path).value();
    log->write({.request_id = "1"});
    std::filesystem::rename(path, path + ".1");
    log->write({.request_id = "2"});
    ASSERT_TRUE(log->reopen().has_value());
    log->write({.request_id = "3"});
    EXPECT_EQ(lines_of(path + ".1").size(), 2U);
    EXPECT_EQ(lines_of(path).size(), 1U);
    std::filesystem::remove(path);
    std::filesystem::create_directory(path);
    EXPECT_FALSE(log->reopen().has_value());
    log->write({.request_id = "4"});  // into the file that is open, though it has no name any more
    EXPECT_EQ(log->lost_count(), 0);
}

TEST(AccessLog, LostLinesAreCountedAndSaidOnce) {
    const auto log = AccessLog::open("/dev/full").value();
    testing::internal::CaptureStderr();
    log->write({.request_id = "1"});
    log->write({.request_id = "2"});
    const std::string text = testing::internal::GetCapturedStderr();
    EXPECT_EQ(log->lost_count(), 2);
    EXPECT_NE(text.find("/dev/full"), std::string::npos);
    EXPECT_EQ(text.find("lines are lost"), text.rfind("lines are lost"));
}

TEST(AccessLog, AFileThatCannotBeWrittenIsNamed) {
    const auto log = AccessLog::open("no/such/folder/access.log");
    ASSERT_FALSE(log.has_value());
    EXPECT_TRUE(log.error().text.starts_with("access-log no/such/folder/access.log: ")) << log.error().text;
}

}  // namespace
}  // namespace di
