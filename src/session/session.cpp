#include "session/session.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "session/model_files.h"
#include "text/token_classes.h"

namespace di {

Session::Session(const SessionOptions& options, std::unique_ptr<Tokenizer> tokenizer, std::unique_ptr<LoadedEngine> loaded,
                 GenerationConfig generation, ChatFormat chat_format)
    : options_(options),
      tokenizer_(std::move(tokenizer)),
      loaded_(std::move(loaded)),
      preparer_(std::make_unique<Preparer>(options.preparer, loaded_->config, *tokenizer_, std::move(generation),
                                           std::move(chat_format))) {}

Result<std::unique_ptr<Session>> Session::open(const SessionOptions& options) {
    const std::string& model = options.engine.model_directory;
    const std::string& text_model = options.tokenizer_directory.empty() ? model : options.tokenizer_directory;
    DI_TRY(Tokenizer tokenizer, open_tokenizer(text_model));
    auto kept = std::make_unique<Tokenizer>(std::move(tokenizer));
    DI_TRY(GenerationConfig generation, open_generation_config(model, *kept));
    const TokenClasses classes = [&kept](int64_t vocab_size) { return token_classes(*kept, vocab_size); };
    DI_TRY(std::unique_ptr<LoadedEngine> loaded, load_engine(options.engine, classes));
    if (kept->vocabulary_size() > loaded->config.vocab_size) {
        return fail(ErrorCode::kInvalidFile, "the tokenizer has ids up to {}, expected at most the model's vocab_size {}",
                    kept->vocabulary_size() - 1, loaded->config.vocab_size);
    }
    for (const int32_t id : options.preparer.banned_token_ids) {
        if (id >= loaded->config.vocab_size) {
            return fail(ErrorCode::kInvalidArgument, "banned-token-ids: {}, expected ids from 0 to {}", id,
                        loaded->config.vocab_size - 1);
        }
    }
    if (loaded->config.transformer) {
        DI_TRY(loaded->config.adds_bos, open_adds_bos(text_model, *kept, loaded->config.adds_bos));
    }
    DI_TRY(ChatFormat chat_format, open_chat_format(text_model, *kept, loaded->config.adds_bos));
    return std::unique_ptr<Session>(
        new Session(options, std::move(kept), std::move(loaded), std::move(generation), std::move(chat_format)));
}

Result<SubmittedPrompt> Session::submit(PromptRequest prompt) { return submit_as(next_id_++, std::move(prompt)); }

Result<SubmittedPrompt> Session::submit_as(uint64_t id, PromptRequest prompt) {
    const std::vector<std::string> stops = prompt.stop;
    DI_TRY(TokenRequest request, preparer_->prepare(std::move(prompt)));
    request.id = id;
    SubmittedPrompt submitted{.id = id, .prompt_token_ids = request.prompt_token_ids};
    Running running;
    for (int32_t i = 0; i < request.sampling.n; ++i) {
        running.samples.push_back(
            {.detokenizer = Detokenizer(*tokenizer_, true), .stop_strings = StopStrings(stops), .token_count = 0});
    }
    running.engine_count = request.sampling.n;
    running.open_count = request.sampling.n;
    running_.emplace(id, std::move(running));
    loaded_->engine->add_request(std::move(request));
    return submitted;
}

std::vector<PromptOutput> Session::step() { return parked_.empty() ? step_engine() : std::exchange(parked_, {}); }

std::vector<PromptOutput> Session::step_engine() {
    apply_aborts();
    std::vector<PromptOutput> outputs = outputs_of(loaded_->engine->step());
    // Else we would ask for ever.
    DI_CHECK(running_.empty() || loaded_->engine->has_unfinished(), "every sample has a last record");
    if (options_.log_interval_steps > 0 && ++steps_ % options_.log_interval_steps == 0) {
        log_statistics();
    }
    return outputs;
}

void Session::log_statistics() {
    const EngineStats now = stats();
    log_info(
        "engine: {} steps, {} running, {} waiting; tokens: {} prompt, {} cached, {} output; blocks: {} used, {} cached of {}",
        now.steps, now.running, now.waiting, now.prompt_tokens, now.cached_tokens, now.output_tokens, now.blocks_used,
        now.blocks_cached, now.blocks_total);
}

std::vector<PromptOutput> Session::flush() {
    std::vector<PromptOutput> outputs = std::exchange(parked_, {});
    for (PromptOutput& output : outputs_of(loaded_->engine->flush())) {
        outputs.push_back(std::move(output));
    }
    return outputs;
}

void Session::abort(uint64_t id) {
    const std::lock_guard lock(aborts_mutex_);
    aborts_.push_back(id);
}

void Session::apply_aborts() {
    std::vector<uint64_t> ids;
    {
        const std::lock_guard lock(aborts_mutex_);
        ids.swap(aborts_);
    }
    for (const uint64_t id : ids) {
        if (running_.contains(id)) {
            loaded_->engine->abort_request(id);
        } else {
            aborted_ahead_.insert(id);  // forgotten when no generate() waits for it
        }
    }
    if (!is_generating_) {
        aborted_ahead_.clear();
    }
}

int64_t Session::unfinished_count() const {
    return std::count_if(running_.begin(), running_.end(), [](const auto& entry) { return entry.second.open_count > 0; });
}

std::vector<PromptOutput> Session::outputs_of(std::vector<StepOutput> steps) {
    std::vector<PromptOutput> outputs;
    for (StepOutput& step : steps) {
        if (std::optional<PromptOutput> output = output_of(std::move(step))) {
            outputs.push_back(std::move(*output));
        }
    }
    return outputs;
}

std::optional<PromptOutput> Session::output_of(StepOutput step) {
    const auto found = running_.find(step.request_id);
    if (found == running_.end()) {
        return std::nullopt;
    }
    Running& running = found->second;
    Sample& sample = running.samples[static_cast<size_t>(step.sample_index)];
    std::optional<PromptOutput> output;
    if (!sample.is_ended) {
        output.emplace();
        output->request_id = step.request_id;
        output->sample_index = step.sample_index;
        take_tokens(step, sample, *output);
        if (output->finish != FinishReason::kNone) {
            sample.is_ended = true;
            --running.open_count;
            if (step.finish == FinishReason::kNone) {
                loaded_->engine->abort_sample(step.request_id, step.sample_index);
            }
        }
        output->prompt_logprobs = std::move(step.prompt_logprobs);
        output->top_prompt_logprobs = std::move(step.top_prompt_logprobs);
        output->draft_token_ids = std::move(step.draft_token_ids);
        output->accepted_drafts = step.accepted_drafts;
        output->usage = step.usage;
        output->usage.completion_tokens = sample.token_count;
        output->cache_miss = step.cache_miss;
        output->timing = step.timing;
    }
    if (step.finish != FinishReason::kNone && --running.engine_count == 0) {
        running_.erase(found);
    }
    return output;
}

void Session::take_tokens(const StepOutput& step, Sample& sample, PromptOutput& output) {
    for (size_t i = 0; i < step.token_ids.size() && !sample.stop_strings.is_matched(); ++i) {
        OutputToken& token = output.tokens.emplace_back();
        token.token_id = step.token_ids[i];
        if (i < step.logprobs.size()) {
            token.logprob = step.logprobs[i];
        }
        if (i < step.top_logprobs.size()) {
            token.top_logprobs = step.top_logprobs[i];
        }
        token.text = sample.stop_strings.push(sample.detokenizer.push(token.token_id));
        ++sample.token_count;
    }
    if (sample.stop_strings.is_matched()) {
        output.finish = FinishReason::kStop;
    } else if (step.finish != FinishReason::kNone) {
        output.finish = step.finish;
        output.error = step.error;
    } else {
        return;
    }
    output.rest = sample.stop_strings.push(sample.detokenizer.finish());
    output.rest += sample.stop_strings.finish();
}

void Session::drop(uint64_t id) {
    const auto found = running_.find(id);
    if (found == running_.end()) {
        return;
    }
    for (Sample& sample : found->second.samples) {
        sample.is_ended = true;
    }
    found->second.open_count = 0;
    loaded_->engine->abort_request(id);
}

}  // namespace di
