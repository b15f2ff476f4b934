#include "engine/request_check.h"

#include <algorithm>
#include <cmath>

#include "engine/limits.h"

namespace di {

namespace {

Status check_prompt(const TokenRequest& request, int64_t vocab_size, int32_t max_model_len) {
    const std::vector<int32_t>& ids = request.prompt_token_ids;
    if (ids.empty()) {
        return fail(ErrorCode::kInvalidArgument, "the prompt is empty, expected at least one token");
    }
    if (static_cast<int64_t>(ids.size()) > max_model_len) {
        return fail(ErrorCode::kContextExceeded, "the prompt has {} tokens, expected at most {} (the context length)",
                    ids.size(), max_model_len);
    }
    for (size_t i = 0; i < ids.size(); ++i) {
        if (ids[i] < 0 || ids[i] >= vocab_size) {
            return fail(ErrorCode::kInvalidArgument, "prompt_token_ids[{}] is {}, expected 0 .. {}", i, ids[i], vocab_size - 1);
        }
    }
    return {};
}

// Sizes of the grid and of the data agree.
Status check_patches(const RequestImage& image, size_t index, const Model& model) {
    const auto values = static_cast<int64_t>(image.patches.size());
    int64_t cells = 0;
    int64_t wanted = 0;
    if (image.grid_height < 1 || image.grid_width < 1 || __builtin_mul_overflow(image.grid_height, image.grid_width, &cells) ||
        __builtin_mul_overflow(cells, model.patch_values(), &wanted) || values != wanted) {
        return fail(ErrorCode::kInvalidArgument,
                    "image {} has {} values in a grid of {} x {} patches, expected {} values a patch", index, values,
                    image.grid_height, image.grid_width, model.patch_values());
    }
    for (const float value : image.patches) {
        if (!std::isfinite(value)) {
            return fail(ErrorCode::kInvalidArgument, "image {} holds the value {}, expected finite numbers", index, value);
        }
    }
    return {};
}

Status check_images(const TokenRequest& request, const Model& model) {
    if (request.images.empty()) {
        return {};
    }
    if (!model.has_vision()) {
        return fail(ErrorCode::kUnsupported, "the request has {} images, but this model has no vision tower",
                    request.images.size());
    }
    const auto prompt_length = static_cast<int64_t>(request.prompt_token_ids.size());
    int64_t free_from = 0;
    for (size_t i = 0; i < request.images.size(); ++i) {
        const RequestImage& image = request.images[i];
        DI_TRY_STATUS(check_patches(image, i, model));
        const int64_t tokens = model.image_token_count(image.grid_height, image.grid_width);
        if (tokens < 1) {
            return fail(ErrorCode::kInvalidArgument, "image {} has {} x {} patches, more than the vision tower takes", i,
                        image.grid_height, image.grid_width);
        }
        const int64_t end = image.first_token + tokens;
        if (image.first_token < free_from || end > prompt_length) {
            return fail(ErrorCode::kInvalidArgument,
                        "image {} takes {} tokens from position {}, expected a place inside {} .. {}", i, tokens,
                        image.first_token, free_from, prompt_length);
        }
        free_from = end;
    }
    return {};
}

}  // namespace

int32_t output_tokens_max(const TokenRequest& request, int32_t max_model_len) {
    const auto left = static_cast<int64_t>(max_model_len) - static_cast<int64_t>(request.prompt_token_ids.size());
    return static_cast<int32_t>(std::min<int64_t>(std::max<int64_t>(left, 1), request.sampling.max_tokens));
}

Status check_request(const TokenRequest& request, const Model& model, const RequestBounds& bounds) {
    DI_TRY_STATUS(check_prompt(request, model.vocab_size(), bounds.max_model_len));
    DI_TRY_STATUS(validate(request.sampling, model.vocab_size()));
    DI_TRY_STATUS(check_images(request, model));
    const auto prompt_length = static_cast<int64_t>(request.prompt_token_ids.size());
    if (bounds.prompt_rows_max > 0 && prompt_length > bounds.prompt_rows_max) {
        return fail(ErrorCode::kInvalidArgument,
                    "the prompt has {} tokens, expected at most {} (a step's rows; chunked prefill is off)", prompt_length,
                    bounds.prompt_rows_max);
    }
    if (request.sampling.prompt_logprobs && model.replays()) {
        return fail(ErrorCode::kUnsupported,
                    "prompt_logprobs is not possible with a replay mode: not all rows of a prompt have logits");
    }
    if (request.deadline_ms && !(*request.deadline_ms >= 0.0 && *request.deadline_ms <= kDeadlineMsMax)) {
        return fail(ErrorCode::kInvalidArgument, "deadline_ms is {}, expected 0 .. {}", *request.deadline_ms, kDeadlineMsMax);
    }
    const int64_t output_max = output_tokens_max(request, bounds.max_model_len);
    if (output_max == 0) {
        return {};
    }
    // The last token drawn is never run, so it needs no place.
    const int64_t tokens = static_cast<int64_t>(request.prompt_token_ids.size()) + output_max - 1;
    const int64_t blocks = (tokens + bounds.block_tokens - 1) / bounds.block_tokens;
    if (blocks > bounds.block_count) {
        return fail(
            ErrorCode::kInvalidArgument,
            "{} prompt tokens and up to {} output tokens need {} cache blocks of {} tokens, expected at most {} (the cache)",
            request.prompt_token_ids.size(), output_max, blocks, bounds.block_tokens, bounds.block_count);
    }
    return {};
}

}  // namespace di
