#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "api/api_error.h"
#include "server/access_log.h"
#include "server/exchange.h"
#include "server/generations.h"
#include "server/settings.h"
#include "server/trace_exporter.h"

namespace di {

// What is written down about every request: a line of the access log and a span. No text of users. Server's thread.
class ServiceLog {
  public:
    [[nodiscard]] static Result<std::unique_ptr<ServiceLog>> open(const ServerOptions& options, std::string_view version);
    virtual ~ServiceLog() = default;

    virtual void end(const Generation& generation, int64_t now_us) = 0;
    virtual void refused(const Exchange& exchange, const ApiError& error) = 0;
    // The access log was moved away: a new file.
    virtual void reopen() = 0;
};

}  // namespace di
