#include "engine/fcfs_engine.h"

#include <algorithm>
#include <span>

#include "base/check.h"
#include "engine/image_embeddings.h"
#include "engine/limits.h"
#include "engine/request_check.h"

namespace di {

namespace {

Status check_limits(const EngineLimits& limits) {
    if (limits.max_model_len < 1 || limits.max_model_len > kModelLengthMax) {
        return fail(ErrorCode::kInvalidArgument, "max_model_len is {}, expected 1 .. {}", limits.max_model_len,
                    kModelLengthMax);
    }
    if (limits.max_num_seqs < 1 || limits.max_num_seqs > kSequencesMax) {
        return fail(ErrorCode::kInvalidArgument, "max_num_seqs is {}, expected 1 .. {}", limits.max_num_seqs, kSequencesMax);
    }
    if (limits.max_num_batched_tokens < 1 || limits.max_num_batched_tokens > kBatchedTokensMax) {
        return fail(ErrorCode::kInvalidArgument, "max_num_batched_tokens is {}, expected 1 .. {}",
                    limits.max_num_batched_tokens, kBatchedTokensMax);
    }
    if (limits.kv_memory_bytes < 0) {
        return fail(ErrorCode::kInvalidArgument, "kv_memory_bytes is {}, expected >= 0", limits.kv_memory_bytes);
    }
    return {};
}

// Blocks that the limits ask for. A model without growing cache has blocks of no bytes: as many as can be of use.
Result<int64_t> count_blocks(const CacheGeometry& geometry, const EngineLimits& limits) {
    if (limits.kv_memory_bytes == 0 || geometry.block_bytes == 0) {
        const int64_t blocks = (limits.max_model_len + geometry.block_tokens - 1) / geometry.block_tokens;
        return std::min<int64_t>(blocks * limits.max_num_seqs, INT32_MAX);
    }
    const int64_t blocks = limits.kv_memory_bytes / geometry.block_bytes;
    if (blocks < 1 || blocks > INT32_MAX) {
        return fail(ErrorCode::kInvalidArgument, "kv_memory_bytes is {}, expected room for 1 .. {} blocks of {} bytes",
                    limits.kv_memory_bytes, INT32_MAX, geometry.block_bytes);
    }
    return blocks;
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::create(Model& model, Backend& backend, const EngineLimits& limits,
                                               const EngineBehaviour& /*behaviour*/, std::vector<int32_t> eos_token_ids) {
    static SystemClock clock;
    static SystemRandom random;
    DI_TRY(auto engine, FcfsEngine::create(model, backend, limits, std::move(eos_token_ids), clock, random));
    return std::unique_ptr<Engine>(std::move(engine));
}

Result<std::unique_ptr<FcfsEngine>> FcfsEngine::create(Model& model, Backend& backend, const EngineLimits& limits,
                                                       std::vector<int32_t> eos_token_ids, Clock& clock, Random& random) {
    DI_TRY_STATUS(check_limits(limits));
    const CacheGeometry& geometry = model.geometry();
    DI_CHECK(geometry.block_tokens > 0, "a cache geometry without block size");
    DI_TRY(const int64_t block_count, count_blocks(geometry, limits));
    for (const int32_t id : eos_token_ids) {
        if (id < 0 || id >= model.vocab_size()) {
            return fail(ErrorCode::kInvalidArgument, "the end token id is {}, expected 0 .. {}", id, model.vocab_size() - 1);
        }
    }
    DI_TRY(CacheStorage storage, CacheStorage::allocate(backend, {.block_bytes = geometry.block_bytes,
                                                                  .block_count = block_count,
                                                                  .state_bytes = geometry.state_bytes,
                                                                  .state_count = limits.max_num_seqs}));
    return std::unique_ptr<FcfsEngine>(
        new FcfsEngine(model, backend, limits, std::move(eos_token_ids), clock, random, std::move(storage)));
}

FcfsEngine::FcfsEngine(Model& model, Backend& backend, const EngineLimits& limits, std::vector<int32_t> eos_token_ids,
                       Clock& clock, Random& random, CacheStorage storage)
    : model_(model),
      backend_(backend),
      limits_(limits),
      eos_token_ids_(std::move(eos_token_ids)),
      clock_(clock),
      random_(random),
      storage_(std::move(storage)),
      blocks_(static_cast<int32_t>(storage_.size().block_count)),
      slots_(limits.max_num_seqs),
      sampler_(model.vocab_size()) {
    context_.block_tokens = model.geometry().block_tokens;
    context_.history_tokens = model.geometry().history_tokens;
    context_.embedding_size = model.has_vision() ? model.embedding_size() : 0;
    context_.embedding_dtype = backend.activation_dtype();
    context_.cache = {.blocks = storage_.blocks(), .states = storage_.states()};
}

// --- requests come and go ----------------------------------------------------------

void FcfsEngine::add_request(TokenRequest request) {
    if (!unfinished_ids_.insert(request.id).second) {
        Error error{ErrorCode::kInvalidArgument,
                    fmt::format("request id {} belongs to a request that has not finished, expected a new one", request.id)};
        answer_at_once(request, FinishReason::kError, std::move(error), false);
        return;
    }
    const RequestBounds bounds{
        .max_model_len = limits_.max_model_len, .block_tokens = context_.block_tokens, .block_count = blocks_.count()};
    if (Status status = check_request(request, model_, bounds); !status) {
        answer_at_once(request, FinishReason::kError, std::move(status.error()), true);
        return;
    }
    if (output_tokens_max(request, limits_.max_model_len) == 0) {
        answer_at_once(request, FinishReason::kLength, std::nullopt, true);
        return;
    }
    waiting_.push_back(make_sequence(std::move(request)));
}

std::unique_ptr<Sequence> FcfsEngine::make_sequence(TokenRequest request) {
    auto sequence = std::make_unique<Sequence>();
    sequence->request_id = request.id;
    sequence->arrival_index = next_arrival_index_++;
    sequence->seed = request.sampling.seed ? *request.sampling.seed : random_.next();
    sequence->prompt_length = static_cast<int32_t>(request.prompt_token_ids.size());
    sequence->length_max = sequence->prompt_length + output_tokens_max(request, limits_.max_model_len);
    sequence->times.arrival_us = clock_.now_us();
    sequence->end_token_ids = request.sampling.stop_token_ids;
    if (!request.sampling.ignore_eos) {
        sequence->end_token_ids.insert(sequence->end_token_ids.end(), eos_token_ids_.begin(), eos_token_ids_.end());
    }
    for (RequestImage& image : request.images) {
        const int64_t tokens = model_.image_token_count(image.grid_height, image.grid_width);
        sequence->images.push_back({.input = std::move(image), .token_count = static_cast<int32_t>(tokens), .embeddings = {}});
    }
    sequence->history = TokenHistory(request.sampling, request.prompt_token_ids, model_.vocab_size());
    sequence->tokens = std::move(request.prompt_token_ids);
    sequence->sampling = std::move(request.sampling);
    return sequence;
}

// The request never becomes a sequence: its only record is ready.
void FcfsEngine::answer_at_once(const TokenRequest& request, FinishReason finish, std::optional<Error> error, bool frees_id) {
    StepOutput output;
    output.request_id = request.id;
    output.finish = finish;
    output.error = std::move(error);
    output.usage.prompt_tokens = static_cast<int64_t>(request.prompt_token_ids.size());
    records_.push_back({.arrival_index = next_arrival_index_++, .output = std::move(output), .frees_id = frees_id});
}

void FcfsEngine::abort_request(uint64_t id) {
    const auto is_it = [id](const std::unique_ptr<Sequence>& sequence) { return sequence->request_id == id; };
    StepOutput output;
    output.finish = FinishReason::kAbort;
    if (const auto at = std::find_if(waiting_.begin(), waiting_.end(), is_it); at != waiting_.end()) {
        finish(**at, std::move(output));
        waiting_.erase(at);
        return;
    }
    if (const auto at = std::find_if(running_.begin(), running_.end(), is_it); at != running_.end()) {
        finish(**at, std::move(output));
        running_.erase(at);
    }
}

bool FcfsEngine::has_unfinished() const { return !waiting_.empty() || !running_.empty() || !records_.empty(); }

// --- one step -------------------------------------------------------------------

std::vector<StepOutput> FcfsEngine::step() {
    schedule();
    encode_images();
    if (!scheduled_.empty()) {
        run_batch();
    }
    remove_finished();
    std::stable_sort(records_.begin(), records_.end(),
                     [](const Record& left, const Record& right) { return left.arrival_index < right.arrival_index; });
    std::vector<StepOutput> outputs;
    outputs.reserve(records_.size());
    for (Record& entry : records_) {
        outputs.push_back(std::move(entry.output));
    }
    records_.clear();
    return outputs;
}

void FcfsEngine::schedule() {
    scheduled_.clear();
    int32_t row_budget = schedule_running(limits_.max_num_batched_tokens);
    while (row_budget > 0 && !waiting_.empty() && admit_next()) {
        Sequence& sequence = *running_.back();
        sequence.times.first_row_us = clock_.now_us();
        scheduled_.push_back({.sequence = &sequence, .row_count = std::min(row_budget, sequence.rows_wanted())});
        row_budget -= scheduled_.back().row_count;
    }
    DI_CHECK(!scheduled_.empty() || (running_.empty() && waiting_.empty()), "a step without rows although requests wait");
}

// Rows of what runs already; returns the rows left.
int32_t FcfsEngine::schedule_running(int32_t row_budget) {
    // Decode rows first: answers under way keep their pace while a long prompt is read.
    for (const bool is_prefilling : {false, true}) {
        for (const auto& sequence : running_) {
            if (row_budget > 0 && sequence->is_prefilling() == is_prefilling) {
                scheduled_.push_back({.sequence = sequence.get(), .row_count = std::min(row_budget, sequence->rows_wanted())});
                row_budget -= scheduled_.back().row_count;
            }
        }
    }
    return row_budget;
}

// Moves the head of the queue to the running ones if all that it will ever need is free.
bool FcfsEngine::admit_next() {
    Sequence& sequence = *waiting_.front();
    const int64_t blocks = (sequence.cached_max() + context_.block_tokens - 1) / context_.block_tokens;
    if (!slots_.can_allocate(1) || !blocks_.can_allocate(blocks)) {
        return false;
    }
    sequence.state_slot = *slots_.allocate();
    blocks_.allocate(blocks, sequence.block_table);
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
    return true;
}

// A request whose images find no memory ends here, alone; its rows leave the step.
void FcfsEngine::encode_images() {
    std::erase_if(scheduled_, [this](const ScheduledRows& entry) {
        Status status = make_image_embeddings(model_, backend_, *entry.sequence, entry.row_count);
        if (!status) {
            StepOutput output;
            output.finish = FinishReason::kError;
            output.error = std::move(status.error());
            finish(*entry.sequence, std::move(output));
        }
        return !status;
    });
}

void FcfsEngine::run_batch() {
    build_batch(context_, scheduled_, batch_);
    const Tensor logits = model_.forward(batch_);
    const auto vocab = static_cast<size_t>(model_.vocab_size());
    logits_.resize(batch_.logit_rows.size() * vocab);
    if (!batch_.logit_rows.empty()) {
        DI_CHECK(logits.rows() == static_cast<int64_t>(batch_.logit_rows.size()) && logits.row_size() == model_.vocab_size(),
                 "the model gave logits of another shape");
        backend_.download(logits, logits_.data());
    }
    size_t logit_row = 0;
    for (const ScheduledRows& entry : scheduled_) {
        Sequence& sequence = *entry.sequence;
        const bool draws_token = entry.draws_token();
        sequence.cached += entry.row_count;
        drop_passed_images(sequence);
        if (!draws_token) {
            continue;
        }
        if (sequence.times.prefill_done_us < 0) {
            sequence.times.prefill_done_us = clock_.now_us();
        }
        take_token(sequence, std::span(logits_).subspan(logit_row * vocab, vocab));
        ++logit_row;
    }
}

void FcfsEngine::take_token(Sequence& sequence, std::span<const float> logits) {
    const SamplingParams& sampling = sequence.sampling;
    const SampleRow row{.logits = logits,
                        .params = &sampling,
                        .seed = sequence.seed,
                        .index = sequence.length(),
                        .end_token_ids = sequence.end_token_ids,
                        .bans_end_tokens = sequence.output_length() < sampling.min_tokens,
                        .history = &sequence.history,
                        .forced_id = sequence.golden_id()};
    StepOutput output;
    const Result<int32_t> token = sampler_.draw(row);
    if (!token) {
        output.finish = FinishReason::kError;
        output.error = token.error();
        finish(sequence, std::move(output));
        return;
    }
    output.logprobs.push_back(sampler_.logprobs(row, *token, 0).logprob);
    sequence.history.push(*token);
    sequence.tokens.push_back(*token);
    if (sequence.times.first_token_us < 0) {
        sequence.times.first_token_us = clock_.now_us();
    }
    output.token_ids.push_back(*token);
    output.finish = finish_after(sequence);
    if (output.finish == FinishReason::kNone) {
        record(sequence, std::move(output), false);
        return;
    }
    finish(sequence, std::move(output));
}

FinishReason FcfsEngine::finish_after(const Sequence& sequence) const {
    if (sequence.is_end_token(sequence.tokens.back())) {
        return FinishReason::kStop;
    }
    // length_max is the smaller of the context and prompt + max_tokens.
    return sequence.length() >= sequence.length_max ? FinishReason::kLength : FinishReason::kNone;
}

// --- records ---------------------------------------------------------------------

void FcfsEngine::record(const Sequence& sequence, StepOutput output, bool is_last) {
    output.request_id = sequence.request_id;
    output.usage = sequence.usage();
    output.timing = sequence.timing(clock_.now_us());
    records_.push_back({.arrival_index = sequence.arrival_index, .output = std::move(output), .frees_id = is_last});
}

// The last record of a sequence; all that it holds is free afterwards.
void FcfsEngine::finish(Sequence& sequence, StepOutput output) {
    record(sequence, std::move(output), true);
    blocks_.release_all(sequence.block_table);
    if (sequence.state_slot >= 0) {
        slots_.release(sequence.state_slot);
        sequence.state_slot = -1;
    }
    sequence.images.clear();
}

void FcfsEngine::remove_finished() {
    // Every running sequence has a slot; finish() took it.
    std::erase_if(running_, [](const std::unique_ptr<Sequence>& sequence) { return sequence->state_slot < 0; });
    for (const Record& entry : records_) {
        if (entry.frees_id) {
            unfinished_ids_.erase(entry.output.request_id);
        }
    }
}

}  // namespace di
