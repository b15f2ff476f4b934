#include "api/known_fields.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>

namespace di {
namespace {

// In every dialect: the envelope, sampling, constraints of other servers, and what those servers' clients send besides.
constexpr auto kEverywhere = std::to_array<std::string_view>({"model",
                                                              "stream",
                                                              "timings",
                                                              "temperature",
                                                              "top_p",
                                                              "top_k",
                                                              "min_p",
                                                              "presence_penalty",
                                                              "frequency_penalty",
                                                              "repetition_penalty",
                                                              "seed",
                                                              "priority",
                                                              "logit_bias",
                                                              "stop",
                                                              "include_stop_str_in_output",
                                                              "no_stop_trim",
                                                              "stop_token_ids",
                                                              "ignore_eos",
                                                              "min_tokens",
                                                              "skip_special_tokens",
                                                              "bad_words",
                                                              "allowed_token_ids",
                                                              "golden_token_ids",
                                                              "thinking_token_budget",
                                                              "use_beam_search",
                                                              "length_penalty",
                                                              "samplers",
                                                              "mirostat",
                                                              "dry_multiplier",
                                                              "xtc_probability",
                                                              "return_hidden_states",
                                                              "lora_path",
                                                              "chat_template",
                                                              "prompt_embeds",
                                                              "return_token_ids",
                                                              "request_id",
                                                              "cache_salt",
                                                              "prompt_cache_key",
                                                              "include_reasoning",
                                                              "separate_reasoning",
                                                              "stream_reasoning",
                                                              "truncate_prompt_tokens",
                                                              "fault",
                                                              "structured_outputs",
                                                              "guided_json",
                                                              "guided_regex",
                                                              "guided_choice",
                                                              "guided_grammar",
                                                              "regex",
                                                              "ebnf",
                                                              "grammar",
                                                              "json_schema",
                                                              "user",
                                                              "metadata",
                                                              "service_tier",
                                                              "vllm_xargs",
                                                              "session_params",
                                                              "mm_processor_kwargs",
                                                              "documents",
                                                              "kv_transfer_params",
                                                              "return_meta_info",
                                                              "cache_prompt",
                                                              "id_slot"});

constexpr auto kChatFields = std::to_array<std::string_view>({"messages",
                                                              "max_tokens",
                                                              "max_completion_tokens",
                                                              "n",
                                                              "best_of",
                                                              "stream_options",
                                                              "tools",
                                                              "tool_choice",
                                                              "parallel_tool_calls",
                                                              "functions",
                                                              "function_call",
                                                              "reasoning_effort",
                                                              "thinking",
                                                              "chat_template_kwargs",
                                                              "continue_final_message",
                                                              "add_generation_prompt",
                                                              "task",
                                                              "logprobs",
                                                              "top_logprobs",
                                                              "response_format",
                                                              "store",
                                                              "safety_identifier",
                                                              "prompt_cache_retention",
                                                              "prompt_cache_options",
                                                              "verbosity",
                                                              "moderation",
                                                              "prediction",
                                                              "web_search_options",
                                                              "modalities",
                                                              "audio"});

constexpr auto kCompletionsFields =
    std::to_array<std::string_view>({"prompt", "suffix", "echo", "max_tokens", "n", "best_of", "stream_options", "logprobs",
                                     "prompt_logprobs", "add_special_tokens", "response_format"});

constexpr auto kResponsesFields = std::to_array<std::string_view>({"input",
                                                                   "instructions",
                                                                   "max_output_tokens",
                                                                   "tools",
                                                                   "tool_choice",
                                                                   "parallel_tool_calls",
                                                                   "reasoning",
                                                                   "text",
                                                                   "top_logprobs",
                                                                   "include",
                                                                   "stream_options",
                                                                   "store",
                                                                   "previous_response_id",
                                                                   "background",
                                                                   "conversation",
                                                                   "prompt",
                                                                   "truncation",
                                                                   "max_tool_calls",
                                                                   "safety_identifier",
                                                                   "prompt_cache_retention",
                                                                   "prompt_cache_options",
                                                                   "moderation",
                                                                   "context_management",
                                                                   "access_programs",
                                                                   "background_options",
                                                                   "image"});

constexpr auto kMessagesFields =
    std::to_array<std::string_view>({"messages", "system", "max_tokens", "thinking", "output_config", "stop_sequences", "tools",
                                     "tool_choice", "container", "mcp_servers", "context_management", "cache_control",
                                     "inference_geo", "speed", "diagnostics", "user_profile_id", "workspace_id"});

std::span<const std::string_view> fields_of(Dialect dialect) {
    switch (dialect) {
        case Dialect::kChat: return kChatFields;
        case Dialect::kCompletions: return kCompletionsFields;
        case Dialect::kResponses: return kResponsesFields;
        case Dialect::kMessages: return kMessagesFields;
    }
    return {};
}

bool has(std::span<const std::string_view> fields, std::string_view name) {
    return std::find(fields.begin(), fields.end(), name) != fields.end();
}

}  // namespace

Status check_known_fields(const JsonValue& body, Dialect dialect) {
    if (!body.is_object()) {
        return {};  // the parser has the words for that
    }
    for (const JsonMember& member : body.as_object()) {
        if (!has(kEverywhere, member.key) && !has(fields_of(dialect), member.key)) {
            return fail(ErrorCode::kUnsupported, "{}: unknown, expected a field of this interface",
                        member_path("", member.key));
        }
    }
    return {};
}

}  // namespace di
