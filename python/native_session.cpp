#include "python/native_session.h"

#include <nanobind/nanobind.h>

#include "base/log.h"

namespace nb = nanobind;

namespace di::python {
namespace {

bool tell(const PromptEvent& event, const std::optional<OnEvent>& on_event, std::exception_ptr& raised) {
    const nb::gil_scoped_acquire acquire;
    if (raised) {
        return false;
    }
    try {
        if (PyErr_CheckSignals() != 0) {
            throw nb::python_error();
        }
        if (on_event) {
            (*on_event)(event.index, event.sample_index, event.token_id, event.logprob, std::string(event.text),
                        event.end != nullptr);
        }
        return true;
    } catch (...) {
        raised = std::current_exception();
        return false;
    }
}

}  // namespace

void raise(const Error& error) {
    switch (error.code) {
        case ErrorCode::kOutOfMemory: PyErr_SetString(PyExc_MemoryError, error.text.c_str()); throw nb::python_error();
        case ErrorCode::kInvalidArgument:
        case ErrorCode::kContextExceeded: throw nb::value_error(error.text.c_str());
        case ErrorCode::kTimedOut: PyErr_SetString(PyExc_TimeoutError, error.text.c_str()); throw nb::python_error();
        case ErrorCode::kNotFound: PyErr_SetString(PyExc_FileNotFoundError, error.text.c_str()); throw nb::python_error();
        case ErrorCode::kUnsupported: throw nb::value_error(error.text.c_str());
        case ErrorCode::kInvalidFile:
        case ErrorCode::kUnavailable:
        case ErrorCode::kInternal: break;
    }
    PyErr_SetString(PyExc_RuntimeError, error.text.c_str());
    throw nb::python_error();
}

NativeSession::NativeSession(const SettingPairs& pairs, const SettingPairs& defaults) {
    auto opened = [&]() -> Result<std::unique_ptr<Session>> {
        const nb::gil_scoped_release release;
        DI_TRY(GivenSettings given, given_settings(pairs, defaults));
        warnings_ = std::move(given.warnings);
        DI_TRY_STATUS(set_log_level(given.settings.log_level));
        DI_TRY(const SessionOptions options, session_options(given.settings));
        if (!given.settings.model) {
            return fail(ErrorCode::kInvalidArgument, "no model, expected a model directory or DEEPINFER_HF_MODEL_DIR");
        }
        DI_TRY_STATUS(check_model_path(*given.settings.model));
        return Session::open(options);
    }();
    if (!opened) {
        raise(opened.error());
    }
    session_ = std::move(*opened);
}

template <typename Call>
auto NativeSession::alone(Call call) {
    open_session();
    const nb::gil_scoped_release release;
    std::unique_lock lock(mutex_);
    if (session_ == nullptr) {  // closed while we waited
        lock.unlock();
        const nb::gil_scoped_acquire acquire;
        open_session();
    }
    return call(*session_);
}

std::vector<PromptResult> NativeSession::generate(std::vector<PromptRequest> prompts, const std::optional<OnEvent>& on_event) {
    std::exception_ptr raised;  // by the caller's function, or by Ctrl-C
    std::vector<PromptResult> results = alone([&](Session& session) {
        return session.generate(std::move(prompts), [&](const PromptEvent& event) { return tell(event, on_event, raised); });
    });
    if (raised) {
        std::rethrow_exception(raised);
    }
    return results;
}

Submitted NativeSession::submit(const PromptRequest& prompt) {
    return alone([&](Session& session) {
        Submitted submitted{.id = session.next_id(), .prompt_token_ids = {}, .error = {}};
        Result<SubmittedPrompt> result = session.submit(prompt);
        if (result) {
            submitted.prompt_token_ids = std::move(result->prompt_token_ids);
        } else {
            submitted.error = std::move(result.error());
        }
        return submitted;
    });
}

std::vector<PromptOutput> NativeSession::step() {
    return alone([](Session& session) { return session.step(); });
}

std::vector<PromptOutput> NativeSession::flush() {
    return alone([](Session& session) { return session.flush(); });
}

void NativeSession::abort(uint64_t id) { open_session().abort(id); }

bool NativeSession::has_unfinished() {
    return alone([](Session& session) { return session.has_unfinished(); });
}

int64_t NativeSession::unfinished_count() {
    return alone([](Session& session) { return session.unfinished_count(); });
}

uint64_t NativeSession::next_id() {
    return alone([](Session& session) { return session.next_id(); });
}

EngineStats NativeSession::stats() {
    return alone([](Session& session) { return session.stats(); });
}

Session& NativeSession::open_session() {
    if (session_ == nullptr) {
        throw nb::value_error("the model is closed, expected an open one");
    }
    return *session_;
}

void NativeSession::close() {
    std::unique_ptr<Session> closing;
    {
        const nb::gil_scoped_release release;
        const std::lock_guard lock(mutex_);
        const nb::gil_scoped_acquire acquire;
        closing = std::move(session_);
    }
    const nb::gil_scoped_release release;
    closing.reset();
}

}  // namespace di::python
