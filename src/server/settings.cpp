#include "server/settings.h"

#include <algorithm>
#include <cctype>

namespace di {
namespace {

constexpr double kBytesMax = 9e18;
constexpr double kSecondsMax = 1e6;
constexpr std::string_view kVariablePrefix = "DEEPINFER_SERVE_";

const ServeSettingRow kRows[] = {
    // Where it listens.
    {.rule = {.name = "host"},
     .value_name = "H",
     .help = "address to listen on (default 127.0.0.1: this machine alone)",
     .target = &ServeSettings::host},
    {.rule = {.name = "port", .highest = 65535},
     .value_name = "P",
     .help = "port to listen on (default 8000); 0: a free one, which is printed",
     .target = &ServeSettings::port},
    {.rule = {.name = "tls-certificate"},
     .value_name = "F",
     .help = "certificate chain (PEM): https instead of http; needs tls-key",
     .target = &ServeSettings::tls_certificate},
    {.rule = {.name = "tls-key"},
     .value_name = "F",
     .help = "private key of the certificate (PEM)",
     .target = &ServeSettings::tls_key},
    {.rule = {.name = "allow-origin"},
     .value_name = "O",
     .help = "origin whose pages may call (CORS): https://host, or *; may be repeated",
     .target = &ServeSettings::allow_origin},
    // What is served.
    {.rule = {.name = "served-model-name"},
     .value_name = "N",
     .help = "name of the model for clients (default: the name of its directory)",
     .target = &ServeSettings::served_model_name},
    {.rule = {.name = "alias"},
     .value_name = "N",
     .help = "another name of the model; may be repeated",
     .target = &ServeSettings::alias},
    {.rule = {.name = "sampling-policy", .choices = "client|deepseek"},
     .value_name = "P",
     .help = "whose temperature and top_p: client, or deepseek: those of its service",
     .target = &ServeSettings::sampling_policy},
    {.rule = {.name = "logprobs-mode", .choices = "raw|processed"},
     .value_name = "M",
     .help = "logprobs before (raw) or behind (processed) temperature and penalties",
     .target = &ServeSettings::logprobs_mode},
    {.rule = {.name = "messages-default-thinking", .choices = "on|off"},
     .value_name = "T",
     .help = "whether Messages requests that do not say so think: on or off",
     .target = &ServeSettings::messages_default_thinking},
    {.rule = {.name = "reasoning-field", .choices = "reasoning_content|both"},
     .value_name = "F",
     .help = "chat: reasoning_content, or both: reasoning beside it",
     .target = &ServeSettings::reasoning_field},
    {.rule = {.name = "strict-fields"},
     .value_name = "",
     .help = "unknown fields of a request are errors",
     .target = &ServeSettings::strict_fields},
    {.rule = {.name = "enforce-thinking-budget"},
     .value_name = "",
     .help = "end reasoning at the budget that a request names",
     .target = &ServeSettings::enforce_thinking_budget},
    {.rule = {.name = "enable-fim"},
     .value_name = "",
     .help = "completions with a suffix (fill in the middle; not verified for V4.1)",
     .target = &ServeSettings::enable_fim},
    {.rule = {.name = "drop-server-tools"},
     .value_name = "",
     .help = "Messages: leave out server tools instead of refusing them",
     .target = &ServeSettings::drop_server_tools},
    // Who may.
    {.rule = {.name = "api-key-file"},
     .value_name = "F",
     .help = "keys of the clients, see docs/serving.md (default: open to everybody)",
     .target = &ServeSettings::api_key_file},
    {.rule = {.name = "tools-allow"},
     .value_name = "F",
     .help = "which tools which key may offer, see docs/serving.md (default: any)",
     .target = &ServeSettings::tools_allow},
    {.rule = {.name = "metrics-open"},
     .value_name = "",
     .help = "/metrics needs no key",
     .target = &ServeSettings::metrics_open},
    {.rule = {.name = "cache-isolation", .choices = "off|key"},
     .value_name = "I",
     .help = "key: no key meets prefixes of another in the cache; off: they share it",
     .target = &ServeSettings::cache_isolation},
    {.rule = {.name = "requests-per-minute"},
     .value_name = "N",
     .help = "of a key that has no number of its own; 0: no limit (default)",
     .target = &ServeSettings::requests_per_minute},
    {.rule = {.name = "tokens-per-minute", .highest = 1e12},
     .value_name = "N",
     .help = "of a key that has no number of its own; 0: no limit (default)",
     .target = &ServeSettings::tokens_per_minute},
    {.rule = {.name = "concurrent-requests"},
     .value_name = "N",
     .help = "at one time, of a key that has no number of its own; 0: no limit (default)",
     .target = &ServeSettings::concurrent_requests},
    // Images by address.
    {.rule = {.name = "allow-image-urls"},
     .value_name = "",
     .help = "fetch images that requests name by http or https address",
     .target = &ServeSettings::allow_image_urls},
    {.rule = {.name = "allow-private-image-hosts"},
     .value_name = "",
     .help = "also from private, loopback and other special addresses",
     .target = &ServeSettings::allow_private_image_hosts},
    {.rule = {.name = "image-fetch-timeout", .highest = kSecondsMax, .excludes_lowest = true},
     .value_name = "S",
     .help = "seconds for an image, redirects included (default 10)",
     .target = &ServeSettings::image_fetch_timeout},
    {.rule = {.name = "image-redirects-max", .highest = 20},
     .value_name = "N",
     .help = "redirects that are followed (default 3)",
     .target = &ServeSettings::image_redirects_max},
    {.rule = {.name = "image-fetches-max", .lowest = 1, .highest = 1024},
     .value_name = "N",
     .help = "fetches at one time (default 16)",
     .target = &ServeSettings::image_fetches_max},
    // Limits of a request: what the parsers refuse anyway is the highest value.
    {.rule = {.name = "max-output", .lowest = 1, .highest = static_cast<double>(kOutputTokensMax)},
     .value_name = "N",
     .help = "tokens of an answer (default 393216)",
     .target = &ServeSettings::max_output},
    {.rule = {.name = "body-max", .lowest = 1024, .highest = kBytesMax, .is_bytes = true},
     .value_name = "BYTES",
     .help = "body of a request, decompressed (default 64MiB)",
     .target = &ServeSettings::body_max},
    {.rule = {.name = "header-max", .lowest = 1024, .highest = 1 << 24, .is_bytes = true},
     .value_name = "BYTES",
     .help = "head of a request (default 64KiB)",
     .target = &ServeSettings::header_max},
    {.rule = {.name = "messages-max", .lowest = 1, .highest = kMessagesMax},
     .value_name = "N",
     .help = "messages of a request (default 10000)",
     .target = &ServeSettings::messages_max},
    {.rule = {.name = "images-max", .highest = kRequestImagesMax},
     .value_name = "N",
     .help = "images of a request (default 600)",
     .target = &ServeSettings::images_max},
    {.rule = {.name = "image-max", .lowest = 1, .highest = 64 << 20, .is_bytes = true},
     .value_name = "BYTES",
     .help = "one image (default 20MiB)",
     .target = &ServeSettings::image_max},
    {.rule = {.name = "images-memory", .lowest = 1, .highest = kBytesMax, .is_bytes = true},
     .value_name = "BYTES",
     .help = "all images of a request (default 256MiB)",
     .target = &ServeSettings::images_memory},
    {.rule = {.name = "image-pixels-max", .lowest = 1, .highest = 89'478'485},
     .value_name = "N",
     .help = "pixels of one image (default 50000000)",
     .target = &ServeSettings::image_pixels_max},
    {.rule = {.name = "tools-max", .highest = kToolsMax},
     .value_name = "N",
     .help = "tools of a request (default 1024)",
     .target = &ServeSettings::tools_max},
    {.rule = {.name = "tool-schema-max", .lowest = 1, .highest = kToolSchemaBytesMax, .is_bytes = true},
     .value_name = "BYTES",
     .help = "all schemas of its tools (default 1MiB)",
     .target = &ServeSettings::tool_schema_max},
    {.rule = {.name = "choices-max", .lowest = 1, .highest = kChoicesMax},
     .value_name = "N",
     .help = "choices of a request (default 16)",
     .target = &ServeSettings::choices_max},
    {.rule = {.name = "stop-strings-max", .highest = kStopStringsMax},
     .value_name = "N",
     .help = "stop strings of a request (default 16)",
     .target = &ServeSettings::stop_strings_max},
    {.rule = {.name = "stop-string-max", .lowest = 1, .highest = kStopStringBytesMax},
     .value_name = "N",
     .help = "bytes of one of them (default 1024)",
     .target = &ServeSettings::stop_string_max},
    {.rule = {.name = "top-logprobs-max", .highest = kTopLogprobsMax},
     .value_name = "N",
     .help = "alternatives of a token (default 20)",
     .target = &ServeSettings::top_logprobs_max},
    // Limits of time and connections.
    {.rule = {.name = "connections-max", .lowest = 1, .highest = 1e6},
     .value_name = "N",
     .help = "open connections (default 8192)",
     .target = &ServeSettings::connections_max},
    {.rule = {.name = "header-timeout", .highest = kSecondsMax, .excludes_lowest = true},
     .value_name = "S",
     .help = "seconds for the head of a request (default 10)",
     .target = &ServeSettings::header_timeout},
    {.rule = {.name = "body-timeout", .highest = kSecondsMax, .excludes_lowest = true},
     .value_name = "S",
     .help = "seconds for its body (default 60)",
     .target = &ServeSettings::body_timeout},
    {.rule = {.name = "idle-timeout", .highest = kSecondsMax, .excludes_lowest = true},
     .value_name = "S",
     .help = "seconds that an idle connection is kept (default 75)",
     .target = &ServeSettings::idle_timeout},
    {.rule = {.name = "request-timeout", .highest = kSecondsMax},
     .value_name = "S",
     .help = "seconds for a whole answer; 0: no limit (default)",
     .target = &ServeSettings::request_timeout},
    {.rule = {.name = "sse-keepalive", .highest = kSecondsMax, .excludes_lowest = true},
     .value_name = "S",
     .help = "seconds of silence before a stream gets a sign of life (default 5)",
     .target = &ServeSettings::sse_keepalive},
    {.rule = {.name = "drain-timeout", .highest = kSecondsMax},
     .value_name = "S",
     .help = "seconds that running answers have to end after SIGTERM (default 30)",
     .target = &ServeSettings::drain_timeout},
    // Stored responses.
    {.rule = {.name = "response-store"},
     .value_name = "S",
     .help = "responses that are kept: off, a number of them in memory (default 10000), or a file",
     .target = &ServeSettings::response_store},
    {.rule = {.name = "response-store-memory", .lowest = 1, .highest = kBytesMax, .is_bytes = true},
     .value_name = "BYTES",
     .help = "all kept responses (default 1GiB)",
     .target = &ServeSettings::response_store_memory},
    {.rule = {.name = "response-store-hours", .highest = 1e5, .excludes_lowest = true},
     .value_name = "H",
     .help = "how long a response is kept (default 24)",
     .target = &ServeSettings::response_store_hours},
    // What can be seen of it.
    {.rule = {.name = "log-format", .choices = "text|json"},
     .value_name = "F",
     .help = "lines of the log: text or json",
     .target = &ServeSettings::log_format},
    {.rule = {.name = "access-log"},
     .value_name = "F",
     .help = "a line of JSON for every request: off (default), - for standard output, or a file",
     .target = &ServeSettings::access_log},
    {.rule = {.name = "otlp-endpoint"},
     .value_name = "URL",
     .help = "collector of traces: http://host:4318 (default: none)",
     .target = &ServeSettings::otlp_endpoint},
    {.rule = {.name = "selftest"},
     .value_name = "",
     .help = "generate a token before saying that it is ready (default)",
     .target = &ServeSettings::selftest,
     .is_on = true},
    {.rule = {.name = "allow-faults"},
     .value_name = "",
     .help = "requests may ask for faults: for tests only",
     .target = &ServeSettings::allow_faults},
};

bool takes_many(const ServeSettingRow& row) {
    return std::holds_alternative<std::vector<std::string> ServeSettings::*>(row.target);
}

std::vector<std::string> split_at_commas(std::string_view text) {
    std::vector<std::string> words;
    while (true) {
        const size_t comma = text.find(',');
        words.emplace_back(text.substr(0, comma));
        if (comma == std::string_view::npos) {
            return words;
        }
        text.remove_prefix(comma + 1);
    }
}

}  // namespace

std::span<const ServeSettingRow> serve_setting_rows() { return kRows; }

const ServeSettingRow* find_serve_setting(std::string_view name) {
    std::string wanted(name);
    std::replace(wanted.begin(), wanted.end(), '_', '-');
    const auto found =
        std::find_if(std::begin(kRows), std::end(kRows), [&](const ServeSettingRow& row) { return row.rule.name == wanted; });
    return found == std::end(kRows) ? nullptr : found;
}

Status set_serve_setting(const ServeSettingRow& row, const std::vector<std::string>& values, std::string_view where,
                         ServeSettings& settings) {
    return set_target<ServeSettings>(row.rule, row.target, values, where, settings);
}

bool is_serve_variable(std::string_view name) { return name.starts_with(kVariablePrefix); }

ServeVariable serve_variable(std::string_view name, const std::string& value) {
    std::string wanted(name.substr(std::min(kVariablePrefix.size(), name.size())));
    std::transform(wanted.begin(), wanted.end(), wanted.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const ServeSettingRow* row = is_serve_variable(name) ? find_serve_setting(wanted) : nullptr;
    if (row == nullptr) {
        return {.warning = fmt::format("unknown environment variable {}", name)};
    }
    if (value.empty()) {
        return {};
    }
    return {.row = row, .values = takes_many(*row) ? split_at_commas(value) : std::vector<std::string>{value}};
}

}  // namespace di
