// Requests on their way in and out: checks, samples, aborts, deadlines, last records.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"
#include "engine/continuous_engine.h"
#include "engine/image_embeddings.h"
#include "engine/limits.h"
#include "engine/request_check.h"

namespace di {

namespace {

// Pixels and the grid that they lie in: the same values in another grid are another image.
Hash128 content_of(const RequestImage& image) {
    const Hash128 patches = hash_bytes(std::as_bytes(std::span(image.patches)));
    const std::array<uint64_t, 4> all{patches.low, patches.high, static_cast<uint64_t>(image.grid_height),
                                      static_cast<uint64_t>(image.grid_width)};
    return hash_bytes(std::as_bytes(std::span(all)));
}

}  // namespace

void ContinuousEngine::add_request(TokenRequest request) {
    if (requests_.contains(request.id)) {
        answer_at_once(
            request, FinishReason::kError,
            Error{ErrorCode::kInvalidArgument,
                  fmt::format("request id {} belongs to a request that has not finished, expected a new one", request.id)});
        return;
    }
    Request& made = requests_[request.id];
    Status status = check_request(request, model_,
                                  {.max_model_len = limits_.max_model_len,
                                   .block_tokens = context_.block_tokens,
                                   .block_count = scheduler_.blocks().count(),
                                   .prompt_rows_max = behaviour_.chunked_prefill ? 0 : limits_.max_num_batched_tokens});
    if (status) {
        status = check_admission(request);
    }
    const bool is_empty = status && output_tokens_max(request, limits_.max_model_len) == 0;
    if (!status || is_empty) {
        answer_at_once(request, status ? FinishReason::kLength : FinishReason::kError,
                       status ? std::nullopt : std::optional<Error>(std::move(status.error())));
        ended_.push_back(request.id);
        return;
    }
    const uint64_t seed = request.sampling.seed ? *request.sampling.seed : random_.next();
    made.unfinished = request.sampling.n;
    for (int32_t sample = 0; sample < request.sampling.n; ++sample) {
        made.sequences.push_back(make_sequence(request, sample, sample_seed(seed, sample)));
    }
    add_images(request, made);
    Sequence& first = *made.sequences.front();
    for (size_t i = 1; i < made.sequences.size(); ++i) {
        made.sequences[i]->phase = SequencePhase::kHeld;
        first.samples.push_back(made.sequences[i].get());
    }
    if (request.mask != nullptr) {
        first.mask_source = std::move(request.mask);
        first.phase = SequencePhase::kBlocked;
        blocked_.push_back(&first);
        return;
    }
    scheduler_.add(first);
}

std::unique_ptr<Sequence> ContinuousEngine::make_sequence(const TokenRequest& request, int32_t sample, uint64_t seed) {
    auto sequence = std::make_unique<Sequence>();
    sequence->request_id = request.id;
    sequence->sample_index = sample;
    sequence->arrival_index = next_arrival_index_++;
    sequence->user = request.user;
    sequence->priority = request.priority;
    sequence->key_root = prefix_root({}, request.cache_salt);
    sequence->sampling = request.sampling;
    sequence->fault = request.fault;
    sequence->seed = seed;
    sequence->tokens = request.prompt_token_ids;
    sequence->prompt_length = static_cast<int32_t>(request.prompt_token_ids.size());
    sequence->length_max = sequence->prompt_length + output_tokens_max(request, limits_.max_model_len);
    sequence->times.arrival_us = clock_.now_us();
    sequence->end_token_ids = request.sampling.stop_token_ids;
    if (!request.sampling.ignore_eos) {
        sequence->end_token_ids.insert(sequence->end_token_ids.end(), eos_token_ids_.begin(), eos_token_ids_.end());
    }
    if (request.deadline_ms) {
        sequence->times.deadline_us = sequence->times.arrival_us + static_cast<int64_t>(*request.deadline_ms * 1000.0);
        deadlines_.emplace(sequence->times.deadline_us, sequence.get());
    }
    return sequence;
}

// Images are shared by the samples: any of them may have to run its prompt alone.
void ContinuousEngine::add_images(TokenRequest& request, Request& made) {
    for (RequestImage& image : request.images) {
        const int64_t tokens = model_.image_token_count(image.grid_height, image.grid_width);
        const auto shared = std::make_shared<const RequestImage>(std::move(image));
        const PrefixImage shown{
            .first_token = shared->first_token, .token_count = static_cast<int32_t>(tokens), .content = content_of(*shared)};
        for (const auto& sequence : made.sequences) {
            sequence->images.push_back({.input = shared, .token_count = static_cast<int32_t>(tokens), .embeddings = {}});
            sequence->key_images.push_back(shown);
        }
    }
}

// Whether a new request would wait too long.
Status ContinuousEngine::check_admission(const TokenRequest& request) const {
    const Scheduler& scheduler = scheduler_;
    if (behaviour_.queue_max > 0 && scheduler.waiting_count() + static_cast<int64_t>(blocked_.size()) >= behaviour_.queue_max) {
        return fail(ErrorCode::kUnavailable, "{} requests wait already, expected fewer than {}; try again later",
                    scheduler.waiting_count() + static_cast<int64_t>(blocked_.size()), behaviour_.queue_max);
    }
    if (behaviour_.first_token_ms_max <= 0.0 || prompt_row_ms_ <= 0.0) {
        return {};
    }
    const int64_t rows = scheduler.prompt_rows_ahead() + static_cast<int64_t>(request.prompt_token_ids.size());
    const double expected_ms = static_cast<double>(rows) * prompt_row_ms_;
    if (expected_ms > behaviour_.first_token_ms_max) {
        return fail(ErrorCode::kUnavailable, "the first token is expected in {:.0f} ms, more than {:.0f} ms; try again later",
                    expected_ms, behaviour_.first_token_ms_max);
    }
    return {};
}

// The request never becomes a sequence: its records are ready.
void ContinuousEngine::answer_at_once(const TokenRequest& request, FinishReason finish, const std::optional<Error>& error) {
    const int32_t samples = std::clamp(request.sampling.n, 1, kSamplesMax);
    for (int32_t sample = 0; sample < samples; ++sample) {
        StepOutput output;
        output.request_id = request.id;
        output.sample_index = sample;
        output.finish = finish;
        output.error = error;
        output.usage.prompt_tokens = static_cast<int64_t>(request.prompt_token_ids.size());
        records_.push_back({.arrival_index = next_arrival_index_++, .output = std::move(output)});
        ++(error ? stats_.failed : stats_.finished);
    }
}

void ContinuousEngine::abort_request(uint64_t id) {
    const auto found = requests_.find(id);
    if (found == requests_.end()) {
        return;
    }
    for (const auto& sequence : found->second.sequences) {
        end_or_mark(*sequence, std::nullopt);
    }
}

void ContinuousEngine::abort_sample(uint64_t id, int32_t sample_index) {
    const auto found = requests_.find(id);
    if (found == requests_.end() || sample_index < 0 || static_cast<size_t>(sample_index) >= found->second.sequences.size()) {
        return;
    }
    Sequence& sequence = *found->second.sequences[static_cast<size_t>(sample_index)];
    if (sequence.output_length() > 0) {
        end_or_mark(sequence, std::nullopt);
    }
}

// Ends a sequence from outside: with the error, or as aborted. While a step holds it, it ends with that step.
void ContinuousEngine::end_or_mark(Sequence& sequence, std::optional<Error> error) {
    if (sequence.phase == SequencePhase::kFinished) {
        return;
    }
    if (sequence.in_flight > 0 || sequence.is_drawn_by_step) {
        sequence.is_aborted = !error;
        sequence.failure = std::move(error);
        return;
    }
    StepOutput output;
    output.finish = error ? FinishReason::kError : FinishReason::kAbort;
    output.error = std::move(error);
    finish(sequence, std::move(output));
}

void ContinuousEngine::expire_deadlines() {
    const int64_t now_us = clock_.now_us();
    while (!deadlines_.empty() && deadlines_.begin()->first <= now_us) {
        Sequence& sequence = *deadlines_.begin()->second;
        deadlines_.erase(deadlines_.begin());
        end_or_mark(sequence,
                    Error{ErrorCode::kTimedOut, fmt::format("the deadline of {} ms has passed",
                                                            (sequence.times.deadline_us - sequence.times.arrival_us) / 1000)});
    }
}

// Requests whose constraint has been compiled go on, or end with what was wrong with it.
void ContinuousEngine::enqueue_compiled() {
    const std::vector<Sequence*> blocked = blocked_;
    for (Sequence* sequence : blocked) {
        if (!sequence->mask_source->is_ready()) {
            continue;
        }
        Result<std::unique_ptr<TokenMask>> mask = sequence->mask_source->create();
        if (!mask) {
            finish_with_error(*sequence, std::move(mask.error()));
            continue;
        }
        std::erase(blocked_, sequence);
        sequence->mask = std::move(*mask);
        for (Sequence* sample : sequence->samples) {
            sample->mask = sequence->mask->clone();
        }
        scheduler_.add(*sequence);
    }
}

// --- ends ------------------------------------------------------------------------

void ContinuousEngine::record(const Sequence& sequence, StepOutput output) {
    output.request_id = sequence.request_id;
    output.sample_index = sequence.sample_index;
    output.usage = sequence.usage();
    output.cache_miss = sequence.cache_miss;
    output.timing = sequence.timing(clock_.now_us());
    records_.push_back({.arrival_index = sequence.arrival_index, .output = std::move(output)});
}

void ContinuousEngine::finish_with_error(Sequence& sequence, Error error) {
    StepOutput output;
    output.finish = FinishReason::kError;
    output.error = std::move(error);
    finish(sequence, std::move(output));
}

// The last record of a sequence, and of samples that wait for it; all that it holds is free afterwards.
void ContinuousEngine::finish(Sequence& sequence, StepOutput output) {
    DI_CHECK(sequence.phase != SequencePhase::kFinished, "a sequence ended twice");
    const FinishReason reason = output.finish;
    const std::optional<Error> error = output.error;
    record(sequence, std::move(output));
    switch (reason) {
        case FinishReason::kError: ++stats_.failed; break;
        case FinishReason::kAbort: ++stats_.aborted; break;
        case FinishReason::kStop:
        case FinishReason::kLength:
            ++stats_.finished;
            scheduler_.learn_length(sequence);
            break;
        case FinishReason::kNone: DI_CHECK(false, "a last record without a reason");
    }
    if (sequence.times.deadline_us >= 0) {
        deadlines_.erase({sequence.times.deadline_us, &sequence});
    }
    if (sequence.phase == SequencePhase::kBlocked) {
        std::erase(blocked_, &sequence);
    }
    if (sequence.mask_source != nullptr) {
        sequence.mask_source->cancel();
    }
    scheduler_.remove(sequence);
    sequence.images.clear();
    sequence.mask.reset();
    Request& request = requests_.at(sequence.request_id);
    if (--request.unfinished == 0) {
        ended_.push_back(sequence.request_id);
    }
    for (Sequence* sample : std::exchange(sequence.samples, {})) {
        if (sample->phase == SequencePhase::kHeld) {
            StepOutput same;
            same.finish = reason;
            same.error = error;
            finish(*sample, std::move(same));
        }
    }
}

std::vector<StepOutput> ContinuousEngine::take_records() {
    const auto came_before = [](const Record& left, const Record& right) { return left.arrival_index < right.arrival_index; };
    if (!std::is_sorted(records_.begin(), records_.end(), came_before)) {
        std::stable_sort(records_.begin(), records_.end(), came_before);
    }
    std::vector<StepOutput> outputs;
    outputs.reserve(records_.size());
    for (Record& entry : records_) {
        outputs.push_back(std::move(entry.output));
    }
    records_.clear();
    for (const uint64_t id : ended_) {
        requests_.erase(id);
    }
    ended_.clear();
    return outputs;
}

}  // namespace di
