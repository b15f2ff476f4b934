#include "api/known_fields.h"

#include <array>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "api/chat_request.h"
#include "api/completions_request.h"
#include "api/json_reader.h"
#include "api/messages_request.h"
#include "api/responses_request.h"

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

// Every word between quotes in the sources of the dialects and of the service that might be the name of a field.
std::set<std::string> quoted_words() {
    std::set<std::string> words;
    for (const char* folder : {"src/api", "src/server"}) {
        for (const auto& entry : std::filesystem::directory_iterator(folder)) {
            const std::string path = entry.path().string();
            if (!path.ends_with(".cpp") || path.ends_with("_test.cpp")) {
                continue;
            }
            std::ifstream file(path);
            std::stringstream text;
            text << file.rdbuf();
            const std::string source = text.str();
            for (size_t begin = source.find('"'); begin != std::string::npos; begin = source.find('"', begin + 1)) {
                const size_t end = source.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789", begin + 1);
                if (end != std::string::npos && end > begin + 1 && source[end] == '"') {
                    words.insert(source.substr(begin + 1, end - begin - 1));
                }
            }
        }
    }
    return words;
}

Result<Request> parse(const JsonValue& body, Dialect dialect) {
    switch (dialect) {
        case Dialect::kChat: return parse_chat_request(body);
        case Dialect::kCompletions: return parse_completions_request(body);
        case Dialect::kResponses: return parse_responses_request(body);
        case Dialect::kMessages: return parse_messages_request(body);
    }
    return fail(ErrorCode::kInternal, "no such dialect");
}

// Whether a dialect has a word to say about some value of the member.
bool reads(Dialect dialect, const std::string& field) {
    const std::string smallest = dialect == Dialect::kCompletions ? R"({"prompt": "q")"
                                 : dialect == Dialect::kResponses ? R"({"input": "q")"
                                 : dialect == Dialect::kMessages
                                     ? R"({"max_tokens": 4, "messages": [{"role": "user", "content": "q"}])"
                                     : R"({"messages": [{"role": "user", "content": "q"}])";
    for (const char* value : {"true", "-5", "\"?\"", "[{\"?\": 1}]", "{\"?\": 1}"}) {
        const auto body = parse_json(smallest + ", \"" + field + "\": " + value + "}");
        EXPECT_TRUE(body.has_value()) << field;
        const Result<Request> request = parse(*body, dialect);
        if (!request && parameter_of(request.error()).starts_with(field)) {
            return true;
        }
    }
    return false;
}

TEST(KnownFields, WhatADialectReadsIsKnown) {
    const std::set<std::string> words = quoted_words();
    constexpr std::array kDialects = {Dialect::kChat, Dialect::kCompletions, Dialect::kResponses, Dialect::kMessages};
    size_t read_count = 0;
    for (const Dialect dialect : kDialects) {
        for (const std::string& word : words) {
            if (!reads(dialect, word)) {
                continue;
            }
            ++read_count;
            const JsonValue body = JsonValue::object({{.key = word, .value = JsonValue::boolean(true)}});
            EXPECT_TRUE(check_known_fields(body, dialect)) << word << " of dialect " << static_cast<int>(dialect);
        }
    }
    EXPECT_GT(read_count, 100U);  // the words were found
}

// Read by the service itself, whatever the dialect.
TEST(KnownFields, TimingsAreKnownEverywhere) {
    for (const Dialect dialect : {Dialect::kChat, Dialect::kCompletions, Dialect::kResponses, Dialect::kMessages}) {
        EXPECT_TRUE(check_known_fields(*parse_json(R"({"timings": true})"), dialect));
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
