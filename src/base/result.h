#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <tl/expected.hpp>

namespace di {

// What kind of fault of the world an operation met. Programs map the code to
// their exit code, the service to its status; the text is for the person.
enum class ErrorCode {
    kInvalidArgument,  // the caller's value is wrong: a request, a flag, an image
    kNotFound,         // a file, a tensor, a name that should be there is not
    kInvalidFile,      // a file is there and is not what it should be
    kOutOfMemory,      // the plan does not fit the memory
    kUnsupported,      // right in itself, but this build or machine cannot do it
    kContextExceeded,  // a prompt, or a prompt and its answer, is longer than the model's context
    kTimedOut,         // a time that the caller set has passed
    kUnavailable,      // a limit of this moment: queue full, cache full, shutting down
    kInternal,         // a library failed in a way that has no better name
};

[[nodiscard]] std::string_view error_code_name(ErrorCode code);  // "invalid_argument", "not_found", ...

// An error that tells the person what to do: what was wrong, the value, what was
// expected. Lower case, no full stop.
struct Error {
    ErrorCode code;
    std::string text;
};

template <typename T>
using Result = tl::expected<T, Error>;
using Status = tl::expected<void, Error>;

// The only way errors are made: `return fail(ErrorCode::kNotFound, "no tensor {}", name);`
template <typename... Args>
[[nodiscard]] tl::unexpected<Error> fail(ErrorCode code, fmt::format_string<Args...> text, Args&&... args) {
    return tl::unexpected<Error>(Error{code, fmt::format(text, std::forward<Args>(args)...)});
}

// Hands an error on with the place in front: "config.json: ...".
[[nodiscard]] inline tl::unexpected<Error> fail_in(std::string_view where, Error error) {
    return tl::unexpected<Error>(Error{error.code, fmt::format("{}: {}", where, error.text)});
}

}  // namespace di

#define DI_CONCAT_INNER(a, b) a##b
#define DI_CONCAT(a, b) DI_CONCAT_INNER(a, b)

// `DI_TRY(auto x, f());` defines x, or returns f's error to our caller.
// `DI_TRY_STATUS(f());` for a Status.
#define DI_TRY(declaration, expression)                                                         \
    auto DI_CONCAT(di_result_, __LINE__) = (expression);                                        \
    if (!DI_CONCAT(di_result_, __LINE__)) {                                                     \
        return tl::unexpected<::di::Error>(std::move(DI_CONCAT(di_result_, __LINE__).error())); \
    }                                                                                           \
    declaration = std::move(*DI_CONCAT(di_result_, __LINE__))

#define DI_TRY_STATUS(expression)                                                                \
    if (auto DI_CONCAT(di_status_, __LINE__) = (expression); !DI_CONCAT(di_status_, __LINE__)) { \
        return tl::unexpected<::di::Error>(std::move(DI_CONCAT(di_status_, __LINE__).error()));  \
    }
