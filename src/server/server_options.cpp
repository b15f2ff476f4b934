#include <algorithm>
#include <charconv>
#include <cmath>

#include "server/limits.h"
#include "server/settings.h"

namespace di {
namespace {

constexpr uint16_t kDefaultPort = 8000;

Status check_together(const ServeSettings& settings) {
    if (settings.tls_certificate.has_value() != settings.tls_key.has_value()) {
        return settings.tls_key ? fail(ErrorCode::kInvalidArgument, "tls-key {} without tls-certificate, expected both or none",
                                       *settings.tls_key)
                                : fail(ErrorCode::kInvalidArgument, "tls-certificate {} without tls-key, expected both or none",
                                       *settings.tls_certificate);
    }
    if (settings.allow_private_image_hosts && !settings.allow_image_urls) {
        return fail(ErrorCode::kInvalidArgument, "allow-private-image-hosts without allow-image-urls, expected both");
    }
    if (settings.cache_isolation == "key" && !settings.api_key_file) {
        return fail(ErrorCode::kInvalidArgument, "cache-isolation \"key\" without api-key-file, expected a file of keys");
    }
    if (settings.metrics_open && !settings.api_key_file) {
        return fail(ErrorCode::kInvalidArgument,
                    "metrics-open without api-key-file: nothing needs a key, expected the option to be absent");
    }
    if (settings.host.empty()) {
        return fail(ErrorCode::kInvalidArgument, "host \"\", expected an address such as 127.0.0.1 or 0.0.0.0");
    }
    return {};
}

Status check_model_name(std::string_view option, const std::string& name) {
    const bool is_printable =
        std::all_of(name.begin(), name.end(), [](unsigned char c) { return c > ' ' && c != 0x7F && c != '"'; });
    if (name.empty() || name.size() > kNameBytesMax || !is_printable) {
        return fail(ErrorCode::kInvalidArgument, "{}: {}, expected 1 to {} bytes without blanks and quotes", option,
                    short_quoted(name), kNameBytesMax);
    }
    return {};
}

// "https://host[:port]": no path, nothing behind it.
Status check_origin(const std::string& origin) {
    const bool is_http = origin.starts_with("http://") || origin.starts_with("https://");
    const std::string_view host = std::string_view(origin).substr(std::min(origin.find("//"), origin.size() - 2) + 2);
    const bool is_plain = !host.empty() && host.find_first_of("/?#@ ,\"\\\r\n\t") == std::string_view::npos;
    if (origin != "*" && (!is_http || !is_plain)) {
        return fail(ErrorCode::kInvalidArgument, "allow-origin: {}, expected * or an origin such as https://example.com:8443",
                    short_quoted(origin));
    }
    return {};
}

Result<ResponseStoreOptions> store_options(const ServeSettings& settings) {
    ResponseStoreOptions store;
    const std::string& text = settings.response_store;
    store.is_on = text != "off";
    const bool is_number = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
    if (is_number) {
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), store.entries_max);
        if (error != std::errc() || end != text.data() + text.size() || store.entries_max < 1) {
            return fail(ErrorCode::kInvalidArgument, "response-store: \"{}\", expected off, a number from 1 or a file", text);
        }
    } else if (text.empty()) {
        return fail(ErrorCode::kInvalidArgument, "response-store: \"\", expected off, a number from 1 or a file");
    } else if (store.is_on) {
        store.path = text;
    }
    store.bytes_max = settings.response_store_memory.value_or(store.bytes_max);
    if (settings.response_store_hours) {
        store.lifetime_s = std::max<int64_t>(1, std::llround(*settings.response_store_hours * 3600.0));
    }
    return store;
}

