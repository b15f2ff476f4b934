#include "apps/engine_setup.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <vector>

#include "apps/progress.h"
#include "base/file_io.h"
#include "session/model_files.h"
#include "session/settings.h"
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

// A schema or grammar in one piece; the limits of the text itself are those of text/limits.h.
constexpr int64_t kGrammarFileBytesMax = int64_t{64} << 20;

// The argument itself where it is one, else the content of the file that it names.
Result<std::string> text_or_file(const std::string& argument, bool is_text) {
    if (is_text) {
        return argument;
    }
    return read_file(argument, kGrammarFileBytesMax);
}

}  // namespace

int exit_code_of(const Error& error) {
    switch (error.code) {
        case ErrorCode::kOutOfMemory: return kExitMemory;
        case ErrorCode::kContextExceeded:
        case ErrorCode::kInvalidArgument: return kExitUsage;
        case ErrorCode::kNotFound:
        case ErrorCode::kInvalidFile:
        case ErrorCode::kUnsupported:
        case ErrorCode::kTimedOut:
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
    DI_TRY_STATUS(check_model_path(*options.model));
    return *options.model;
}

Result<EngineOptions> engine_options(const Options& options) {
    DI_TRY(EngineOptions engine, engine_flags(options));
    DI_TRY(engine.model_directory, model_directory(options));
    return engine;
}

Result<EngineOptions> engine_flags(const Options& options) {
    DI_TRY(SessionOptions session, session_options(options));
    return std::move(session.engine);
}

Result<std::optional<GrammarSpec>> answer_grammar(const Options& options) {
    const int given = (options.json_schema ? 1 : 0) + (options.regex ? 1 : 0) + (options.grammar ? 1 : 0);
    if (given > 1) {
        return fail(ErrorCode::kInvalidArgument, "{} of --json-schema, --regex and --grammar, expected at most one", given);
    }
    GrammarSpec spec;
    if (options.json_schema) {
        spec.kind = GrammarSpec::Kind::kJsonSchema;
        const size_t begin = options.json_schema->find_first_not_of(" \t\r\n");
        DI_TRY(spec.text,
               text_or_file(*options.json_schema, begin != std::string::npos && (*options.json_schema)[begin] == '{'));
        return spec;
    }
    if (options.regex) {
        spec.kind = GrammarSpec::Kind::kRegex;
        spec.text = *options.regex;
        return spec;
    }
    if (options.grammar) {
        spec.kind = GrammarSpec::Kind::kEbnf;
        DI_TRY(spec.text, text_or_file(*options.grammar, options.grammar->find("::=") != std::string::npos));
        return spec;
    }
    return std::nullopt;
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
    DI_TRY(SessionOptions session, session_options(options));
    DI_TRY(session.engine.model_directory, model_directory(options));
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
        DI_TRY(const Tokenizer tokenizer, open_tokenizer(options.model_directory));
        return token_classes(tokenizer, vocab_size);
    };
}

}  // namespace di
