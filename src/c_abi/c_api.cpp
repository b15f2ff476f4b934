#include "di/c_api.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/log.h"
#include "c_abi/handles.h"
#include "session/limits.h"

using di::ErrorCode;
using di::c_abi::fail_with;
using di::c_abi::guarded;

namespace di::c_abi {
namespace {

thread_local std::string last_error;

Result<std::unique_ptr<Session>> open_session(const di_options* options) {
    DI_TRY(GivenSettings given,
           given_settings(options == nullptr ? SettingPairs() : options->pairs, {{"log-level", "warning"}}));
    DI_TRY_STATUS(set_log_level(given.settings.log_level));
    for (const std::string& warning : given.warnings) {
        log_warning("{}", warning);
    }
    if (!given.settings.model) {
        return fail(ErrorCode::kInvalidArgument, "no model, expected the option model or DEEPINFER_HF_MODEL_DIR");
    }
    DI_TRY_STATUS(check_model_path(*given.settings.model));
    DI_TRY(const SessionOptions session, session_options(given.settings));
    return Session::open(session);
}

// Runs `call` on the session of a handle, alone.
template <typename Call>
di_code with_session(di_engine* engine, Call call) {
    if (engine == nullptr) {
        return fail_with(ErrorCode::kInvalidArgument, "engine is NULL, expected one of di_engine_open()");
    }
    return guarded([&] {
        const std::lock_guard lock(engine->mutex);
        return call(*engine->session);
    });
}

// Copies as much of `source` as the caller's struct has room for; its struct_size stays.
template <typename Struct>
di_code copy_out(Struct source, Struct* target, const char* name) {
    if (target->struct_size < sizeof(size_t)) {
        return fail_with(ErrorCode::kInvalidArgument,
                         fmt::format("{}.struct_size is {}, expected its sizeof", name, target->struct_size));
    }
    source.struct_size = target->struct_size;
    std::memcpy(target, &source, std::min(target->struct_size, sizeof(Struct)));
    return DI_OK;
}

// Copies elements when there is room for all of them.
template <typename T, typename Source>
di_code copy_all(const Source& source, T* target, size_t capacity, size_t* count) {
    *count = source.size();
    if (source.size() > capacity) {
        return fail_with(ErrorCode::kInvalidArgument,
                         fmt::format("room for {} elements, expected at least {}", capacity, source.size()));
    }
    std::copy(source.begin(), source.end(), target);
    return DI_OK;
}

}  // namespace

di_code code_of(ErrorCode code) {
    switch (code) {
        case ErrorCode::kInvalidArgument: return DI_INVALID_ARGUMENT;
        case ErrorCode::kNotFound: return DI_NOT_FOUND;
        case ErrorCode::kInvalidFile: return DI_INVALID_FILE;
        case ErrorCode::kOutOfMemory: return DI_OUT_OF_MEMORY;
        case ErrorCode::kUnsupported: return DI_UNSUPPORTED;
        case ErrorCode::kContextExceeded: return DI_CONTEXT_EXCEEDED;
        case ErrorCode::kTimedOut: return DI_TIMED_OUT;
        case ErrorCode::kUnavailable: return DI_UNAVAILABLE;
        case ErrorCode::kInternal: return DI_INTERNAL;
    }
    return DI_INTERNAL;
}

di_code fail_with(const Error& error) { return fail_with(error.code, error.text); }

di_code fail_with(ErrorCode code, const std::string& text) {
    last_error = text;
    return code_of(code);
}

}  // namespace di::c_abi

using di::c_abi::with_session;

