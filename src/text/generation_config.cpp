#include "text/generation_config.h"

#include <filesystem>
#include <limits>
#include <system_error>

#include "base/file_io.h"
#include "text/json_text.h"

namespace di {
namespace {

// Real files have a few hundred bytes.
constexpr int64_t kGenerationConfigBytesMax = 1 << 20;
// More end tokens than any model has; each is compared with every token drawn.
constexpr size_t kEosIdsMax = 256;

// The number of `key`, absent when the file has none or null. `lowest` is allowed only if `lowest_included`.
struct NumberRange {
    double lowest = 0.0;
    bool lowest_included = true;
    double highest = 0.0;
    std::string_view text;  // for the message
};

Result<std::optional<double>> read_number(const JsonValue& file, std::string_view key, const NumberRange& range) {
    const JsonValue* value = file.find(key);
    if (value == nullptr || value->is_null()) {
        return std::optional<double>();
    }
    const bool is_number = value->is_number();
    const double number = is_number ? value->as_double() : 0.0;
    const bool is_inside = (range.lowest_included ? number >= range.lowest : number > range.lowest) && number <= range.highest;
    if (!is_number || !is_inside) {
        return fail(ErrorCode::kInvalidFile, "{}: {}, expected {}", key, short_json_text(*value), range.text);
    }
    return std::optional<double>(number);
}

Result<int32_t> read_id(const JsonValue& value) {
    const std::optional<int64_t> id = value.is_number() ? value.as_int64() : std::nullopt;
    if (!id || *id < 0 || *id > std::numeric_limits<int32_t>::max()) {
        return fail(ErrorCode::kInvalidFile, "eos_token_id: {}, expected a token id", short_json_text(value));
    }
    return static_cast<int32_t>(*id);
}

Result<std::vector<int32_t>> read_eos(const JsonValue& file) {
    std::vector<int32_t> ids;
    const JsonValue* value = file.find("eos_token_id");
    if (value == nullptr || value->is_null()) {
        return ids;
    }
    if (!value->is_array()) {
        DI_TRY(const int32_t id, read_id(*value));
        ids.push_back(id);
        return ids;
    }
    if (value->as_array().size() > kEosIdsMax) {
        return fail(ErrorCode::kInvalidFile, "eos_token_id: {} ids, expected at most {}", value->as_array().size(), kEosIdsMax);
    }
    for (const JsonValue& item : value->as_array()) {
        DI_TRY(const int32_t id, read_id(item));
        ids.push_back(id);
    }
    return ids;
}

}  // namespace

Result<GenerationConfig> parse_generation_config(std::string_view json) {
    DI_TRY(const JsonValue file, parse_json(json));
    if (!file.is_object()) {
        return fail(ErrorCode::kInvalidFile, "{}, expected a JSON object", file.kind_name());
    }
    GenerationConfig config;
    constexpr double kIdMax = std::numeric_limits<int32_t>::max();
    DI_TRY(config.temperature, read_number(file, "temperature", {.highest = 1e6, .text = "a number from 0"}));
    DI_TRY(config.top_p, read_number(file, "top_p", {.lowest_included = false, .highest = 1.0, .text = "a number in (0, 1]"}));
    DI_TRY(const std::optional<double> top_k,
           read_number(file, "top_k", {.lowest = -1, .highest = kIdMax, .text = "an integer from -1"}));
    if (top_k) {
        config.top_k = static_cast<int32_t>(*top_k);
    }
    DI_TRY(config.eos_token_ids, read_eos(file));
    if (const JsonValue* do_sample = file.find("do_sample"); do_sample != nullptr && !do_sample->is_null()) {
        if (!do_sample->is_boolean()) {
            return fail(ErrorCode::kInvalidFile, "do_sample: {}, expected true or false", short_json_text(*do_sample));
        }
        if (!do_sample->as_boolean()) {
            config.temperature = 0.0;
        }
    }
    return config;
}

Result<GenerationConfig> load_generation_config(const std::string& directory) {
    const std::string path = directory + "/generation_config.json";
    std::error_code error;
    if (!std::filesystem::exists(path, error)) {
        return GenerationConfig{};
    }
    DI_TRY(const std::string text, read_file(path, kGenerationConfigBytesMax));
    Result<GenerationConfig> config = parse_generation_config(text);
    if (!config) {
        // Whatever the parser called it: this is a file of the model.
        return fail_in(path, {ErrorCode::kInvalidFile, config.error().text});
    }
    return config;
}

}  // namespace di
