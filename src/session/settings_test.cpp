#include "session/settings.h"

#include <gtest/gtest.h>

namespace di {
namespace {

std::string error_of(const std::string& name, const std::string& value) {
    Settings settings;
    const SettingRow* row = find_setting(name);
    if (row == nullptr) {
        return "no such setting";
    }
    if (const Status status = set_setting(*row, value, name, settings); !status) {
        return status.error().text;
    }
    const auto options = session_options(settings);
    return options ? "" : options.error().text;
}

TEST(Settings, AreFoundInBothSpellings) {
    EXPECT_EQ(find_setting("kv-memory"), find_setting("kv_memory"));
    EXPECT_NE(find_setting("kv-memory"), nullptr);
    EXPECT_EQ(find_setting("kv memory"), nullptr);
}

TEST(Settings, DefaultsAreThoseOfTheEngine) {
    const EngineBehaviour expected;
    const EngineBehaviour given = session_options({}).value().engine.behaviour;
    EXPECT_EQ(given.deterministic, expected.deterministic);
    EXPECT_EQ(given.asynchronous, expected.asynchronous);
    EXPECT_EQ(given.prefix_cache, expected.prefix_cache);
    EXPECT_EQ(given.chunked_prefill, expected.chunked_prefill);
    EXPECT_EQ(given.mixed_steps, expected.mixed_steps);
    EXPECT_EQ(given.stop_preempted, expected.stop_preempted);
    EXPECT_EQ(given.drafts, expected.drafts);
    EXPECT_EQ(given.scheduled_verify, expected.scheduled_verify);
    EXPECT_EQ(given.verify_mode, expected.verify_mode);
    EXPECT_EQ(given.policy, expected.policy);
    EXPECT_EQ(given.passed_max, expected.passed_max);
    EXPECT_EQ(given.step_ms_max, expected.step_ms_max);
    EXPECT_EQ(given.step_stretch_max, expected.step_stretch_max);
    EXPECT_EQ(given.queue_max, expected.queue_max);
    EXPECT_EQ(given.first_token_ms_max, expected.first_token_ms_max);
}

TEST(Settings, SwitchesReachTheEngine) {
    Settings settings;
    for (const char* name : {"async", "prefix-cache", "chunked-prefill", "mixed-steps"}) {
        ASSERT_TRUE(set_setting(*find_setting(name), "false", name, settings).has_value());
    }
    ASSERT_TRUE(set_setting(*find_setting("stop-preempted"), "1", "x", settings).has_value());
    const EngineBehaviour behaviour = session_options(settings).value().engine.behaviour;
    EXPECT_FALSE(behaviour.asynchronous || behaviour.prefix_cache || behaviour.chunked_prefill || behaviour.mixed_steps);
    EXPECT_TRUE(behaviour.stop_preempted);
}

TEST(Settings, NumbersReachTheEngine) {
    Settings settings;
    for (const char* name : {"passed-max", "step-ms-max", "step-stretch-max", "queue-max", "first-token-ms-max"}) {
        ASSERT_TRUE(set_setting(*find_setting(name), "12", name, settings).has_value());
    }
    const EngineBehaviour behaviour = session_options(settings).value().engine.behaviour;
    EXPECT_EQ(behaviour.passed_max, 12);
    EXPECT_EQ(behaviour.step_ms_max, 12.0);
    EXPECT_EQ(behaviour.step_stretch_max, 12.0);
    EXPECT_EQ(behaviour.queue_max, 12);
    EXPECT_EQ(behaviour.first_token_ms_max, 12.0);
}

TEST(Settings, ErrorsNameTheValueAndWhatWasExpected) {
    EXPECT_EQ(error_of("backend", "tpu"), "backend: \"tpu\", expected auto, cpu, cuda or ref");
    EXPECT_EQ(error_of("threads", "0"), "threads: \"0\", expected an integer from 1 to 1024");
    EXPECT_EQ(error_of("kv-memory", "much"), "kv-memory: \"much\", expected bytes such as 512MiB or 2GB");
    EXPECT_EQ(error_of("step-ms-max", "nan"), "step-ms-max: \"nan\", expected a number from 0 to 1000000000");
    EXPECT_EQ(error_of("async", "maybe"), "async: \"maybe\", expected true or false");
    EXPECT_EQ(error_of("seed", "-1"), "seed: \"-1\", expected an integer from 0 to 18446744073709551615");
    EXPECT_EQ(error_of("banned-token-ids", "1,x"), "banned-token-ids: \"x\", expected token ids such as 1,2,3");
    EXPECT_EQ(error_of("banned-token-ids", "-1"), "banned-token-ids: \"-1\", expected token ids such as 1,2,3");
    EXPECT_EQ(error_of("confidence-temperature", "1,inf"),
              "confidence-temperature: \"inf\", expected numbers from 0 such as 1.0,1.2");
    EXPECT_EQ(error_of("scheduling-policy", "fcfs|priority").substr(0, 17), "scheduling-policy");
    EXPECT_NE(error_of("backend", "cuda").find("no cuda backend in this build"), std::string::npos);
    EXPECT_NE(error_of("gpu-memory", "1GiB").find("no cuda backend in this build"), std::string::npos);
    EXPECT_NE(error_of("replay-keep", "150").find("expected replay compact"), std::string::npos);
}

TEST(Settings, DeterminismRefusesWhatBreaksIt) {
    Settings settings;
    settings.batch_invariant = true;
    EXPECT_TRUE(session_options(settings).has_value());
    settings.verify_mode = "rejection";
    EXPECT_FALSE(session_options(settings).has_value());
    settings.verify_mode = "exact";
    settings.replay = "mask";
    EXPECT_FALSE(session_options(settings).has_value());
}

TEST(Settings, APairWinsOverTheEnvironmentAndAnUnknownOneIsAnError) {
    ::setenv("DEEPINFER_MAX_NUM_SEQS", "9", 1);
    ::setenv("DEEPINFER_THREADS", "2", 1);
    const auto given = given_settings({{"max_num_seqs", "3"}});
    const auto unknown = given_settings({{"max_sequences", "3"}});
    ::unsetenv("DEEPINFER_MAX_NUM_SEQS");
    ::unsetenv("DEEPINFER_THREADS");
    ASSERT_TRUE(given.has_value()) << given.error().text;
    EXPECT_EQ(given->settings.max_num_seqs, 3);
    EXPECT_EQ(given->settings.threads, 2);
    ASSERT_FALSE(unknown.has_value());
    EXPECT_EQ(unknown.error().text, "there is no option \"max_sequences\"");
}

TEST(Settings, AModelIsADirectory) {
    EXPECT_TRUE(check_model_path(DI_MODELS "/v41-mini").has_value());
    EXPECT_EQ(check_model_path("absent").error().code, ErrorCode::kNotFound);
    EXPECT_EQ(check_model_path("README.md").error().code, ErrorCode::kInvalidFile);
    EXPECT_EQ(check_model_path("x.gguf").error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace di
