#include <ctime>

#include <nanobind/nanobind.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python/native_session.h"
#include "session/model_files.h"
#include "session/recipe.h"

// The native half of the package: requests, results, a session. Names and defaults that users see are in the .py files.
namespace nb = nanobind;

namespace {

using di::python::NativeSession;
using di::python::Submitted;
using Pairs = std::vector<std::pair<int32_t, float>>;

// Rows of (token id, log-probability).
std::vector<Pairs> pairs_of(const std::vector<std::vector<di::TokenLogprob>>& rows) {
    std::vector<Pairs> result;
    for (const std::vector<di::TokenLogprob>& row : rows) {
        Pairs& pairs = result.emplace_back();
        for (const di::TokenLogprob& entry : row) {
            pairs.emplace_back(entry.token_id, entry.logprob);
        }
    }
    return result;
}

// (code, message) or nothing.
std::optional<std::pair<std::string, std::string>> error_of(const std::optional<di::Error>& error) {
    if (!error) {
        return std::nullopt;
    }
    return std::pair(std::string(di::error_code_name(error->code)), error->text);
}

void bind_sampling(nb::module_& module) {
    using Sampling = di::SamplingParams;
    nb::class_<Sampling>(module, "Sampling")
        .def(nb::init<>())
        .def_rw("temperature", &Sampling::temperature)
        .def_rw("top_p", &Sampling::top_p)
        .def_rw("top_k", &Sampling::top_k)
        .def_rw("min_p", &Sampling::min_p)
        .def_rw("repetition_penalty", &Sampling::repetition_penalty)
        .def_rw("presence_penalty", &Sampling::presence_penalty)
        .def_rw("frequency_penalty", &Sampling::frequency_penalty)
        .def_prop_rw(
            "logit_bias",
            [](const Sampling& self) {
                Pairs pairs;
                for (const di::TokenBias& entry : self.logit_bias) {
                    pairs.emplace_back(entry.token_id, entry.bias);
                }
                return pairs;
            },
            [](Sampling& self, const Pairs& pairs) {
                self.logit_bias.clear();
                for (const auto& [token_id, bias] : pairs) {
                    self.logit_bias.push_back({.token_id = token_id, .bias = bias});
                }
            })
        .def_rw("allowed_token_ids", &Sampling::allowed_token_ids)
        .def_rw("seed", &Sampling::seed, nb::arg().none())
        .def_rw("max_tokens", &Sampling::max_tokens)
        .def_rw("min_tokens", &Sampling::min_tokens)
        .def_rw("ignore_eos", &Sampling::ignore_eos)
        .def_rw("stop_token_ids", &Sampling::stop_token_ids)
        .def_rw("golden_token_ids", &Sampling::golden_token_ids)
        .def_rw("logprobs", &Sampling::logprobs)
        .def_rw("top_logprobs", &Sampling::top_logprobs)
        .def_prop_rw(
            "has_processed_logprobs", [](const Sampling& self) { return self.logprobs_mode == di::LogprobsMode::kProcessed; },
            [](Sampling& self, bool value) {
                self.logprobs_mode = value ? di::LogprobsMode::kProcessed : di::LogprobsMode::kRaw;
            })
        .def_rw("prompt_logprobs", &Sampling::prompt_logprobs)
        .def_rw("n", &Sampling::n);
}

void bind_request(nb::module_& module) {
    using Request = di::PromptRequest;
    nb::class_<Request>(module, "Request")
        .def(nb::init<>())
        .def("set_text", [](Request& self, const std::string& text) { self.prompt = text; })
        .def("set_token_ids", [](Request& self, const std::vector<int32_t>& ids) { self.prompt = ids; })
        .def("add_image", [](Request& self, const nb::bytes& image) { self.images.emplace_back(image.c_str(), image.size()); })
        .def(
            "set_grammar",
            [](Request& self, const std::string& kind, const std::string& text, const std::vector<std::string>& choices,
               const std::vector<int32_t>& trigger_token_ids, std::optional<int32_t> bound_token_id) {
                const di::Result<di::GrammarSpec::Kind> known = di::parse_grammar_kind(kind);
                if (!known) {
                    throw nb::value_error(known.error().text.c_str());
                }
                self.grammar = di::GrammarSpec{.kind = *known,
                                               .text = text,
                                               .choices = choices,
                                               .trigger_token_ids = trigger_token_ids,
                                               .bound_token_id = bound_token_id};
            },
            nb::arg("kind"), nb::arg("text"), nb::arg("choices"), nb::arg("trigger_token_ids"),
            nb::arg("bound_token_id").none())
        .def_rw("sampling", &Request::sampling)
        .def_rw("stop", &Request::stop)
        .def_rw("user", &Request::user)
        .def_rw("priority", &Request::priority)
        .def_rw("deadline_ms", &Request::deadline_ms, nb::arg().none())
        .def_rw("cache_salt", &Request::cache_salt);
}

void bind_answers(nb::module_& module) {
    using Usage = di::RequestUsage;
    nb::class_<Usage>(module, "Usage")
        .def_ro("prompt_tokens", &Usage::prompt_tokens)
        .def_ro("cached_tokens", &Usage::cached_tokens)
        .def_ro("completion_tokens", &Usage::completion_tokens)
        .def_ro("drafted_tokens", &Usage::drafted_tokens)
        .def_ro("accepted_tokens", &Usage::accepted_tokens);
    using Timing = di::RequestTiming;
    nb::class_<Timing>(module, "Timing")
        .def_ro("queue_ms", &Timing::queue_ms)
        .def_ro("prefill_ms", &Timing::prefill_ms)
        .def_ro("first_token_ms", &Timing::first_token_ms)
        .def_ro("total_ms", &Timing::total_ms);
    using Token = di::OutputToken;
    nb::class_<Token>(module, "Token")
        .def_ro("token_id", &Token::token_id)
        .def_ro("logprob", &Token::logprob)
        .def_prop_ro("top_logprobs", [](const Token& self) { return pairs_of({self.top_logprobs}).front(); })
        .def_ro("text", &Token::text);
    using Output = di::PromptOutput;
    nb::class_<Output>(module, "Output")
        .def_ro("request_id", &Output::request_id)
        .def_ro("sample_index", &Output::sample_index)
        .def_ro("tokens", &Output::tokens)
        .def_ro("rest", &Output::rest)
        .def_ro("prompt_logprobs", &Output::prompt_logprobs)
        .def_ro("draft_token_ids", &Output::draft_token_ids)
        .def_ro("accepted_drafts", &Output::accepted_drafts)
        .def_prop_ro("finish_reason", [](const Output& self) { return std::string(di::finish_reason_name(self.finish)); })
        .def_prop_ro("error", [](const Output& self) { return error_of(self.error); })
        .def_ro("usage", &Output::usage)
        .def_ro("timing", &Output::timing);
    using Result = di::PromptResult;
    nb::class_<Result>(module, "Result")
        .def_ro("prompt_token_ids", &Result::prompt_token_ids)
        .def_ro("token_ids", &Result::token_ids)
        .def_ro("logprobs", &Result::logprobs)
        .def_prop_ro("top_logprobs", [](const Result& self) { return pairs_of(self.top_logprobs); })
        .def_ro("prompt_logprobs", &Result::prompt_logprobs)
        .def_ro("text", &Result::text)
        .def_prop_ro("finish_reason", [](const Result& self) { return std::string(di::finish_reason_name(self.finish)); })
        .def_prop_ro("error", [](const Result& self) { return error_of(self.error); })
        .def_ro("usage", &Result::usage)
        .def_ro("timing", &Result::timing)
        .def_ro("other_samples", &Result::other_samples);
    nb::class_<Submitted>(module, "Submitted")
        .def_ro("id", &Submitted::id)
        .def_ro("prompt_token_ids", &Submitted::prompt_token_ids)
        .def_prop_ro("error", [](const Submitted& self) { return error_of(self.error); });
}

nb::dict stats_of(const di::EngineStats& stats) {
    nb::dict result;
    result["steps"] = stats.steps;
    result["prompt_tokens"] = stats.prompt_tokens;
    result["cached_tokens"] = stats.cached_tokens;
    result["output_tokens"] = stats.output_tokens;
    result["draft_rounds"] = stats.draft_rounds;
    result["drafted_tokens"] = stats.drafted_tokens;
    result["accepted_tokens"] = stats.accepted_tokens;
    result["verified_by_position"] = stats.verified_by_position;
    result["accepted_by_position"] = stats.accepted_by_position;
    result["preemptions"] = stats.preemptions;
    result["finished"] = stats.finished;
    result["aborted"] = stats.aborted;
    result["failed"] = stats.failed;
    result["running"] = stats.running;
    result["waiting"] = stats.waiting;
    result["blocks_used"] = stats.blocks_used;
    result["blocks_cached"] = stats.blocks_cached;
    result["blocks_total"] = stats.blocks_total;
    return result;
}

std::vector<int32_t> encode(NativeSession& self, const std::string& text) {
    auto ids = self.open_session().tokenizer().encode_special(text);
    if (!ids) {
        di::python::raise(ids.error());
    }
    return std::move(*ids);
}

void bind_session(nb::module_& module) {
    using Self = NativeSession;
    nb::class_<Self>(module, "Session")
        .def(nb::init<const di::SettingPairs&, const di::SettingPairs&>(), nb::arg("settings"), nb::arg("defaults"))
        .def("generate", &Self::generate, nb::arg("requests"), nb::arg("on_event").none() = nb::none())
        .def("submit", &Self::submit, nb::arg("request"))
        .def("step", &Self::step)
        .def("flush", &Self::flush)
        .def("abort", &Self::abort, nb::arg("id"))
        .def("has_unfinished", &Self::has_unfinished)
        .def("unfinished_count", &Self::unfinished_count)
        .def("next_id", &Self::next_id)
        .def("stats", [](Self& self) { return stats_of(self.stats()); })
        .def("encode", &encode, nb::arg("text"))
        .def(
            "decode",
            [](Self& self, const std::vector<int32_t>& ids, bool skip_special_tokens) {
                return self.open_session().tokenizer().decode(ids, skip_special_tokens);
            },
            nb::arg("ids"), nb::arg("skip_special_tokens") = false)
        .def("close", &Self::close)
        .def_prop_ro("warnings", &Self::warnings)
        .def_prop_ro("vocab_size", [](Self& self) { return self.open_session().config().vocab_size; })
        .def_prop_ro("max_model_len", [](Self& self) { return self.open_session().plan().limits.max_model_len; })
        .def_prop_ro("max_num_seqs", [](Self& self) { return self.open_session().plan().limits.max_num_seqs; })
        .def_prop_ro("max_num_batched_tokens",
                     [](Self& self) { return self.open_session().plan().limits.max_num_batched_tokens; })
        .def_prop_ro("kv_block_count", [](Self& self) { return self.open_session().plan().kv_block_count; })
        .def_prop_ro("bos_token_id", [](Self& self) { return self.open_session().tokenizer().bos_id(); })
        .def_prop_ro("eos_token_id", [](Self& self) { return self.open_session().tokenizer().eos_id(); })
        .def_prop_ro("pad_token_id", [](Self& self) { return self.open_session().tokenizer().pad_id(); });
}

template <typename T>
T unwrap(di::Result<T> result) {
    if (!result) {
        di::python::raise(result.error());
    }
    return std::move(*result);
}

using EventPairs = std::vector<std::pair<std::string, std::string>>;  // name, data

EventPairs event_pairs(di::StreamEvents events) {
    EventPairs pairs;
    pairs.reserve(events.size());
    for (di::StreamEvent& event : events) {
        pairs.emplace_back(std::move(event.name), std::move(event.data));
    }
    return pairs;
}

// A tokenizer and what can be done with it alone.
class NativeRecipe {
  public:
    explicit NativeRecipe(const std::string& directory) : tokenizer_(di::open_tokenizer(directory)) {
        if (!tokenizer_) {
            di::python::raise(tokenizer_.error());
        }
    }

