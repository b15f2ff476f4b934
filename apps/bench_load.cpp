#include "apps/bench_load.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <utility>

#include <nlohmann/json.hpp>

#include "apps/progress.h"

namespace di {
namespace {

using Json = nlohmann::ordered_json;

// Enough to see a full batch; more would only lengthen the benchmark.
constexpr int64_t kWarmUpRequestsMax = 8;

// What is known of a request that runs.
struct RunningRequest {
    int64_t record_us = -1;  // when its last tokens came
    bool has_first = false;
};

// One closed loop.
class Loop {
  public:
    Loop(Engine& engine, const std::vector<TokenRequest>& requests, Clock& clock)
        : engine_(engine), requests_(requests), clock_(clock), running_(requests.size()) {}

    // Fails on the first request that fails; the others are left in the engine.
    [[nodiscard]] Result<LoadFigures> run(int64_t in_flight, const std::string& salt) {
        ProgressBar bar(static_cast<int64_t>(requests_.size()), "requests");
        const int64_t start_us = clock_.now_us();
        size_t next = 0;
        size_t finished = 0;
        while (finished < requests_.size()) {
            for (; next < requests_.size() && next - finished < static_cast<size_t>(in_flight); ++next) {
                send(next, salt);
            }
            const std::vector<StepOutput> outputs = engine_.step();
            const int64_t now_us = clock_.now_us();
            for (const StepOutput& output : outputs) {
                DI_TRY_STATUS(take(output, now_us));
                if (output.finish != FinishReason::kNone) {
                    ++finished;
                    bar.advance();
                }
            }
        }
        figures_.wall_s = static_cast<double>(std::max<int64_t>(1, clock_.now_us() - start_us)) / 1e6;
        return std::move(figures_);
    }

  private:
    void send(size_t index, const std::string& salt) {
        TokenRequest request = requests_[index];
        request.id = index;
        request.cache_salt += salt;
        engine_.add_request(std::move(request));
    }

    Status take(const StepOutput& output, int64_t now_us) {
        if (output.error) {
            return fail_in(fmt::format("request {}", output.request_id), *output.error);
        }
        RunningRequest& request = running_[output.request_id];
        if (const auto count = static_cast<int64_t>(output.token_ids.size()); count > 0) {
            if (request.has_first) {
                const double gap_ms = static_cast<double>(now_us - request.record_us) / 1e3;
                figures_.inter_chunk_ms.push_back(gap_ms);
                figures_.inter_token_ms.insert(figures_.inter_token_ms.end(), output.token_ids.size(),
                                               gap_ms / static_cast<double>(count));
                ++figures_.decode_records;
                figures_.decode_tokens += count;
            }
            request.has_first = true;
            request.record_us = now_us;
        }
        if (output.finish != FinishReason::kNone) {
            end(output);
        }
        return {};
    }

    void end(const StepOutput& output) {
        ++figures_.requests;
        figures_.prompt_tokens += output.usage.prompt_tokens;
        figures_.cached_tokens += output.usage.cached_tokens;
        figures_.output_tokens += output.usage.completion_tokens;
        if (output.usage.completion_tokens > 0) {
            figures_.first_token_ms.push_back(output.timing.first_token_ms);
        }
        const double decode_ms = output.timing.total_ms - output.timing.first_token_ms;
        if (output.usage.completion_tokens > 1 && decode_ms > 0.0) {
            figures_.user_tokens_per_s.push_back(static_cast<double>(output.usage.completion_tokens - 1) * 1e3 / decode_ms);
        }
    }

