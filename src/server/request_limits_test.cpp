#include "server/request_limits.h"

#include <gtest/gtest.h>

namespace di {
namespace {

Request chat_request() {
    Request request;
    request.conversation = user_conversation("hello");
    return request;
}

std::string error_of(const RequestLimits& limits, Request request) {
    const Status status = apply_request_limits(limits, request);
    return status ? "" : status.error().text;
}

TEST(RequestLimits, WhatTheParsersAcceptIsAcceptedByDefault) {
    Request request = chat_request();
    request.sampling.choice_count = kChoicesMax;
    request.sampling.top_logprob_count = kTopLogprobsMax;
    request.sampling.output_tokens_max = kOutputTokensMax;
    request.sampling.stop.assign(kStopStringsMax, std::string(kStopStringBytesMax, 'x'));
    EXPECT_EQ(error_of({}, request), "");
    EXPECT_EQ(error_of({}, Request{}), "");
}

TEST(RequestLimits, EachNamesItsField) {
    Request request = chat_request();
    request.sampling.choice_count = 3;
    EXPECT_EQ(error_of({.choices_max = 2}, request), "n: 3 choices, expected at most 2");
    request = chat_request();
    request.sampling.top_logprob_count = 6;
    EXPECT_EQ(error_of({.top_logprobs_max = 5}, request), "top_logprobs: 6 alternatives, expected at most 5");
    request.dialect = Dialect::kCompletions;
    EXPECT_EQ(error_of({.top_logprobs_max = 5}, request), "logprobs: 6 alternatives, expected at most 5");
    request = chat_request();
    request.sampling.stop = {"abc", "d"};
    EXPECT_EQ(error_of({.stop_strings_max = 1}, request), "stop: 2 strings, expected at most 1");
    EXPECT_EQ(error_of({.stop_string_bytes_max = 2}, request), "stop: 3 bytes in one string, expected at most 2");
    request.dialect = Dialect::kMessages;
    EXPECT_EQ(error_of({.stop_strings_max = 1}, request), "stop_sequences: 2 strings, expected at most 1");
}

TEST(RequestLimits, CountsWhatAConversationHolds) {
    Request request = chat_request();
    request.conversation->messages.resize(3);
    EXPECT_EQ(error_of({.messages_max = 2}, request), "messages: 3 messages, expected at most 2");
    request.dialect = Dialect::kResponses;
    EXPECT_EQ(error_of({.messages_max = 2}, request), "input: 3 messages, expected at most 2");
    request = chat_request();
    ContentPart image;
    image.kind = ContentPart::Kind::kImage;
    image.path = "messages[0].content[1]";
    request.conversation->messages[0].parts.push_back(image);
    EXPECT_EQ(error_of({.images_max = 1}, request), "");
    EXPECT_EQ(error_of({.images_max = 0}, request), "messages[0].content[1]: more than 0 images in the request");
    Tool tool;
    tool.parameters.set("type", JsonValue::string("object"));
    request.conversation->tools = {tool, tool};
    EXPECT_EQ(error_of({.tools_max = 1}, request), "tools: 2 tools, expected at most 1");
    EXPECT_EQ(error_of({.tool_schema_bytes_max = 35}, request), "tools: 36 bytes of schemas, expected at most 35");
    EXPECT_EQ(error_of({.tool_schema_bytes_max = 36}, request), "");
}

TEST(RequestLimits, MessagesLowersWhatTheOthersRefuse) {
    Request request = chat_request();
    request.sampling.output_tokens_max = 50;
    EXPECT_EQ(error_of({.output_tokens_max = 40}, request), "max_tokens: 50 tokens, expected at most 40");
    request.dialect = Dialect::kResponses;
    EXPECT_EQ(error_of({.output_tokens_max = 40}, request), "max_output_tokens: 50 tokens, expected at most 40");
    request.dialect = Dialect::kMessages;
    ASSERT_TRUE(apply_request_limits({.output_tokens_max = 40}, request).has_value());
    EXPECT_EQ(request.sampling.output_tokens_max, 40);
}

}  // namespace
}  // namespace di
