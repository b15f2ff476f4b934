#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/commands.h"
#include "apps/engine_setup.h"
#include "apps/progress.h"
#include "base/file_io.h"
#include "engine/single_sequence.h"
#include "text/json_text.h"
#include "weights/safetensors.h"

namespace di {
namespace {

// Rows of a prefill step unless --chunk says otherwise.
constexpr int64_t kDefaultChunk = 512;
constexpr int64_t kTokensFileBytesMax = int64_t{256} << 20;

Result<std::vector<int32_t>> ids_of_text(std::string_view text) {
    std::vector<int32_t> ids;
    for (size_t begin = 0; begin <= text.size();) {
        const size_t end = std::min(text.find(',', begin), text.size());
        const std::string_view word = text.substr(begin, end - begin);
        int32_t id = 0;
        const auto [last, error] = std::from_chars(word.data(), word.data() + word.size(), id);
        if (error != std::errc() || last != word.data() + word.size() || id < 0) {
            return fail(ErrorCode::kInvalidArgument, "--tokens: \"{}\", expected token ids separated by commas", word);
        }
        ids.push_back(id);
        begin = end + 1;
    }
    return ids;
}

Result<std::vector<int32_t>> ids_of_file(const std::string& path) {
    DI_TRY(const std::string text, read_file(path, kTokensFileBytesMax));
    const Result<JsonValue> value = parse_json(text);
    if (!value || !value->is_array()) {
        return fail(ErrorCode::kInvalidArgument, "{}: {}, expected a JSON array of token ids", path,
                    value ? std::string(value->kind_name()) : value.error().text);
    }
    std::vector<int32_t> ids;
    for (const JsonValue& item : value->as_array()) {
        const std::optional<int64_t> id = item.is_number() ? item.as_int64() : std::nullopt;
        if (!id || *id < 0 || *id > std::numeric_limits<int32_t>::max()) {
            return fail(ErrorCode::kInvalidArgument, "{}: [{}] is {}, expected a token id", path, ids.size(),
                        short_json_text(item));
        }
        ids.push_back(static_cast<int32_t>(*id));
    }
    return ids;
}

Result<std::vector<int32_t>> asked_ids(const Options& options) {
    if (options.tokens.has_value() == options.tokens_file.has_value()) {
        return fail(ErrorCode::kInvalidArgument, "{}, expected either --tokens or --tokens-file",
                    options.tokens ? "both --tokens and --tokens-file" : "no tokens");
    }
    DI_TRY(std::vector<int32_t> ids, options.tokens ? ids_of_text(*options.tokens) : ids_of_file(*options.tokens_file));
    if (ids.empty()) {
        return fail(ErrorCode::kInvalidArgument, "no tokens, expected at least one id");
    }
    return ids;
}

// A request that the model cannot take: exit code 1, not a usage error.
Status check_ids(const std::vector<int32_t>& ids, const LoadedEngine& loaded) {
    for (size_t i = 0; i < ids.size(); ++i) {
        if (ids[i] >= loaded.config.vocab_size) {
            return fail(ErrorCode::kInvalidArgument, "token {} is {}, expected an id below vocab_size {}", i, ids[i],
                        loaded.config.vocab_size);
        }
    }
    if (static_cast<int64_t>(ids.size()) > loaded.plan.limits.max_model_len) {
        return fail(ErrorCode::kInvalidArgument, "{} tokens, expected at most {} (max-model-len)", ids.size(),
                    loaded.plan.limits.max_model_len);
    }
    return {};
}

Status write_logits(const std::vector<int32_t>& ids, const Options& options, int64_t chunk, LoadedEngine& loaded) {
    DI_TRY_STATUS(check_ids(ids, loaded));
    const auto count = static_cast<int64_t>(ids.size());
    DI_TRY(const std::unique_ptr<SingleSequence> sequence,
           SingleSequence::create(*loaded.model, *loaded.backend, static_cast<int32_t>(count)));
    std::vector<float> logits;
    ProgressBar bar(count, "tokens");
    for (int64_t begin = 0; begin < count; begin += chunk) {
        const int64_t rows = std::min(chunk, count - begin);
        const std::span<const int32_t> part(ids.data() + begin, static_cast<size_t>(rows));
        const std::vector<float> values = sequence->forward(part, options.all_rows, static_cast<int32_t>(count));
        if (!options.all_rows) {
            logits.clear();  // only the last chunk's last row is wanted
        }
        logits.insert(logits.end(), values.begin(), values.end());
        for (int64_t i = 0; i < rows; ++i) {
            bar.advance();
        }
    }
    const auto vocab_size = loaded.config.vocab_size;
    const SafetensorsOutput output{.name = "logits",
                                   .dtype = DType::kF32,
                                   .shape = {static_cast<int64_t>(logits.size()) / vocab_size, vocab_size},
                                   .data = logits.data()};
    return write_safetensors(*options.out, {&output, 1}, {{"backend", loaded.backend->name()}});
}

}  // namespace

int logits_command(const Options& options) {
    const Result<std::vector<int32_t>> ids = asked_ids(options);
    if (!ids) {
        print_error(ids.error());
        return kExitUsage;
    }
    Result<EngineOptions> engine = engine_options(options);
    if (!engine) {
        print_error(engine.error());
        return exit_code_of(engine.error());
    }
    const int64_t chunk = options.chunk.value_or(std::min<int64_t>(kDefaultChunk, static_cast<int64_t>(ids->size())));
    engine->max_num_seqs = 1;
    engine->max_num_batched_tokens = static_cast<int32_t>(chunk);
    engine->logits_of_all_rows = options.all_rows;
    if (engine->max_model_len == 0) {
        engine->max_model_len = static_cast<int32_t>(ids->size());
    }
    const Result<std::unique_ptr<LoadedEngine>> loaded = load_engine(*engine, token_classes_of(*engine));
    if (!loaded) {
        print_error(loaded.error());
        return exit_code_of(loaded.error());
    }
    if (const Status written = write_logits(*ids, options, chunk, **loaded); !written) {
        print_error(written.error());
        return kExitRequestFailed;
    }
    return kExitOk;
}

}  // namespace di
