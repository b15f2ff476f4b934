#include "api/sampling_fields.h"

#include <gtest/gtest.h>

#include "api/limits.h"

namespace di {
namespace {

Result<SamplingFields> parsed(std::string_view text, Dialect dialect = Dialect::kChat) {
    const auto body = parse_json(text);
    EXPECT_TRUE(body.has_value()) << text;
    const auto reader = JsonReader::open(*body, "");
    EXPECT_TRUE(reader.has_value());
    return parse_sampling_fields(*reader, dialect);
}

SamplingFields fields(std::string_view text, Dialect dialect = Dialect::kChat) {
    auto result = parsed(text, dialect);
    EXPECT_TRUE(result.has_value()) << text << " " << (result ? "" : result.error().text);
    return result ? *result : SamplingFields{};
}

void expect_refused(std::string_view text, std::string_view parameter, Dialect dialect = Dialect::kChat) {
    const auto result = parsed(text, dialect);
    ASSERT_FALSE(result.has_value()) << text;
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(parameter_of(result.error()), parameter) << result.error().text;
}

TEST(SamplingFields, AbsentAndNullAreTheSame) {
    const SamplingFields none =
        fields(R"({"temperature": null, "max_tokens": null, "stop": null, "logit_bias": null, "n": null, "seed": null})");
    EXPECT_FALSE(none.temperature.has_value());
    EXPECT_FALSE(none.output_tokens_max.has_value());
    EXPECT_FALSE(none.seed.has_value());
    EXPECT_TRUE(none.stop.empty());
    EXPECT_EQ(none.choice_count, 1);
    EXPECT_TRUE(none.skips_special_tokens);
}

TEST(SamplingFields, BoundsThemselvesAreLegal) {
    const SamplingFields all = fields(R"({"temperature": 0, "top_p": 1, "top_k": -1, "min_p": 1, "presence_penalty": -2,
        "frequency_penalty": 2, "repetition_penalty": 2, "seed": 9223372036854775807, "max_tokens": 393216, "priority": -5})");
    EXPECT_EQ(all.temperature, 0.0);
    EXPECT_EQ(all.top_p, 1.0);
    EXPECT_EQ(all.top_k, -1);
    EXPECT_EQ(all.output_tokens_max, kOutputTokensMax);
    EXPECT_EQ(fields(R"({"temperature": 1e-7, "top_k": 0})").temperature, 1e-7);
}

TEST(SamplingFields, ValuesOutOfRangeNameTheirField) {
    const std::pair<std::string_view, std::string_view> cases[] = {
        {R"({"temperature": -0.1})", "temperature"},
        {R"({"temperature": "1"})", "temperature"},
        {R"({"temperature": 2.1})", "temperature"},
        {R"({"top_p": 0})", "top_p"},
        {R"({"top_p": 1.1})", "top_p"},
        {R"({"top_k": -2})", "top_k"},
        {R"({"top_k": 1.5})", "top_k"},
        {R"({"min_p": -0.1})", "min_p"},
        {R"({"presence_penalty": 3})", "presence_penalty"},
        {R"({"frequency_penalty": -3})", "frequency_penalty"},
        {R"({"repetition_penalty": 0})", "repetition_penalty"},
        {R"({"seed": -1})", "seed"},
        {R"({"seed": 9223372036854775808})", "seed"},
        {R"({"seed": 1.0})", "seed"},
        {R"({"seed": 9223372036854775807, "n": 2})", "seed"},
        {R"({"n": 0})", "n"},
        {R"({"n": 17})", "n"},
        {R"({"best_of": 2})", "best_of"},
        {R"({"priority": 1e3})", "priority"},
        {R"({"min_tokens": 5, "max_tokens": 4})", "min_tokens"},
        {R"({"min_tokens": -1})", "min_tokens"},
        {R"({"ignore_eos": 1})", "ignore_eos"},
    };
    for (const auto& [text, parameter] : cases) {
        expect_refused(text, parameter);
    }
}

TEST(SamplingFields, OutputLengthIsAnIntegerFromOne) {
    EXPECT_EQ(fields(R"({"max_tokens": 1})").output_tokens_max, 1);
    for (const std::string_view value : {"0", "-1", "2147483648", "1.5", "\"5\"", "393217", "99999999999999999999"}) {
        expect_refused(fmt::format("{{\"max_tokens\": {}}}", value), "max_tokens");
        expect_refused(fmt::format("{{\"max_completion_tokens\": {}}}", value), "max_completion_tokens");
        expect_refused(fmt::format("{{\"max_output_tokens\": {}}}", value), "max_output_tokens", Dialect::kResponses);
    }
    EXPECT_EQ(fields(R"({"max_tokens": 9, "max_completion_tokens": 7})").output_tokens_max, 7);
    // Messages lowers what is too large instead.
    EXPECT_EQ(fields(R"({"max_tokens": 2147483648})", Dialect::kMessages).output_tokens_max, kOutputTokensMax);
    for (const std::string_view value : {"0", "-1", "1.5", "\"5\""}) {
        expect_refused(fmt::format("{{\"max_tokens\": {}}}", value), "max_tokens", Dialect::kMessages);
    }
}

TEST(SamplingFields, LogitBiasNamesTokens) {
    const SamplingFields biased = fields(R"({"logit_bias": {"7": -100, "0": 1.5}})");
    ASSERT_EQ(biased.logit_bias.size(), 2U);
    EXPECT_EQ(biased.logit_bias[0].token_id, 7);
    EXPECT_EQ(biased.logit_bias[1].bias, 1.5F);
    for (const std::string_view key : {"-1", "abc", "", "1x", "99999999999", " 1", "+1"}) {
        expect_refused(fmt::format("{{\"logit_bias\": {{\"{}\": 1}}}}", key), "logit_bias");
    }
    expect_refused(R"({"logit_bias": {"7": 1, "07": 2}})", "logit_bias");
    expect_refused(R"({"logit_bias": {"7": 1e9}})", "logit_bias.7");
    expect_refused(R"({"logit_bias": {"7": "1"}})", "logit_bias.7");
    expect_refused(R"({"logit_bias": [1]})", "logit_bias");
    std::string many = "{\"logit_bias\": {";
    for (size_t i = 0; i <= kLogitBiasEntriesMax; ++i) {
        many += fmt::format("{}\"{}\": 1", i == 0 ? "" : ",", i);
    }
    expect_refused(many + "}}", "logit_bias");
}

TEST(SamplingFields, IdsAreCheckedAgainstTheVocabulary) {
    EXPECT_TRUE(check_token_ids(fields(R"({"logit_bias": {"99": 1}, "stop_token_ids": [99], "allowed_token_ids": [0, 99],
                                         "golden_token_ids": [-1, 99]})"),
                                100)
                    .has_value());
    const std::pair<std::string_view, std::string_view> cases[] = {
        {R"({"logit_bias": {"100": 1}})", "logit_bias"},
        {R"({"stop_token_ids": [1, 100]})", "stop_token_ids[1]"},
        {R"({"allowed_token_ids": [191222]})", "allowed_token_ids[0]"},
        {R"({"golden_token_ids": [100]})", "golden_token_ids[0]"},
    };
    for (const auto& [text, parameter] : cases) {
        const Status status = check_token_ids(fields(text), 100);
        ASSERT_FALSE(status.has_value()) << text;
        EXPECT_EQ(parameter_of(status.error()), parameter);
    }
    expect_refused(R"({"stop_token_ids": [-1]})", "stop_token_ids[0]");
    expect_refused(R"({"allowed_token_ids": [1.5]})", "allowed_token_ids[0]");
    expect_refused(R"({"golden_token_ids": [-2]})", "golden_token_ids[0]");
}

