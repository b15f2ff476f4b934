#include "di/c_api.h"

#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "c_abi/handles.h"

namespace {

di_engine* open_mini() {
    di_options* options = di_options_new();
    EXPECT_EQ(di_options_set(options, "model", DI_MODELS "/v41-mini"), DI_OK) << di_last_error();
    EXPECT_EQ(di_options_set(options, "max_model_len", "256"), DI_OK) << di_last_error();
    EXPECT_EQ(di_options_set(options, "max-num-seqs", "3"), DI_OK) << di_last_error();
    di_engine* engine = nullptr;
    EXPECT_EQ(di_engine_open(options, &engine), DI_OK) << di_last_error();
    di_options_free(options);
    return engine;
}

class CApi : public testing::Test {
  protected:
    static void SetUpTestSuite() { engine = open_mini(); }
    static void TearDownTestSuite() { di_engine_close(engine); }
    static di_engine* engine;
};
di_engine* CApi::engine = nullptr;

di_request request_of(const char* text, int32_t max_tokens) {
    di_request request;
    di_request_init(&request, sizeof request);
    request.text = {text, std::strlen(text)};
    request.temperature = 0.0;
    request.max_tokens = max_tokens;
    return request;
}

struct Answer {
    std::vector<int32_t> token_ids;
    std::string text;
    di_finish finish = DI_FINISH_NONE;
    int finish_count = 0;
    di_code error = DI_OK;
    std::string error_text;
};

void take(const di_outputs* outputs, std::map<uint64_t, Answer>& answers) {
    for (size_t i = 0; i < di_outputs_count(outputs); ++i) {
        const di_output* output = di_outputs_get(outputs, i);
        Answer& answer = answers[output->request_id];
        for (size_t t = 0; t < output->token_count; ++t) {
            answer.token_ids.push_back(output->tokens[t].token_id);
            answer.text.append(output->tokens[t].text.data, output->tokens[t].text.size);
        }
        answer.text.append(output->rest.data, output->rest.size);
        if (output->finish != DI_FINISH_NONE) {
            answer.finish = output->finish;
            ++answer.finish_count;
        }
        if (output->error != DI_OK) {
            answer.error = output->error;
            answer.error_text.assign(output->error_text.data, output->error_text.size);
        }
    }
}

std::map<uint64_t, Answer> drain(di_engine* engine) {
    std::map<uint64_t, Answer> answers;
    while (di_engine_has_unfinished(engine) != 0) {
        di_outputs* outputs = nullptr;
        EXPECT_EQ(di_engine_step(engine, &outputs), DI_OK) << di_last_error();
        take(outputs, answers);
        di_outputs_free(outputs);
    }
    return answers;
}

TEST_F(CApi, AnswersAsTheSessionDoes) {
    di::PromptRequest expected;
    expected.prompt = std::string("Once upon a time");
    expected.sampling.temperature = 0.0;
    expected.sampling.max_tokens = 9;
    const auto results = engine->session->generate({expected}, {});
    uint64_t id = 0;
    const di_request request = request_of("Once upon a time", 9);
    ASSERT_EQ(di_engine_add(engine, &request, &id), DI_OK) << di_last_error();
    const auto answers = drain(engine);
    EXPECT_EQ(answers.at(id).token_ids, results[0].token_ids);
    EXPECT_EQ(answers.at(id).text, results[0].text);
    EXPECT_EQ(answers.at(id).finish, DI_FINISH_LENGTH);
    EXPECT_EQ(answers.at(id).finish_count, 1);
}

TEST_F(CApi, OutputsAreGoodUntilTheyAreFreed) {
    uint64_t id = 0;
    const di_request request = request_of("Once upon a time", 8);
    ASSERT_EQ(di_engine_add(engine, &request, &id), DI_OK);
    std::vector<di_outputs*> kept;
    while (di_engine_has_unfinished(engine) != 0) {
        kept.push_back(nullptr);
        ASSERT_EQ(di_engine_step(engine, &kept.back()), DI_OK);
    }
    ASSERT_EQ(di_engine_add(engine, &request, &id), DI_OK);
    const auto again = drain(engine);
    std::map<uint64_t, Answer> first;
    for (di_outputs* outputs : kept) {
        take(outputs, first);
        di_outputs_free(outputs);
    }
    EXPECT_EQ(first.begin()->second.text, again.at(id).text);
    EXPECT_EQ(di_outputs_get(nullptr, 0), nullptr);
    EXPECT_EQ(di_outputs_count(nullptr), 0U);
}

TEST_F(CApi, EverySamplingFieldReachesTheRequest) {
    const int32_t ids[] = {5, 6};
    const di_token_bias bias[] = {{7, -3.5F}};
    const di_text stops[] = {{"stop", 4}, {"end", 3}};
    di_request request = request_of("x", 30);
    request.temperature = 0.5;
    request.top_p = 0.25;
    request.top_k = 9;
    request.n = 3;
    request.min_p = 0.1;
    request.repetition_penalty = 1.5;
    request.presence_penalty = 0.5;
    request.frequency_penalty = -0.5;
    request.logit_bias = bias;
    request.logit_bias_count = 1;
    request.allowed_token_ids = ids;
    request.allowed_token_id_count = 2;
    request.banned_token_ids = ids;
    request.banned_token_id_count = 1;
    request.seed = 11;
    request.has_seed = 1;
    request.min_tokens = 2;
    request.ignore_eos = 1;
    request.stop_token_ids = ids;
    request.stop_token_id_count = 2;
    request.golden_token_ids = ids;
    request.golden_token_id_count = 2;
    request.logprobs = 1;
    request.top_logprobs = 4;
    request.has_processed_logprobs = 1;
    request.prompt_logprobs = 1;
    request.stop = stops;
    request.stop_count = 2;
    request.user = {"me", 2};
    request.cache_salt = {"salt", 4};
    request.deadline_ms = 1e6;
    request.priority = 8;
    const auto prompt = di::c_abi::prompt_of(request);
    ASSERT_TRUE(prompt.has_value()) << prompt.error().text;
    const di::SamplingParams& sampling = prompt->sampling;
    EXPECT_EQ(sampling.temperature, 0.5);
    EXPECT_EQ(sampling.top_p, 0.25);
    EXPECT_EQ(sampling.top_k, 9);
    EXPECT_EQ(sampling.n, 3);
    EXPECT_EQ(sampling.min_p, 0.1);
    EXPECT_EQ(sampling.repetition_penalty, 1.5);
    EXPECT_EQ(sampling.presence_penalty, 0.5);
    EXPECT_EQ(sampling.frequency_penalty, -0.5);
    ASSERT_EQ(sampling.logit_bias.size(), 1U);
    EXPECT_EQ(sampling.logit_bias[0].bias, -3.5F);
    EXPECT_EQ(sampling.allowed_token_ids, (std::vector<int32_t>{5, 6}));
    EXPECT_EQ(sampling.banned_token_ids, (std::vector<int32_t>{5}));
    EXPECT_EQ(sampling.seed, 11U);
    EXPECT_EQ(sampling.max_tokens, 30);
    EXPECT_EQ(sampling.min_tokens, 2);
    EXPECT_TRUE(sampling.ignore_eos);
    EXPECT_EQ(sampling.stop_token_ids.size(), 2U);
    EXPECT_EQ(sampling.golden_token_ids.size(), 2U);
    EXPECT_TRUE(sampling.logprobs && sampling.prompt_logprobs);
    EXPECT_EQ(sampling.top_logprobs, 4);
    EXPECT_EQ(sampling.logprobs_mode, di::LogprobsMode::kProcessed);
    EXPECT_EQ(prompt->stop, (std::vector<std::string>{"stop", "end"}));
    EXPECT_EQ(prompt->user, "me");
    EXPECT_EQ(prompt->cache_salt, "salt");
    EXPECT_EQ(prompt->deadline_ms, 1e6);
    EXPECT_EQ(prompt->priority, 8);
}

TEST_F(CApi, AnInitialisedRequestHasTheDefaultsOfTheEngine) {
    di_request request;
    di_request_init(&request, sizeof request);
    request.text = {"x", 1};
    const di::SamplingParams sampling = di::c_abi::prompt_of(request).value().sampling;
    const di::SamplingParams expected;
    EXPECT_EQ(sampling.temperature, expected.temperature);
    EXPECT_EQ(sampling.top_p, expected.top_p);
    EXPECT_EQ(sampling.top_k, expected.top_k);
    EXPECT_EQ(sampling.repetition_penalty, expected.repetition_penalty);
    EXPECT_EQ(sampling.max_tokens, expected.max_tokens);
    EXPECT_EQ(sampling.n, expected.n);
    EXPECT_FALSE(sampling.seed.has_value());
}

TEST_F(CApi, StructsOfOtherVersionsAreTakenWhereTheySayNothingNew) {
    struct Newer {
        di_request request;
        int64_t unknown;
    } newer{};
    di_request_init(&newer.request, sizeof newer);
    newer.request.text = {"The cat", 7};
    newer.request.max_tokens = 2;
    uint64_t id = 0;
    EXPECT_EQ(di_engine_add(engine, &newer.request, &id), DI_OK) << di_last_error();
    drain(engine);
    newer.unknown = 1;
    EXPECT_EQ(di_engine_add(engine, &newer.request, &id), DI_UNSUPPORTED);
    newer.request.struct_size = 8;
    EXPECT_EQ(di_engine_add(engine, &newer.request, &id), DI_INVALID_ARGUMENT);
    EXPECT_NE(std::string(di_last_error()).find("di_request_init"), std::string::npos);
    di_stats older{};
    older.struct_size = offsetof(di_stats, prompt_tokens);
    older.prompt_tokens = -7;
    EXPECT_EQ(di_engine_get_stats(engine, &older), DI_OK);
    EXPECT_EQ(older.prompt_tokens, -7);
}

TEST_F(CApi, AbortWorksWhileAnotherThreadSteps) {
    uint64_t id = 0;
    di_request request = request_of("Once upon a time", 200);
    request.ignore_eos = 1;
    ASSERT_EQ(di_engine_add(engine, &request, &id), DI_OK);
    std::map<uint64_t, Answer> answers;
    std::thread stepping([&] { answers = drain(engine); });
    EXPECT_EQ(di_engine_abort(engine, id), DI_OK);
    EXPECT_EQ(di_engine_abort(engine, 1 << 30), DI_OK);
    stepping.join();
    EXPECT_EQ(answers.at(id).finish, DI_FINISH_ABORT);
    EXPECT_EQ(answers.at(id).finish_count, 1);
}

TEST_F(CApi, ErrorsNameWhatWasWrong) {
    uint64_t id = 0;
    const di_request empty = request_of("", 3);
    EXPECT_EQ(di_engine_add(engine, &empty, &id), DI_INVALID_ARGUMENT);
    EXPECT_NE(std::string(di_last_error()).find("empty"), std::string::npos);
    di_request hot = request_of("x", 3);
    hot.temperature = -1.0;
    EXPECT_EQ(di_engine_add(engine, &hot, &id), DI_INVALID_ARGUMENT);
    EXPECT_NE(std::string(di_last_error()).find("temperature"), std::string::npos);
    di_request holes = request_of("x", 3);
    holes.stop_token_id_count = 3;
    EXPECT_EQ(di_engine_add(engine, &holes, &id), DI_INVALID_ARGUMENT);
    EXPECT_NE(std::string(di_last_error()).find("stop_token_ids is NULL with 3 elements"), std::string::npos);
    EXPECT_EQ(di_engine_add(nullptr, &hot, &id), DI_INVALID_ARGUMENT);
    EXPECT_EQ(di_engine_add(engine, nullptr, &id), DI_INVALID_ARGUMENT);
    EXPECT_EQ(di_engine_step(engine, nullptr), DI_INVALID_ARGUMENT);
    const std::vector<int32_t> ids(600, 5);
    di_request long_one = request_of("", 3);
    long_one.text = {nullptr, 0};
    long_one.token_ids = ids.data();
    long_one.token_id_count = ids.size();
    ASSERT_EQ(di_engine_add(engine, &long_one, &id), DI_OK);
    const auto answers = drain(engine);
    EXPECT_EQ(answers.at(id).error, DI_CONTEXT_EXCEEDED);
    EXPECT_NE(answers.at(id).error_text.find("600"), std::string::npos);
}

TEST_F(CApi, OptionsAreCheckedWhenTheyAreSet) {
    di_options* options = di_options_new();
    EXPECT_EQ(di_options_set(options, "max-sequences", "3"), DI_INVALID_ARGUMENT);
    EXPECT_STREQ(di_last_error(), "there is no option \"max-sequences\"");
    EXPECT_EQ(di_options_set(options, "threads", "many"), DI_INVALID_ARGUMENT);
    EXPECT_STREQ(di_last_error(), "threads: \"many\", expected an integer from 1 to 1024");
    EXPECT_EQ(di_options_set(options, "model", "absent"), DI_OK);
    di_engine* none = nullptr;
    EXPECT_EQ(di_engine_open(options, &none), DI_NOT_FOUND);
    EXPECT_EQ(none, nullptr);
    di_options_free(options);
    di_options_free(nullptr);
    di_engine_close(nullptr);
    di_outputs_free(nullptr);
}

TEST_F(CApi, TextBecomesIdsAndBack) {
    const std::string text = "Once upon a time";
    size_t count = 0;
    EXPECT_EQ(di_engine_encode(engine, {text.data(), text.size()}, nullptr, 0, &count), DI_INVALID_ARGUMENT);
    std::vector<int32_t> ids(count);
    ASSERT_EQ(di_engine_encode(engine, {text.data(), text.size()}, ids.data(), ids.size(), &count), DI_OK);
    size_t size = 0;
    std::string back(text.size(), '\0');
    ASSERT_EQ(di_engine_decode(engine, ids.data(), ids.size(), 0, back.data(), back.size(), &size), DI_OK);
    EXPECT_EQ(back, text);
    di_engine_info info{};
    info.struct_size = sizeof info;
    ASSERT_EQ(di_engine_get_info(engine, &info), DI_OK);
    EXPECT_EQ(info.vocab_size, 4224);
    EXPECT_EQ(info.max_model_len, 256);
}

TEST_F(CApi, AnswersFollowAnExpression) {
    di_request request = request_of("The year is", 12);
    request.schema_type = "regex";
    request.schema = {"[0-9]{4}", 8};
    uint64_t id = 0;
    ASSERT_EQ(di_engine_add(engine, &request, &id), DI_OK) << di_last_error();
    const auto answers = drain(engine);
    const Answer& answer = answers.at(id);
    EXPECT_EQ(answer.error, DI_OK) << answer.error_text;
    EXPECT_EQ(answer.text.size(), 4U) << answer.text;
    EXPECT_EQ(answer.text.find_first_not_of("0123456789"), std::string::npos) << answer.text;
    EXPECT_EQ(answer.finish, DI_FINISH_STOP);
    request.schema_type = "xml";
    EXPECT_EQ(di_engine_add(engine, &request, &id), DI_INVALID_ARGUMENT);
    EXPECT_NE(std::string(di_last_error()).find("xml"), std::string::npos);
    request.schema_type = nullptr;
    EXPECT_EQ(di_engine_add(engine, &request, &id), DI_INVALID_ARGUMENT);
}

TEST_F(CApi, SamplesOfOnePromptEndOnceEach) {
    di_request request = request_of("Once upon a time", 6);
    request.temperature = 1.0;
    request.seed = 4;
    request.has_seed = 1;
    request.n = 3;
    uint64_t id = 0;
    ASSERT_EQ(di_engine_add(engine, &request, &id), DI_OK) << di_last_error();
    std::map<int32_t, int> ends;
    while (di_engine_has_unfinished(engine) != 0) {
        di_outputs* outputs = nullptr;
        ASSERT_EQ(di_engine_step(engine, &outputs), DI_OK);
        for (size_t i = 0; i < di_outputs_count(outputs); ++i) {
            ends[di_outputs_get(outputs, i)->sample_index] += di_outputs_get(outputs, i)->finish != DI_FINISH_NONE ? 1 : 0;
        }
        di_outputs_free(outputs);
    }
    EXPECT_EQ(ends, (std::map<int32_t, int>{{0, 1}, {1, 1}, {2, 1}}));
}

TEST_F(CApi, LogprobsAreNumbersWhereAskedForAndNaNElsewhere) {
    uint64_t id = 0;
    di_request request = request_of("Once", 1);
    request.logprobs = 1;
    ASSERT_EQ(di_engine_add(engine, &request, &id), DI_OK);
    float logprob = 1.0F;
    while (di_engine_has_unfinished(engine) != 0) {
        di_outputs* outputs = nullptr;
        ASSERT_EQ(di_engine_step(engine, &outputs), DI_OK);
        if (di_outputs_count(outputs) > 0 && di_outputs_get(outputs, 0)->token_count > 0) {
            logprob = di_outputs_get(outputs, 0)->tokens[0].logprob;
        }
        di_outputs_free(outputs);
    }
    EXPECT_LT(logprob, 0.0F);
}

TEST(CApiNames, EveryCodeAndFinishHasOne) {
    EXPECT_STREQ(di_code_name(DI_OK), "ok");
    EXPECT_STREQ(di_code_name(DI_INTERNAL), "internal");
    EXPECT_STREQ(di_code_name(DI_CONTEXT_EXCEEDED), "context_exceeded");
    EXPECT_STREQ(di_code_name(DI_TIMED_OUT), "timed_out");
    EXPECT_STREQ(di_code_name(99), "unknown");
    EXPECT_STREQ(di_finish_name(DI_FINISH_ABORT), "abort");
    EXPECT_EQ(di_abi_version(), DI_ABI_VERSION);
}

}  // namespace
