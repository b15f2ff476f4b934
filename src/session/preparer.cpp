#include "session/preparer.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <utility>

#include "text/chat_tokens.h"

namespace di {

Preparer::Preparer(PreparerOptions options, const ModelConfig& config, const Tokenizer& tokenizer, GenerationConfig generation,
                   ChatFormat chat_format)
    : options_(std::move(options)),
      chat_format_(std::move(chat_format)),
      context_{.config = &config, .tokenizer = &tokenizer, .chat_format = &chat_format_},
      generation_(std::move(generation)) {
    const int64_t count = std::min(tokenizer.vocabulary_size(), config.vocab_size);
    const auto ids_of = [&](std::initializer_list<std::string_view> spellings) {
        std::vector<int32_t> ids;
        for (const std::string_view spelling : spellings) {
            if (const std::optional<int32_t> id = tokenizer.find(spelling); id && *id < count) {
                ids.push_back(*id);
            }
        }
        return ids;
    };
    const auto holds = [](const std::vector<int32_t>& ids, int32_t id) {
        return std::find(ids.begin(), ids.end(), id) != ids.end();
    };
    // Tokenizer files do not mark all of these as special.
    const std::vector<int32_t> turns =
        ids_of({kBeginToken, kSystemToken, kUserToken, kAssistantToken, kReminderToken, kImageToken});
    const std::vector<int32_t> parts = ids_of({kThinkToken, kThinkEndToken, kToolMarkerToken});
    const std::vector<int32_t> ends = end_token_ids();
    for (int32_t id = 0; id < count; ++id) {
        if ((tokenizer.is_special(id) || holds(turns, id)) && !holds(parts, id) && !holds(ends, id)) {
            control_ids_.push_back(id);
        }
    }
    if (const std::vector<int32_t> marker = ids_of({kToolMarkerToken}); !marker.empty()) {
        tool_marker_id_ = marker.front();
    }
}

Result<TokenRequest> Preparer::prepare(PromptRequest prompt) {
    DI_TRY(const std::optional<GrammarSpec> grammar, prompt_grammar(prompt, tokenizer()));
    DI_TRY(TokenRequest request, build_token_request(std::move(prompt), context_));
    add_end_tokens(request.sampling);
    apply_options(request.sampling);
    if (grammar) {
        DI_TRY(request.mask, grammar_compiler().submit(*grammar));
    }
    return request;
}

SamplingParams Preparer::default_sampling() const {
    SamplingParams sampling;
    sampling.temperature = generation_.temperature.value_or(sampling.temperature);
    sampling.top_p = generation_.top_p.value_or(sampling.top_p);
    sampling.top_k = generation_.top_k.value_or(sampling.top_k);
    return sampling;
}

std::vector<int32_t> Preparer::end_token_ids() const {
    std::vector<int32_t> ids = generation_.eos_token_ids;
    const std::vector<int32_t> others = config().end_token_ids();
    ids.insert(ids.end(), others.begin(), others.end());
    return ids;
}

std::vector<int32_t> Preparer::control_token_ids(bool may_call_tools) const {
    std::vector<int32_t> ids = control_ids_;
    if (tool_marker_id_ && !may_call_tools) {
        ids.push_back(*tool_marker_id_);
    }
    return ids;
}

void Preparer::apply_options(SamplingParams& sampling) const {
    sampling.banned_token_ids.insert(sampling.banned_token_ids.end(), options_.banned_token_ids.begin(),
                                     options_.banned_token_ids.end());
    if (options_.top_k_max > 0 && (sampling.top_k <= 0 || sampling.top_k > options_.top_k_max)) {
        sampling.top_k = options_.top_k_max;
    }
}

void Preparer::add_end_tokens(SamplingParams& sampling) const {
    if (sampling.ignore_eos) {
        return;
    }
    const std::vector<int32_t> known = config().end_token_ids();
    for (const int32_t id : generation_.eos_token_ids) {
        if (std::find(known.begin(), known.end(), id) == known.end() && id < config().vocab_size) {
            sampling.stop_token_ids.push_back(id);
        }
    }
}

GrammarCompiler& Preparer::grammar_compiler() {
    const std::lock_guard lock(compiler_mutex_);
    if (grammar_compiler_ == nullptr) {
        grammar_compiler_ =
            std::make_unique<GrammarCompiler>(tokenizer(), config().vocab_size, end_token_ids(), options_.grammar);
    }
    return *grammar_compiler_;
}

}  // namespace di
