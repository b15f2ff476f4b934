#include "session/preparer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "text/chat_tokens.h"

namespace di {

Preparer::Preparer(PreparerOptions options, const ModelConfig& config, const Tokenizer& tokenizer, GenerationConfig generation)
    : options_(std::move(options)), context_{.config = &config, .tokenizer = &tokenizer}, generation_(std::move(generation)) {}

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
    ids.push_back(config().eos_token_id);
    return ids;
}

std::vector<int32_t> Preparer::control_token_ids(bool may_call_tools) const {
    const std::vector<int32_t> ends = end_token_ids();
    const std::optional<int32_t> marker = tokenizer().find(kToolMarkerToken);
    std::vector<int32_t> ids;
    for (const int32_t id : special_ids_) {
        const bool is_end = std::find(ends.begin(), ends.end(), id) != ends.end();
        const bool is_call = marker == id && may_call_tools;
        if (!is_end && !is_call && tokenizer().find(kThinkToken) != id && tokenizer().find(kThinkEndToken) != id) {
            ids.push_back(id);
        }
    }
    return ids;
}

GrammarCompilerCounts Preparer::grammar_counts() {
    const std::lock_guard lock(compiler_mutex_);
    return grammar_compiler_ == nullptr ? GrammarCompilerCounts{} : grammar_compiler_->counts();
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
    for (const int32_t id : generation_.eos_token_ids) {
        if (id != config().eos_token_id && id < config().vocab_size) {
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
