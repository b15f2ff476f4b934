#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "engine/batch_builder.h"
#include "engine/engine.h"
#include "engine/sampler.h"
#include "engine/sequence.h"
#include "kv/block_pool.h"
#include "kv/cache_storage.h"

namespace di {

// First come, first served. A step takes one row of every sequence in decode, then as many rows as fit of the prompt that is
// under way, then admits waiting prompts in order of arrival. A request is admitted when a state slot and the blocks of its
// whole length are free, so that whatever runs can finish: nothing is ever preempted. The head of the queue is not passed.
class FcfsEngine : public Engine {
  public:
    // As Engine::create; `clock` and `random` (seeds of requests without one) must outlive the engine too.
    [[nodiscard]] static Result<std::unique_ptr<FcfsEngine>> create(Model& model, Backend& backend, const EngineLimits& limits,
                                                                    std::vector<int32_t> eos_token_ids, Clock& clock,
                                                                    Random& random);

    void add_request(TokenRequest request) override;
    void abort_request(uint64_t id) override;
    [[nodiscard]] std::vector<StepOutput> step() override;
    [[nodiscard]] std::vector<StepOutput> flush() override { return {}; }
    [[nodiscard]] bool has_unfinished() const override;
    [[nodiscard]] EngineStats stats() const override { return {}; }

    // What is in use now: for tests, statistics and the end of a drain.
    [[nodiscard]] const BlockPool& blocks() const { return blocks_; }
    [[nodiscard]] const BlockPool& slots() const { return slots_; }
    [[nodiscard]] int64_t running_count() const { return static_cast<int64_t>(running_.size()); }
    [[nodiscard]] int64_t waiting_count() const { return static_cast<int64_t>(waiting_.size()); }

  private:
    struct Record {
        int64_t arrival_index = 0;
        StepOutput output;
        bool frees_id = false;  // the last record of the request that its id stands for
    };

    FcfsEngine(Model& model, Backend& backend, const EngineLimits& limits, std::vector<int32_t> eos_token_ids, Clock& clock,
               Random& random, CacheStorage storage);

    [[nodiscard]] std::unique_ptr<Sequence> make_sequence(TokenRequest request);
    void answer_at_once(const TokenRequest& request, FinishReason finish, std::optional<Error> error, bool frees_id);
    void schedule();
    [[nodiscard]] int32_t schedule_running(int32_t row_budget);
    [[nodiscard]] bool admit_next();
    void encode_images();
    void run_batch();
    void take_token(Sequence& sequence, std::span<const float> logits);
    [[nodiscard]] FinishReason finish_after(const Sequence& sequence) const;
    void record(const Sequence& sequence, StepOutput output, bool is_last);
    void finish(Sequence& sequence, StepOutput output);
    void remove_finished();

    Model& model_;
    Backend& backend_;
    EngineLimits limits_;
    std::vector<int32_t> eos_token_ids_;
    Clock& clock_;
    Random& random_;
    CacheStorage storage_;
    BlockPool blocks_;
    BlockPool slots_;
    BatchContext context_;
    Sampler sampler_;
    int64_t next_arrival_index_ = 0;
    std::deque<std::unique_ptr<Sequence>> waiting_;
    std::vector<std::unique_ptr<Sequence>> running_;  // by arrival; within a step, without a slot = finished
    std::unordered_set<uint64_t> unfinished_ids_;     // until the last record was given out; never iterated
    std::vector<Record> records_;                     // to be returned by the next step
    // Of one step, kept for their memory.
    std::vector<ScheduledRows> scheduled_;
    Batch batch_;
    std::vector<float> logits_;  // [logit rows, vocab]
};

}  // namespace di