    [[nodiscard]] std::string encode(const std::string& request, const std::string& dialect) {
        return unwrap(di::recipe_encode(request, unwrap(di::parse_recipe_dialect(dialect)), context()));
    }

    [[nodiscard]] std::string decode(const std::string& input, const std::string& dialect, bool stream) {
        return unwrap(di::recipe_decode(input, unwrap(di::parse_recipe_dialect(dialect)), stream, context()));
    }

    // Lives no longer than this.
    [[nodiscard]] di::RecipeAnswer answer(const std::string& input, const std::string& dialect) {
        return unwrap(di::RecipeAnswer::open(input, unwrap(di::parse_recipe_dialect(dialect)), context()));
    }

  private:
    [[nodiscard]] di::RecipeContext context() {
        return {.tokenizer = &*tokenizer_, .random = &random_, .now_s = std::time(nullptr)};
    }

    di::Result<di::Tokenizer> tokenizer_;
    di::SystemRandom random_;
};

void bind_recipe(nb::module_& module) {
    using Answer = di::RecipeAnswer;
    nb::class_<Answer>(module, "RecipeAnswer")
        .def(
            "push",
            [](Answer& self, const std::vector<int32_t>& token_ids) { return event_pairs(unwrap(self.push(token_ids))); },
            nb::arg("token_ids"))
        .def(
            "finish", [](Answer& self, const std::string& reason) { return event_pairs(unwrap(self.finish(reason))); },
            nb::arg("reason"))
        .def("body", [](Answer& self) { return unwrap(self.body()); })
        .def_prop_ro("is_over", &Answer::is_over);
    nb::class_<NativeRecipe>(module, "Recipe")
        .def(nb::init<const std::string&>(), nb::arg("directory"))
        .def("encode", &NativeRecipe::encode, nb::arg("request"), nb::arg("dialect"))
        .def("decode", &NativeRecipe::decode, nb::arg("input"), nb::arg("dialect"), nb::arg("stream"))
        .def("answer", &NativeRecipe::answer, nb::arg("input"), nb::arg("dialect"), nb::keep_alive<0, 1>());
}

}  // namespace

NB_MODULE(_deepinfer, module) {
    module.attr("version") = DI_VERSION;
    std::vector<std::pair<std::string, bool>> settings;  // name, is a switch
    for (const di::SettingRow& row : di::setting_rows()) {
        settings.emplace_back(std::string(row.rule.name), row.value_name.empty());
    }
    module.attr("settings") = nb::cast(settings);
    bind_sampling(module);
    bind_request(module);
    bind_answers(module);
    bind_session(module);
    bind_recipe(module);
}
