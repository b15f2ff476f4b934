#include "api/known_fields.h"

#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "api/json_reader.h"

namespace di {
namespace {

JsonValue fixture_cases(const std::string& name) {
    std::ifstream file(std::string(DI_TEST_DATA) + "/chat/" + name);
    std::stringstream text;
    text << file.rdbuf();
    const auto value = parse_json(text.str());
    EXPECT_TRUE(value.has_value()) << name;
    return value ? *value->find("cases") : JsonValue::array({});
}

Dialect dialect_of(const JsonValue& recorded) {
    const std::string& endpoint = recorded.find("endpoint")->as_string();
    return endpoint == "/v1/responses" ? Dialect::kResponses : endpoint == "/v1/messages" ? Dialect::kMessages : Dialect::kChat;
}

TEST(KnownFields, EveryRecordedRequestHasOnlyThose) {
    const JsonValue prompts = fixture_cases("encoding_v41.json");
    for (const JsonValue& recorded : prompts.as_array()) {
        const auto status = check_known_fields(*recorded.find("request"), Dialect::kChat);
        EXPECT_TRUE(status.has_value()) << status.error().text;
    }
    const JsonValue answers = fixture_cases("protocol_events.json");
    for (const JsonValue& recorded : answers.as_array()) {
        const auto status = check_known_fields(*recorded.find("request"), dialect_of(recorded));
        EXPECT_TRUE(status.has_value()) << status.error().text;
    }
}

TEST(KnownFields, OthersAreErrorsThatNameThem) {
    const auto refused = [](std::string_view body, Dialect dialect) {
        const auto status = check_known_fields(*parse_json(body), dialect);
        return status ? std::string() : std::string(parameter_of(status.error()));
    };
    EXPECT_EQ(refused(R"({"messages": [], "temprature": 1})", Dialect::kChat), "temprature");
    EXPECT_EQ(refused(R"({"messages": [], "input": 1})", Dialect::kChat), "input");
    EXPECT_EQ(refused(R"({"input": "q", "messages": 1})", Dialect::kResponses), "messages");
    EXPECT_EQ(refused(R"({"prompt": "q", "tools": 1})", Dialect::kCompletions), "tools");
    EXPECT_EQ(refused(R"({"messages": [{"unknown": 1}], "metadata": {"x": 1}})", Dialect::kMessages), "");
    EXPECT_EQ(refused("[]", Dialect::kChat), "");
}

}  // namespace
}  // namespace di
