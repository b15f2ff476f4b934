#include "session/request_fields.h"

#include <gtest/gtest.h>

namespace di {
namespace {

TEST(RequestFields, LeaveDefaultsWhereTheClientSaysNothing) {
    PromptRequest prompt;
    prompt.sampling.temperature = 0.7;
    prompt.sampling.max_tokens = 99;
    prompt.sampling.seed = 5;
    prompt.stop = {"end"};
    apply_sampling_fields({}, prompt);
    EXPECT_DOUBLE_EQ(prompt.sampling.temperature, 0.7);
    EXPECT_EQ(prompt.sampling.max_tokens, 99);
    EXPECT_EQ(prompt.sampling.seed, 5U);
    EXPECT_EQ(prompt.stop, (std::vector<std::string>{"end"}));
}

TEST(RequestFields, PutTheClientsWishOverTheDefaults) {
    PromptRequest prompt;
    prompt.stop = {"end"};
    SamplingFields fields;
    fields.temperature = 0.0;
    fields.top_k = 4;
    fields.seed = 9;
    fields.output_tokens_max = 3;
    fields.output_tokens_min = 2;
    fields.ignores_eos = true;
    fields.stop = {"a", "b"};
    fields.stop_token_ids = {7};
    fields.forced_token_ids = {-1, 5};
    fields.min_p = 0.1;
    fields.presence_penalty = -0.5;
    fields.frequency_penalty = 0.25;
    fields.repetition_penalty = 1.5;
    fields.logit_bias = {{.token_id = 1, .bias = 2.0F}};
    fields.allowed_token_ids = {1, 2};
    fields.choice_count = 3;
    fields.wants_logprobs = true;
    fields.top_logprob_count = 4;
    fields.priority = -5;
    apply_sampling_fields(fields, prompt);
    EXPECT_DOUBLE_EQ(prompt.sampling.temperature, 0.0);
    EXPECT_EQ(prompt.sampling.top_k, 4);
    EXPECT_EQ(prompt.sampling.seed, 9U);
    EXPECT_EQ(prompt.sampling.max_tokens, 3);
    EXPECT_EQ(prompt.sampling.min_tokens, 2);
    EXPECT_TRUE(prompt.sampling.ignore_eos);
    EXPECT_EQ(prompt.sampling.stop_token_ids, (std::vector<int32_t>{7}));
    EXPECT_EQ(prompt.sampling.golden_token_ids, (std::vector<int32_t>{-1, 5}));
    EXPECT_DOUBLE_EQ(prompt.sampling.min_p, 0.1);
    EXPECT_DOUBLE_EQ(prompt.sampling.presence_penalty, -0.5);
    EXPECT_DOUBLE_EQ(prompt.sampling.frequency_penalty, 0.25);
    EXPECT_DOUBLE_EQ(prompt.sampling.repetition_penalty, 1.5);
    ASSERT_EQ(prompt.sampling.logit_bias.size(), 1U);
    EXPECT_EQ(prompt.sampling.logit_bias[0].token_id, 1);
    EXPECT_EQ(prompt.sampling.logit_bias[0].bias, 2.0F);
    EXPECT_EQ(prompt.sampling.allowed_token_ids, (std::vector<int32_t>{1, 2}));
    EXPECT_EQ(prompt.stop, (std::vector<std::string>{"a", "b"}));
    EXPECT_EQ(prompt.sampling.n, 3);
    EXPECT_TRUE(prompt.sampling.logprobs);
    EXPECT_EQ(prompt.sampling.top_logprobs, 4);
    EXPECT_EQ(prompt.priority, 5);  // the engine runs higher ones first
}

TEST(RequestFields, RefuseWhatOnlyTheServiceHonours) {
    const auto error = [](const SamplingFields& fields) {
        const Status status = refuse_service_fields(fields);
        return status ? std::string() : status.error().text;
    };
    SamplingFields fields;
    fields.bad_words = {"x"};
    EXPECT_EQ(error(fields), "bad_words is not supported here, only by the service; expected it to be absent");
    fields = {};
    fields.choice_count = 2;
    EXPECT_NE(error(fields).find("n is not supported"), std::string::npos);
    fields = {};
    fields.wants_logprobs = true;
    EXPECT_NE(error(fields).find("logprobs"), std::string::npos);
    fields = {};
    fields.repetition_penalty = 1.0;  // off
    fields.presence_penalty = 0.0;
    EXPECT_EQ(error(fields), "");
}

}  // namespace
}  // namespace di
