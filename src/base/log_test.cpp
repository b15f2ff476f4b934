#include "base/log.h"

#include <string>

#include <gtest/gtest.h>

namespace di {
namespace {

TEST(Log, LevelsDropWhatIsBelowThem) {
    ASSERT_TRUE(set_log_level("warning"));
    EXPECT_FALSE(is_logged(LogLevel::kInfo));
    EXPECT_TRUE(is_logged(LogLevel::kWarning));
    testing::internal::CaptureStderr();
    log_info("hidden {}", 1);
    log_error("shown {{}} {}", 2);
    const std::string text = testing::internal::GetCapturedStderr();
    EXPECT_EQ(text.find("hidden"), std::string::npos);
    EXPECT_NE(text.find("shown {} 2"), std::string::npos);
    ASSERT_TRUE(set_log_level("info"));
}

TEST(Log, LinesOfJsonHoldWhateverIsWritten) {
    set_log_json(true);
    testing::internal::CaptureStderr();
    log_warning("a \"b\" {}", "%v\n\xff");
    const std::string text = testing::internal::GetCapturedStderr();
    set_log_json(false);
    EXPECT_TRUE(text.starts_with("{\"time\":\"20")) << text;
    EXPECT_TRUE(text.ends_with("Z\",\"level\":\"warning\",\"message\":\"a \\\"b\\\" %v\\u000a\xEF\xBF\xBD\"}\n")) << text;
}

TEST(Log, UnknownLevelIsNamed) {
    const Status status = set_log_level("loud");
    ASSERT_FALSE(status);
    EXPECT_NE(status.error().text.find("'loud'"), std::string::npos);
    EXPECT_NE(status.error().text.find("debug, info, warning or error"), std::string::npos);
}

}  // namespace
}  // namespace di
