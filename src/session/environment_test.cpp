#include "session/environment.h"

#include <functional>
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "base/file_io.h"

namespace di {
namespace {

// What holds of the session's options when one variable is set to one value, and does not without it.
struct Case {
    std::string name;
    std::string value;
    std::function<bool(const SessionOptions&)> is_set;
};

const std::vector<Case>& cases() {
    using Options = SessionOptions;
    static const std::vector<Case> all = {
        {"DEEPINFER_ACCELERATOR", "ref", [](const Options& o) { return o.engine.backend == "ref"; }},
        {"DEEPINFER_USE_NEXTN_DECODE", "3", [](const Options& o) { return o.engine.behaviour.drafts == 3; }},
        {"DEEPINFER_USE_NEXTN_DECODE", "0", [](const Options& o) { return o.engine.behaviour.drafts == 0; }},
        {"DEEPINFER_ENABLE_MTP_VARLEN", "0", [](const Options& o) { return !o.engine.behaviour.scheduled_verify; }},
        {"DEEPINFER_DFLASH_CONFIDENCE_HEAD_TEMPERATURE", "1.5,2",
         [](const Options& o) {
             return o.engine.confidence_temperatures == std::vector<float>{1.5F, 2.0F};
         }},
        {"DEEPINFER_XGRAMMAR_TIMEOUT", "2.5", [](const Options& o) { return o.preparer.grammar.timeout_ms == 2500; }},
        {"DEEPINFER_XGRAMMAR_DISABLE_CACHE", "1", [](const Options& o) { return o.preparer.grammar.cache_bytes == 0; }},
        {"DEEPINFER_XGRAMMAR_CACHE_LIMIT_BYTES", "1048576",
         [](const Options& o) { return o.preparer.grammar.cache_bytes == 1 << 20; }},
        {"DEEPINFER_SO_BUILDER_CPUS", "3", [](const Options& o) { return o.preparer.grammar.thread_count == 3; }},
        {"DEEPINFER_SAMPLER_FORCE_TOPK", "40", [](const Options& o) { return o.preparer.top_k_max == 40; }},
        {"DEEPINFER_DECODE_TOKEN_BLACKLIST", "7,300",
         [](const Options& o) {
             return o.preparer.banned_token_ids == std::vector<int32_t>{7, 300};
         }},
        {"DEEPINFER_DFLASH_CONFIDENCE_HEAD_TEMPERATURE", "1.5,2",
         [](const Options& o) {
             return o.engine.confidence_temperatures == std::vector<float>{1.5F, 2.0F};
         }},
        {"DEEPINFER_ZERO_OVERHEAD_SCHEDULING", "0", [](const Options& o) { return !o.engine.behaviour.asynchronous; }},
        {"DEEPINFER_LOGGING_INTERVAL_STEP", "50", [](const Options& o) { return o.log_interval_steps == 50; }},
        {"DEEPINFER_YOCO_PREFILL_TRUNCATION_MODE", "compact",
         [](const Options& o) { return o.engine.replay == Replay::kCompact; }},
        {"DEEPINFER_BATCH_INVARIANT", "1", [](const Options& o) { return o.engine.behaviour.deterministic; }},
        {"DEEPINFER_HF_MODEL_DIR", "somewhere", [](const Options& o) { return o.engine.model_directory == "somewhere"; }},
        {"DEEPINFER_ACTIVATIONS", "bf16", [](const Options& o) { return o.engine.activations == Activations::kBF16; }},
        {"DEEPINFER_ACT_QUANT", "fp8", [](const Options& o) { return o.engine.act_quant == ActQuant::kFp8; }},
        {"DEEPINFER_KV_MEMORY", "3MiB", [](const Options& o) { return o.engine.kv_memory_bytes == 3 << 20; }},
        {"DEEPINFER_KV_QUANT", "off", [](const Options& o) { return o.engine.kv_quant == KvQuant::kOff; }},
        {"DEEPINFER_MAX_MODEL_LEN", "300", [](const Options& o) { return o.engine.max_model_len == 300; }},
        {"DEEPINFER_MAX_NUM_BATCHED_TOKENS", "70", [](const Options& o) { return o.engine.max_num_batched_tokens == 70; }},
        {"DEEPINFER_MAX_NUM_SEQS", "5", [](const Options& o) { return o.engine.max_num_seqs == 5; }},
        {"DEEPINFER_SCHEDULING_POLICY", "priority",
         [](const Options& o) { return o.engine.behaviour.policy == SchedulingPolicy::kPriority; }},
        {"DEEPINFER_THREADS", "2", [](const Options& o) { return o.engine.threads == 2; }},
        {"DEEPINFER_VERIFY_MODE", "rejection",
         [](const Options& o) { return o.engine.behaviour.verify_mode == VerifyMode::kRejection; }},
        {"DEEPINFER_WEIGHTS_MEMORY", "1GB", [](const Options& o) { return o.engine.weights_memory_bytes == 1'000'000'000; }},
    };
    return all;
}

// Those whose setting does not reach the session's options by itself.
const std::map<std::string, std::string>& other_values() {
    static const std::map<std::string, std::string> values = {
        {"DEEPINFER_CPP_LOG_LEVEL", "error"}, {"DEEPINFER_LOG_LEVEL", "error"}, {"DEEPINFER_YOCO_PREFILL_KEEP_TOKENS", "150"}};
    return values;
}

Settings settings_of(const std::string& name, const std::string& value) {
    Settings settings;
    const EnvironmentMeaning meaning = meaning_of(name, value).value();
    EXPECT_TRUE(meaning.warning.empty()) << meaning.warning;
    EXPECT_NE(meaning.setting, nullptr) << name;
    if (meaning.setting != nullptr) {
        const Status status = set_setting(*meaning.setting, meaning.value, name, settings);
        EXPECT_TRUE(status.has_value()) << status.error().text;
    }
    return settings;
}

TEST(Environment, EveryNameChangesItsSetting) {
    const SessionOptions defaults = session_options({}).value();
    for (const Case& example : cases()) {
        EXPECT_FALSE(example.is_set(defaults)) << example.name;
        EXPECT_TRUE(example.is_set(session_options(settings_of(example.name, example.value)).value())) << example.name;
    }
    EXPECT_EQ(settings_of("DEEPINFER_CPP_LOG_LEVEL", "error").log_level, "error");
    EXPECT_EQ(settings_of("DEEPINFER_LOG_LEVEL", "error").log_level, "error");
    EXPECT_EQ(settings_of("DEEPINFER_YOCO_PREFILL_KEEP_TOKENS", "150").replay_keep, 150);
}

TEST(Environment, NoNameThatSetsSomethingIsUntested) {
    std::set<std::string> tested;
    for (const Case& example : cases()) {
        tested.insert(example.name);
    }
    for (const EnvironmentRow& row : environment_rows()) {
        const std::string name(row.name);
        if (row.effect == EnvironmentEffect::kSets) {
            EXPECT_TRUE(tested.contains(name) || other_values().contains(name)) << name;
            EXPECT_NE(find_setting(row.setting), nullptr) << name;
        } else {
            EXPECT_FALSE(row.note.empty()) << name << " says nothing";
        }
    }
}

TEST(Environment, NamesWithoutEffectSayWhy) {
    const EnvironmentMeaning meaning = meaning_of("DEEPINFER_JIT_CACHE_DIR", "x").value();
    EXPECT_EQ(meaning.setting, nullptr);
    EXPECT_EQ(meaning.warning, "DEEPINFER_JIT_CACHE_DIR has no effect: nothing is compiled at run time");
}

TEST(Environment, UnknownNamesWarnAndWrongValuesAreErrors) {
    EXPECT_EQ(meaning_of("DEEPINFER_NO_SUCH", "1")->warning, "unknown environment variable DEEPINFER_NO_SUCH");
    const auto ascend = meaning_of("DEEPINFER_ACCELERATOR", "ascend");
    ASSERT_FALSE(ascend.has_value());
    EXPECT_NE(ascend.error().text.find("expected auto, cpu or ref"), std::string::npos);
    EXPECT_EQ(meaning_of("DEEPINFER_ACCELERATOR", "nvidia")->value, "cuda");
    Settings settings;
    const EnvironmentMeaning drafts = meaning_of("DEEPINFER_USE_NEXTN_DECODE", "many").value();
    const Status status = set_setting(*drafts.setting, drafts.value, "DEEPINFER_USE_NEXTN_DECODE", settings);
    ASSERT_FALSE(status.has_value());
    EXPECT_EQ(status.error().text, "DEEPINFER_USE_NEXTN_DECODE: \"many\", expected an integer from 0 to 64");
}

TEST(Environment, SettingsOfTheServiceAreLeftToIt) {
    const EnvironmentMeaning meaning = meaning_of("DEEPINFER_SERVE_PORT", "80").value();
    EXPECT_EQ(meaning.setting, nullptr);
    EXPECT_EQ(meaning.warning, "");
}

TEST(Environment, AnEmptyValueIsAsIfTheNameWereNotSet) { EXPECT_EQ(meaning_of("DEEPINFER_THREADS", "")->setting, nullptr); }

TEST(Environment, NamesAreUniqueAndDocumented) {
    const std::string page = read_file("docs/environment.md", 1 << 20).value();
    std::set<std::string_view> names;
    for (const EnvironmentRow& row : environment_rows()) {
        EXPECT_TRUE(names.insert(row.name).second) << row.name;
        const std::string third =
            row.effect == EnvironmentEffect::kSets ? "`" + std::string(row.setting) + "`" : std::string(row.note);
        const std::string line = fmt::format("| {} | {} | {} |", row.name, row.default_text, third);
        EXPECT_NE(page.find(line), std::string::npos) << "docs/environment.md lacks the line\n" << line;
    }
}

}  // namespace
}  // namespace di
