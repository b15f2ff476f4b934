// Bodies that no dialect takes: each is an error of the client, told in valid JSON, and the process lives on.
#include <gtest/gtest.h>

#include "api/api_error.h"
#include "api/chat_request.h"
#include "api/completions_request.h"
#include "api/json_reader.h"
#include "api/messages_request.h"
#include "api/responses_request.h"
#include "api/sampling_fields.h"

namespace di {
namespace {

Result<Request> parse(Dialect dialect, std::string_view body) {
    switch (dialect) {
        case Dialect::kChat: return parse_chat_request(body);
        case Dialect::kCompletions: return parse_completions_request(body);
        case Dialect::kResponses: return parse_responses_request(body);
        case Dialect::kMessages: return parse_messages_request(body);
    }
    return parse_chat_request(body);
}

constexpr Dialect kDialects[] = {Dialect::kChat, Dialect::kCompletions, Dialect::kResponses, Dialect::kMessages};

// A body of the dialect that is right, with more members.
std::string body_with(Dialect dialect, std::string_view more) {
    switch (dialect) {
        case Dialect::kCompletions: return fmt::format(R"({{"prompt": "q", {}}})", more);
        case Dialect::kResponses: return fmt::format(R"({{"input": "q", {}}})", more);
        case Dialect::kChat:
        case Dialect::kMessages: break;
    }
    return fmt::format(R"({{"messages": [{{"role": "user", "content": "q"}}], {}}})", more);
}

void expect_client_error(Dialect dialect, std::string_view body) {
    const auto request = parse(dialect, body);
    ASSERT_FALSE(request.has_value()) << body;
    const ApiError error = api_error_of(request.error());
    EXPECT_EQ(http_status(error.kind, dialect), 400) << body;
    const auto told = parse_json(error_body(error, dialect, "req_1"));
    ASSERT_TRUE(told.has_value()) << body;
    EXPECT_TRUE(told->find("error")->find("message")->is_string());
}

TEST(RequestBodies, WhatIsNoObjectIsRefused) {  // B10
    const std::string deep(200'000, '[');
    for (const Dialect dialect : kDialects) {
        for (const std::string_view body :
             {"[]", "5", "\"x\"", "{:", "", "null", "{}", "{\"a\": NaN}", "{} {}", "{\"a\": 1e999}"}) {
            expect_client_error(dialect, body);
        }
        expect_client_error(dialect, deep);
        expect_client_error(dialect, body_with(dialect, R"("structured_outputs": "x")"));
        expect_client_error(dialect, std::string_view("{\"a\0\": 1}", 8));
    }
}

TEST(RequestBodies, WhatIsNoUnicodeIsRefused) {  // B10, B11
    for (const Dialect dialect : kDialects) {
        for (const std::string_view value : {"\"\\ud800\"", "\"\\udc00 \\ud800\"", "\"\xc4\xe3\xba\xc3\"", "\"\xff\"",
                                             "\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\"cut\xe4\xb8\""}) {
            expect_client_error(dialect, body_with(dialect, fmt::format("\"model\": {}", value)));
        }
    }
}

TEST(RequestBodies, TextOfTheClientInAnErrorIsStillJson) {  // B11
    expect_client_error(Dialect::kChat, R"({"messages": [{"role": "\"\n\u0000<b>\ud83d\ude00", "content": "q"}]})");
    std::string longer = R"({"messages": [{"role": ")";
    for (int i = 0; i < 1000; ++i) {
        longer += "\xf0\x9f\x98\x80";
    }
    expect_client_error(Dialect::kChat, longer + R"(", "content": "q"}]})");
}

TEST(RequestBodies, LengthsAreWholeNumbersOfAtLeastOne) {  // B13
    for (const Dialect dialect : kDialects) {
        const std::string_view key = dialect == Dialect::kResponses ? "max_output_tokens" : "max_tokens";
        const auto with = [&](std::string_view value) { return body_with(dialect, fmt::format("\"{}\": {}", key, value)); };
        EXPECT_EQ(parse(dialect, with("1"))->sampling.output_tokens_max, 1);
        EXPECT_FALSE(parse(dialect, with("null"))->sampling.output_tokens_max.has_value());
        for (const std::string_view value : {"0", "-1", "1.5", "\"5\"", "true", "[]", "1e3"}) {
            expect_client_error(dialect, with(value));
        }
        for (const std::string_view value : {"2147483648", "393217"}) {
            if (dialect == Dialect::kMessages) {
                EXPECT_EQ(parse(dialect, with(value))->sampling.output_tokens_max, 393'216);
            } else {
                expect_client_error(dialect, with(value));
            }
        }
        expect_client_error(dialect, with("99999999999999999999"));
    }
    const std::string both = body_with(Dialect::kChat, R"("max_tokens": 5, "max_completion_tokens": 7)");
    EXPECT_EQ(parse(Dialect::kChat, both)->sampling.output_tokens_max, 7);
}

TEST(RequestBodies, BiasAndTokenListsNameTokens) {  // B14; ids beyond the vocabulary: check_token_ids()
    for (const Dialect dialect : {Dialect::kChat, Dialect::kCompletions}) {
        for (const std::string_view more :
             {R"("logit_bias": {"-1": 1})", R"("logit_bias": {"abc": 1})", R"("logit_bias": {"1": 1000000000})",
              R"("logit_bias": {"1": NaN})", R"("logit_bias": {"1": "x"})", R"("logit_bias": {"4294967297": 1})",
              R"("logit_bias": [1])", R"("allowed_token_ids": [-1])", R"("stop_token_ids": [2147483648])",
              R"("stop_token_ids": ["1"])"}) {
            expect_client_error(dialect, body_with(dialect, more));
        }
        const auto request = parse(dialect, body_with(dialect, R"("logit_bias": {"191222": 1}, "stop_token_ids": [10])"));
        ASSERT_TRUE(request.has_value()) << request.error().text;
        EXPECT_FALSE(check_token_ids(request->sampling, 191'222).has_value());
        EXPECT_TRUE(check_token_ids(request->sampling, 191'223).has_value());
        EXPECT_FALSE(check_token_ids(request->sampling, 10).has_value());
    }
}

TEST(RequestBodies, AFaultIsAskedForInWholeNumbers) {
    for (const Dialect dialect : kDialects) {
        EXPECT_FALSE(parse(dialect, body_with(dialect, "\"model\": \"m\""))->fault.has_value());
        const auto request = parse(dialect, body_with(dialect, R"("fault": {"nan_logits_at": 3})"));
        ASSERT_TRUE(request.has_value()) << request.error().text;
        ASSERT_TRUE(request->fault.has_value());
        EXPECT_EQ(request->fault->nan_logits_at, 3);
        expect_client_error(dialect, body_with(dialect, R"("fault": {"slow_prefill_ms": -1})"));
        expect_client_error(dialect, body_with(dialect, R"("fault": 5)"));
    }
}

}  // namespace
}  // namespace di
