#include "api/completions_request.h"

#include <gtest/gtest.h>

#include "api/json_reader.h"

namespace di {
namespace {

Request accepted(std::string_view body, const CompletionsRules& rules = {}) {
    auto request = parse_completions_request(body, rules);
    EXPECT_TRUE(request.has_value()) << body << " " << (request ? "" : request.error().text);
    return request ? std::move(*request) : Request{};
}

void expect_refused(std::string_view body, std::string_view parameter, const CompletionsRules& rules = {}) {
    const auto request = parse_completions_request(body, rules);
    ASSERT_FALSE(request.has_value()) << body;
    EXPECT_EQ(parameter_of(request.error()), parameter) << request.error().text;
}

using Ids = std::vector<int32_t>;

TEST(CompletionsRequest, APromptIsTextOrIdsOrAListOfThem) {
    EXPECT_EQ(accepted(R"({"prompt": "a"})").raw_prompts, (std::vector<RawPrompt>{"a"}));
    EXPECT_EQ(accepted(R"({"prompt": ""})").raw_prompts, (std::vector<RawPrompt>{""}));
    EXPECT_EQ(accepted(R"({"prompt": ["a", "b"]})").raw_prompts, (std::vector<RawPrompt>{"a", "b"}));
    EXPECT_EQ(accepted(R"({"prompt": [1, 2]})").raw_prompts, (std::vector<RawPrompt>{Ids{1, 2}}));
    EXPECT_EQ(accepted(R"({"prompt": [[1, 2], [3]]})").raw_prompts, (std::vector<RawPrompt>{Ids{1, 2}, Ids{3}}));
    EXPECT_EQ(accepted(R"({"prompt": ["a", [3]]})").raw_prompts, (std::vector<RawPrompt>{"a", Ids{3}}));
    EXPECT_FALSE(accepted(R"({"prompt": "a"})").conversation.has_value());
}

TEST(CompletionsRequest, OtherPromptsAreRefusedWithTheirPlace) {
    expect_refused("{}", "prompt");
    expect_refused(R"({"prompt": null})", "prompt");
    expect_refused(R"({"prompt": 5})", "prompt");
    expect_refused(R"({"prompt": []})", "prompt");
    expect_refused(R"({"prompt": [1, "a"]})", "prompt[1]");
    expect_refused(R"({"prompt": [1, -1]})", "prompt[1]");
    expect_refused(R"({"prompt": [1, 2147483648]})", "prompt[1]");
    expect_refused(R"({"prompt": [1.5]})", "prompt[0]");
    expect_refused(R"({"prompt": ["a", []]})", "prompt[1]");
    expect_refused(R"({"prompt": ["a", {}]})", "prompt[1]");
    expect_refused(R"({"prompt": [[1], ["x"]]})", "prompt[1][0]");
    expect_refused(R"({"prompt": "a", "prompt_embeds": "x"})", "prompt_embeds");
    std::string many = R"({"prompt": ["a")";
    for (int i = 0; i < 256; ++i) {
        many += ", \"a\"";
    }
    expect_refused(many + "]}", "prompt");
}

TEST(CompletionsRequest, FieldsOfItsOwnAreRead) {
    const Request request = accepted(R"({"prompt": "a", "echo": true, "logprobs": 3, "n": 2, "best_of": 2, "stream": true,
        "stream_options": {"include_usage": true}, "add_special_tokens": false, "prompt_logprobs": 1, "return_token_ids": true,
        "regex": "[a-z]+", "max_tokens": 7, "user": "u", "skip_special_tokens": false, "truncate_prompt_tokens": 5})");
    EXPECT_EQ(request.dialect, Dialect::kCompletions);
    EXPECT_TRUE(request.echoes_prompt);
    EXPECT_TRUE(request.sampling.wants_logprobs);
    EXPECT_EQ(request.sampling.top_logprob_count, 3);
    EXPECT_EQ(request.sampling.prompt_logprob_count, 1);
    EXPECT_EQ(request.sampling.choice_count, 2);
    EXPECT_EQ(request.sampling.output_tokens_max, 7);
    EXPECT_FALSE(request.sampling.skips_special_tokens);
    EXPECT_TRUE(request.stream.includes_usage);
    EXPECT_FALSE(request.adds_special_tokens);
    EXPECT_TRUE(request.returns_token_ids);
    EXPECT_EQ(request.response_format.kind, ResponseFormat::Kind::kRegex);
    EXPECT_EQ(request.prompt_tokens_kept, 5);
    expect_refused(R"({"prompt": "a", "logprobs": 21})", "logprobs");
    expect_refused(R"({"prompt": "a", "best_of": 3})", "best_of");
    expect_refused(R"({"prompt": "a", "n": 17})", "n");
    expect_refused(R"({"prompt": "a", "truncate_prompt_tokens": 0})", "truncate_prompt_tokens");
    expect_refused(R"({"prompt": "a", "echo": 1})", "echo");
}

TEST(CompletionsRequest, ASuffixNeedsTheServersLeave) {
    const std::string_view body = R"({"prompt": "a", "suffix": "b"})";
    expect_refused(body, "suffix");
    EXPECT_EQ(accepted(body, {.allows_suffix = true}).raw_prompts,
              (std::vector<RawPrompt>{"<｜fim▁begin｜>a<｜fim▁hole｜>b<｜fim▁end｜>"}));
    expect_refused(R"({"prompt": [1], "suffix": "b"})", "prompt", {.allows_suffix = true});
    EXPECT_EQ(accepted(R"({"prompt": "a", "suffix": null})").raw_prompts, (std::vector<RawPrompt>{"a"}));
}

}  // namespace
}  // namespace di
