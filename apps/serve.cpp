#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <string>

#include "apps/commands.h"
#include "apps/engine_setup.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/random.h"
#include "server/engine_backend.h"
#include "server/selftest.h"
#include "server/service.h"
#include "server/settings.h"

namespace di {
namespace {

// How often the main thread looks whether draining has ended.
constexpr int64_t kPollNs = 50'000'000;

// Signals that the main thread waits for; no other thread gets them.
sigset_t block_signals() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
        sigaddset(&signals, signal);
    }
    pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    std::signal(SIGPIPE, SIG_IGN);
    return signals;
}

// The name of the model's directory ("v41-mini"), or of its .gguf file without that ending.
std::string model_name_of(const std::string& path) {
    const std::filesystem::path model(path);
    if (is_gguf_path(path)) {
        return model.stem().string();
    }
    return (model.filename().empty() ? model.parent_path() : model).filename().string();
}

// "fp_" and sixteen digits that change with model, build and backend.
std::string fingerprint_of(const Session& session, const std::string& name, const Options& options) {
    const std::string all =
        fmt::format("{} {} {} {} {} {} {}", name, DI_VERSION, session.plan().weights_resident_bytes,
                    session.plan().weights_on_demand_bytes, options.backend, options.kv_quant, options.batch_invariant);
    const Hash128 hash = hash_bytes(std::as_bytes(std::span(all)));
    return fmt::format("fp_{:016x}", hash.low);
}

// Serves until a signal ends it. The second one ends it at once.
int serve_until_signalled(Service& service, const sigset_t& signals) {
    std::atomic<bool> is_drained{false};
    bool is_draining = false;
    while (!is_drained.load()) {
        const timespec poll{.tv_sec = 0, .tv_nsec = kPollNs};
        const int signal = sigtimedwait(&signals, nullptr, &poll);
        if (signal == SIGHUP) {
            const Status reloaded = service.reload();
            log_info("{}", reloaded ? "keys were read again" : "keys stay as they are: " + reloaded.error().text);
        } else if (signal == SIGTERM || signal == SIGINT) {
            if (is_draining) {
                log_warning("a second signal: ending at once");
                std::_Exit(kExitRequestFailed);
            }
            is_draining = true;
            log_info("shutting down: no new requests, running ones may end");
            service.drain([&is_drained] { is_drained.store(true); });
        }
    }
    return kExitOk;
}

}  // namespace

int serve_command(const Options& options) {
    const auto server = server_options(options, options);
    if (!server) {
        print_error(server.error());
        return kExitUsage;
    }
    set_log_json(server->logs_json);
    for (const std::string& warning : server_warnings(*server)) {
        log_warning("{}", warning);
    }
    const sigset_t signals = block_signals();
    const auto session = open_session(options);
    if (!session) {
        print_error(session.error());
        return exit_code_of(session.error());
    }
    const std::string& directory = (*session)->model_directory();
    if (server->has_selftest) {
        if (const Status passed = run_selftest(**session, directory); !passed) {
            print_error(fmt::format("self-test: {}", passed.error().text));
            return kExitModel;
        }
    }
    SystemClock clock;
    SystemRandom random;
    EngineBackend backend(*(*session)->loaded().engine, clock);
    ServiceParts parts{.preparer = &(*session)->preparer(),
                       .backend = &backend,
                       .clock = &clock,
                       .random = &random,
                       .model_name = model_name_of(directory),
                       .context_tokens = (*session)->plan().limits.max_model_len,
                       .version = DI_VERSION};
    parts.fingerprint = fingerprint_of(**session, parts.model_name, options);
    const auto service = Service::start(*server, parts);
    if (!service) {
        print_error(service.error());
        return exit_code_of(service.error());
    }
    fmt::print(stderr, "listening on {}://{}:{}\n", server->http.tls_certificate_file.empty() ? "http" : "https",
               server->http.host.find(':') == std::string::npos ? server->http.host : "[" + server->http.host + "]",
               (*service)->port());
    std::fflush(stderr);
    return serve_until_signalled(**service, signals);
}

}  // namespace di