Result<OtlpEndpoint> otlp_endpoint(const std::string& url) {
    static constexpr std::string_view kScheme = "http://";
    const auto wrong = [&] {
        return fail(ErrorCode::kInvalidArgument, "otlp-endpoint: {}, expected an address such as http://localhost:4318",
                    short_quoted(url));
    };
    if (!url.starts_with(kScheme) || url.find_first_of("@?# \"\\\r\n\t") != std::string::npos) {
        return wrong();
    }
    OtlpEndpoint endpoint;
    const std::string_view rest = std::string_view(url).substr(kScheme.size());
    const std::string_view authority = rest.substr(0, rest.find('/'));
    std::string_view base = rest.substr(authority.size());
    while (base.ends_with('/')) {
        base.remove_suffix(1);
    }
    endpoint.path = std::string(base) + endpoint.path;
    size_t colon = authority.rfind(':');
    if (colon != std::string_view::npos && authority.find(']') != std::string_view::npos && colon < authority.find(']')) {
        colon = std::string_view::npos;  // inside an IPv6 address
    }
    endpoint.host = std::string(authority.substr(0, colon));
    if (colon != std::string_view::npos) {
        const std::string_view port = authority.substr(colon + 1);
        const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), endpoint.port);
        if (error != std::errc() || end != port.data() + port.size() || endpoint.port == 0) {
            return wrong();
        }
    }
    if (endpoint.host.starts_with('[') && endpoint.host.ends_with(']')) {
        endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
    }
    if (endpoint.host.empty() || endpoint.host.find_first_of("[]") != std::string::npos) {
        return wrong();
    }
    return endpoint;
}

HttpServerOptions http_options(const ServeSettings& settings) {
    HttpServerOptions http;
    http.host = settings.host;
    http.port = static_cast<uint16_t>(settings.port.value_or(kDefaultPort));
    http.body_bytes_max = settings.body_max.value_or(http.body_bytes_max);
    http.header_bytes_max = settings.header_max.value_or(http.header_bytes_max);
    http.connections_max = settings.connections_max.value_or(http.connections_max);
    http.header_timeout_s = settings.header_timeout.value_or(http.header_timeout_s);
    http.body_timeout_s = settings.body_timeout.value_or(http.body_timeout_s);
    http.idle_timeout_s = settings.idle_timeout.value_or(http.idle_timeout_s);
    http.tls_certificate_file = settings.tls_certificate.value_or("");
    http.tls_key_file = settings.tls_key.value_or("");
    return http;
}

RequestLimits request_limits(const ServeSettings& settings) {
    RequestLimits limits;
    limits.output_tokens_max = settings.max_output.value_or(limits.output_tokens_max);
    limits.messages_max = settings.messages_max.value_or(limits.messages_max);
    limits.images_max = settings.images_max.value_or(limits.images_max);
    limits.tools_max = settings.tools_max.value_or(limits.tools_max);
    limits.tool_schema_bytes_max = settings.tool_schema_max.value_or(limits.tool_schema_bytes_max);
    limits.choices_max = settings.choices_max.value_or(limits.choices_max);
    limits.stop_strings_max = settings.stop_strings_max.value_or(limits.stop_strings_max);
    limits.stop_string_bytes_max = settings.stop_string_max.value_or(limits.stop_string_bytes_max);
    limits.top_logprobs_max = settings.top_logprobs_max.value_or(limits.top_logprobs_max);
    return limits;
}

void set_images(const ServeSettings& settings, ServerOptions& options) {
    options.images.bytes_max = settings.image_max.value_or(options.images.bytes_max);
    options.images.total_bytes_max = settings.images_memory.value_or(options.images.total_bytes_max);
    options.images.pixels_max = settings.image_pixels_max.value_or(options.images.pixels_max);
    options.allows_image_urls = settings.allow_image_urls;
    options.fetch.bytes_max = options.images.bytes_max;
    options.fetch.allows_private_hosts = settings.allow_private_image_hosts;
    options.fetch.timeout_s = settings.image_fetch_timeout.value_or(options.fetch.timeout_s);
    options.fetch.redirects_max = static_cast<int>(settings.image_redirects_max.value_or(options.fetch.redirects_max));
    options.fetch.concurrent_max = static_cast<int>(settings.image_fetches_max.value_or(options.fetch.concurrent_max));
}

