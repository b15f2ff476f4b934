#pragma once

#include <memory>

#include "base/clock.h"
#include "base/random.h"
#include "server/service.h"
#include "session/session.h"

namespace di {

// A service on a port of the kernel's choice, with a backend of the caller's in place of the session's engine. All of them
// outlive it.
inline Result<std::unique_ptr<Service>> service_over(Session& session, TokenBackend& backend, Clock& clock, Random& random,
                                                     ServerOptions options) {
    options.http.port = 0;
    return Service::start(options, {.preparer = &session.preparer(),
                                    .backend = &backend,
                                    .clock = &clock,
                                    .random = &random,
                                    .model_name = "v41-mini",
                                    .context_tokens = session.plan().limits.max_model_len,
                                    .fingerprint = "fp",
                                    .version = "0"});
}

}  // namespace di
