#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/result.h"
#include "di/c_api.h"
#include "session/settings.h"

// What stands behind the opaque handles of di/c_api.h.
struct di_options {
    di::SettingPairs pairs;
};

struct di_engine {
    std::mutex mutex;  // guards session: one call at a time; abort() does without
    std::unique_ptr<di::Session> session;
};

struct di_outputs {
    std::vector<di::PromptOutput> owners;           // of every text and array below
    std::deque<std::vector<di_token>> tokens;       // [output][token]
    std::deque<std::vector<di_token_logprob>> top;  // [token of all outputs]
    std::vector<di_output> records;
};

namespace di::c_abi {

// Keeps the text for di_last_error() of this thread.
di_code fail_with(const Error& error);
di_code fail_with(ErrorCode code, const std::string& text);
di_code code_of(ErrorCode code);

// Runs `call`, which returns a di_code; what a library throws in it becomes a code, as nothing may leave C code that way.
template <typename Call>
di_code guarded(Call call) {
    try {
        return call();
    } catch (const std::bad_alloc&) {
        return fail_with(ErrorCode::kOutOfMemory, "no memory for the call");
    } catch (const std::exception& error) {
        return fail_with(ErrorCode::kInternal, error.what());
    }
}

// The request in C++; an error names the field.
[[nodiscard]] Result<PromptRequest> prompt_of(const di_request& request);

// Takes the outputs over and builds their records.
[[nodiscard]] std::unique_ptr<di_outputs> records_of(std::vector<PromptOutput> outputs);

}  // namespace di::c_abi
