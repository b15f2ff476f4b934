#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "engine/batch_builder.h"
#include "engine/draft_policy.h"
#include "engine/engine.h"
#include "engine/scheduler.h"
#include "engine/sequence.h"
#include "engine/step_runner.h"
#include "engine/step_thread.h"
#include "engine/step_work.h"
#include "kv/cache_storage.h"

namespace di {

// Continuous batching over a Scheduler (which rows run), a StepRunner (runs them) and a DraftPolicy (how many drafts are worth
// it). A call of step():
//   1. plans the next step while one runs, as if every sequence of that one went on and kept all its drafts;
//   2. waits for the step that runs and commits it: tokens, stops, cached blocks;
//   3. leaves out of the plan what has ended, fills in the tokens now known, and starts the next step;
//   4. returns the records of the step that has ended, while the next one runs.
// Where room must be taken from a sequence of the step that runs, 1 comes behind 2. Without asynchronous stepping the same parts run one after
// another on the caller's thread. No answer depends on it: tokens depend on their own sequence alone.
class ContinuousEngine : public Engine {
  public:
    // As Engine::create; `clock` and `random` (seeds of requests without one) must outlive the engine too.
    [[nodiscard]] static Result<std::unique_ptr<ContinuousEngine>> create(Model& model, Backend& backend,
                                                                          const EngineLimits& limits,
                                                                          const EngineBehaviour& behaviour,
                                                                          std::vector<int32_t> eos_token_ids, Clock& clock,
                                                                          Random& random);
    ~ContinuousEngine() override;

    void add_request(TokenRequest request) override;
    void abort_request(uint64_t id) override;
    void abort_sample(uint64_t id, int32_t sample_index) override;
    [[nodiscard]] std::vector<StepOutput> step() override;
    [[nodiscard]] std::vector<StepOutput> flush() override;
    void reset_prefix_cache() override;
    [[nodiscard]] bool has_unfinished() const override { return !requests_.empty() || !records_.empty(); }
    [[nodiscard]] EngineStats stats() const override;

    // For tests and statistics.
    [[nodiscard]] Scheduler& scheduler() { return scheduler_; }
    void check_invariants() const;

  private:
    struct Request {
        std::vector<std::unique_ptr<Sequence>> sequences;  // of all samples
        int32_t unfinished = 0;                            // samples without their last record
    };
    struct Record {
        int64_t arrival_index = 0;
        StepOutput output;
    };

    ContinuousEngine(Model& model, Backend& backend, const EngineLimits& limits, const EngineBehaviour& behaviour,
                     std::vector<int32_t> eos_token_ids, Clock& clock, Random& random, CacheStorage storage);

    // --- requests ---
    [[nodiscard]] std::unique_ptr<Sequence> make_sequence(const TokenRequest& request, int32_t sample, uint64_t seed);
    void add_images(TokenRequest& request, Request& made);
    void answer_at_once(const TokenRequest& request, FinishReason finish, const std::optional<Error>& error);
    [[nodiscard]] Status check_admission(const TokenRequest& request) const;
    void enqueue_compiled();
    void expire_deadlines();

    // --- a step ---
    void plan_next(bool may_preempt);
    [[nodiscard]] int32_t rows_max() const;
    [[nodiscard]] double expected_step_ms(int32_t rows, int32_t sequences) const;
    [[nodiscard]] bool plan_and_launch();
    [[nodiscard]] bool launch();
    void fill_work(StepWork& work);
    [[nodiscard]] bool fill_rows(const PlannedRows& planned, int32_t drafts, StepRows& rows);
    void choose_drafts();
    void start(StepWork& work);
    void finish_step();
    void commit(StepRows& rows);
    void commit_samples(StepRows& rows);
    void take_tokens(Sequence& sequence, VerifyResult& verified, StepOutput& output);
    void take_drafts(StepRows& rows);
    void learn(StepWork& work);
    [[nodiscard]] std::vector<StepOutput> take_records();

    // --- ends ---
    void record(const Sequence& sequence, StepOutput output);
    void finish(Sequence& sequence, StepOutput output);
    void finish_with_error(Sequence& sequence, Error error);
    void end_or_mark(Sequence& sequence, std::optional<Error> error);

    Model& model_;
    Backend& backend_;
    EngineLimits limits_;
    EngineBehaviour behaviour_;
    std::vector<int32_t> eos_token_ids_;
    Clock& clock_;
    Random& random_;
    CacheStorage storage_;
    BatchContext context_;
    int32_t draft_depth_;  // most drafts of a round
    Scheduler scheduler_;
    DraftPolicy policy_;
    StepRunner runner_;
    std::unordered_map<uint64_t, Request> requests_;  // until their last record was given out; looked up, never iterated
    std::vector<uint64_t> ended_;                     // requests that go with the records
    std::vector<Sequence*> blocked_;                  // constraints that are being compiled, by arrival
    std::set<std::pair<int64_t, Sequence*>> deadlines_;
    std::vector<Record> records_;
    int64_t next_arrival_index_ = 0;
    StepPlan plan_;
    std::vector<DraftState> draft_states_;
    std::vector<int32_t> chosen_drafts_;  // by draft_states_
    std::vector<int32_t> draft_counts_;   // by plan_.rows
    std::vector<VerifyOutcome> outcomes_;
    StepWork works_[2];  // one runs, one is filled
    StepWork* running_ = nullptr;
    int next_work_ = 0;
    int64_t result_us_ = -1;      // when the last step's results were there
    double prompt_row_ms_ = 0.0;  // running mean, for the expected time to the first token
    EngineStats stats_;
    std::atomic<bool> masks_ready_{true};  // release/acquire: the masks of the step that runs are written
    std::unique_ptr<StepThread> thread_;   // asynchronous stepping only; last, so that it ends first
};

}  // namespace di
