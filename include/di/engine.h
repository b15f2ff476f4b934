#pragma once

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "c_api.h"

// The C++ API of deepinfer: include this, link libdeepinfer. It is a thin layer over the C ABI, all of it in this header, so that a program
// and the library need not come from the same compiler. Nothing throws: what can fail returns a Result.
//
//     auto engine = di::Engine::open({{"model", "models/v41-mini"}});
//     if (!engine) { return report(engine.error()); }
//     auto id = engine->add({.text = "Once upon a time"});
//     while (engine->has_unfinished()) {
//         for (const di::Output& output : *engine->step()) { ... }
//     }
namespace di {
// Apart from the names of the library's inside.
inline namespace v1 {

struct Error {
    di_code code = DI_INTERNAL;
    std::string text;  // for a person
};

// A value, or why there is none. Asking for what is not there ends the process.
template <typename T>
class [[nodiscard]] Result {
  public:
    Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
    Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

    [[nodiscard]] bool has_value() const { return state_.index() == 0; }
    explicit operator bool() const { return has_value(); }
    [[nodiscard]] T& value() { return *checked(std::get_if<0>(&state_)); }
    [[nodiscard]] const T& value() const { return *checked(std::get_if<0>(&state_)); }
    [[nodiscard]] const Error& error() const { return *checked(std::get_if<1>(&state_)); }
    T& operator*() { return value(); }
    const T& operator*() const { return value(); }
    T* operator->() { return &value(); }
    const T* operator->() const { return &value(); }

  private:
    template <typename P>
    static P* checked(P* pointer) {
        if (pointer == nullptr) {
            std::abort();
        }
        return pointer;
    }
    std::variant<T, Error> state_;
};

// Structured output, as in di_request: {.schema_type = "regex", .schema = "[0-9]+"}.
struct Constraint {
    std::string schema_type{};
    std::string schema{};
    std::vector<std::string> choices{};
    std::vector<int32_t> trigger_token_ids{};
    std::optional<int32_t> bound_token_id{};
};

// Fields as in di_request, where their meaning stands. One of text and token_ids is the prompt.
struct Request {
    std::optional<std::string> text{};
    std::vector<int32_t> token_ids{};
    std::vector<std::string> images{};
    double temperature = 1.0;
    double top_p = 1.0;
    int32_t top_k = -1;
    double min_p = 0.0;
    double repetition_penalty = 1.0;
    double presence_penalty = 0.0;
    double frequency_penalty = 0.0;
    std::vector<di_token_bias> logit_bias{};
    std::vector<int32_t> allowed_token_ids{};
    std::vector<int32_t> banned_token_ids{};
    std::optional<uint64_t> seed{};
    int32_t max_tokens = 16;
    int32_t min_tokens = 0;
    bool ignore_eos = false;
    std::vector<int32_t> stop_token_ids{};
    std::vector<int32_t> golden_token_ids{};
    bool logprobs = false;
    int32_t top_logprobs = 0;
    bool has_processed_logprobs = false;
    bool prompt_logprobs = false;
    int32_t n = 1;
    std::vector<std::string> stop{};
    std::string user{};
    std::string cache_salt{};
    int32_t priority = 0;
    std::optional<double> deadline_ms{};
    std::optional<Constraint> constraint{};
};

struct OutputToken {
    int32_t token_id = 0;
    std::optional<float> logprob{};
    std::string text{};
    std::vector<di_token_logprob> top_logprobs{};
};

// What a step did for one sample of a request, as in di_output.
struct Output {
    uint64_t request_id = 0;
    int32_t sample_index = 0;
    std::vector<OutputToken> tokens{};
    std::string rest{};
    std::vector<float> prompt_logprobs{};
    std::vector<int32_t> draft_token_ids{};
    int32_t accepted_drafts = 0;
    di_finish finish = DI_FINISH_NONE;
    std::optional<Error> error{};
    int64_t prompt_tokens = 0;
    int64_t cached_tokens = 0;
    int64_t completion_tokens = 0;
    std::string cache_miss{};
    double queue_ms = 0.0;
    double prefill_ms = 0.0;
    double first_token_ms = 0.0;
    double total_ms = 0.0;

    [[nodiscard]] bool is_finished() const { return finish != DI_FINISH_NONE; }
    // All text of this step.
    [[nodiscard]] std::string text() const {
        std::string joined;
        for (const OutputToken& token : tokens) {
            joined += token.text;
        }
        return joined + rest;
    }
};

// Names and values as for di_options_set(): {{"model", "..."}, {"max-num-seqs", "8"}}.
using EngineOptions = std::vector<std::pair<std::string, std::string>>;

namespace detail {

inline Error last_error(di_code code) { return {code, di_last_error()}; }
inline di_text text_of(const std::string& text) { return {text.data(), text.size()}; }
inline std::string string_of(const di_text& text) {
    return text.data == nullptr ? std::string() : std::string(text.data, text.size);
}

inline std::vector<di_text> texts_of(const std::vector<std::string>& strings) {
    std::vector<di_text> texts;
    for (const std::string& string : strings) {
        texts.push_back(text_of(string));
    }
    return texts;
}

inline Output output_of(const di_output& from) {
    Output output;
    output.request_id = from.request_id;
    output.sample_index = from.sample_index;
    for (size_t i = 0; i < from.token_count; ++i) {
        const di_token& token = from.tokens[i];
        OutputToken& to = output.tokens.emplace_back();
        to.token_id = token.token_id;
        if (!std::isnan(token.logprob)) {
            to.logprob = token.logprob;
        }
        to.text = string_of(token.text);
        to.top_logprobs.assign(token.top_logprobs, token.top_logprobs + token.top_logprob_count);
    }
    output.rest = string_of(from.rest);
    output.prompt_logprobs.assign(from.prompt_logprobs, from.prompt_logprobs + from.prompt_logprob_count);
    output.draft_token_ids.assign(from.draft_token_ids, from.draft_token_ids + from.draft_token_id_count);
    output.accepted_drafts = from.accepted_drafts;
    output.finish = from.finish;
    if (from.error != DI_OK) {
        output.error = Error{from.error, string_of(from.error_text)};
    }
    output.prompt_tokens = from.prompt_tokens;
    output.cached_tokens = from.cached_tokens;
    output.completion_tokens = from.completion_tokens;
    output.cache_miss = from.cache_miss;
    output.queue_ms = from.queue_ms;
    output.prefill_ms = from.prefill_ms;
    output.first_token_ms = from.first_token_ms;
    output.total_ms = from.total_ms;
    return output;
}

}  // namespace detail

// A model with its engine and tokenizer. Any thread; calls wait for each other, but for abort().
class Engine {
  public:
    [[nodiscard]] static Result<Engine> open(const EngineOptions& options) {
        const std::unique_ptr<di_options, void (*)(di_options*)> made(di_options_new(), di_options_free);
        for (const auto& [name, value] : options) {
            if (const di_code code = di_options_set(made.get(), name.c_str(), value.c_str()); code != DI_OK) {
                return detail::last_error(code);
            }
        }
        di_engine* handle = nullptr;
        if (const di_code code = di_engine_open(made.get(), &handle); code != DI_OK) {
            return detail::last_error(code);
        }
        return Engine(handle);
    }

    // The id by which outputs and abort() know the request. An error is the only answer that this request gets.
    [[nodiscard]] Result<uint64_t> add(const Request& request) {
        const std::vector<di_text> images = detail::texts_of(request.images);
        const std::vector<di_text> stop = detail::texts_of(request.stop);
        di_request raw = plain_fields(request);
        std::vector<di_text> choices;
        if (request.constraint) {
            choices = detail::texts_of(request.constraint->choices);
            raw.schema_type = request.constraint->schema_type.c_str();
            raw.schema = detail::text_of(request.constraint->schema);
            raw.choices = choices.data();
            raw.choice_count = choices.size();
            raw.trigger_token_ids = request.constraint->trigger_token_ids.data();
            raw.trigger_token_id_count = request.constraint->trigger_token_ids.size();
            raw.bound_token_id = request.constraint->bound_token_id.value_or(-1);
        }
        raw.images = images.data();
        raw.image_count = images.size();
        raw.stop = stop.data();
        raw.stop_count = stop.size();
        uint64_t id = 0;
        const di_code code = di_engine_add(handle_.get(), &raw, &id);
        return code == DI_OK ? Result<uint64_t>(id) : Result<uint64_t>(detail::last_error(code));
    }

    // Every sample of the request ends in the next step. Unknown ids are ignored.
    void abort(uint64_t id) { static_cast<void>(di_engine_abort(handle_.get(), id)); }

    // step() has something to do or to tell.
    [[nodiscard]] bool has_unfinished() const { return di_engine_has_unfinished(handle_.get()) != 0; }

    // Runs one batch. What it returns may be nothing.
    [[nodiscard]] Result<std::vector<Output>> step() { return take(&di_engine_step); }
    // Ends the step that runs ahead, if one does: afterwards nothing runs.
    [[nodiscard]] Result<std::vector<Output>> flush() { return take(&di_engine_flush); }

    // A request with the sampling that the model's authors advise.
    [[nodiscard]] Request advised_request() const {
        di_request raw;
        di_request_init(&raw, sizeof raw);
        Request request;
        if (di_engine_advise(handle_.get(), &raw) == DI_OK) {
            request.temperature = raw.temperature;
            request.top_p = raw.top_p;
            request.top_k = raw.top_k;
        }
        return request;
    }

    [[nodiscard]] di_engine_info info() const {
        di_engine_info info{};
        info.struct_size = sizeof info;
        static_cast<void>(di_engine_get_info(handle_.get(), &info));
        return info;
    }
    [[nodiscard]] di_stats stats() const {
        di_stats stats{};
        stats.struct_size = sizeof stats;
        static_cast<void>(di_engine_get_stats(handle_.get(), &stats));
        return stats;
    }

    [[nodiscard]] Result<std::vector<int32_t>> encode(std::string_view text) const {
        std::vector<int32_t> ids(text.size() + 1);  // a token is at least one byte
        size_t count = 0;
        const di_code code = di_engine_encode(handle_.get(), {text.data(), text.size()}, ids.data(), ids.size(), &count);
        if (code != DI_OK) {
            return detail::last_error(code);
        }
        ids.resize(count);
        return ids;
    }
    [[nodiscard]] Result<std::string> decode(const std::vector<int32_t>& ids, bool skips_special = false) const {
        size_t size = 0;
        static_cast<void>(di_engine_decode(handle_.get(), ids.data(), ids.size(), skips_special ? 1 : 0, nullptr, 0, &size));
        std::string text(size, '\0');
        const di_code code =
            di_engine_decode(handle_.get(), ids.data(), ids.size(), skips_special ? 1 : 0, text.data(), text.size(), &size);
        return code == DI_OK ? Result<std::string>(std::move(text)) : Result<std::string>(detail::last_error(code));
    }

    // For calls of the C ABI that are not here; the engine keeps owning it.
    [[nodiscard]] di_engine* handle() const { return handle_.get(); }

  private:
    explicit Engine(di_engine* handle) : handle_(handle, di_engine_close) {}

    static di_request plain_fields(const Request& request) {
        di_request raw;
        di_request_init(&raw, sizeof raw);
        if (request.text) {
            raw.text = {request.text->c_str(), request.text->size()};
        }
        raw.token_ids = request.token_ids.data();
        raw.token_id_count = request.token_ids.size();
        raw.temperature = request.temperature;
        raw.top_p = request.top_p;
        raw.top_k = request.top_k;
        raw.n = request.n;
        raw.min_p = request.min_p;
        raw.repetition_penalty = request.repetition_penalty;
        raw.presence_penalty = request.presence_penalty;
        raw.frequency_penalty = request.frequency_penalty;
        raw.logit_bias = request.logit_bias.data();
        raw.logit_bias_count = request.logit_bias.size();
        raw.allowed_token_ids = request.allowed_token_ids.data();
        raw.allowed_token_id_count = request.allowed_token_ids.size();
        raw.banned_token_ids = request.banned_token_ids.data();
        raw.banned_token_id_count = request.banned_token_ids.size();
        raw.seed = request.seed.value_or(0);
        raw.has_seed = request.seed ? 1 : 0;
        raw.max_tokens = request.max_tokens;
        raw.min_tokens = request.min_tokens;
        raw.ignore_eos = request.ignore_eos ? 1 : 0;
        raw.stop_token_ids = request.stop_token_ids.data();
        raw.stop_token_id_count = request.stop_token_ids.size();
        raw.golden_token_ids = request.golden_token_ids.data();
        raw.golden_token_id_count = request.golden_token_ids.size();
        raw.logprobs = request.logprobs ? 1 : 0;
        raw.top_logprobs = request.top_logprobs;
        raw.has_processed_logprobs = request.has_processed_logprobs ? 1 : 0;
        raw.prompt_logprobs = request.prompt_logprobs ? 1 : 0;
        raw.user = detail::text_of(request.user);
        raw.cache_salt = detail::text_of(request.cache_salt);
        raw.priority = request.priority;
        raw.deadline_ms = request.deadline_ms.value_or(0.0);
        return raw;
    }

    Result<std::vector<Output>> take(di_code (*call)(di_engine*, di_outputs**)) {
        di_outputs* raw = nullptr;
        if (const di_code code = call(handle_.get(), &raw); code != DI_OK) {
            return detail::last_error(code);
        }
        const std::unique_ptr<di_outputs, void (*)(di_outputs*)> owner(raw, di_outputs_free);
        std::vector<Output> outputs;
        for (size_t i = 0; i < di_outputs_count(raw); ++i) {
            outputs.push_back(detail::output_of(*di_outputs_get(raw, i)));
        }
        return outputs;
    }

    std::unique_ptr<di_engine, void (*)(di_engine*)> handle_;
};

}  // namespace v1
}  // namespace di
