// A body of any bytes: an error that the client can read, or a request of which prompt and answer can be written.
#include "api/messages_request.h"
#include "fuzz/request_checks.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const auto body = di::parse_json({reinterpret_cast<const char*>(data), size});
    if (body) {
        const auto request = di::parse_messages_request(*body);
        di::check_parsed(request, di::Dialect::kMessages);
        if (request) {
            di::check_answered(*request, *body);
        }
    }
    return 0;
}
