#include "session/prompt.h"

#include <algorithm>
#include <span>
#include <utility>

#include "session/limits.h"
#include "text/stop_strings.h"
#include "text/chat_encoding.h"
#include "text/image.h"
#include "text/tool_grammar.h"

namespace di {
namespace {

Result<std::vector<int32_t>> text_ids(const std::string& text, const PromptContext& context) {
    if (text.empty()) {
        return fail(ErrorCode::kInvalidArgument, "the prompt is empty, expected at least one character");
    }
    DI_TRY(std::vector<int32_t> ids, context.tokenizer->encode_special(text));
    const int32_t bos = context.tokenizer->bos_id().value_or(context.config->bos_token_id);
    if (context.config->adds_bos && (ids.empty() || ids.front() != bos)) {
        ids.insert(ids.begin(), bos);
    }
    return ids;
}

Result<std::vector<int32_t>> conversation_ids(const Conversation& conversation, const PromptContext& context) {
    DI_TRY(const EncodedPrompt prompt, context.chat_format->encode(conversation, *context.tokenizer));
    return tokenise_prompt(prompt, *context.tokenizer);
}

Result<std::vector<int32_t>> prompt_ids(PromptRequest& request, const PromptContext& context) {
    if (const auto* text = std::get_if<std::string>(&request.prompt)) {
        return text_ids(*text, context);
    }
    if (auto* ids = std::get_if<std::vector<int32_t>>(&request.prompt)) {
        if (ids->empty()) {
            return fail(ErrorCode::kInvalidArgument, "the prompt has no token ids, expected at least one");
        }
        return std::move(*ids);
    }
    return conversation_ids(std::get<Conversation>(request.prompt), context);
}

// A text that does not say where its images stand has them in front, behind the begin of sentence.
void place_images_in_front(std::vector<int32_t>& ids, size_t image_count, int32_t image_id, const PromptContext& context) {
    const int32_t bos = context.tokenizer->bos_id().value_or(context.config->bos_token_id);
    const auto place = ids.begin() + (!ids.empty() && ids.front() == bos ? 1 : 0);
    ids.insert(place, image_count, image_id);
}

// Decodes the images and widens each placeholder to its span.
Status expand_images(std::span<const std::string> images, int32_t image_id, const PromptContext& context,
                     TokenRequest& request) {
    const ImageGeometry geometry = image_geometry(context.config->vision);
    std::vector<int32_t> ids;
    size_t next = 0;
    for (const int32_t id : request.prompt_token_ids) {
        if (id != image_id) {
            ids.push_back(id);
            continue;
        }
        const std::string& bytes = images[next];
        auto loaded = load_image({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, geometry);
        if (!loaded) {
            return fail_in(fmt::format("image {}", next), std::move(loaded.error()));
        }
        request.images.push_back({.patches = std::move(loaded->values),
                                  .grid_height = loaded->grid_height,
                                  .grid_width = loaded->grid_width,
                                  .first_token = static_cast<int32_t>(ids.size())});
        ids.insert(ids.end(), static_cast<size_t>(loaded->token_count), id);
        ++next;
    }
    request.prompt_token_ids = std::move(ids);
    return {};
}

Status add_images(const PromptRequest& source, bool is_text, const PromptContext& context, TokenRequest& request) {
    const std::optional<int32_t> image_id = context.config->image_token_id;
    std::vector<int32_t>& ids = request.prompt_token_ids;
    auto placeholders = image_id ? static_cast<size_t>(std::count(ids.begin(), ids.end(), *image_id)) : size_t{0};
    if (source.images.empty()) {
        // Ids are taken as they are: a caller may know why.
        if (placeholders > 0 && !std::holds_alternative<std::vector<int32_t>>(source.prompt)) {
            return fail(ErrorCode::kInvalidArgument, "the prompt has {} image placeholders and no image, expected one for each",
                        placeholders);
        }
        return {};
    }
    if (!context.config->vision.present() || !image_id) {
        return fail(ErrorCode::kInvalidArgument, "{} images given, but this model has no vision tower, expected text only",
                    source.images.size());
    }
    if (source.images.size() > kRequestImagesMax) {
        return fail(ErrorCode::kInvalidArgument, "{} images given, expected at most {}", source.images.size(),
                    kRequestImagesMax);
    }
    if (is_text && placeholders == 0) {
        place_images_in_front(ids, source.images.size(), *image_id, context);
        placeholders = source.images.size();
    }
    if (placeholders != source.images.size()) {
        return fail(ErrorCode::kInvalidArgument, "the prompt has {} image placeholders and {} images, expected one for each",
                    placeholders, source.images.size());
    }
    return expand_images(source.images, *image_id, context, request);
}

}  // namespace

ImageGeometry image_geometry(const VisionConfig& vision) {
    return {.patch_size = static_cast<int>(vision.patch_size),
            .downsample_ratio = static_cast<int>(vision.downsample_ratio),
            .max_image_tokens = static_cast<int>(vision.max_image_tokens),
            .min_pixels = vision.min_pixels,
            .max_wh_ratio = vision.max_wh_ratio};
}

Result<TokenRequest> build_token_request(PromptRequest request, const PromptContext& context) {
    DI_TRY_STATUS(validate_stop_strings(request.stop));
    DI_TRY_STATUS(validate(request.sampling, context.config->vocab_size));
    const bool is_text = std::holds_alternative<std::string>(request.prompt);
    TokenRequest result;
    DI_TRY(result.prompt_token_ids, prompt_ids(request, context));
    DI_TRY_STATUS(add_images(request, is_text, context, result));
    result.sampling = std::move(request.sampling);
    result.user = std::move(request.user);
    result.priority = request.priority;
    result.deadline_ms = request.deadline_ms;
    result.cache_salt = std::move(request.cache_salt);
    return result;
}

Result<std::optional<GrammarSpec>> prompt_grammar(const PromptRequest& request, const Tokenizer& tokenizer) {
    const auto* conversation = std::get_if<Conversation>(&request.prompt);
    if (conversation == nullptr) {
        return request.grammar;
    }
    if (!request.grammar) {
        return answer_grammar(*conversation, true, tokenizer);
    }
    if (conversation->response_format.kind != ResponseFormat::Kind::kText) {
        return fail(ErrorCode::kInvalidArgument, "{}: the answer is already constrained by {}, expected one of them",
                    conversation->response_format.path, grammar_kind_name(request.grammar->kind));
    }
    return request.grammar;
}

}  // namespace di
