#include "base/result.h"

namespace di {

std::string_view error_code_name(ErrorCode code) {
    switch (code) {
        case ErrorCode::kInvalidArgument: return "invalid_argument";
        case ErrorCode::kNotFound: return "not_found";
        case ErrorCode::kInvalidFile: return "invalid_file";
        case ErrorCode::kOutOfMemory: return "out_of_memory";
        case ErrorCode::kUnsupported: return "unsupported";
        case ErrorCode::kContextExceeded: return "context_exceeded";
        case ErrorCode::kTimedOut: return "timed_out";
        case ErrorCode::kUnavailable: return "unavailable";
        case ErrorCode::kInternal: return "internal";
    }
    return "internal";
}

}  // namespace di
