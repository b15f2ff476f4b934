#include "api/envelope_fields.h"

#include <limits>

#include "api/limits.h"

namespace di {
namespace {

constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();

Result<std::string> parse_name(const JsonReader& body, std::string_view key) {
    DI_TRY(auto name, body.string_or(key, ""));
    if (name.size() > kNameBytesMax) {
        return fail(ErrorCode::kInvalidArgument, "{}: {} bytes, expected at most {}", body.path_of(key), name.size(),
                    kNameBytesMax);
    }
    return name;
}

Result<std::optional<FaultFields>> parse_fault(const JsonReader& body) {
    DI_TRY(const auto fault, body.object("fault"));
    if (!fault) {
        return std::optional<FaultFields>();
    }
    FaultFields fields;
    DI_TRY(fields.nan_logits_at, fault->integer("nan_logits_at", {.low = 0, .high = kOutputTokensMax}));
    DI_TRY(fields.slow_prefill_ms, fault->integer("slow_prefill_ms", {.low = 0, .high = kFaultPauseMsMax}));
    DI_TRY(fields.engine_error_at, fault->integer("engine_error_at", {.low = 0, .high = kOutputTokensMax}));
    return std::optional<FaultFields>(fields);
}

}  // namespace

Status parse_envelope_fields(const JsonReader& body, Request& request) {
    DI_TRY(request.model, parse_name(body, "model"));
    DI_TRY(request.request_id, parse_name(body, "request_id"));
    DI_TRY(request.cache_salt, parse_name(body, "cache_salt"));
    if (request.cache_salt.empty()) {
        DI_TRY(request.cache_salt, parse_name(body, "prompt_cache_key"));
    }
    DI_TRY(request.returns_token_ids, body.boolean_or("return_token_ids", false));
    DI_TRY(request.includes_reasoning, body.boolean_or("include_reasoning", true));
    DI_TRY(request.separates_reasoning, body.boolean_or("separate_reasoning", true));
    DI_TRY(request.streams_reasoning, body.boolean_or("stream_reasoning", true));
    DI_TRY(request.prompt_tokens_kept, body.integer("truncate_prompt_tokens", {.low = -1, .high = kInt64Max}));
    if (request.prompt_tokens_kept == 0) {
        return body.wrong("truncate_prompt_tokens", "-1 or a number of tokens of at least 1");
    }
    DI_TRY(request.fault, parse_fault(body));
    return {};
}

Status check_request(const Request& request) {
    if (!request.conversation) {
        return {};
    }
    size_t image_count = 0;
    for (const Message& message : request.conversation->messages) {
        for (const ContentPart& part : message.parts) {
            if (part.kind == ContentPart::Kind::kImage && ++image_count > kRequestImagesMax) {
                return fail(ErrorCode::kInvalidArgument, "{}: more than {} images in the request", part.path,
                            kRequestImagesMax);
            }
        }
    }
    return check_conversation(*request.conversation);
}

Result<ImageDetail> parse_image_detail(const JsonReader& part) {
    DI_TRY(const auto detail, part.string_or("detail", "high"));
    if (detail == "high") {
        return ImageDetail::kHigh;
    }
    if (detail == "low") {
        return ImageDetail::kLow;
    }
    if (detail == "auto") {
        return ImageDetail::kAuto;
    }
    if (detail == "original") {
        return ImageDetail::kOriginal;
    }
    return part.wrong("detail", "low, high, auto or original");
}

}  // namespace di
