#include <algorithm>
#include <cstring>
#include <limits>

#include "c_abi/handles.h"

// Requests and records between C and C++.
namespace di::c_abi {
namespace {

// What the first version of the header had; a smaller struct is not ours.
constexpr size_t kRequestBytesMin = sizeof(di_request);

Result<std::vector<int32_t>> ids_of(const int32_t* ids, size_t count, std::string_view name) {
    if (ids == nullptr && count > 0) {
        return fail(ErrorCode::kInvalidArgument, "{} is NULL with {} elements, expected an array", name, count);
    }
    return count == 0 ? std::vector<int32_t>() : std::vector<int32_t>(ids, ids + count);
}

std::string string_of(const di_text& text) { return text.data == nullptr ? std::string() : std::string(text.data, text.size); }

Result<std::vector<std::string>> strings_of(const di_text* texts, size_t count, std::string_view name) {
    if (texts == nullptr && count > 0) {
        return fail(ErrorCode::kInvalidArgument, "{} is NULL with {} elements, expected an array", name, count);
    }
    std::vector<std::string> strings;
    for (size_t i = 0; i < count; ++i) {
        if (texts[i].data == nullptr && texts[i].size > 0) {
            return fail(ErrorCode::kInvalidArgument, "{}[{}] is NULL with {} bytes, expected a text", name, i, texts[i].size);
        }
        strings.push_back(string_of(texts[i]));
    }
    return strings;
}

// The part that this library knows. A tail that it does not know must say nothing.
Result<di_request> known_part(const di_request& request) {
    if (request.struct_size < kRequestBytesMin) {
        return fail(ErrorCode::kInvalidArgument, "di_request.struct_size is {}, expected at least {}: call di_request_init()",
                    request.struct_size, kRequestBytesMin);
    }
    const char* bytes = reinterpret_cast<const char*>(&request);
    if (std::any_of(bytes + sizeof(di_request), bytes + request.struct_size, [](char byte) { return byte != 0; })) {
        return fail(ErrorCode::kUnsupported,
                    "the request uses fields of a newer di/c_api.h, expected those of version {} of the library", DI_VERSION);
    }
    return request;
}

Result<SamplingParams> sampling_of(const di_request& request) {
    SamplingParams sampling;
    sampling.temperature = request.temperature;
    sampling.top_p = request.top_p;
    sampling.top_k = request.top_k;
    sampling.min_p = request.min_p;
    sampling.repetition_penalty = request.repetition_penalty;
    sampling.presence_penalty = request.presence_penalty;
    sampling.frequency_penalty = request.frequency_penalty;
    if (request.logit_bias == nullptr && request.logit_bias_count > 0) {
        return fail(ErrorCode::kInvalidArgument, "logit_bias is NULL with {} elements, expected an array",
                    request.logit_bias_count);
    }
    for (size_t i = 0; i < request.logit_bias_count; ++i) {
        sampling.logit_bias.push_back({.token_id = request.logit_bias[i].token_id, .bias = request.logit_bias[i].bias});
    }
    DI_TRY(sampling.allowed_token_ids, ids_of(request.allowed_token_ids, request.allowed_token_id_count, "allowed_token_ids"));
    DI_TRY(sampling.banned_token_ids, ids_of(request.banned_token_ids, request.banned_token_id_count, "banned_token_ids"));
    DI_TRY(sampling.stop_token_ids, ids_of(request.stop_token_ids, request.stop_token_id_count, "stop_token_ids"));
    DI_TRY(sampling.golden_token_ids, ids_of(request.golden_token_ids, request.golden_token_id_count, "golden_token_ids"));
    if (request.has_seed != 0) {
        sampling.seed = request.seed;
    }
    sampling.max_tokens = request.max_tokens;
    sampling.min_tokens = request.min_tokens;
    sampling.ignore_eos = request.ignore_eos != 0;
    sampling.logprobs = request.logprobs != 0;
    sampling.top_logprobs = request.top_logprobs;
    sampling.logprobs_mode = request.has_processed_logprobs != 0 ? LogprobsMode::kProcessed : LogprobsMode::kRaw;
    sampling.prompt_logprobs = request.prompt_logprobs != 0;
    sampling.n = request.n;
    return sampling;
}

Result<std::optional<GrammarSpec>> grammar_of(const di_request& request) {
    if (request.schema_type == nullptr) {
        if (request.schema.data != nullptr || request.choice_count > 0 || request.trigger_token_id_count > 0) {
            return fail(ErrorCode::kInvalidArgument,
                        "schema, choices or trigger_token_ids without schema_type, expected a schema_type with them");
        }
        return std::optional<GrammarSpec>();
    }
    GrammarSpec grammar;
    DI_TRY(grammar.kind, parse_grammar_kind(request.schema_type));
    grammar.text = string_of(request.schema);
    DI_TRY(grammar.choices, strings_of(request.choices, request.choice_count, "choices"));
    DI_TRY(grammar.trigger_token_ids, ids_of(request.trigger_token_ids, request.trigger_token_id_count, "trigger_token_ids"));
    if (request.bound_token_id >= 0) {
        grammar.bound_token_id = request.bound_token_id;
    }
    return std::optional<GrammarSpec>(std::move(grammar));
}

di_text view_of(const std::string& text) { return {.data = text.c_str(), .size = text.size()}; }

di_finish finish_of(FinishReason reason) {
    switch (reason) {
        case FinishReason::kNone: return DI_FINISH_NONE;
        case FinishReason::kStop: return DI_FINISH_STOP;
        case FinishReason::kLength: return DI_FINISH_LENGTH;
        case FinishReason::kAbort: return DI_FINISH_ABORT;
        case FinishReason::kError: return DI_FINISH_ERROR;
    }
    return DI_FINISH_ERROR;
}

const std::vector<di_token>& tokens_of(const PromptOutput& output, di_outputs& outputs) {
    std::vector<di_token>& tokens = outputs.tokens.emplace_back();
    for (const OutputToken& token : output.tokens) {
        std::vector<di_token_logprob>& top = outputs.top.emplace_back();
        for (const TokenLogprob& entry : token.top_logprobs) {
            top.push_back({.token_id = entry.token_id, .logprob = entry.logprob});
        }
        tokens.push_back({.token_id = token.token_id,
                          .logprob = token.logprob.value_or(std::numeric_limits<float>::quiet_NaN()),
                          .text = view_of(token.text),
                          .top_logprobs = top.data(),
                          .top_logprob_count = top.size()});
    }
    return tokens;
}

di_output record_of(const PromptOutput& output, di_outputs& outputs) {
    const std::vector<di_token>& tokens = tokens_of(output, outputs);
    return {.request_id = output.request_id,
            .sample_index = output.sample_index,
            .finish = finish_of(output.finish),
            .error = output.error ? code_of(output.error->code) : DI_OK,
            .accepted_drafts = output.accepted_drafts,
            .error_text = output.error ? view_of(output.error->text) : di_text{.data = nullptr, .size = 0},
            .tokens = tokens.data(),
            .token_count = tokens.size(),
            .rest = view_of(output.rest),
            .prompt_logprobs = output.prompt_logprobs.data(),
            .prompt_logprob_count = output.prompt_logprobs.size(),
            .draft_token_ids = output.draft_token_ids.data(),
            .draft_token_id_count = output.draft_token_ids.size(),
            .prompt_tokens = output.usage.prompt_tokens,
            .cached_tokens = output.usage.cached_tokens,
            .completion_tokens = output.usage.completion_tokens,
            .drafted_tokens = output.usage.drafted_tokens,
            .accepted_tokens = output.usage.accepted_tokens,
            .cache_miss = cache_miss_name(output.cache_miss).data(),  // names are literals, so they end with a zero
            .queue_ms = output.timing.queue_ms,
            .prefill_ms = output.timing.prefill_ms,
            .first_token_ms = output.timing.first_token_ms,
            .total_ms = output.timing.total_ms};
}

}  // namespace

Result<PromptRequest> prompt_of(const di_request& request) {
    DI_TRY(const di_request known, known_part(request));
    PromptRequest prompt;
    if (known.text.data != nullptr) {
        prompt.prompt = string_of(known.text);
        if (known.token_id_count > 0) {
            return fail(ErrorCode::kInvalidArgument, "both text and {} token_ids, expected one of them", known.token_id_count);
        }
    } else {
        DI_TRY(prompt.prompt, ids_of(known.token_ids, known.token_id_count, "token_ids"));
    }
    DI_TRY(prompt.images, strings_of(known.images, known.image_count, "images"));
    DI_TRY(prompt.sampling, sampling_of(known));
    DI_TRY(prompt.stop, strings_of(known.stop, known.stop_count, "stop"));
    DI_TRY(prompt.grammar, grammar_of(known));
    prompt.user = string_of(known.user);
    prompt.cache_salt = string_of(known.cache_salt);
    prompt.priority = known.priority;
    if (!(known.deadline_ms >= 0.0)) {
        return fail(ErrorCode::kInvalidArgument, "deadline_ms is {}, expected 0 (none) or more", known.deadline_ms);
    }
    if (known.deadline_ms > 0.0) {
        prompt.deadline_ms = known.deadline_ms;
    }
    return prompt;
}

std::unique_ptr<di_outputs> records_of(std::vector<PromptOutput> outputs) {
    auto result = std::make_unique<di_outputs>();
    result->owners = std::move(outputs);
    for (const PromptOutput& output : result->owners) {
        result->records.push_back(record_of(output, *result));
    }
    return result;
}

}  // namespace di::c_abi
