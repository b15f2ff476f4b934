#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/random.h"
#include "base/task_pool.h"
#include "http/fetch.h"
#include "http/server.h"
#include "server/api_keys.h"
#include "server/background.h"
#include "server/exchange.h"
#include "server/generations.h"
#include "server/quotas.h"
#include "server/response_store.h"
#include "server/service_log.h"
#include "server/service_metrics.h"
#include "server/settings.h"
#include "server/token_backend.h"
#include "server/tool_permissions.h"
#include "session/preparer.h"

namespace di {

// What the service stands on. All of it outlives the service.
struct ServiceParts {
    Preparer* preparer = nullptr;
    TokenBackend* backend = nullptr;
    Clock* clock = nullptr;
    Random* random = nullptr;  // used by the server's thread alone
    std::string model_name{};  // where the options name none
    int64_t context_tokens = 0;
    std::string fingerprint{};  // of model and build
    std::string version{};
};

// The service: HTTP on one side, a token backend on the other. One thread (the HTTP server's) owns all state of requests;
// a pool parses, renders and tokenises; the backend has a thread of its own.
class Service {
  public:
    // Listens when it returns, and answers.
    [[nodiscard]] static Result<std::unique_ptr<Service>> start(const ServerOptions& options, const ServiceParts& parts);
    // Cancels what runs.
    ~Service();
    Service(const Service&) = delete;
    Service& operator=(const Service&) = delete;

    [[nodiscard]] uint16_t port() const { return http_->port(); }
    // No new request from now on (503); what runs may end. `done` is called once, on the server's thread, when nothing runs
    // any more or the time of the options is over. Any thread.
    void drain(std::function<void()> done);
    // Reads the key file again (on an error the old keys stay) and opens a new access log. Any thread.
    [[nodiscard]] Status reload();

    // --- for the routes, on the server's thread ------------------------------------------------------------------------
    [[nodiscard]] const ServerOptions& options() const { return options_; }
    [[nodiscard]] const ServiceParts& parts() const { return parts_; }
    [[nodiscard]] const AnswerContext& answer_context() const { return answer_context_; }
    [[nodiscard]] Generations& generations() { return *generations_; }
    [[nodiscard]] ResponseStore* store() { return store_.get(); }  // nullptr: off
    [[nodiscard]] ServiceMetrics& metrics() { return *metrics_; }
    [[nodiscard]] ServiceLog& log() { return *log_; }
    [[nodiscard]] HttpServer& http() { return *http_; }
    [[nodiscard]] Followers& followers() { return followers_; }
    [[nodiscard]] Fetcher* fetcher() { return fetcher_.get(); }  // nullptr: images by address are not allowed
    [[nodiscard]] const ToolPermissions& tool_permissions() const { return permissions_; }
    [[nodiscard]] bool is_draining() const { return is_draining_; }
    // The name under which the model is served, and whether a request may use this one.
    [[nodiscard]] const std::string& model_name() const { return model_name_; }
    [[nodiscard]] bool is_served(std::string_view name) const;
    [[nodiscard]] int64_t unix_s() const;  // now
    [[nodiscard]] int64_t started_s() const { return started_s_; }

    // Room for a generating request of this key, to be held until its end; an error when there is none, or no new request is
    // taken.
    [[nodiscard]] tl::expected<std::shared_ptr<void>, ApiError> admit(const Exchange& exchange);
    // Answers with an error, if the client still listens, and writes it down.
    void refuse(Exchange& exchange, const ApiError& error, HttpHeaders headers = {});
    // Runs `work` on the pool; refuses the request when too much waits there.
    void run_on_pool(const ExchangePtr& exchange, std::function<void()> work);
    // From the pool back to the server's thread.
    void post(std::function<void()> work) { http_->post(std::move(work)); }

  private:
    class Observer;

    Service(const ServerOptions& options, const ServiceParts& parts);
    [[nodiscard]] Status open_files();
    [[nodiscard]] Status listen();
    void take_request(HttpRequest request, std::shared_ptr<HttpReply> reply);
    [[nodiscard]] HttpResponse fault_response(const HttpFault& fault);
    // False: answered with an error.
    [[nodiscard]] bool authorise(Exchange& exchange);
    void add_cors(Exchange& exchange) const;
    void answer_preflight(Exchange& exchange);
    void tick();
    void end_drain_if_done();

    ServerOptions options_;
    ServiceParts parts_;
    std::string model_name_;
    AnswerContext answer_context_;
    std::shared_ptr<const ApiKeys> keys_;  // nullptr: none are configured; replaced as a whole, on the server's thread
    ToolPermissions permissions_;
    Quotas quotas_;
    std::unique_ptr<ResponseStore> store_;
    std::unique_ptr<ServiceMetrics> metrics_;
    std::unique_ptr<ServiceLog> log_;
    std::unique_ptr<Fetcher> fetcher_;
    std::unique_ptr<GenerationObserver> observer_;
    std::unique_ptr<Generations> generations_;
    Followers followers_;
    int64_t started_s_ = 0;
    int64_t followed_s_ = 0;  // when followers last got a sign of life
    int64_t admitted_ = 0;    // requests, from admission to end
    bool is_draining_ = false;
    std::atomic<bool> is_ending_{false};  // seq_cst: set once, before the server's thread ends
    std::function<void()> on_drained_;
    std::unique_ptr<HttpServer> http_;
    std::unique_ptr<TaskPool> pool_;
};

}  // namespace di
