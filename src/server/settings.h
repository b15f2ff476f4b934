#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/fetch.h"
#include "http/server.h"
#include "server/quotas.h"
#include "server/request_limits.h"
#include "server/response_store.h"
#include "session/answer_plan.h"
#include "session/settings.h"

// The typed configuration of the service, beside that of model and engine (session/settings.h). One table for flags, the
// environment (DEEPINFER_SERVE_PORT is the flag --port) and the file of --config.
namespace di {

struct ServeSettings {
    // Where it listens.
    std::string host = "127.0.0.1";
    std::optional<int64_t> port;
    std::optional<std::string> tls_certificate;
    std::optional<std::string> tls_key;
    std::vector<std::string> allow_origin;

    // What is served.
    std::optional<std::string> served_model_name;
    std::vector<std::string> alias;
    std::string sampling_policy = "client";
    std::string logprobs_mode = "raw";
    std::string messages_default_thinking = "on";
    std::string reasoning_field = "reasoning_content";
    bool strict_fields = false;
    bool enforce_thinking_budget = false;
    bool enable_fim = false;
    bool drop_server_tools = false;

    // Who may.
    std::optional<std::string> api_key_file;
    std::optional<std::string> tools_allow;
    bool metrics_open = false;
    std::string cache_isolation = "off";
    std::optional<int64_t> requests_per_minute;
    std::optional<int64_t> tokens_per_minute;
    std::optional<int64_t> concurrent_requests;

    // Images by address.
    bool allow_image_urls = false;
    bool allow_private_image_hosts = false;
    std::optional<double> image_fetch_timeout;
    std::optional<int64_t> image_redirects_max;
    std::optional<int64_t> image_fetches_max;

    // Limits of a request.
    std::optional<int64_t> max_output;
    std::optional<int64_t> body_max;
    std::optional<int64_t> header_max;
    std::optional<int64_t> messages_max;
    std::optional<int64_t> images_max;
    std::optional<int64_t> image_max;
    std::optional<int64_t> images_memory;
    std::optional<int64_t> image_pixels_max;
    std::optional<int64_t> tools_max;
    std::optional<int64_t> tool_schema_max;
    std::optional<int64_t> choices_max;
    std::optional<int64_t> stop_strings_max;
    std::optional<int64_t> stop_string_max;
    std::optional<int64_t> top_logprobs_max;

    // Limits of time and connections.
    std::optional<int64_t> connections_max;
    std::optional<double> header_timeout;
    std::optional<double> body_timeout;
    std::optional<double> idle_timeout;
    std::optional<double> request_timeout;
    std::optional<double> sse_keepalive;
    std::optional<double> drain_timeout;

    // Stored responses.
    std::string response_store = "10000";
    std::optional<int64_t> response_store_memory;
    std::optional<double> response_store_hours;

    // What can be seen of it.
    std::string log_format = "text";
    std::string access_log = "off";
    std::optional<std::string> otlp_endpoint;
    bool selftest = true;
    bool allow_faults = false;
};

struct ServeSettingRow {
    OptionRule rule;
    std::string_view value_name;  // "N"; empty for a switch
    std::string_view help;
    OptionTargetOf<ServeSettings> target;
    bool is_on = false;  // a switch that is on by default
};

[[nodiscard]] std::span<const ServeSettingRow> serve_setting_rows();
// nullptr if there is none. Both "api-key-file" and "api_key_file" are found.
[[nodiscard]] const ServeSettingRow* find_serve_setting(std::string_view name);
// Checks the values and puts them into `settings`, replacing what was there. `where` begins the message.
[[nodiscard]] Status set_serve_setting(const ServeSettingRow& row, const std::vector<std::string>& values,
                                       std::string_view where, ServeSettings& settings);

// What a variable DEEPINFER_SERVE_... means: its setting and values (those that may be repeated are separated by commas). `row` is
// nullptr if there is no such setting or the value is empty; `warning` says what was not understood.
struct ServeVariable {
    const ServeSettingRow* row = nullptr;
    std::vector<std::string> values{};
    std::string warning{};
};
[[nodiscard]] bool is_serve_variable(std::string_view name);
[[nodiscard]] ServeVariable serve_variable(std::string_view name, const std::string& value);

// Encoded and decoded size of what clients send.
struct ImageLimits {
    int64_t bytes_max = int64_t{20} << 20;         // of one image
    int64_t total_bytes_max = int64_t{256} << 20;  // of one request, fetched ones included
    int64_t pixels_max = 50'000'000;               // by the header, before decoding
};

// Where spans go: POST http://host:port/path.
struct OtlpEndpoint {
    std::string host;
    uint16_t port = 4318;
    std::string path = "/v1/traces";
};

// The settings, checked and typed.
struct ServerOptions {
    HttpServerOptions http{};
    std::vector<std::string> allowed_origins{};  // "*" or "https://host[:port]"

    std::string served_model_name{};  // "": the name of the model's directory
    std::vector<std::string> aliases{};
    SamplingPolicy sampling_policy = SamplingPolicy::kClient;
    bool has_processed_logprobs = false;
    bool messages_think_by_default = true;
    bool copies_reasoning_field = false;
    bool is_strict = false;  // unknown fields are errors
    bool enforces_thinking_budget = false;
    bool has_fim = false;
    bool drops_server_tools = false;

    std::string api_key_file{};
    std::string tools_allow_file{};
    bool is_metrics_open = false;
    bool isolates_cache_by_key = false;
    QuotaLimits default_quota{};

    bool allows_image_urls = false;
    FetchOptions fetch{};
    RequestLimits request{};
    ImageLimits images{};

    int64_t waiting_max = 0;
    double request_timeout_s = 0.0;  // 0: none
    double sse_keepalive_s = 5.0;
    double drain_timeout_s = 30.0;
    ResponseStoreOptions response_store{};

    bool logs_json = false;
    std::string access_log{};  // file, "-" standard output, "" none
    std::optional<OtlpEndpoint> otlp{};
    bool has_selftest = true;
    bool allows_faults = false;
};

// Checks the settings together. Of the engine's it reads queue-max.
[[nodiscard]] Result<ServerOptions> server_options(const ServeSettings& settings, const Settings& engine);

// What a person should know before it listens: open to others without keys, faults that clients may cause, ...
[[nodiscard]] std::vector<std::string> server_warnings(const ServerOptions& options);

// "localhost", "127.0.0.1", "::1".
[[nodiscard]] bool is_loopback_host(std::string_view host);

}  // namespace di
