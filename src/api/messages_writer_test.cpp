#include "api/answer_harness.h"

namespace di {
namespace {

using Names = std::vector<std::string>;

Request messages_request() {
    Request request = test_request(Dialect::kMessages);
    request.request_id = "req_1";
    return request;
}

TEST(MessagesWriter, BlocksOpenAndCloseOneAfterTheOther) {
    AnswerRun run(messages_request(), test_head("msg_1", true));
    run.reasoning("I need").content("Let me.").call("f", {"{\"a\":", " 1}"}).end(AnswerEnd::kToolCalls);
    EXPECT_EQ(run.names(), (Names{"message_start", "content_block_start", "ping", "content_block_delta", "content_block_delta",
                                  "content_block_stop", "content_block_start", "content_block_delta", "content_block_stop",
                                  "content_block_start", "content_block_delta", "content_block_delta", "content_block_stop",
                                  "message_delta", "message_stop"}));
    const std::vector<JsonValue> data = run.data();
    EXPECT_EQ(at(data[0], "message.content"), "[]");
    EXPECT_EQ(at(data[0], "message.usage.input_tokens"), "6");
    EXPECT_EQ(at(data[0], "message.usage.output_tokens"), "0");
    EXPECT_EQ(at(data[4], "delta"), R"({"type": "signature_delta", "signature": "msg_1"})");
    EXPECT_EQ(at(data[9], "content_block"), R"({"type": "tool_use", "id": "call_00_ID", "name": "f", "input": {}})");
    EXPECT_EQ(at(data[9], "index"), "2");
    EXPECT_EQ(at(data[13], "delta"), R"({"stop_reason": "tool_use", "stop_sequence": null})");
    const JsonValue body = run.body();
    EXPECT_EQ(at(body, "content.0"), R"({"type": "thinking", "thinking": "I need", "signature": "msg_1"})");
    EXPECT_EQ(at(body, "content.2.input"), R"({"a": 1})");
    EXPECT_EQ(at(body, "usage"),
              R"({"input_tokens": 6, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 4, "output_tokens": 5, )"
              R"("output_tokens_details": {"thinking_tokens": 3}, "service_tier": "standard"})");
}

TEST(MessagesWriter, EveryEndHasItsReason) {
    const std::vector<std::pair<AnswerEnd, std::string>> reasons = {{AnswerEnd::kStop, "end_turn"},
                                                                    {AnswerEnd::kStopToken, "end_turn"},
                                                                    {AnswerEnd::kStopString, "stop_sequence"},
                                                                    {AnswerEnd::kToolCalls, "tool_use"},
                                                                    {AnswerEnd::kLength, "max_tokens"},
                                                                    {AnswerEnd::kContextFull, "model_context_window_exceeded"},
                                                                    {AnswerEnd::kContentFilter, "refusal"}};
    for (const auto& [end, reason] : reasons) {
        AnswerRun run(messages_request(), test_head("m"));
        run.content("a").end_choice({.choice = 0, .end = end, .stop_text = "END"}).finish();
        EXPECT_EQ(at(run.body(), "stop_reason"), "\"" + reason + "\"");
        EXPECT_EQ(at(run.body(), "stop_sequence"), end == AnswerEnd::kStopString ? "\"END\"" : "null");
    }
}

TEST(MessagesWriter, AnEmptyAnswerHasNoTextBlock) {
    AnswerRun run(messages_request(), test_head("m"));
    run.content("").end(AnswerEnd::kStop);
    EXPECT_EQ(run.names(), (Names{"message_start", "message_delta", "message_stop"}));
    EXPECT_EQ(at(run.body(), "content"), "[]");
}

TEST(MessagesWriter, ArgumentsThatWereCutAreAnEmptyObjectInTheBody) {
    AnswerRun run(messages_request(), test_head("m"));
    run.call("f", {"{\"a\": \"b"}, false).end(AnswerEnd::kLength);
    EXPECT_EQ(at(run.body(), "content.0.input"), "{}");
    EXPECT_EQ(at(run.data()[3], "delta.partial_json"), R"("{\"a\": \"b")");
    EXPECT_EQ(run.names()[4], "content_block_stop");
}

TEST(MessagesWriter, ReasoningThatIsLeftOutOpensNoBlock) {
    Request request = messages_request();
    request.includes_reasoning = false;
    AnswerRun run(request, test_head("m", true));
    run.reasoning("secret").content("a").end(AnswerEnd::kStop);
    EXPECT_EQ(at(run.body(), "content"), R"([{"type": "text", "text": "a"}])");
}

TEST(MessagesWriter, AFailureIsAnErrorEventWithoutAnEnd) {
    AnswerRun run(messages_request(), test_head("m"));
    run.content("a").fail({.kind = ApiErrorKind::kOverloaded, .message = "full"});
    EXPECT_EQ(run.names().back(), "error");
    EXPECT_EQ(json_text(run.data().back()),
              R"({"type": "error", "error": {"type": "overloaded_error", "message": "full"}, "request_id": "req_1"})");
    EXPECT_EQ(at(run.body(), "error.type"), "\"overloaded_error\"");
}

TEST(MessagesWriter, SilenceIsFilledWithAPing) {
    AnswerRun run(messages_request(), test_head("m"));
    EXPECT_EQ(run.writer().keep_alive(), "event: ping\ndata: {\"type\": \"ping\"}\n\n");
}

}  // namespace
}  // namespace di