    Engine& engine_;
    const std::vector<TokenRequest>& requests_;
    Clock& clock_;
    std::vector<RunningRequest> running_;  // by id
    LoadFigures figures_;
};

void subtract(const std::vector<int64_t>& before, std::vector<int64_t>& counts) {
    for (size_t i = 0; i < std::min(before.size(), counts.size()); ++i) {
        counts[i] -= before[i];
    }
}

// Counters between two moments. What is a state, not a counter, is the later one's.
EngineStats difference(const EngineStats& before, EngineStats after) {
    after.steps -= before.steps;
    after.prompt_tokens -= before.prompt_tokens;
    after.cached_tokens -= before.cached_tokens;
    after.output_tokens -= before.output_tokens;
    after.draft_rounds -= before.draft_rounds;
    after.drafted_tokens -= before.drafted_tokens;
    after.accepted_tokens -= before.accepted_tokens;
    subtract(before.verified_by_position, after.verified_by_position);
    subtract(before.accepted_by_position, after.accepted_by_position);
    after.preemptions -= before.preemptions;
    after.finished -= before.finished;
    after.aborted -= before.aborted;
    after.failed -= before.failed;
    after.schedule_us_total -= before.schedule_us_total;
    after.cpu_bubble_us_total -= before.cpu_bubble_us_total;
    after.model_ms_total -= before.model_ms_total;
    return after;
}

double ratio(double part, double whole) { return whole > 0.0 ? part / whole : 0.0; }

Json times_json(const std::vector<double>& values) {
    return {{"mean", mean(values)}, {"p50", percentile(values, 0.5)}, {"p99", percentile(values, 0.99)}};
}

Json drafts_json(const LoadFigures& figures) {
    const EngineStats& engine = figures.engine;
    Json positions = Json::array();
    for (size_t i = 0; i < engine.verified_by_position.size(); ++i) {
        const int64_t verified = engine.verified_by_position[i];
        const int64_t accepted = engine.accepted_by_position[i];
        positions.push_back({{"verified", verified},
                             {"accepted", accepted},
                             {"rate", verified > 0 ? Json(ratio(double(accepted), double(verified))) : Json(nullptr)}});
    }
    return {{"rounds", engine.draft_rounds},
            {"drafted_tokens", engine.drafted_tokens},
            {"accepted_tokens", engine.accepted_tokens},
            {"mean_accepted_length", engine.draft_rounds > 0 ? Json(figures.mean_accepted_length()) : Json(nullptr)},
            {"tokens_per_decode_step", ratio(double(figures.decode_tokens), double(figures.decode_records))},
            {"by_position", std::move(positions)}};
}

}  // namespace

double LoadFigures::tokens_per_s_per_user() const { return percentile(user_tokens_per_s, 0.5); }

double LoadFigures::all_accepted_ratio() const {
    const int64_t refused = engine.drafted_tokens - engine.accepted_tokens;
    return 1.0 + ratio(static_cast<double>(refused), static_cast<double>(output_tokens));
}

double LoadFigures::mean_accepted_length() const {
    if (engine.draft_rounds == 0) {
        return 0.0;
    }
    return 1.0 + static_cast<double>(engine.accepted_tokens) / static_cast<double>(engine.draft_rounds);
}

Result<LoadFigures> run_load(Engine& engine, const std::vector<TokenRequest>& requests, int64_t in_flight,
                             const std::string& salt, Clock& clock) {
    const EngineStats before = engine.stats();
    DI_TRY(LoadFigures figures, Loop(engine, requests, clock).run(in_flight, salt));
    // A step that was started before the last end was known belongs to this loop.
    const std::vector<StepOutput> rest = engine.flush();
    DI_CHECK(rest.empty(), "every request has ended, and yet there are records");
    figures.engine = difference(before, engine.stats());
    return figures;
}

Status warm_up(Engine& engine, const std::vector<TokenRequest>& requests, int64_t in_flight, const std::string& salt,
               Clock& clock) {
    const auto count = std::min({static_cast<int64_t>(requests.size()), in_flight, kWarmUpRequestsMax});
    const std::vector<TokenRequest> few(requests.begin(), requests.begin() + count);
    DI_TRY_STATUS(run_load(engine, few, in_flight, salt, clock));
    return {};
}

Json load_json(const std::string& benchmark, const BenchLoad& load) {
    return {{"benchmark", benchmark},
            {"model", load.model},
            {"backend", load.loaded->backend->name()},
            {"max_num_seqs", load.loaded->plan.limits.max_num_seqs},
            {"max_num_batched_tokens", load.loaded->plan.limits.max_num_batched_tokens},
            {"drafts", load.behaviour.drafts < 0 ? Json("model") : Json(load.behaviour.drafts)},
            {"draft_schedule", load.behaviour.scheduled_verify ? "confidence" : "fixed"},
            {"batch_invariant", load.behaviour.deterministic},
            {"temperature", load.requests.front().sampling.temperature}};
}

Json figures_json(const LoadFigures& figures) {
    const EngineStats& engine = figures.engine;
    const auto steps = static_cast<double>(engine.steps);
    return {{"requests", figures.requests},
            {"wall_s", figures.wall_s},
            {"prompt_tokens", figures.prompt_tokens},
            {"cached_tokens", figures.cached_tokens},
            {"output_tokens", figures.output_tokens},
            {"prompt_tokens_per_s", static_cast<double>(figures.prompt_tokens) / figures.wall_s},
            {"output_tokens_per_s", figures.output_tokens_per_s()},
            {"tokens_per_s_per_user", figures.tokens_per_s_per_user()},
            {"first_token_ms", times_json(figures.first_token_ms)},
            {"inter_token_ms", times_json(figures.inter_token_ms)},
            {"inter_chunk_ms", times_json(figures.inter_chunk_ms)},
            {"acceptance", drafts_json(figures)},
            {"preemptions", engine.preemptions},
            {"steps", engine.steps},
            {"schedule_us_per_step", ratio(engine.schedule_us_total, steps)},
            {"cpu_bubble_us_per_step", ratio(engine.cpu_bubble_us_total, steps)},
            {"model_ms_per_step", ratio(engine.model_ms_total, steps)}};
}

std::string acceptance_text(const LoadFigures& figures) {
    std::string text;
    for (size_t i = 0; i < figures.engine.verified_by_position.size(); ++i) {
        if (const int64_t verified = figures.engine.verified_by_position[i]; verified > 0) {
            const double rate = static_cast<double>(figures.engine.accepted_by_position[i]) / static_cast<double>(verified);
            text += fmt::format("{}{:.2f}", text.empty() ? "" : " ", rate);
        }
    }
    return text.empty() ? "none" : text;
}

double percentile(std::vector<double> values, double share) {
    if (values.empty()) {
        return 0.0;
    }
    std::sort(values.begin(), values.end());
    const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(values.size())));
    return values[std::clamp<size_t>(rank, 1, values.size()) - 1];
}

double mean(const std::vector<double>& values) {
    return values.empty() ? 0.0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace di
