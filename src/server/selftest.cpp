#include "server/selftest.h"

#include <cmath>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/file_io.h"
#include "server/limits.h"
#include "text/json_text.h"

namespace di {
namespace {

constexpr int32_t kFreeTokens = 4;  // drawn where nothing is known of the model

struct Golden {
    std::vector<int32_t> prompt_token_ids;
    std::vector<int32_t> token_ids;
    std::vector<double> logprobs;
    double tolerance = 0.0;
};

Result<std::vector<double>> numbers(const JsonValue& file, std::string_view key) {
    const JsonValue* member = file.find(key);
    if (member == nullptr || !member->is_array()) {
        return fail(ErrorCode::kInvalidFile, "selftest.json: {}: expected a list of numbers", key);
    }
    std::vector<double> values;
    for (const JsonValue& item : member->as_array()) {
        if (!item.is_number()) {
            return fail(ErrorCode::kInvalidFile, "selftest.json: {}: {}, expected numbers", key, item.kind_name());
        }
        values.push_back(item.as_double());
    }
    return values;
}

std::vector<int32_t> as_ids(const std::vector<double>& values) { return {values.begin(), values.end()}; }

Result<Golden> read_golden(const std::string& path) {
    DI_TRY(const std::string text, read_file(path, kSelftestFileBytesMax));
    DI_TRY(const JsonValue file, parse_json(text));
    Golden golden;
    DI_TRY(const std::vector<double> prompt, numbers(file, "prompt_token_ids"));
    DI_TRY(const std::vector<double> tokens, numbers(file, "token_ids"));
    DI_TRY(golden.logprobs, numbers(file, "logprobs"));
    golden.prompt_token_ids = as_ids(prompt);
    golden.token_ids = as_ids(tokens);
    const JsonValue* tolerance = file.find("tolerance");
    if (tolerance == nullptr || !tolerance->is_number() || golden.token_ids.size() < golden.logprobs.size() ||
        golden.token_ids.empty() || golden.prompt_token_ids.empty()) {
        return fail(ErrorCode::kInvalidFile,
                    "selftest.json: expected a tolerance, a prompt, token_ids, and at most as many logprobs");
    }
    golden.tolerance = tolerance->as_double();
    return golden;
}

// Whether the engine is to give the numbers of the file at all.
bool has_default_numbers(const SessionOptions& options) {
    const EngineOptions& engine = options.engine;
    return engine.load_format != LoadFormat::kDummy && engine.activations == Activations::kF32 &&
           engine.kv_quant == KvQuant::kReference && engine.act_quant == ActQuant::kNone && engine.replay == Replay::kOff &&
           options.preparer.banned_token_ids.empty();
}

bool has_room(const EngineLimits& limits, const Golden& golden) {
    const size_t tokens = golden.prompt_token_ids.size() + golden.token_ids.size();
    return tokens <= static_cast<size_t>(limits.max_model_len) &&
           golden.prompt_token_ids.size() <= static_cast<size_t>(limits.max_num_batched_tokens);
}

Status compare(const PromptResult& result, const Golden& golden) {
    if (result.token_ids.size() != golden.token_ids.size()) {
        return fail(ErrorCode::kInternal, "{} tokens were drawn, expected {}", result.token_ids.size(),
                    golden.token_ids.size());
    }
    for (size_t i = 0; i < golden.token_ids.size(); ++i) {
        if (result.token_ids[i] != golden.token_ids[i]) {
            return fail(ErrorCode::kInternal, "token {} is {}, expected {}", i, result.token_ids[i], golden.token_ids[i]);
        }
        if (i < golden.logprobs.size() &&
            !(std::abs(static_cast<double>(result.logprobs[i]) - golden.logprobs[i]) <= golden.tolerance)) {
            return fail(ErrorCode::kInternal, "token {} has log-probability {}, expected {} +- {}", i, result.logprobs[i],
                        golden.logprobs[i], golden.tolerance);
        }
    }
    return {};
}

}  // namespace

Status run_selftest(Session& session, const std::string& model_directory) {
    const std::string path = model_directory + "/selftest.json";
    std::error_code error;
    Golden golden;
    bool has_golden = false;
    if (has_default_numbers(session.options()) && std::filesystem::exists(path, error)) {
        DI_TRY(golden, read_golden(path));
        has_golden = has_room(session.plan().limits, golden);
    }
    if (!has_golden) {
        golden.prompt_token_ids = {session.config().bos_token_id};
    }
    PromptRequest request;
    request.prompt = golden.prompt_token_ids;
    request.sampling.temperature = 0.0;
    request.sampling.logprobs = true;
    request.sampling.ignore_eos = true;
    request.sampling.max_tokens = has_golden ? static_cast<int32_t>(golden.token_ids.size()) : kFreeTokens;
    std::vector<PromptRequest> requests;
    requests.push_back(std::move(request));
    const PromptResult result = std::move(session.generate(std::move(requests), {}).front());
    if (result.error) {
        return tl::unexpected<Error>(*result.error);
    }
    for (size_t i = 0; i < result.token_ids.size(); ++i) {
        if (!std::isfinite(result.logprobs[i])) {
            return fail(ErrorCode::kInternal, "the log-probability of token {} is {}, expected a number", i,
                        result.logprobs[i]);
        }
    }
    return has_golden ? compare(result, golden) : Status();
}

}  // namespace di
