#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "apps/bench_load.h"
#include "apps/engine_setup.h"
#include "apps/progress.h"
#include "apps/prompt_lines.h"
#include "base/log.h"
#include "base/random.h"
#include "session/model_files.h"
#include "text/tokenizer.h"

namespace di {
namespace {

constexpr int64_t kDefaultInputLength = 256;
constexpr int64_t kDefaultOutputLength = 128;
constexpr double kDefaultLengthSpread = 0.5;

// What a request may cost, and what every request has in common.
struct RequestShape {
    int64_t input_length = 0;
    int64_t output_length = 0;
    double spread = 0.0;
    SamplingParams sampling;
    int32_t top_k_max = 0;
    uint64_t seed = 0;
};

RequestShape shape_of(const Options& options, const SessionOptions& session) {
    RequestShape shape;
    shape.input_length = options.input_len.value_or(kDefaultInputLength);
    shape.output_length = options.output_len.value_or(kDefaultOutputLength);
    shape.spread = options.length_spread.value_or(kDefaultLengthSpread);
    shape.seed = options.seed.value_or(0);
    shape.top_k_max = session.preparer.top_k_max;
    shape.sampling.temperature = options.temperature.value_or(0.0);
    shape.sampling.banned_token_ids = session.preparer.banned_token_ids;
    // Answers of a fixed length: how much is measured does not depend on what the model says.
    shape.sampling.ignore_eos = true;
    return shape;
}

int64_t draw_length(int64_t mean, double spread, SeededRandom& random) {
    const auto reach = static_cast<int64_t>(std::floor(static_cast<double>(mean) * spread));
    return std::max<int64_t>(1, mean - reach + random.below(2 * reach + 1));
}

// Ids that spread over vocabulary and experts. Placeholders of images would need images.
std::vector<int32_t> made_up_prompt(int64_t length, const ModelConfig& config, SeededRandom& random) {
    std::vector<int32_t> ids(static_cast<size_t>(length));
    for (int32_t& id : ids) {
        id = static_cast<int32_t>(random.below(config.vocab_size));
        if (config.image_token_id == id) {
            id = id > 0 ? id - 1 : id + 1;
        }
    }
    return ids;
}

Result<TokenRequest> request_of_line(const std::string& line, PromptRequest defaults, const PromptContext& context) {
    DI_TRY(PromptRequest prompt, parse_prompt_line(line, defaults));
    if (!prompt.stop.empty()) {
        return fail(ErrorCode::kInvalidArgument, "stop: {} strings, expected none: a load has no text", prompt.stop.size());
    }
    if (prompt.sampling.n != 1) {
        return fail(ErrorCode::kInvalidArgument, "n: {}, expected 1", prompt.sampling.n);
    }
    DI_TRY(const std::optional<GrammarSpec> grammar, prompt_grammar(prompt, *context.tokenizer));
    if (grammar) {
        return fail(ErrorCode::kInvalidArgument, "a {} for the answer, expected none: a load has no text",
                    grammar_kind_name(grammar->kind));
    }
    return build_token_request(std::move(prompt), context);
}

void cap_top_k(SamplingParams& sampling, int32_t top_k_max) {
    if (top_k_max > 0 && (sampling.top_k <= 0 || sampling.top_k > top_k_max)) {
        sampling.top_k = top_k_max;
    }
}

Result<std::vector<TokenRequest>> make_requests(const std::vector<std::string>& lines, const RequestShape& shape, int64_t count,
                                                const PromptContext& context) {
    SeededRandom random(shape.seed);
    std::vector<TokenRequest> requests;
    for (int64_t i = 0; i < count; ++i) {
        PromptRequest prompt;
        prompt.sampling = shape.sampling;
        prompt.sampling.seed = shape.seed + static_cast<uint64_t>(i);
        prompt.sampling.max_tokens = static_cast<int32_t>(draw_length(shape.output_length, shape.spread, random));
        TokenRequest& request = requests.emplace_back();
        if (lines.empty()) {
            request.sampling = std::move(prompt.sampling);
            request.prompt_token_ids =
                made_up_prompt(draw_length(shape.input_length, shape.spread, random), *context.config, random);
        } else {
            const size_t line = static_cast<size_t>(i) % lines.size();
            Result<TokenRequest> made = request_of_line(lines[line], std::move(prompt), context);
            if (!made) {
                return fail(ErrorCode::kInvalidArgument, "prompt {}: {}", line, made.error().text);
            }
            request = std::move(*made);
        }
        cap_top_k(request.sampling, shape.top_k_max);
    }
    return requests;
}

// The engine would cut such an answer, and less would be measured than was asked for.
Status check_lengths(const std::vector<TokenRequest>& requests, int32_t max_model_len) {
    for (size_t i = 0; i < requests.size(); ++i) {
        const auto prompt = static_cast<int64_t>(requests[i].prompt_token_ids.size());
        if (prompt + requests[i].sampling.max_tokens > max_model_len) {
            return fail(ErrorCode::kInvalidArgument,
                        "request {}: {} prompt and {} output tokens, expected at most {} together (--max-model-len)", i, prompt,
                        requests[i].sampling.max_tokens, max_model_len);
        }
    }
    return {};
}

Result<std::vector<std::string>> read_lines(const Options& options) {
    if (!options.prompts) {
        return std::vector<std::string>{};
    }
    if (options.input_len) {
        return fail(ErrorCode::kInvalidArgument, "--input-len {} together with --prompts, expected one of them",
                    *options.input_len);
    }
    Result<std::vector<std::string>> lines = read_prompt_lines(*options.prompts);
    if (!lines) {
        return fail(ErrorCode::kInvalidArgument, "{}", lines.error().text);
    }
    if (lines->empty()) {
        return fail(ErrorCode::kInvalidArgument, "{} has no line, expected one JSON object a line", *options.prompts);
    }
    return lines;
}

}  // namespace

Result<BenchLoad> open_bench_load(const Options& options, const BenchSize& size) {
    DI_TRY(const std::vector<std::string> lines, read_lines(options));
    DI_TRY(SessionOptions session, session_options(options));
    DI_TRY(session.engine.model_directory, model_directory(options));
    if (session.log_interval_steps > 0) {
        log_warning("log-interval-steps has no effect on a benchmark, whose result has the statistics");
    }
    if (session.engine.max_num_seqs == 0) {
        session.engine.max_num_seqs = size.sequences;
    }
    BenchLoad load;
    load.model = session.engine.model_directory;
    load.behaviour = session.engine.behaviour;
    {
        const ProgressLine progress(fmt::format("loading {}", load.model));
        DI_TRY(load.loaded, load_engine(session.engine, token_classes_of(session.engine)));
    }
    std::optional<Tokenizer> tokenizer;
    ChatFormat chat_format = ChatFormat::deepseek(ChatDialect::kV41);
    if (!lines.empty()) {
        const std::string& directory = session.tokenizer_directory.empty() ? load.model : session.tokenizer_directory;
        DI_TRY(tokenizer, open_tokenizer(directory));
        DI_TRY(chat_format, open_chat_format(directory, *tokenizer, load.loaded->config.adds_bos));
    }
    const PromptContext context{
        .config = &load.loaded->config, .tokenizer = tokenizer ? &*tokenizer : nullptr, .chat_format = &chat_format};
    DI_TRY(load.requests, make_requests(lines, shape_of(options, session), size.request_count, context));
    DI_TRY_STATUS(check_lengths(load.requests, load.loaded->plan.limits.max_model_len));
    return load;
}

}  // namespace di