extern "C" {

const char* di_version(void) { return DI_VERSION; }
int32_t di_abi_version(void) { return DI_ABI_VERSION; }
const char* di_last_error(void) { return di::c_abi::last_error.c_str(); }

const char* di_code_name(di_code code) {
    constexpr const char* kNames[] = {"ok",          "invalid_argument", "not_found", "invalid_file",     "out_of_memory",
                                      "unsupported", "unavailable",      "internal",  "context_exceeded", "timed_out"};
    return code >= DI_OK && code <= DI_TIMED_OUT ? kNames[code] : "unknown";
}

const char* di_finish_name(di_finish finish) {
    constexpr const char* kNames[] = {"", "stop", "length", "abort", "error"};
    return finish >= DI_FINISH_NONE && finish <= DI_FINISH_ERROR ? kNames[finish] : "unknown";
}

di_options* di_options_new(void) { return new (std::nothrow) di_options; }

di_code di_options_set(di_options* options, const char* name, const char* value) {
    if (options == nullptr || name == nullptr || value == nullptr) {
        return fail_with(ErrorCode::kInvalidArgument, "options, name or value is NULL, expected none of them to be");
    }
    return guarded([&] {
        const di::SettingRow* row = di::find_setting(name);
        if (row == nullptr) {
            return fail_with(ErrorCode::kInvalidArgument, fmt::format("there is no option \"{}\"", name));
        }
        di::Settings checked;
        if (const di::Status status = di::set_setting(*row, value, name, checked); !status) {
            return fail_with(status.error());
        }
        options->pairs.emplace_back(name, value);
        return di_code{DI_OK};
    });
}

void di_options_free(di_options* options) { delete options; }

di_code di_engine_open(const di_options* options, di_engine** engine) {
    if (engine == nullptr) {
        return fail_with(ErrorCode::kInvalidArgument, "engine is NULL, expected the address of a pointer");
    }
    *engine = nullptr;
    return guarded([&] {
        auto session = di::c_abi::open_session(options);
        if (!session) {
            return fail_with(session.error());
        }
        auto made = std::make_unique<di_engine>();
        made->session = std::move(*session);
        *engine = made.release();
        return di_code{DI_OK};
    });
}

void di_engine_close(di_engine* engine) { delete engine; }

di_code di_engine_get_info(di_engine* engine, di_engine_info* info) {
    if (info == nullptr) {
        return fail_with(ErrorCode::kInvalidArgument, "info is NULL, expected the address of a struct");
    }
    return with_session(engine, [&](di::Session& session) {
        const di::EngineLimits& limits = session.plan().limits;
        const di_engine_info known = {.struct_size = 0,
                                      .vocab_size = session.config().vocab_size,
                                      .max_model_len = limits.max_model_len,
                                      .max_num_seqs = limits.max_num_seqs,
                                      .max_num_batched_tokens = limits.max_num_batched_tokens,
                                      .eos_token_id = session.tokenizer().eos_id().value_or(-1),
                                      .kv_block_count = session.plan().kv_block_count};
        return di::c_abi::copy_out(known, info, "di_engine_info");
    });
}

void di_request_init(di_request* request, size_t struct_size) {
    if (request == nullptr || struct_size < sizeof(size_t)) {
        return;
    }
    const di::SamplingParams defaults;
    di_request known{};
    known.temperature = defaults.temperature;
    known.top_p = defaults.top_p;
    known.top_k = defaults.top_k;
    known.n = defaults.n;
    known.repetition_penalty = defaults.repetition_penalty;
    known.max_tokens = defaults.max_tokens;
    known.bound_token_id = -1;
    std::memset(static_cast<void*>(request), 0, struct_size);
    std::memcpy(static_cast<void*>(request), &known, std::min(struct_size, sizeof(di_request)));
    request->struct_size = struct_size;
}

di_code di_engine_advise(di_engine* engine, di_request* request) {
    if (request == nullptr) {
        return fail_with(ErrorCode::kInvalidArgument, "request is NULL, expected one of di_request_init()");
    }
    return with_session(engine, [&](di::Session& session) {
        const di::SamplingParams advised = session.default_sampling();
        request->temperature = advised.temperature;
        request->top_p = advised.top_p;
        request->top_k = advised.top_k;
        return di_code{DI_OK};
    });
}

di_code di_engine_add(di_engine* engine, const di_request* request, uint64_t* id) {
    if (request == nullptr || id == nullptr) {
        return fail_with(ErrorCode::kInvalidArgument, "request or id is NULL, expected none of them to be");
    }
    return with_session(engine, [&](di::Session& session) {
        auto prompt = di::c_abi::prompt_of(*request);
        if (!prompt) {
            return fail_with(prompt.error());
        }
        const auto submitted = session.submit(std::move(*prompt));
        if (!submitted) {
            return fail_with(submitted.error());
        }
        *id = submitted->id;
        return di_code{DI_OK};
    });
}

di_code di_engine_abort(di_engine* engine, uint64_t id) {
    if (engine == nullptr) {
        return fail_with(ErrorCode::kInvalidArgument, "engine is NULL, expected one of di_engine_open()");
    }
    return guarded([&] {
        engine->session->abort(id);
        return di_code{DI_OK};
    });
}

int32_t di_engine_has_unfinished(di_engine* engine) {
    int32_t has_unfinished = 0;
    const di_code code = with_session(engine, [&](di::Session& session) {
        has_unfinished = session.has_unfinished() ? 1 : 0;
        return di_code{DI_OK};
    });
    return code == DI_OK ? has_unfinished : 0;
}

di_code di_engine_step(di_engine* engine, di_outputs** outputs) {
    if (outputs == nullptr) {
        return fail_with(ErrorCode::kInvalidArgument, "outputs is NULL, expected the address of a pointer");
    }
    *outputs = nullptr;
    return with_session(engine, [&](di::Session& session) {
        *outputs = di::c_abi::records_of(session.step()).release();
        return di_code{DI_OK};
    });
}

di_code di_engine_flush(di_engine* engine, di_outputs** outputs) {
    if (outputs == nullptr) {
        return fail_with(ErrorCode::kInvalidArgument, "outputs is NULL, expected the address of a pointer");
    }
    *outputs = nullptr;
    return with_session(engine, [&](di::Session& session) {
        *outputs = di::c_abi::records_of(session.flush()).release();
        return di_code{DI_OK};
    });
}

size_t di_outputs_count(const di_outputs* outputs) { return outputs == nullptr ? 0 : outputs->records.size(); }

const di_output* di_outputs_get(const di_outputs* outputs, size_t index) {
    return index < di_outputs_count(outputs) ? &outputs->records[index] : nullptr;
}

void di_outputs_free(di_outputs* outputs) { delete outputs; }

di_code di_engine_get_stats(di_engine* engine, di_stats* stats) {
    if (stats == nullptr) {
        return fail_with(ErrorCode::kInvalidArgument, "stats is NULL, expected the address of a struct");
    }
    return with_session(engine, [&](di::Session& session) {
        const di::EngineStats now = session.stats();
        const di_stats known = {.struct_size = 0,
                                .steps = now.steps,
                                .prompt_tokens = now.prompt_tokens,
                                .cached_tokens = now.cached_tokens,
                                .output_tokens = now.output_tokens,
                                .drafted_tokens = now.drafted_tokens,
                                .accepted_tokens = now.accepted_tokens,
                                .preemptions = now.preemptions,
                                .finished = now.finished,
                                .aborted = now.aborted,
                                .failed = now.failed,
                                .running = now.running,
                                .waiting = now.waiting,
                                .blocks_used = now.blocks_used,
                                .blocks_cached = now.blocks_cached,
                                .blocks_total = now.blocks_total};
        return di::c_abi::copy_out(known, stats, "di_stats");
    });
}

di_code di_engine_encode(di_engine* engine, di_text text, int32_t* ids, size_t capacity, size_t* count) {
    if (count == nullptr || (ids == nullptr && capacity > 0) || (text.data == nullptr && text.size > 0)) {
        return fail_with(ErrorCode::kInvalidArgument, "text, ids or count is NULL, expected none of them to be");
    }
    return with_session(engine, [&](di::Session& session) {
        const auto encoded = session.tokenizer().encode_special(std::string_view(text.data, text.size));
        return encoded ? di::c_abi::copy_all(*encoded, ids, capacity, count) : fail_with(encoded.error());
    });
}

di_code di_engine_decode(di_engine* engine, const int32_t* ids, size_t id_count, int32_t skip_special, char* text,
                         size_t capacity, size_t* size) {
    if (size == nullptr || (text == nullptr && capacity > 0) || (ids == nullptr && id_count > 0)) {
        return fail_with(ErrorCode::kInvalidArgument, "ids, text or size is NULL, expected none of them to be");
    }
    return with_session(engine, [&](di::Session& session) {
        const std::string decoded = session.tokenizer().decode(std::span(ids, id_count), skip_special != 0);
        return di::c_abi::copy_all(decoded, text, capacity, size);
    });
}

}  // extern "C"
