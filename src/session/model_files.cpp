#include "session/model_files.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/file_io.h"
#include "engine/load.h"
#include "session/limits.h"
#include "text/chat_tokens.h"
#include "text/gguf_tokenizer.h"
#include "text/json_text.h"
#include "text/limits.h"

namespace di {

namespace {

// Ends of a turn by their spelling: many files name only one of theirs.
constexpr std::array<std::string_view, 8> kTurnEnds{"<|im_end|>", "<|eot_id|>",    "<|end_of_text|>", "<|endoftext|>",
                                                    "<|eom_id|>", "<end_of_turn>", "<|end|>",         "<｜end▁of▁sentence｜>"};
// As generation_config.json may have it: a probability of 0 would leave no token.
constexpr GgufMetadata::NumberRange kTemperatures{.min = 0.0, .max = 1e6};
constexpr GgufMetadata::NumberRange kProbabilities{.min = 1e-6, .max = 1.0};
// tokenizer_config.json of models with thousands of added tokens has some hundred KB.
constexpr int64_t kTextFileBytesMax = int64_t{64} << 20;
constexpr GgufMetadata::IntegerRange kAnyInteger{.min = INT64_MIN, .max = INT64_MAX};

Result<std::optional<int64_t>> optional_integer(const GgufMetadata& metadata, std::string_view key) {
    if (!metadata.has(key)) {
        return std::nullopt;
    }
    DI_TRY(const int64_t value, metadata.integer(key, kAnyInteger));
    return std::optional(value);
}

Result<std::optional<double>> optional_number(const GgufMetadata& metadata, std::string_view key,
                                              GgufMetadata::NumberRange range) {
    if (!metadata.has(key)) {
        return std::nullopt;
    }
    DI_TRY(const double value, metadata.number(key, range));
    return std::optional(value);
}

Result<Tokenizer> read_tokenizer(const GgufMetadata& metadata) {
    GgufVocabulary vocabulary;
    DI_TRY(vocabulary.model, metadata.text("tokenizer.ggml.model"));
    DI_TRY(vocabulary.pretokenizer, metadata.text("tokenizer.ggml.pre", ""));
    DI_TRY(const std::vector<std::string_view> tokens, metadata.texts("tokenizer.ggml.tokens", kVocabularySizeMax));
    std::vector<int32_t> types;
    if (metadata.has("tokenizer.ggml.token_type")) {
        DI_TRY(types, metadata.small_integers("tokenizer.ggml.token_type", kVocabularySizeMax));
    }
    std::vector<float> scores;
    if (metadata.has("tokenizer.ggml.scores")) {
        DI_TRY(scores, metadata.numbers("tokenizer.ggml.scores", kVocabularySizeMax));
    }
    std::vector<std::string_view> merges;
    // Sentence pieces need no merges; some files have them nevertheless.
    if (vocabulary.model == "gpt2") {
        DI_TRY(merges, metadata.texts("tokenizer.ggml.merges", kMergesMax));
    }
    vocabulary.tokens = tokens;
    vocabulary.types = types;
    vocabulary.scores = scores;
    vocabulary.merges = merges;
    DI_TRY(vocabulary.bos_id, optional_integer(metadata, "tokenizer.ggml.bos_token_id"));
    DI_TRY(vocabulary.eos_id, optional_integer(metadata, "tokenizer.ggml.eos_token_id"));
    DI_TRY(vocabulary.pad_id, optional_integer(metadata, "tokenizer.ggml.padding_token_id"));
    DI_TRY(vocabulary.unknown_id, optional_integer(metadata, "tokenizer.ggml.unknown_token_id"));
    if (metadata.has("tokenizer.ggml.add_space_prefix")) {
        DI_TRY(vocabulary.adds_space_prefix, metadata.boolean("tokenizer.ggml.add_space_prefix"));
    }
    DI_TRY(const TokenizerFile file, tokenizer_of_gguf(vocabulary));
    return Tokenizer::create(file);
}

Result<GenerationConfig> read_generation_config(const GgufMetadata& metadata, const Tokenizer& tokenizer) {
    GenerationConfig generation;
    DI_TRY(generation.temperature, optional_number(metadata, "general.sampling.temp", kTemperatures));
    DI_TRY(generation.top_p, optional_number(metadata, "general.sampling.top_p", kProbabilities));
    DI_TRY(const int64_t top_k, metadata.integer("general.sampling.top_k", {.min = 0, .max = INT32_MAX}, 0));
    if (top_k > 0) {
        generation.top_k = static_cast<int32_t>(top_k);
    }
    std::vector<int32_t>& ends = generation.eos_token_ids;
    for (const std::string_view key : {"eos_token_id", "eot_token_id", "eom_token_id"}) {
        const std::string full_key = fmt::format("tokenizer.ggml.{}", key);
        if (metadata.has(full_key)) {
            DI_TRY(const int64_t id, metadata.integer(full_key, {.min = 0, .max = tokenizer.vocabulary_size() - 1}));
            ends.push_back(static_cast<int32_t>(id));
        }
    }
    for (const std::string_view spelling : kTurnEnds) {
        if (const auto id = tokenizer.find(spelling); id && tokenizer.is_special(*id)) {
            ends.push_back(*id);
        }
    }
    std::ranges::sort(ends);
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    return generation;
}

// The text of `directory`/`name`; none when there is no such file.
Result<std::optional<std::string>> optional_file(const std::string& directory, std::string_view name) {
    const std::string path = fmt::format("{}/{}", directory, name);
    std::error_code error;
    if (!std::filesystem::exists(path, error)) {
        return std::nullopt;
    }
    DI_TRY(std::string text, read_file(path, kTextFileBytesMax));
    return std::optional(std::move(text));
}

Result<std::optional<std::string>> read_chat_template(const std::string& model) {
    if (is_gguf_path(model)) {
        DI_TRY(const GgufFile file, GgufFile::open(model));
        if (!file.metadata().has("tokenizer.chat_template")) {
            return std::nullopt;
        }
        DI_TRY(const std::string_view text, file.metadata().text("tokenizer.chat_template"));
        return std::optional(std::string(text));
    }
    DI_TRY(std::optional<std::string> text, optional_file(model, "chat_template.jinja"));
    if (text) {
        return text;
    }
    DI_TRY(const std::optional<std::string> config, optional_file(model, "tokenizer_config.json"));
    if (!config) {
        return std::nullopt;
    }
    auto found = parse_chat_template(*config);
    if (!found) {
        return fail_in(model + "/tokenizer_config.json", std::move(found.error()));
    }
    return found;
}

// A post-processor of tokenizer.json: a template, or a sequence of processors that has one.
bool template_begins_with(const JsonValue& processor, const Tokenizer& tokenizer, int32_t id) {
    if (!processor.is_object()) {
        return false;
    }
    if (const JsonValue* parts = processor.find("processors"); parts != nullptr && parts->is_array()) {
        return std::ranges::any_of(parts->as_array(), [&](const JsonValue& part) {
            return part.is_object() && part.find("processors") == nullptr && template_begins_with(part, tokenizer, id);
        });
    }
    const JsonValue* single = processor.find("single");
    if (single == nullptr || !single->is_array() || single->as_array().empty() || !single->as_array().front().is_object()) {
        return false;
    }
    const JsonValue* token = single->as_array().front().find("SpecialToken");
    const JsonValue* spelling = token != nullptr && token->is_object() ? token->find("id") : nullptr;
    return spelling != nullptr && spelling->is_string() && tokenizer.find(spelling->as_string()) == id;
}

}  // namespace

Result<Tokenizer> open_tokenizer(const std::string& model) {
    if (!is_gguf_path(model)) {
        return Tokenizer::open(model);
    }
    DI_TRY(const GgufFile file, GgufFile::open(model));
    auto tokenizer = read_tokenizer(file.metadata());
    if (!tokenizer) {
        return fail_in(model, std::move(tokenizer.error()));
    }
    return tokenizer;
}

Result<GenerationConfig> open_generation_config(const std::string& model, const Tokenizer& tokenizer) {
    if (!is_gguf_path(model)) {
        return load_generation_config(model);
    }
    DI_TRY(const GgufFile file, GgufFile::open(model));
    auto generation = read_generation_config(file.metadata(), tokenizer);
    if (!generation) {
        return fail_in(model, std::move(generation.error()));
    }
    return generation;
}

Result<bool> open_adds_bos(const std::string& model, const Tokenizer& tokenizer, bool otherwise) {
    if (is_gguf_path(model)) {
        return otherwise;
    }
    DI_TRY(const std::optional<std::string> config, optional_file(model, "tokenizer_config.json"));
    if (config) {
        auto value = parse_json(*config);
        if (!value) {
            return fail_in(model + "/tokenizer_config.json", std::move(value.error()));
        }
        if (const JsonValue* flag = value->find("add_bos_token"); flag != nullptr && !flag->is_null()) {
            if (!flag->is_boolean()) {
                return fail(ErrorCode::kInvalidFile, "{}/tokenizer_config.json: add_bos_token is {}, expected true or false",
                            model, short_json_text(*flag));
            }
            return flag->as_boolean();
        }
    }
    DI_TRY(const std::optional<std::string> text, optional_file(model, "tokenizer.json"));
    if (!text || !tokenizer.bos_id()) {
        return otherwise;
    }
    auto file = parse_json(*text);
    if (!file) {
        return fail_in(model + "/tokenizer.json", std::move(file.error()));
    }
    const JsonValue* processor = file->find("post_processor");
    return processor == nullptr ? otherwise : template_begins_with(*processor, tokenizer, *tokenizer.bos_id());
}

Result<ChatFormat> open_chat_format(const std::string& model, const Tokenizer& tokenizer, bool adds_bos) {
    const Status is_deepseek = check_chat_tokens(tokenizer, ChatDialect::kV41);
    if (is_deepseek) {
        return ChatFormat::deepseek(ChatDialect::kV41);
    }
    DI_TRY(const std::optional<std::string> source, read_chat_template(model));
    if (source) {
        const auto spelling = [&](std::optional<int32_t> id) { return id ? std::string(tokenizer.piece(*id)) : std::string(); };
        return ChatFormat::of_template({.source = *source,
                                        .bos = spelling(tokenizer.bos_id()),
                                        .eos = spelling(tokenizer.eos_id()),
                                        .adds_bos = adds_bos});
    }
    return ChatFormat::none(fmt::format("{} has no chat template and no tokens of DeepSeek's format for conversations ({})",
                                        model, is_deepseek.error().text));
}

}  // namespace di