void set_behaviour(const ServeSettings& settings, ServerOptions& options) {
    options.sampling_policy = settings.sampling_policy == "deepseek" ? SamplingPolicy::kDeepseek : SamplingPolicy::kClient;
    options.has_processed_logprobs = settings.logprobs_mode == "processed";
    options.messages_think_by_default = settings.messages_default_thinking == "on";
    options.copies_reasoning_field = settings.reasoning_field == "both";
    options.is_strict = settings.strict_fields;
    options.enforces_thinking_budget = settings.enforce_thinking_budget;
    options.has_fim = settings.enable_fim;
    options.drops_server_tools = settings.drop_server_tools;
    options.is_metrics_open = settings.metrics_open;
    options.isolates_cache_by_key = settings.cache_isolation == "key";
    options.default_quota = {.requests_per_minute = settings.requests_per_minute.value_or(0),
                             .tokens_per_minute = settings.tokens_per_minute.value_or(0),
                             .concurrent = settings.concurrent_requests.value_or(0)};
    options.request_timeout_s = settings.request_timeout.value_or(options.request_timeout_s);
    options.sse_keepalive_s = settings.sse_keepalive.value_or(options.sse_keepalive_s);
    options.drain_timeout_s = settings.drain_timeout.value_or(options.drain_timeout_s);
    options.logs_json = settings.log_format == "json";
    options.access_log = settings.access_log == "off" ? "" : settings.access_log;
    options.has_selftest = settings.selftest;
    options.allows_faults = settings.allow_faults;
}

}  // namespace

Result<ServerOptions> server_options(const ServeSettings& settings, const Settings& engine) {
    DI_TRY_STATUS(check_together(settings));
    ServerOptions options;
    options.http = http_options(settings);
    for (const std::string& origin : settings.allow_origin) {
        DI_TRY_STATUS(check_origin(origin));
    }
    options.allowed_origins = settings.allow_origin;
    if (settings.served_model_name) {
        DI_TRY_STATUS(check_model_name("served-model-name", *settings.served_model_name));
        options.served_model_name = *settings.served_model_name;
    }
    for (const std::string& alias : settings.alias) {
        DI_TRY_STATUS(check_model_name("alias", alias));
    }
    options.aliases = settings.alias;
    options.api_key_file = settings.api_key_file.value_or("");
    options.tools_allow_file = settings.tools_allow.value_or("");
    options.request = request_limits(settings);
    options.waiting_max = engine.queue_max.value_or(kWaitingRequestsMax);
    DI_TRY(options.response_store, store_options(settings));
    if (settings.otlp_endpoint) {
        DI_TRY(options.otlp, otlp_endpoint(*settings.otlp_endpoint));
    }
    set_images(settings, options);
    set_behaviour(settings, options);
    return options;
}

std::vector<std::string> server_warnings(const ServerOptions& options) {
    std::vector<std::string> warnings;
    if (options.api_key_file.empty() && !is_loopback_host(options.http.host)) {
        warnings.push_back(fmt::format("listening on {} without keys: everybody who reaches it may use it; see --api-key-file",
                                       options.http.host));
    }
    if (!options.api_key_file.empty() && !is_loopback_host(options.http.host) && options.http.tls_key_file.empty()) {
        warnings.push_back(fmt::format("listening on {} without TLS: keys can be read on their way; see --tls-certificate",
                                       options.http.host));
    }
    if (options.allows_faults) {
        warnings.push_back("FAULTS ARE ALLOWED: any request may make the engine fail; never use --allow-faults in service");
    }
    if (options.fetch.allows_private_hosts) {
        warnings.push_back("images may be fetched from private addresses: clients can look into the network of this machine");
    }
    if (options.has_fim) {
        warnings.push_back("fill in the middle is not verified for V4.1");
    }
    return warnings;
}

bool is_loopback_host(std::string_view host) {
    const bool is_ipv4 = host.find_first_not_of("0123456789.") == std::string_view::npos;
    return host == "localhost" || host == "::1" || (is_ipv4 && host.starts_with("127."));
}

}  // namespace di