TEST(SamplingFields, StopStrings) {
    EXPECT_EQ(fields(R"({"stop": "a"})").stop, std::vector<std::string>{"a"});
    EXPECT_EQ(fields(R"({"stop": ["a", "b"]})").stop.size(), 2U);
    EXPECT_EQ(fields(R"({"stop_sequences": ["a"]})", Dialect::kMessages).stop.size(), 1U);
    EXPECT_TRUE(fields(R"({"no_stop_trim": true})").includes_stop_text);
    expect_refused(R"({"stop": ""})", "stop");
    expect_refused(R"({"stop": ["a", ""]})", "stop[1]");
    expect_refused(R"({"stop": [1]})", "stop[0]");
    expect_refused(R"({"stop": 1})", "stop");
    expect_refused("{\"stop\": \"" + std::string(kStopStringBytesMax + 1, 'a') + "\"}", "stop");
    expect_refused(R"({"stop_sequences": "a"})", "stop_sequences", Dialect::kMessages);
}

TEST(SamplingFields, LogprobsBelongTogether) {
    EXPECT_EQ(fields(R"({"logprobs": true, "top_logprobs": 20})").top_logprob_count, 20);
    EXPECT_EQ(fields(R"({"logprobs": 5})", Dialect::kCompletions).top_logprob_count, 5);
    expect_refused(R"({"top_logprobs": 3})", "top_logprobs");
    expect_refused(R"({"logprobs": false, "top_logprobs": 3})", "top_logprobs");
    expect_refused(R"({"logprobs": true, "top_logprobs": 21})", "top_logprobs");
    expect_refused(R"({"logprobs": 5})", "logprobs");
}

TEST(SamplingFields, FieldsThatWouldChangeTheAnswerAreNotDropped) {
    for (const std::string_view field :
         {"\"use_beam_search\": true", "\"length_penalty\": 0.5", "\"mirostat\": 2", "\"samplers\": [\"top_k\"]",
          "\"dry_multiplier\": 0.8", "\"xtc_probability\": 0.5", "\"lora_path\": \"x\"", "\"chat_template\": \"x\"",
          "\"return_hidden_states\": true"}) {
        EXPECT_FALSE(parsed(fmt::format("{{{}}}", field)).has_value()) << field;
    }
    EXPECT_TRUE(parsed(R"({"use_beam_search": false, "length_penalty": 1, "mirostat": 0, "dry_multiplier": 0, "lora_path": null,
                          "something_else": {}})")
                    .has_value());
}

TEST(SamplingFields, StreamOptionsNeedAStream) {
    const auto stream = [](std::string_view text) {
        const auto body = parse_json(text);
        return parse_stream_fields(*JsonReader::open(*body, ""));
    };
    EXPECT_TRUE(stream(R"({"stream": true, "stream_options": {"include_usage": true}})")->includes_usage);
    EXPECT_FALSE(stream(R"({"stream_options": {"include_usage": true}})").has_value());
    EXPECT_FALSE(stream(R"({"stream": "yes"})").has_value());
    EXPECT_FALSE(stream("{}")->is_streaming);
}

}  // namespace
}  // namespace di
