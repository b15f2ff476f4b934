#include "session/answer_plan.h"

#include <algorithm>
#include <utility>

#include "session/request_fields.h"
#include "text/chat_encoding.h"
#include "text/chat_tokens.h"
#include "text/output_rules_mask.h"
#include "text/tool_grammar.h"

namespace di {
namespace {

// Output limits of requests that name none: those of DeepSeek's service, and OpenAI's for plain completions.
constexpr int64_t kOutputTokensThinking = 65'536;
constexpr int64_t kOutputTokensMaxEffort = 131'072;
constexpr int64_t kOutputTokensDirect = 8192;
constexpr int64_t kOutputTokensCompletion = 16;
// DeepSeek's service does not cut deeper while the model thinks.
constexpr double kThinkingTopPMin = 0.95;

// The output limit of a request that names none.
int64_t default_output_tokens(const Request& request) {
    if (!request.conversation) {
        return kOutputTokensCompletion;
    }
    const Conversation& conversation = *request.conversation;
    if (!conversation.is_thinking || conversation.task) {
        return kOutputTokensDirect;
    }
    return conversation.effort >= kEffortMax ? kOutputTokensMaxEffort : kOutputTokensThinking;
}

class Planner {
  public:
    Planner(Request request, std::vector<std::string> images, const AnswerRules& rules, Preparer& preparer)
        : request_(std::move(request)), images_(std::move(images)), rules_(rules), preparer_(preparer) {}

    Result<AnswerPlan> plan() {
        plan_.samples = static_cast<int32_t>(request_.sampling.choice_count);
        plan_.parser.stop = request_.sampling.stop;
        plan_.parser.includes_stop_text = request_.sampling.includes_stop_text;
        if (request_.conversation) {
            DI_TRY_STATUS(plan_conversation());
            return std::move(plan_);
        }
        plan_.is_raw = true;
        plan_.parser.start = AnswerStart::kContentContinued;
        for (size_t i = 0; i < request_.raw_prompts.size(); ++i) {
            DI_TRY_STATUS(plan_raw(i));
        }
        return std::move(plan_);
    }

  private:
    Status plan_conversation() {
        const Conversation& conversation = *request_.conversation;
        DI_TRY(const EncodedPrompt encoded, preparer_.encode(conversation));
        plan_.is_thinking =
            encoded.answer_start == AnswerStart::kReasoning || encoded.answer_start == AnswerStart::kReasoningContinued;
        plan_.parser.start = encoded.answer_start;
        plan_.parser.may_call_tools = encoded.may_call_tools;
        plan_.parser.is_json_object = conversation.response_format.kind == ResponseFormat::Kind::kJsonObject;
        plan_.parser.tools = conversation.tools;
        plan_.parser.calls_max = request_.allows_parallel_calls ? 0 : 1;
        PromptRequest prompt = common_prompt(0);
        prompt.images = std::move(images_);
        prompt.sampling.banned_token_ids = preparer_.control_token_ids(encoded.may_call_tools);
        DI_TRY(prompt.grammar, answer_grammar(conversation, request_.allows_parallel_calls, preparer_.tokenizer()));
        DI_TRY(prompt.prompt, tokenise_prompt(encoded, preparer_.tokenizer()));
        return add(std::move(prompt));
    }

    Status plan_raw(size_t index) {
        PromptRequest prompt = common_prompt(index);
        RawPrompt& raw = request_.raw_prompts[index];
        auto* text = std::get_if<std::string>(&raw);
        if (text != nullptr && !request_.adds_special_tokens && !text->empty()) {
            DI_TRY(prompt.prompt, preparer_.tokenizer().encode_special(*text));
        } else {
            std::visit([&](auto& text_or_ids) { prompt.prompt = std::move(text_or_ids); }, raw);
        }
        prompt.grammar = format_grammar(request_.response_format);
        // With echo the log-probabilities of the prompt belong to the answer's.
        const bool echoes_logprobs = request_.echoes_prompt && request_.sampling.wants_logprobs;
        prompt.sampling.prompt_logprobs = echoes_logprobs || request_.sampling.prompt_logprob_count.has_value();
        prompt.sampling.top_logprobs = static_cast<int32_t>(
            std::max<int64_t>(prompt.sampling.top_logprobs, request_.sampling.prompt_logprob_count.value_or(0)));
        return add(std::move(prompt));
    }

    PromptRequest common_prompt(size_t index) const {
        PromptRequest prompt;
        apply_sampling_fields(request_.sampling, prompt);
        prompt.stop.clear();  // looked for in the answer, where reasoning and calls have been told apart
        if (prompt.sampling.seed) {
            *prompt.sampling.seed += index * static_cast<uint64_t>(plan_.samples);
        }
        if (rules_.sampling_policy == SamplingPolicy::kDeepseek) {
            const bool is_thinking = request_.conversation && request_.conversation->is_thinking;
            prompt.sampling.temperature = is_thinking ? 1.0 : prompt.sampling.temperature;
            prompt.sampling.top_p = is_thinking ? std::max(prompt.sampling.top_p, kThinkingTopPMin) : 1.0;
        }
        prompt.sampling.logprobs_mode = rules_.logprobs_mode;
        prompt.user = rules_.user;
        prompt.priority += rules_.priority;
        prompt.deadline_ms = rules_.deadline_ms;
        // Two strings of any content never look like another pair.
        prompt.cache_salt = rules_.cache_salt.empty() && request_.cache_salt.empty()
                                ? ""
                                : fmt::format("{}:{}{}", rules_.cache_salt.size(), rules_.cache_salt, request_.cache_salt);
        return prompt;
    }

