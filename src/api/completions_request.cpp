#include "api/completions_request.h"

#include <utility>

#include "api/envelope_fields.h"
#include "api/format_fields.h"
#include "api/json_reader.h"
#include "api/limits.h"
#include "api/sampling_fields.h"

namespace di {
namespace {

// Tokens around the two sides of a gap (spec: HTTP interface, section 5).
constexpr std::string_view kFimBegin = "<｜fim▁begin｜>";
constexpr std::string_view kFimHole = "<｜fim▁hole｜>";
constexpr std::string_view kFimEnd = "<｜fim▁end｜>";

constexpr std::string_view kPromptForms = "a string, a list of strings, token ids or a list of lists of token ids";

Result<std::vector<int32_t>> parse_ids(const JsonValue::Array& items, const std::string& path) {
    if (items.empty()) {
        return fail(ErrorCode::kInvalidArgument, "{}: an empty list, expected at least one token id", path);
    }
    if (items.size() > kTokenListMax) {
        return fail(ErrorCode::kInvalidArgument, "{}: {} entries, expected at most {}", path, items.size(), kTokenListMax);
    }
    std::vector<int32_t> ids;
    ids.reserve(items.size());
    for (size_t i = 0; i < items.size(); ++i) {
        const std::optional<int64_t> id = items[i].as_int64();
        if (!id || *id < 0 || *id > kTokenIdMax) {
            return fail(ErrorCode::kInvalidArgument, "{}: {}, expected a token id", item_path(path, i),
                        short_json_text(items[i]));
        }
        ids.push_back(static_cast<int32_t>(*id));
    }
    return ids;
}

Result<RawPrompt> parse_one_prompt(const JsonValue& value, const std::string& path) {
    if (value.is_string()) {
        return RawPrompt(value.as_string());
    }
    if (value.is_array()) {
        DI_TRY(auto ids, parse_ids(value.as_array(), path));
        return RawPrompt(std::move(ids));
    }
    return fail(ErrorCode::kInvalidArgument, "{}: {}, expected a string or a list of token ids", path, short_json_text(value));
}

Result<std::vector<RawPrompt>> parse_prompts(const JsonReader& body) {
    const JsonValue* value = body.find("prompt");
    if (value == nullptr || (!value->is_string() && !value->is_array())) {
        return body.wrong("prompt", kPromptForms);
    }
    const std::string path = body.path_of("prompt");
    std::vector<RawPrompt> prompts;
    const bool is_one = value->is_string() || (!value->as_array().empty() && value->as_array().front().is_number());
    if (is_one) {
        DI_TRY(auto prompt, parse_one_prompt(*value, path));
        prompts.push_back(std::move(prompt));
        return prompts;
    }
    DI_TRY(const auto* items, body.array("prompt", kPromptsMax));
    if (items->empty()) {
        return body.wrong("prompt", kPromptForms);
    }
    for (size_t i = 0; i < items->size(); ++i) {
        DI_TRY(auto prompt, parse_one_prompt((*items)[i], item_path(path, i)));
        prompts.push_back(std::move(prompt));
    }
    return prompts;
}

Status apply_suffix(const JsonReader& body, const CompletionsRules& rules, Request& request) {
    DI_TRY(const auto suffix, body.string("suffix"));
    if (!suffix) {
        return {};
    }
    if (!rules.allows_suffix) {
        return fail(ErrorCode::kUnsupported, "suffix: {} is not supported, this server does not fill in the middle",
                    short_quoted(*suffix));
    }
    for (RawPrompt& prompt : request.raw_prompts) {
        const auto* text = std::get_if<std::string>(&prompt);
        if (text == nullptr) {
            return body.wrong("prompt", "a string together with suffix");
        }
        prompt = fmt::format("{}{}{}{}{}", kFimBegin, *text, kFimHole, *suffix, kFimEnd);
    }
    return {};
}

}  // namespace

Result<Request> parse_completions_request(const JsonValue& body, const CompletionsRules& rules) {
    DI_TRY(const auto reader, JsonReader::open(body, ""));
    Request request;
    request.dialect = Dialect::kCompletions;
    DI_TRY_STATUS(parse_envelope_fields(reader, request));
    DI_TRY(request.sampling, parse_sampling_fields(reader, Dialect::kCompletions));
    DI_TRY(request.stream, parse_stream_fields(reader));
    DI_TRY(request.raw_prompts, parse_prompts(reader));
    DI_TRY(request.echoes_prompt, reader.boolean_or("echo", false));
    DI_TRY(request.adds_special_tokens, reader.boolean_or("add_special_tokens", true));
    DI_TRY(request.response_format, parse_format_fields(reader, Dialect::kCompletions));
    DI_TRY_STATUS(apply_suffix(reader, rules, request));
    return request;
}

Result<Request> parse_completions_request(std::string_view body_text, const CompletionsRules& rules) {
    DI_TRY(const auto body, parse_json(body_text));
    return parse_completions_request(body, rules);
}

}  // namespace di
