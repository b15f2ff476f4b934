#include <nanobind/nanobind.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "session/session.h"

// The native half of the package: a session, requests, results. Names and defaults that users see are in
// llm.py and sampling_params.py. This file may throw: that is how an error becomes a Python exception.
namespace nb = nanobind;

namespace {

// MemoryError, ValueError or RuntimeError, as the code says.
[[noreturn]] void raise(const di::Error& error) {
    switch (error.code) {
        case di::ErrorCode::kOutOfMemory: PyErr_SetString(PyExc_MemoryError, error.text.c_str()); throw nb::python_error();
        case di::ErrorCode::kInvalidArgument: throw nb::value_error(error.text.c_str());
        case di::ErrorCode::kNotFound: PyErr_SetString(PyExc_FileNotFoundError, error.text.c_str()); throw nb::python_error();
        case di::ErrorCode::kInvalidFile:
        case di::ErrorCode::kUnsupported:
        case di::ErrorCode::kUnavailable:
        case di::ErrorCode::kInternal: break;
    }
    PyErr_SetString(PyExc_RuntimeError, error.text.c_str());
    throw nb::python_error();
}

struct Options {
    std::string model;
    std::string tokenizer;
    std::string load_format = "auto";
    std::string backend = "auto";
    std::string activations = "f32";
    std::string kv_quant = "reference";
    std::string act_quant = "none";
    std::string log_level = "warning";
    int32_t threads = 0;
    int32_t max_model_len = 0;
    int32_t max_num_seqs = 0;
    int32_t max_num_batched_tokens = 0;
    int64_t kv_memory = 0;
    int64_t weights_memory = 0;
    uint64_t seed = 0;
};

struct Request {
    std::optional<std::string> text;  // or token_ids
    std::vector<int32_t> token_ids;
    std::vector<nb::bytes> images;
    double temperature = 1.0;
    double top_p = 1.0;
    int32_t top_k = -1;
    std::optional<uint64_t> seed;
    int32_t max_tokens = 16;
    int32_t min_tokens = 0;
    bool ignore_eos = false;
    std::vector<int32_t> stop_token_ids;
    std::vector<int32_t> golden_token_ids;
    std::vector<std::string> stop;
};

struct Outcome {
    std::vector<int32_t> prompt_token_ids;
    std::vector<int32_t> token_ids;
    std::vector<float> logprobs;
    std::string text;
    std::string finish_reason;
    std::optional<std::string> error;
    int64_t cached_tokens = 0;
    double queue_ms = 0.0;
    double prefill_ms = 0.0;
    double first_token_ms = 0.0;
    double total_ms = 0.0;
};

di::EngineOptions engine_options(const Options& options) {
    di::EngineOptions engine;
    engine.model_directory = options.model;
    engine.load_format = options.load_format == "dummy" ? di::LoadFormat::kDummy : di::LoadFormat::kAuto;
    engine.backend = options.backend;
    engine.threads = options.threads;
    engine.activations = options.activations == "bf16" ? di::Activations::kBF16 : di::Activations::kF32;
    engine.kv_quant = options.kv_quant == "off" ? di::KvQuant::kOff : di::KvQuant::kReference;
    engine.act_quant = options.act_quant == "fp8" ? di::ActQuant::kFp8 : di::ActQuant::kNone;
    engine.max_model_len = options.max_model_len;
    engine.max_num_seqs = options.max_num_seqs;
    engine.max_num_batched_tokens = options.max_num_batched_tokens;
    engine.kv_memory_bytes = options.kv_memory;
    engine.weights_memory_bytes = options.weights_memory;
    engine.seed = options.seed;
    return engine;
}

di::PromptRequest prompt_request(const Request& request) {
    di::PromptRequest prompt;
    if (request.text) {
        prompt.prompt = *request.text;
    } else {
        prompt.prompt = request.token_ids;
    }
    for (const nb::bytes& image : request.images) {
        prompt.images.emplace_back(image.c_str(), image.size());
    }
    prompt.sampling = {.temperature = request.temperature,
                       .top_p = request.top_p,
                       .top_k = request.top_k,
                       .seed = request.seed,
                       .max_tokens = request.max_tokens,
                       .min_tokens = request.min_tokens,
                       .ignore_eos = request.ignore_eos,
                       .stop_token_ids = request.stop_token_ids,
                       .golden_token_ids = request.golden_token_ids};
    prompt.stop = request.stop;
    return prompt;
}

Outcome outcome_of(di::PromptResult result) {
    Outcome outcome{.prompt_token_ids = std::move(result.prompt_token_ids),
                    .token_ids = std::move(result.token_ids),
                    .logprobs = std::move(result.logprobs),
                    .text = std::move(result.text),
                    .finish_reason = std::string(di::finish_reason_name(result.finish)),
                    .error = {},
                    .cached_tokens = result.usage.cached_tokens,
                    .queue_ms = result.timing.queue_ms,
                    .prefill_ms = result.timing.prefill_ms,
                    .first_token_ms = result.timing.first_token_ms,
                    .total_ms = result.timing.total_ms};
    if (result.error) {
        outcome.error = result.error->text;
    }
    return outcome;
}

// (index, token_id or None, logprob, text, is_finished): called with the GIL for every token and once for the end.
using OnEvent = std::function<void(size_t, std::optional<int32_t>, float, const std::string&, bool)>;

class Session {
  public:
    explicit Session(const Options& options) {
        if (const di::Status status = di::set_log_level(options.log_level); !status) {
            raise(status.error());
        }
        auto session = [&] {
            const nb::gil_scoped_release release;
            return di::Session::open({.engine = engine_options(options), .tokenizer_directory = options.tokenizer});
        }();
        if (!session) {
            raise(session.error());
        }
        session_ = std::move(*session);
    }

