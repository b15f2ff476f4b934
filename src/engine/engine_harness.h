#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "engine/fake_model.h"
#include "engine/continuous_engine.h"
#include "engine/sampler.h"

// Test help: an engine on the fake model, and what a request must answer, computed without an engine.
namespace di {

inline constexpr int32_t kFakeEos = 1;

// Everything a request got.
struct Answer {
    std::vector<int32_t> token_ids;
    std::vector<float> logprobs;
    FinishReason finish = FinishReason::kNone;
    std::string error;
    RequestUsage usage;
    RequestTiming timing;
    CacheMiss cache_miss = CacheMiss::kNone;
    int64_t last_record_count = 0;

    // Tokens, their probabilities to the bit, and the reason.
    bool operator==(const Answer& other) const {
        return token_ids == other.token_ids && logprobs == other.logprobs && finish == other.finish && error == other.error;
    }
};

using Answers = std::map<uint64_t, Answer>;  // of sample 0 by request id, of others by answer_key()

inline uint64_t answer_key(uint64_t request_id, int32_t sample) { return request_id + (static_cast<uint64_t>(sample) << 32); }

inline void collect(const std::vector<StepOutput>& outputs, Answers& answers) {
    for (const StepOutput& output : outputs) {
        Answer& answer = answers[answer_key(output.request_id, output.sample_index)];
        answer.token_ids.insert(answer.token_ids.end(), output.token_ids.begin(), output.token_ids.end());
        answer.logprobs.insert(answer.logprobs.end(), output.logprobs.begin(), output.logprobs.end());
        answer.usage = output.usage;
        answer.cache_miss = output.cache_miss;
        answer.timing = output.timing;
        if (output.finish != FinishReason::kNone) {
            answer.finish = output.finish;
            ++answer.last_record_count;
        }
        if (output.error) {
            answer.error = output.error->text;
        }
    }
}

struct EngineHarness {
    explicit EngineHarness(const EngineLimits& limits, const FakeShape& shape = {}, EngineBehaviour behaviour = {})
        : model(shape) {
        auto made = ContinuousEngine::create(model, backend, limits, behaviour, {kFakeEos}, clock, random);
        DI_CHECK(made.has_value(), made ? "" : made.error().text);
        engine = std::move(*made);
    }

    // Steps until nothing is left; a step that does nothing for ever would not end.
    Answers run() {
        Answers answers;
        for (int64_t step = 0; engine->has_unfinished(); ++step) {
            DI_CHECK(step < 100000, "the engine does not come to an end");
            collect(engine->step(), answers);
            engine->check_invariants();
        }
        return answers;
    }
    Answers run(const std::vector<TokenRequest>& requests) {
        for (const TokenRequest& request : requests) {
            engine->add_request(request);
        }
        return run();
    }
    // Nothing is held but by the prefix cache, and nothing at all once that is emptied.
    [[nodiscard]] bool is_drained() {
        Scheduler& scheduler = engine->scheduler();
        const bool is_idle = scheduler.running().empty() && scheduler.waiting_count() == 0;
        scheduler.cache().clear();
        return is_idle && scheduler.blocks().used_count() == 0 && scheduler.slots().used_count() == 0;
    }

    CountingBackend backend;
    FakeModel model;
    ManualClock clock;
    SeededRandom random{5};
    std::unique_ptr<ContinuousEngine> engine;
};

inline TokenRequest make_request(uint64_t id, std::vector<int32_t> prompt, int32_t max_tokens) {
    TokenRequest request;
    request.id = id;
    request.prompt_token_ids = std::move(prompt);
    request.sampling.max_tokens = max_tokens;
    request.sampling.seed = id * 77 + 1;
    request.sampling.ignore_eos = true;
    request.sampling.logprobs = true;
    return request;
}

// Token ids of a prompt that differs from others; ids 2 .. 59.
inline std::vector<int32_t> make_prompt(uint64_t seed, int64_t length) {
    SeededRandom random(seed);
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < length; ++i) {
        ids.push_back(static_cast<int32_t>(2 + random.below(58)));
    }
    return ids;
}

// The context as the fake model sees it.
inline std::vector<FakeEntry> make_context(const TokenRequest& request) {
    std::vector<FakeEntry> entries;
    for (const int32_t id : request.prompt_token_ids) {
        entries.push_back(fake_token(id));
    }
    for (const RequestImage& image : request.images) {
        for (int64_t row = 0; row < image.grid_height * image.grid_width + 2; ++row) {
            std::vector<float> embedding;
            for (int64_t column = 0; column < kFakeEmbedding; ++column) {
                embedding.push_back(fake_embedding(image, row, column));
            }
            entries[static_cast<size_t>(image.first_token + row)] = fake_image_row(embedding);
        }
    }
    return entries;
}

// The answer of a sample of a valid request, by the rules alone: no batch, no cache, no chunks, no drafts.
inline Answer expected_answer(const TokenRequest& request, int32_t max_model_len, int32_t sample = 0) {
    std::vector<FakeEntry> entries = make_context(request);
    Sampler sampler(kFakeVocab);
    TokenHistory history(request.sampling, request.prompt_token_ids, kFakeVocab);
    Answer answer;
    const SamplingParams& sampling = request.sampling;
    std::vector<int32_t> ends = sampling.stop_token_ids;
    if (!sampling.ignore_eos) {
        ends.push_back(kFakeEos);
    }
    while (answer.finish == FinishReason::kNone) {
        const auto count = static_cast<int32_t>(answer.token_ids.size());
        const std::vector<float> logits = fake_logits(entries);
        const bool is_forced = static_cast<size_t>(count) < sampling.golden_token_ids.size();
        const SampleRow row{.logits = logits,
                            .params = &sampling,
                            .seed = sample_seed(*sampling.seed, sample),
                            .index = static_cast<int64_t>(entries.size()),
                            .end_token_ids = ends,
                            .bans_end_tokens = count < sampling.min_tokens,
                            .history = &history,
                            .forced_id = is_forced ? sampling.golden_token_ids[static_cast<size_t>(count)] : -1};
        const int32_t id = sampler.draw(row).value();
        answer.token_ids.push_back(id);
        answer.logprobs.push_back(sampler.logprobs(row, id, 0).logprob);
        history.push(id);
        entries.push_back(fake_token(id));
        if (std::find(ends.begin(), ends.end(), id) != ends.end()) {
            answer.finish = FinishReason::kStop;
        } else if (static_cast<int32_t>(entries.size()) >= max_model_len || count + 1 == sampling.max_tokens) {
            answer.finish = FinishReason::kLength;
        }
    }
    return answer;
}

}  // namespace di
