#include "server/api_keys.h"

#include <gtest/gtest.h>

namespace di {
namespace {

constexpr QuotaLimits kDefault{.requests_per_minute = 5, .tokens_per_minute = 6, .concurrent = 7};

std::string error_of(std::string_view text) {
    const auto keys = ApiKeys::parse(text, "keys", kDefault);
    return keys ? "" : keys.error().text;
}

TEST(ApiKeys, AreReadFromLines) {
    const ApiKeys keys = ApiKeys::parse(R"(
# clients
{"name": "alice", "key": "sk-alice-1", "requests_per_minute": 60, "tokens_per_minute": 0, "concurrent": 4}

  {"name": "ops", "key": "sk-ops-123", "admin": true, "allowed_tools": ["get_*"], "priority": -10, "deadline_s": 1.5}
)",
                                        "keys", kDefault)
                             .value();
    ASSERT_EQ(keys.keys().size(), 2U);
    const ApiKey* alice = keys.find("sk-alice-1");
    ASSERT_NE(alice, nullptr);
    EXPECT_EQ(alice->name, "alice");
    EXPECT_FALSE(alice->is_admin);
    EXPECT_EQ(alice->quota, (QuotaLimits{.requests_per_minute = 60, .tokens_per_minute = 0, .concurrent = 4}));
    EXPECT_FALSE(alice->allowed_tools.has_value());
    const ApiKey* ops = keys.find("sk-ops-123");
    ASSERT_NE(ops, nullptr);
    EXPECT_TRUE(ops->is_admin);
    EXPECT_EQ(ops->quota, kDefault);
    EXPECT_EQ(ops->allowed_tools, std::vector<std::string>{"get_*"});
    EXPECT_EQ(ops->priority, -10);
    EXPECT_EQ(ops->deadline_s, 1.5);
}

TEST(ApiKeys, AreReadFromAnArrayAndByDigest) {
    const ApiKeys keys = ApiKeys::parse(R"([
        {"name": "a", "key_sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "allowed_tools": []},
        {"name": "b", "key": "not-test"}])",
                                        "keys", {})
                             .value();
    ASSERT_NE(keys.find("test"), nullptr);
    EXPECT_EQ(keys.find("test")->name, "a");
    EXPECT_TRUE(keys.find("test")->allowed_tools.has_value()) << "an empty list allows nothing";
    EXPECT_EQ(keys.find("not-test")->name, "b");
}

TEST(ApiKeys, OnlyTheWholeKeyIsFound) {
    const ApiKeys keys = ApiKeys::parse(R"({"name": "a", "key": "sk-12345678"})", "keys", {}).value();
    for (const char* presented : {"", "sk-1234567", "sk-123456789", "SK-12345678", "sk-12345678 ", "a"}) {
        EXPECT_EQ(keys.find(presented), nullptr) << presented;
    }
}

TEST(ApiKeys, ErrorsNamePlaceAndFieldAndNeverTheKey) {
    EXPECT_EQ(error_of(""), "keys: 0 keys, expected 1 to 100000");
    EXPECT_EQ(error_of("[]"), "keys: 0 keys, expected 1 to 100000");
    EXPECT_EQ(error_of("\n\n{\"name\": \"a\"}"), "keys: line 3: neither key nor key_sha256, expected one of them");
    EXPECT_EQ(error_of(R"([{"name": "a", "key": "secret-7"}, 5])"), "keys: entry 2: a number, expected a JSON object");
    EXPECT_TRUE(error_of("# x\n{").starts_with("keys: line 2: "));
    const std::pair<const char*, const char*> cases[] = {
        {R"({"key": "secret-7"})", "name"},
        {R"({"name": "", "key": "secret-7"})", "name"},
        {R"({"name": "a b", "key": "secret-7"})", "name"},
        {R"({"name": 5, "key": "secret-7"})", "name"},
        {R"({"name": "a", "key": "secret"})", "key: expected a string of 8 to 512 printable"},
        {R"({"name": "a", "key": "secret 789"})", "key: expected a string of 8 to 512 printable"},
        {R"({"name": "a", "key": "secret-\u00e9-secret"})", "key: expected"},
        {R"({"name": "a", "key": 12345678})", "key: expected"},
        {R"({"name": "a", "key_sha256": "secret"})", "key_sha256: expected a string of 64 hexadecimal digits"},
        {R"({"name": "a", "key": "secret-7", "key_sha256": "secret"})", "both key and key_sha256"},
        {R"({"name": "a", "key": "secret-7", "admin": "yes"})", "admin"},
        {R"({"name": "a", "key": "secret-7", "requests_per_minute": -1})", "requests_per_minute"},
        {R"({"name": "a", "key": "secret-7", "tokens_per_minute": 1.5})", "tokens_per_minute"},
        {R"({"name": "a", "key": "secret-7", "concurrent": "4"})", "concurrent"},
        {R"({"name": "a", "key": "secret-7", "allowed_tools": "x"})", "allowed_tools"},
        {R"({"name": "a", "key": "secret-7", "allowed_tools": null})", "allowed_tools: null, expected a value"},
        {R"({"name": "a", "key": "secret-7")", "not JSON"},
        {R"("secret-7")", "a string, expected a JSON object"},
        {R"({"name": "a", "key": "secret-7", "allowed_tools": [""]})", "allowed_tools[0]"},
        {R"({"name": "a", "key": "secret-7", "priority": 1e3})", "priority"},
        {R"({"name": "a", "key": "secret-7", "deadline_s": 0})", "deadline_s"},
        {R"({"name": "a", "key": "secret-7", "request_per_minute": 5})", "unknown field \"request_per_minute\""},
    };
    for (const auto& [text, expected] : cases) {
        const std::string error = error_of(text);
        EXPECT_TRUE(error.starts_with("keys: line 1: ")) << error;
        EXPECT_NE(error.find(expected), std::string::npos) << text << "\n" << error;
        EXPECT_EQ(error.find("secret"), std::string::npos) << error;
    }
}

TEST(ApiKeys, NamesAndKeysStandOnce) {
    EXPECT_EQ(error_of("{\"name\": \"a\", \"key\": \"secret-1\"}\n{\"name\": \"a\", \"key\": \"secret-2\"}"),
              "keys: line 2: name: \"a\" stands twice, expected a name of its own (first: keys: line 1)");
    EXPECT_EQ(error_of("{\"name\": \"a\", \"key\": \"secret-1\"}\n{\"name\": \"b\", \"key\": \"secret-1\"}"),
              "keys: line 2: key: stands twice, expected a key of its own (first: keys: line 1)");
}

TEST(ApiKeys, AFileThatIsNotThereIsNamed) {
    const auto keys = ApiKeys::open("no-such-file", {});
    ASSERT_FALSE(keys.has_value());
    EXPECT_NE(keys.error().text.find("no-such-file"), std::string::npos);
}

TEST(PresentedKey, ComesFromEitherHeader) {
    EXPECT_EQ(presented_key("Bearer abc", ""), "abc");
    EXPECT_EQ(presented_key("bearer  abc", ""), "abc");
    EXPECT_EQ(presented_key("", "abc"), "abc");
    EXPECT_EQ(presented_key("Bearer x", "abc"), "abc");
    for (const char* wrong : {"", "Bearer", "Bearer ", "Basic abc", "abc", "Bearerabc"}) {
        EXPECT_EQ(presented_key(wrong, ""), "") << wrong;
    }
}

}  // namespace
}  // namespace di