    std::vector<Outcome> generate(const std::vector<Request>& requests, const std::optional<OnEvent>& on_event) {
        std::vector<di::PromptRequest> prompts;
        for (const Request& request : requests) {
            prompts.push_back(prompt_request(request));
        }
        std::exception_ptr raised;  // by the caller's function, or by Ctrl-C
        std::vector<di::PromptResult> results;
        {
            const nb::gil_scoped_release release;
            const std::lock_guard lock(mutex_);
            if (session_ != nullptr) {
                results = session_->generate(std::move(prompts),
                                             [&](const di::PromptEvent& event) { return tell(event, on_event, raised); });
            }
        }
        if (raised) {
            std::rethrow_exception(raised);
        }
        if (results.size() != requests.size()) {
            throw nb::value_error("the LLM is closed, expected an open one");
        }
        std::vector<Outcome> outcomes;
        for (di::PromptResult& result : results) {
            outcomes.push_back(outcome_of(std::move(result)));
        }
        return outcomes;
    }

    std::vector<int32_t> encode(const std::string& text) {
        auto ids = open_session().tokenizer().encode_special(text);
        if (!ids) {
            raise(ids.error());
        }
        return std::move(*ids);
    }
    std::string decode(const std::vector<int32_t>& ids, bool skip_special_tokens) {
        return open_session().tokenizer().decode(ids, skip_special_tokens);
    }
    int64_t vocab_size() { return open_session().config().vocab_size; }
    int32_t max_num_batched_tokens() { return open_session().plan().limits.max_num_batched_tokens; }
    int32_t max_model_len() { return open_session().plan().limits.max_model_len; }
    std::optional<int32_t> bos_token_id() { return open_session().tokenizer().bos_id(); }
    std::optional<int32_t> eos_token_id() { return open_session().tokenizer().eos_id(); }
    std::optional<int32_t> pad_token_id() { return open_session().tokenizer().pad_id(); }

    // Frees model and caches; a generate() under way in another thread is waited for.
    void close() {
        const nb::gil_scoped_release release;
        const std::lock_guard lock(mutex_);
        session_.reset();
    }