    Status add(PromptRequest prompt) {
        prompt.sampling.max_tokens = 1;  // set below, when the prompt's length is known
        prompt.sampling.min_tokens = 0;
        DI_TRY(TokenRequest tokens, preparer_.prepare(std::move(prompt)));
        DI_TRY_STATUS(keep_end_of_prompt(tokens));
        DI_TRY_STATUS(limit_output(tokens));
        DI_TRY_STATUS(add_rules(tokens));
        plan_.prompts.push_back(std::move(tokens));
        return {};
    }

    // Of a prompt that is to be cut, the last tokens stay.
    Status keep_end_of_prompt(TokenRequest& tokens) const {
        if (!request_.prompt_tokens_kept) {
            return {};
        }
        if (!tokens.images.empty()) {
            return fail(ErrorCode::kUnsupported, "truncate_prompt_tokens: the prompt has images, expected text only");
        }
        const int64_t room = std::max<int64_t>(1, rules_.context_tokens - request_.sampling.output_tokens_max.value_or(1));
        const int64_t kept = *request_.prompt_tokens_kept < 0 ? room : *request_.prompt_tokens_kept;
        std::vector<int32_t>& ids = tokens.prompt_token_ids;
        if (static_cast<int64_t>(ids.size()) > kept) {
            ids.erase(ids.begin(), ids.end() - kept);
        }
        return {};
    }

    Status limit_output(TokenRequest& tokens) {
        const auto prompt_tokens = static_cast<int64_t>(tokens.prompt_token_ids.size());
        // The last token is never run: a prompt that fills the context still gets one.
        const int64_t left = prompt_tokens == rules_.context_tokens ? 1 : rules_.context_tokens - prompt_tokens;
        std::optional<int64_t> wanted = request_.sampling.output_tokens_max;
        if (wanted && *wanted > rules_.output_tokens_max) {
            if (request_.dialect != Dialect::kMessages) {
                return fail(ErrorCode::kInvalidArgument, "max_tokens: {}, expected at most {}", *wanted,
                            rules_.output_tokens_max);
            }
            wanted = rules_.output_tokens_max;
        }
        if (left < 0 || (wanted && *wanted > left)) {
            return fail(ErrorCode::kContextExceeded,
                        "the context holds {} tokens, but the prompt has {} and the answer may take {}; expected a shorter "
                        "prompt or a smaller output limit",
                        rules_.context_tokens, prompt_tokens, wanted.value_or(1));
        }
        const int64_t limit = wanted.value_or(std::min(default_output_tokens(request_), rules_.output_tokens_max));
        plan_.is_cut_by_context.push_back(limit > left);
        tokens.sampling.max_tokens = static_cast<int32_t>(std::min(limit, left));
        tokens.sampling.min_tokens =
            static_cast<int32_t>(std::min<int64_t>(request_.sampling.output_tokens_min.value_or(0), kOutputTokensMax));
        if (tokens.sampling.min_tokens > tokens.sampling.max_tokens) {
            return fail(ErrorCode::kInvalidArgument, "min_tokens: {}, expected at most the output limit of {}",
                        tokens.sampling.min_tokens, tokens.sampling.max_tokens);
        }
        return {};
    }

    // The limit on reasoning, and words that must not come.
    Status add_rules(TokenRequest& tokens) {
        OutputRules rules;
        if (rules_.enforces_reasoning_limit && request_.sampling.reasoning_tokens_max && plan_.is_thinking) {
            const std::optional<int32_t> end = preparer_.tokenizer().find(kThinkEndToken);
            if (!end) {
                return fail(ErrorCode::kUnsupported, "thinking_token_budget: the tokenizer has no {}, expected one",
                            kThinkEndToken);
            }
            rules.reasoning_tokens_max = request_.sampling.reasoning_tokens_max;
            rules.reasoning_end_id = *end;
            rules.call_marker_id = preparer_.tokenizer().find(kToolMarkerToken);
        }
        for (const std::string& word : request_.sampling.bad_words) {
            // As it stands at the beginning of a text, and in the middle of one.
            for (const std::string& spelling : {word, " " + word}) {
                DI_TRY(std::vector<int32_t> ids, preparer_.tokenizer().encode_plain(spelling));
                if (!ids.empty() && (spelling == word || word.front() != ' ')) {
                    rules.banned_sequences.push_back(std::move(ids));
                }
            }
        }
        if (rules.any()) {
            tokens.mask = output_rules_source(std::move(rules), std::move(tokens.mask), preparer_.end_token_ids());
        }
        return {};
    }

    Request request_;
    std::vector<std::string> images_;
    const AnswerRules& rules_;
    Preparer& preparer_;
    AnswerPlan plan_;
};

}  // namespace

int64_t AnswerPlan::prompt_tokens() const {
    int64_t count = 0;
    for (const TokenRequest& prompt : prompts) {
        count += static_cast<int64_t>(prompt.prompt_token_ids.size());
    }
    return count;
}

Result<AnswerPlan> plan_answer(Request request, std::vector<std::string> images, const AnswerRules& rules, Preparer& preparer) {
    return Planner(std::move(request), std::move(images), rules, preparer).plan();
}

}  // namespace di
