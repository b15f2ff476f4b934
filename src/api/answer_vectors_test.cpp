// The recorded answers of tests/data/chat/protocol_events.json: output of a model in, events and bodies out. Pieces may be cut
// differently; kinds, order, indices, ids and joined texts are the same.
#include <fstream>
#include <sstream>

#include "api/answer_harness.h"
#include "api/chat_request.h"
#include "api/messages_request.h"
#include "api/responses_request.h"
#include "text/answer_parser.h"
#include "text/chat_encoding.h"

namespace di {
namespace {

JsonValue recorded_answers() {
    std::ifstream file(std::string(DI_TEST_DATA) + "/chat/protocol_events.json");
    std::stringstream text;
    text << file.rdbuf();
    auto value = parse_json(text.str());
    EXPECT_TRUE(value.has_value()) << (value ? "" : value.error().text);
    return value ? *value : JsonValue::object();
}

Result<Request> parse_recorded(const JsonValue& recorded) {
    const std::string& endpoint = recorded.find("endpoint")->as_string();
    const JsonValue& body = *recorded.find("request");
    return endpoint == "/v1/responses"  ? parse_responses_request(body)
           : endpoint == "/v1/messages" ? parse_messages_request(body)
                                        : parse_chat_request(body);
}

// Members of ours that the recorded answer has otherwise on purpose, or lacks.
bool is_ours_alone(const std::string& key) {
    // Numbers depend on how text is cut; reasoning is counted by id; responses are kept unless a client says no.
    return key == "sequence_number" || key == "store" || key == "reasoning_tokens" || key == "encrypted_content";
}

// Everything that the recorded value says, ours says too.
void expect_says(const JsonValue& recorded, const JsonValue& ours, const std::string& path) {
    if (recorded.is_object() && ours.is_object()) {
        for (const JsonMember& member : recorded.as_object()) {
            if (is_ours_alone(member.key)) {
                continue;
            }
            const JsonValue* value = ours.find(member.key);
            ASSERT_NE(value, nullptr) << path << "." << member.key;
            expect_says(member.value, *value, path + "." + member.key);
        }
        return;
    }
    if (recorded.is_array() && ours.is_array()) {
        ASSERT_EQ(recorded.as_array().size(), ours.as_array().size()) << path << json_text(ours);
        for (size_t i = 0; i < recorded.as_array().size(); ++i) {
            expect_says(recorded.as_array()[i], ours.as_array()[i], fmt::format("{}[{}]", path, i));
        }
        return;
    }
    EXPECT_EQ(json_text(recorded), json_text(ours)) << path;
}

// The text of a piece, and where it stands: nullptr where the value is no piece of text.
JsonValue* piece_of(JsonValue& value, std::string_view key) {
    for (const JsonMember& member : value.as_object()) {
        if (member.key == key && !member.value.is_null()) {
            return const_cast<JsonValue*>(&member.value);
        }
    }
    return nullptr;
}

JsonValue* text_of(JsonValue& data) {
    JsonValue* found = &data;
    if (JsonValue* choices = piece_of(data, "choices"); choices != nullptr) {
        if (choices->as_array().empty() || at(*choices, "0.finish_reason") != "null" ||
            at(*choices, "0.delta.role") != "absent") {
            return nullptr;
        }
        found = piece_of(const_cast<JsonValue&>(choices->as_array()[0]), "delta");
        if (JsonValue* calls = piece_of(*found, "tool_calls"); calls != nullptr) {
            JsonValue& call = const_cast<JsonValue&>(calls->as_array()[0]);
            return call.find("id") != nullptr ? nullptr : piece_of(*piece_of(call, "function"), "arguments");
        }
        JsonValue* content = piece_of(*found, "content");
        return content != nullptr ? content : piece_of(*found, "reasoning_content");
    }
    JsonValue* delta = piece_of(data, "delta");
    if (delta == nullptr || delta->is_string()) {
        return delta;
    }
    for (const std::string_view key : {"thinking", "text", "partial_json"}) {
        if (JsonValue* text = piece_of(*delta, key); text != nullptr) {
            return text;
        }
    }
    return nullptr;
}

// Neighbouring pieces of one thing are joined.
std::vector<JsonValue> joined(std::vector<JsonValue> events) {
    std::vector<JsonValue> result;
    std::string last_place;
    for (JsonValue& event : events) {
        JsonValue* text = event.is_object() ? text_of(event) : nullptr;
        std::string place;
        if (text != nullptr) {
            JsonValue shape = event;
            *text_of(shape) = JsonValue::string("");
            if (shape.find("sequence_number") != nullptr) {
                shape.set("sequence_number", JsonValue());
            }
            place = json_text(shape);
        }
        if (!place.empty() && place == last_place) {
            JsonValue* whole = text_of(result.back());
            *whole = JsonValue::string(whole->as_string() + text->as_string());
        } else {
            result.push_back(std::move(event));
        }
        last_place = place;
    }
    return result;
}

// The recorded stream puts the usage on the last chunk; ours has a chunk of its own where usage is asked for.
std::vector<JsonValue> recorded_events(const JsonValue& recorded) {
    std::vector<JsonValue> events;
    for (const JsonValue& event : recorded.find("sse")->as_array()) {
        JsonValue data = *event.find("data");
        const JsonValue* usage = data.find("usage");
        if (data.find("choices") == nullptr || usage == nullptr || usage->is_null()) {
            events.push_back(std::move(data));
            continue;
        }
        JsonValue own = data;
        own.set("choices", JsonValue::array({}));
        data.set("usage", JsonValue());
        events.push_back(std::move(data));
        events.push_back(std::move(own));
    }
    return events;
}

AnswerEnd recorded_end(const JsonValue& recorded, const AnswerParser& parser) {
    const std::string& finish = recorded.find("engine_finish")->as_string();
    if (parser.matched_stop()) {
        return AnswerEnd::kStopString;
    }
    if (finish == "length") {
        return AnswerEnd::kLength;
    }
    if (finish == "content_filter") {
        return AnswerEnd::kContentFilter;
    }
    return parser.call_count() > 0 ? AnswerEnd::kToolCalls : AnswerEnd::kStop;
}

// What the parser made of a piece, as a piece of the answer.
AnswerDelta delta_of(const AnswerEvent& event) {
    static constexpr AnswerDelta::Kind kKinds[] = {AnswerDelta::Kind::kReasoning, AnswerDelta::Kind::kContent,
                                                   AnswerDelta::Kind::kCallBegin, AnswerDelta::Kind::kCallArguments,
                                                   AnswerDelta::Kind::kCallEnd};
    AnswerDelta delta;
    delta.kind = kKinds[static_cast<size_t>(event.kind)];
    delta.text = event.text;
    delta.call_index = event.call_index;
    if (event.kind == AnswerEvent::Kind::kCallBegin) {
        delta.call_id = fmt::format("call_{:02}_ID", event.call_index);
    }
    return delta;
}

void send_recorded(const JsonValue& recorded, const Request& request, AnswerRun& run) {
    const auto prompt = encode_prompt(*request.conversation, ChatDialect::kV41);
    ASSERT_TRUE(prompt.has_value());
    AnswerParserOptions options;
    options.start = prompt->answer_start;
    options.may_call_tools = prompt->may_call_tools;
    options.finds_markers_in_text = true;
    options.tools = request.conversation->tools;
    options.stop = request.sampling.stop;
    AnswerParser parser(options);
    std::vector<AnswerEvent> events;
    for (const JsonValue& chunk : recorded.find("output_chunks")->as_array()) {
        parser.push_text(chunk.as_string(), events);
    }
    if (!parser.is_over()) {
        parser.finish(recorded.find("engine_finish")->as_string() != "stop", events);
    }
    for (const AnswerEvent& event : events) {
        run.add(delta_of(event));
    }
    ChoiceEnd end{.choice = 0, .end = recorded_end(recorded, parser)};
    if (parser.matched_stop()) {
        end.stop_text = request.sampling.stop[*parser.matched_stop()];
    }
    run.end_choice(end);
}

TEST(AnswerVectors, EventsAndBodiesAreTheRecordedOnes) {
    const JsonValue fixture = recorded_answers();
    ASSERT_EQ(fixture.find("cases")->as_array().size(), 26U);
    for (const JsonValue& recorded : fixture.find("cases")->as_array()) {
        const std::string& id = recorded.find("id")->as_string();
        SCOPED_TRACE(id);
        const auto request = parse_recorded(recorded);
        ASSERT_TRUE(request.has_value()) << request.error().text;
        AnswerHead head = test_head("RID", request->conversation->is_thinking);
        head.model = request->model;
        head.created_s = 0;
        head.request_body = *recorded.find("request");
        AnswerRun run(*request, head);
        send_recorded(recorded, *request, run);
        AnswerUsage usage{.prompt_tokens = 10, .cached_tokens = 4};
        const JsonValue& full = *recorded.find("full_response");
        const JsonValue& counts = *full.find("usage");
        usage.completion_tokens =
            *(counts.find("completion_tokens") != nullptr ? counts.find("completion_tokens") : counts.find("output_tokens"))
                 ->as_int64();
        run.finish(usage);
        expect_says(full, run.body(), id);
        const std::vector<JsonValue> expected = joined(recorded_events(recorded));
        const std::vector<JsonValue> ours = joined(run.data());
        ASSERT_EQ(expected.size(), ours.size());
        for (size_t i = 0; i < expected.size(); ++i) {
            expect_says(expected[i], ours[i], fmt::format("event {}", i));
        }
        size_t number = 0;
        for (const StreamEvent& event : run.events()) {
            const JsonValue data = event_data(event);
            EXPECT_EQ(event.name, id.ends_with(".chat") ? "" : data.find("type")->as_string());
            if (id.ends_with(".responses")) {
                EXPECT_EQ(at(data, "sequence_number"), fmt::format("{}", number++));
            }
        }
    }
}

TEST(AnswerWriters, WithoutEventsTheBodyIsTheSame) {
    for (const Dialect dialect : {Dialect::kChat, Dialect::kCompletions, Dialect::kResponses, Dialect::kMessages}) {
        for (const bool is_failed : {false, true}) {
            const auto body_with = [&](bool has_events) {
                AnswerRun run(test_request(dialect), test_head("id", true), {.has_events = has_events});
                if (dialect != Dialect::kCompletions) {
                    run.reasoning("thought").content("said").call("f", {"{\"a\"", ":1}"});
                }
                run.content("more");
                if (is_failed) {
                    run.fail({.kind = ApiErrorKind::kInternal, .message = "broken"});
                } else {
                    run.end(AnswerEnd::kStop);
                }
                EXPECT_EQ(run.events().empty(), !has_events);
                return json_text(run.body());
            };
            EXPECT_EQ(body_with(true), body_with(false));
        }
    }
}

}  // namespace
}  // namespace di