  private:
    static bool tell(const di::PromptEvent& event, const std::optional<OnEvent>& on_event, std::exception_ptr& raised) {
        const nb::gil_scoped_acquire acquire;
        if (raised) {
            return false;
        }
        try {
            if (PyErr_CheckSignals() != 0) {
                throw nb::python_error();
            }
            if (on_event) {
                (*on_event)(event.index, event.token_id, event.logprob.value_or(0.0F), std::string(event.text), event.end != nullptr);
            }
            return true;
        } catch (...) {
            raised = std::current_exception();
            return false;
        }
    }

    di::Session& open_session() {
        if (session_ == nullptr) {
            throw nb::value_error("the LLM is closed, expected an open one");
        }
        return *session_;
    }

    std::mutex mutex_;  // guards session_ while the GIL is released: one generate() at a time
    std::unique_ptr<di::Session> session_;
};

}  // namespace

NB_MODULE(_deepinfer, module) {
    module.attr("version") = DI_VERSION;
    nb::class_<Options>(module, "Options")
        .def(nb::init<>())
        .def_rw("model", &Options::model)
        .def_rw("tokenizer", &Options::tokenizer)
        .def_rw("load_format", &Options::load_format)
        .def_rw("backend", &Options::backend)
        .def_rw("activations", &Options::activations)
        .def_rw("kv_quant", &Options::kv_quant)
        .def_rw("act_quant", &Options::act_quant)
        .def_rw("log_level", &Options::log_level)
        .def_rw("threads", &Options::threads)
        .def_rw("max_model_len", &Options::max_model_len)
        .def_rw("max_num_seqs", &Options::max_num_seqs)
        .def_rw("max_num_batched_tokens", &Options::max_num_batched_tokens)
        .def_rw("kv_memory", &Options::kv_memory)
        .def_rw("weights_memory", &Options::weights_memory)
        .def_rw("seed", &Options::seed);
    nb::class_<Request>(module, "Request")
        .def(nb::init<>())
        .def_rw("text", &Request::text, nb::arg().none())
        .def_rw("token_ids", &Request::token_ids)
        .def_rw("images", &Request::images)
        .def_rw("temperature", &Request::temperature)
        .def_rw("top_p", &Request::top_p)
        .def_rw("top_k", &Request::top_k)
        .def_rw("seed", &Request::seed, nb::arg().none())
        .def_rw("max_tokens", &Request::max_tokens)
        .def_rw("min_tokens", &Request::min_tokens)
        .def_rw("ignore_eos", &Request::ignore_eos)
        .def_rw("stop_token_ids", &Request::stop_token_ids)
        .def_rw("golden_token_ids", &Request::golden_token_ids)
        .def_rw("stop", &Request::stop);
    nb::class_<Outcome>(module, "Outcome")
        .def_ro("prompt_token_ids", &Outcome::prompt_token_ids)
        .def_ro("token_ids", &Outcome::token_ids)
        .def_ro("logprobs", &Outcome::logprobs)
        .def_ro("text", &Outcome::text)
        .def_ro("finish_reason", &Outcome::finish_reason)
        .def_ro("error", &Outcome::error)
        .def_ro("cached_tokens", &Outcome::cached_tokens)
        .def_ro("queue_ms", &Outcome::queue_ms)
        .def_ro("prefill_ms", &Outcome::prefill_ms)
        .def_ro("first_token_ms", &Outcome::first_token_ms)
        .def_ro("total_ms", &Outcome::total_ms);
    nb::class_<Session>(module, "Session")
        .def(nb::init<const Options&>())
        .def("generate", &Session::generate, nb::arg("requests"), nb::arg("on_event").none() = nb::none())
        .def("encode", &Session::encode, nb::arg("text"))
        .def("decode", &Session::decode, nb::arg("ids"), nb::arg("skip_special_tokens") = false)
        .def("close", &Session::close)
        .def_prop_ro("vocab_size", &Session::vocab_size)
        .def_prop_ro("max_num_batched_tokens", &Session::max_num_batched_tokens)
        .def_prop_ro("max_model_len", &Session::max_model_len)
        .def_prop_ro("bos_token_id", &Session::bos_token_id)
        .def_prop_ro("eos_token_id", &Session::eos_token_id)
        .def_prop_ro("pad_token_id", &Session::pad_token_id);
}
