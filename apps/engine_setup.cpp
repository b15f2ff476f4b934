#include "apps/engine_setup.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <vector>

#include "apps/progress.h"
#include "text/token_classes.h"

namespace di {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEmbeddedModel = "v41-mini";
constexpr int32_t kDefaultMaxTokens = 256;

std::string embedded_model() {
    std::vector<fs::path> places;
    std::error_code error;
    const fs::path program = fs::read_symlink("/proc/self/exe", error);
    if (!error) {
        const fs::path folder = program.parent_path();
        places.push_back(folder / "../models");     // build/deepinfer
        places.push_back(folder / "../../models");  // build/release/deepinfer
        places.push_back(folder / "../share/deepinfer/models");
    }
    places.emplace_back(DI_SOURCE_MODELS);
    for (const fs::path& place : places) {
        if (fs::exists(place / kEmbeddedModel / "config.json", error)) {
            return (place / kEmbeddedModel).lexically_normal().string();
        }
    }
    return {};
}

Status check_supported(const Options& options) {
    if (options.backend == "cuda") {
        return fail(ErrorCode::kInvalidArgument, "backend \"cuda\": no cuda backend in this build, expected auto, cpu or ref");
    }
    if (options.gpu_memory) {
        return fail(ErrorCode::kInvalidArgument,
                    "--gpu-memory {}: no cuda backend in this build, expected the flag to be absent", *options.gpu_memory);
    }
    if (options.drafts.value_or(0) > 0) {
        return fail(ErrorCode::kInvalidArgument, "not in this version: --drafts {}, expected 0", *options.drafts);
    }
    if (options.json_schema) {
        return fail(ErrorCode::kInvalidArgument, "not in this version: --json-schema {}", *options.json_schema);
    }
    if (options.regex) {
        return fail(ErrorCode::kInvalidArgument, "not in this version: --regex {}", *options.regex);
    }
    if (options.grammar) {
        return fail(ErrorCode::kInvalidArgument, "not in this version: --grammar {}", *options.grammar);
    }
    if (options.replay_keep && options.replay == "off") {
        return fail(ErrorCode::kInvalidArgument, "--replay-keep {} without --replay, expected --replay compact",
                    *options.replay_keep);
    }
    return {};
}

Replay replay_of(const std::string& name) {
    return name == "mask"      ? Replay::kMask
           : name == "compact" ? Replay::kCompact
           : name == "exact"   ? Replay::kExact
                               : Replay::kOff;
}

int32_t to_int32(const std::optional<int64_t>& value) { return static_cast<int32_t>(value.value_or(0)); }

}  // namespace

int exit_code_of(const Error& error) {
    switch (error.code) {
        case ErrorCode::kOutOfMemory: return kExitMemory;
        case ErrorCode::kInvalidArgument: return kExitUsage;
        case ErrorCode::kNotFound:
        case ErrorCode::kInvalidFile:
        case ErrorCode::kUnsupported:
        case ErrorCode::kUnavailable:
        case ErrorCode::kInternal: return kExitModel;
    }
    return kExitModel;
}

void print_error(const Error& error) { print_error(error.text); }

void print_error(std::string_view text) {
    // One line, whatever a library or a file name brought along.
    std::string line;
    for (const char c : text) {
        line += c == '\n' || c == '\r' ? ' ' : c;
    }
    fmt::print(stderr, "error: {}\n", line);
}

Result<std::string> model_directory(const Options& options) {
    if (!options.model) {
        std::string embedded = embedded_model();
        if (embedded.empty()) {
            return fail(ErrorCode::kNotFound, "the embedded model {} was not found beside the program, expected --model M",
                        kEmbeddedModel);
        }
        return embedded;
    }
    const std::string& model = *options.model;
    if (model.ends_with(".gguf")) {
        return fail(ErrorCode::kUnsupported, "not in this version: GGUF file {}, expected a model directory", model);
    }
    std::error_code error;
    if (!fs::exists(model, error)) {
        return fail(ErrorCode::kNotFound, "model {} does not exist, expected a directory with config.json", model);
    }
    if (!fs::is_directory(model, error)) {
        return fail(ErrorCode::kInvalidFile, "model {} is not a directory, expected one with config.json", model);
    }
    return model;
}

Result<EngineOptions> engine_options(const Options& options) {
    DI_TRY(EngineOptions engine, engine_flags(options));
    DI_TRY(engine.model_directory, model_directory(options));
    return engine;
}

Result<EngineOptions> engine_flags(const Options& options) {
    DI_TRY_STATUS(check_supported(options));
    EngineOptions engine;
    engine.load_format = options.load_format == "dummy" ? LoadFormat::kDummy : LoadFormat::kAuto;
    engine.backend = options.backend;
    engine.threads = to_int32(options.threads);
    engine.activations = options.activations == "bf16" ? Activations::kBF16 : Activations::kF32;
    engine.kv_quant = options.kv_quant == "off" ? KvQuant::kOff : KvQuant::kReference;
    engine.act_quant = options.act_quant == "fp8" ? ActQuant::kFp8 : ActQuant::kNone;
    engine.replay = replay_of(options.replay);
    engine.replay_keep = to_int32(options.replay_keep);
    engine.max_model_len = to_int32(options.max_model_len);
    engine.max_num_seqs = to_int32(options.max_num_seqs);
    engine.max_num_batched_tokens = to_int32(options.max_num_batched_tokens);
    engine.kv_memory_bytes = options.kv_memory.value_or(0);
    engine.weights_memory_bytes = options.weights_memory.value_or(0);
    engine.seed = options.seed.value_or(0);
    return engine;
}

PromptRequest default_request(const Options& options, const Session& session) {
    PromptRequest request;
    request.sampling = session.default_sampling();
    request.sampling.max_tokens = static_cast<int32_t>(options.max_tokens.value_or(kDefaultMaxTokens));
    request.sampling.temperature = options.temperature.value_or(request.sampling.temperature);
    request.sampling.top_p = options.top_p.value_or(request.sampling.top_p);
    request.sampling.top_k = static_cast<int32_t>(options.top_k.value_or(request.sampling.top_k));
    request.sampling.seed = options.seed;
    request.stop = options.stop;
    return request;
}

Result<std::unique_ptr<Session>> open_session(const Options& options) {
    SessionOptions session;
    DI_TRY(session.engine, engine_options(options));
    const ProgressLine line(fmt::format("loading {}", session.engine.model_directory));
    return Session::open(session);
}

TokenClasses token_classes_of(const EngineOptions& options) {
    return [options](int64_t vocab_size) -> Result<std::vector<int32_t>> {
        std::error_code error;
        if (options.load_format == LoadFormat::kDummy && !fs::exists(options.model_directory + "/tokenizer.json", error)) {
            DI_TRY(const ModelConfig config, load_model_config(options.model_directory));
            std::vector<int32_t> classes(static_cast<size_t>(vocab_size));
            for (size_t id = 0; id < classes.size(); ++id) {
                classes[id] =
                    static_cast<int32_t>(id % static_cast<size_t>(std::max<int64_t>(1, config.engram.compressed_vocab_size)));
            }
            return classes;
        }
        DI_TRY(const Tokenizer tokenizer, Tokenizer::open(options.model_directory));
        return token_classes(tokenizer, vocab_size);
    };
}

}  // namespace di
