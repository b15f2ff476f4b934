#include "server/settings.h"

#include <set>

#include <gtest/gtest.h>

#include "base/file_io.h"

namespace di {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

Result<ServerOptions> options_of(const Pairs& pairs, const Settings& engine = {}) {
    ServeSettings settings;
    for (const auto& [name, value] : pairs) {
        const ServeSettingRow* row = find_serve_setting(name);
        if (row == nullptr) {
            return fail(ErrorCode::kNotFound, "no setting {}", name);
        }
        DI_TRY_STATUS(set_serve_setting(*row, {value}, name, settings));
    }
    return server_options(settings, engine);
}

std::string error_of(const Pairs& pairs) {
    const auto options = options_of(pairs);
    return options ? "" : options.error().text;
}

TEST(ServeSettings, DefaultsAreThoseOfTheInterface) {
    const ServerOptions options = options_of({}).value();
    EXPECT_EQ(options.http.host, "127.0.0.1");
    EXPECT_EQ(options.http.port, 8000);
    EXPECT_EQ(options.http.body_bytes_max, 64 << 20);
    EXPECT_EQ(options.http.header_bytes_max, 64 << 10);
    EXPECT_EQ(options.http.connections_max, 8192);
    EXPECT_EQ(options.http.header_timeout_s, 10.0);
    EXPECT_EQ(options.http.body_timeout_s, 60.0);
    EXPECT_EQ(options.http.idle_timeout_s, 75.0);
    EXPECT_EQ(options.request.output_tokens_max, 393'216);
    EXPECT_EQ(options.request.messages_max, 10'000);
    EXPECT_EQ(options.request.images_max, 600);
    EXPECT_EQ(options.images.bytes_max, 20 << 20);
    EXPECT_EQ(options.images.total_bytes_max, 256 << 20);
    EXPECT_EQ(options.images.pixels_max, 50'000'000);
    EXPECT_FALSE(options.allows_image_urls);
    EXPECT_FALSE(options.fetch.allows_private_hosts);
    EXPECT_EQ(options.waiting_max, 4096);
    EXPECT_EQ(options.request_timeout_s, 0.0);
    EXPECT_EQ(options.sse_keepalive_s, 5.0);
    EXPECT_EQ(options.drain_timeout_s, 30.0);
    EXPECT_TRUE(options.response_store.is_on);
    EXPECT_EQ(options.response_store.path, "");
    EXPECT_EQ(options.response_store.entries_max, 10'000);
    EXPECT_EQ(options.response_store.bytes_max, 1 << 30);
    EXPECT_EQ(options.response_store.lifetime_s, 24 * 3600);
    EXPECT_EQ(options.default_quota, QuotaLimits{});
    EXPECT_TRUE(options.messages_think_by_default);
    EXPECT_FALSE(options.allows_faults);
    EXPECT_TRUE(server_warnings(options).empty());
}

// What holds of the options when one setting has one value, and does not without it.
struct Case {
    std::string name;
    std::string value;
    bool (*is_set)(const ServerOptions& options);
    Pairs others{};  // that it needs
};

const std::vector<Case>& cases() {
    using O = ServerOptions;
    static const std::vector<Case> all = {
        {"host", "0.0.0.0", [](const O& o) { return o.http.host == "0.0.0.0"; }},
        {"port", "0", [](const O& o) { return o.http.port == 0; }},
        {"tls-certificate", "c.pem", [](const O& o) { return o.http.tls_certificate_file == "c.pem"; }, {{"tls-key", "k.pem"}}},
        {"tls-key", "k.pem", [](const O& o) { return o.http.tls_key_file == "k.pem"; }, {{"tls-certificate", "c.pem"}}},
        {"allow-origin", "https://a.example", [](const O& o) { return o.allowed_origins.size() == 1; }},
        {"served-model-name", "v4.1", [](const O& o) { return o.served_model_name == "v4.1"; }},
        {"alias", "gpt", [](const O& o) { return o.aliases == std::vector<std::string>{"gpt"}; }},
        {"sampling-policy", "deepseek", [](const O& o) { return o.sampling_policy == SamplingPolicy::kDeepseek; }},
        {"logprobs-mode", "processed", [](const O& o) { return o.has_processed_logprobs; }},
        {"messages-default-thinking", "off", [](const O& o) { return !o.messages_think_by_default; }},
        {"reasoning-field", "both", [](const O& o) { return o.copies_reasoning_field; }},
        {"strict-fields", "true", [](const O& o) { return o.is_strict; }},
        {"enforce-thinking-budget", "1", [](const O& o) { return o.enforces_thinking_budget; }},
        {"enable-fim", "true", [](const O& o) { return o.has_fim; }},
        {"drop-server-tools", "true", [](const O& o) { return o.drops_server_tools; }},
        {"api-key-file", "keys", [](const O& o) { return o.api_key_file == "keys"; }},
        {"tools-allow", "rules", [](const O& o) { return o.tools_allow_file == "rules"; }},
        {"metrics-open", "true", [](const O& o) { return o.is_metrics_open; }, {{"api-key-file", "keys"}}},
        {"cache-isolation", "key", [](const O& o) { return o.isolates_cache_by_key; }, {{"api-key-file", "keys"}}},
        {"requests-per-minute", "7", [](const O& o) { return o.default_quota.requests_per_minute == 7; }},
        {"tokens-per-minute", "7", [](const O& o) { return o.default_quota.tokens_per_minute == 7; }},
        {"concurrent-requests", "7", [](const O& o) { return o.default_quota.concurrent == 7; }},
        {"allow-image-urls", "true", [](const O& o) { return o.allows_image_urls; }},
        {"allow-private-image-hosts",
         "true",
         [](const O& o) { return o.fetch.allows_private_hosts; },
         {{"allow-image-urls", "true"}}},
        {"image-fetch-timeout", "2.5", [](const O& o) { return o.fetch.timeout_s == 2.5; }},
        {"image-redirects-max", "0", [](const O& o) { return o.fetch.redirects_max == 0; }},
        {"image-fetches-max", "2", [](const O& o) { return o.fetch.concurrent_max == 2; }},
        {"max-output", "100", [](const O& o) { return o.request.output_tokens_max == 100; }},
        {"body-max", "1MiB", [](const O& o) { return o.http.body_bytes_max == 1 << 20; }},
        {"header-max", "8KiB", [](const O& o) { return o.http.header_bytes_max == 8192; }},
        {"messages-max", "5", [](const O& o) { return o.request.messages_max == 5; }},
        {"images-max", "0", [](const O& o) { return o.request.images_max == 0; }},
        {"image-max", "1MB", [](const O& o) { return o.images.bytes_max == 1'000'000 && o.fetch.bytes_max == 1'000'000; }},
        {"images-memory", "2MB", [](const O& o) { return o.images.total_bytes_max == 2'000'000; }},
        {"image-pixels-max", "1000", [](const O& o) { return o.images.pixels_max == 1000; }},
        {"tools-max", "3", [](const O& o) { return o.request.tools_max == 3; }},
        {"tool-schema-max", "1000", [](const O& o) { return o.request.tool_schema_bytes_max == 1000; }},
        {"choices-max", "2", [](const O& o) { return o.request.choices_max == 2; }},
        {"stop-strings-max", "2", [](const O& o) { return o.request.stop_strings_max == 2; }},
        {"stop-string-max", "10", [](const O& o) { return o.request.stop_string_bytes_max == 10; }},
        {"top-logprobs-max", "5", [](const O& o) { return o.request.top_logprobs_max == 5; }},
        {"connections-max", "10", [](const O& o) { return o.http.connections_max == 10; }},
        {"header-timeout", "1", [](const O& o) { return o.http.header_timeout_s == 1.0; }},
        {"body-timeout", "1", [](const O& o) { return o.http.body_timeout_s == 1.0; }},
        {"idle-timeout", "1", [](const O& o) { return o.http.idle_timeout_s == 1.0; }},
        {"request-timeout", "90", [](const O& o) { return o.request_timeout_s == 90.0; }},
        {"sse-keepalive", "0.5", [](const O& o) { return o.sse_keepalive_s == 0.5; }},
        {"drain-timeout", "0", [](const O& o) { return o.drain_timeout_s == 0.0; }},
        {"response-store", "off", [](const O& o) { return !o.response_store.is_on; }},
        {"response-store", "12", [](const O& o) { return o.response_store.entries_max == 12; }},
        {"response-store", "kept.db", [](const O& o) { return o.response_store.path == "kept.db"; }},
        {"response-store-memory", "1MB", [](const O& o) { return o.response_store.bytes_max == 1'000'000; }},
        {"response-store-hours", "0.5", [](const O& o) { return o.response_store.lifetime_s == 1800; }},
        {"log-format", "json", [](const O& o) { return o.logs_json; }},
        {"access-log", "-", [](const O& o) { return o.access_log == "-"; }},
        {"otlp-endpoint", "http://collector:80/x/",
         [](const O& o) {
             return o.otlp && o.otlp->host == "collector" && o.otlp->port == 80 && o.otlp->path == "/x/v1/traces";
         }},
        {"selftest", "false", [](const O& o) { return !o.has_selftest; }},
        {"allow-faults", "true", [](const O& o) { return o.allows_faults; }},
    };
    return all;
}

TEST(ServeSettings, EverySettingReachesTheServer) {
    const ServerOptions defaults = options_of({}).value();
    for (const Case& example : cases()) {
        Pairs pairs = example.others;
        pairs.emplace_back(example.name, example.value);
        const auto options = options_of(pairs);
        ASSERT_TRUE(options.has_value()) << options.error().text;
        EXPECT_FALSE(example.is_set(defaults)) << example.name;
        EXPECT_TRUE(example.is_set(*options)) << example.name;
    }
}

TEST(ServeSettings, NoSettingIsUntestedOrUndocumented) {
    const std::string page = read_file("docs/serving.md", 1 << 20).value();
    std::set<std::string> tested;
    for (const Case& example : cases()) {
        tested.insert(example.name);
    }
    std::set<std::string> names;
    for (const ServeSettingRow& row : serve_setting_rows()) {
        const std::string name(row.rule.name);
        EXPECT_TRUE(names.insert(name).second) << name << " stands twice";
        EXPECT_TRUE(tested.contains(name)) << name;
        EXPECT_EQ(find_setting(name), nullptr) << name << " is a setting of the engine, too";
        EXPECT_NE(page.find("| `" + name + "` |"), std::string::npos) << "docs/serving.md lacks " << name;
    }
}

TEST(ServeSettings, TheEnginesQueueIsThatOfTheServer) {
    Settings engine;
    engine.queue_max = 3;
    EXPECT_EQ(options_of({}, engine)->waiting_max, 3);
}

TEST(ServeSettings, WrongValuesSayWhatWasExpected) {
    EXPECT_EQ(error_of({{"port", "65536"}}), "port: \"65536\", expected an integer from 0 to 65535");
    EXPECT_EQ(error_of({{"max-output", "393217"}}), "max-output: \"393217\", expected an integer from 1 to 393216");
    EXPECT_EQ(error_of({{"sse-keepalive", "0"}}), "sse-keepalive: \"0\", expected a number above 0 to 1000000");
    EXPECT_EQ(error_of({{"cache-isolation", "user"}}), "cache-isolation: \"user\", expected off or key");
    EXPECT_EQ(error_of({{"response-store", "0"}}), "response-store: \"0\", expected off, a number from 1 or a file");
    EXPECT_EQ(error_of({{"response-store", ""}}), "response-store: \"\", expected off, a number from 1 or a file");
    EXPECT_NE(error_of({{"response-store", "99999999999999999999"}}).find("expected off"), std::string::npos);
    EXPECT_NE(error_of({{"served-model-name", "a b"}}).find("without blanks"), std::string::npos);
    EXPECT_NE(error_of({{"alias", ""}}).find("without blanks"), std::string::npos);
    for (const char* origin : {"", "x", "example.com", "ftp://x", "https://", "https://x/", "https://x/y", "http://a b"}) {
        EXPECT_NE(error_of({{"allow-origin", origin}}).find("expected * or an origin"), std::string::npos) << origin;
    }
    for (const char* url : {"", "localhost:4318", "https://x", "http://", "http://:4318", "http://x:", "http://x:0",
                            "http://x:a", "http://x:70000", "http://u@x", "http://[::1", "http://x?y"}) {
        EXPECT_NE(error_of({{"otlp-endpoint", url}}).find("expected an address"), std::string::npos) << url;
    }
}

TEST(ServeSettings, CollectorsHaveTheirUsualPortAndIPv6Addresses) {
    EXPECT_EQ(options_of({{"otlp-endpoint", "http://collector"}})->otlp->port, 4318);
    const ServerOptions options = options_of({{"otlp-endpoint", "http://[::1]:99"}}).value();
    EXPECT_EQ(options.otlp->host, "::1");
    EXPECT_EQ(options.otlp->port, 99);
    EXPECT_EQ(options_of({{"otlp-endpoint", "http://[::1]"}})->otlp->port, 4318);
}

TEST(ServeSettings, WhatMakesNoSenseTogetherIsRefused) {
    EXPECT_EQ(error_of({{"tls-key", "k.pem"}}), "tls-key k.pem without tls-certificate, expected both or none");
    EXPECT_EQ(error_of({{"tls-certificate", "c.pem"}}), "tls-certificate c.pem without tls-key, expected both or none");
    EXPECT_NE(error_of({{"allow-private-image-hosts", "1"}}), "");
    EXPECT_NE(error_of({{"cache-isolation", "key"}}), "");
    EXPECT_NE(error_of({{"metrics-open", "1"}}), "");
    EXPECT_NE(error_of({{"host", ""}}), "");
}

TEST(ServeSettings, ListeningToOthersWithoutKeysIsAWarning) {
    EXPECT_EQ(server_warnings(*options_of({{"host", "0.0.0.0"}})).size(), 1U);
    EXPECT_EQ(server_warnings(*options_of({{"host", "127.example.com"}})).size(), 1U);
    EXPECT_TRUE(server_warnings(*options_of({{"host", "localhost"}})).empty());
    EXPECT_TRUE(server_warnings(*options_of({{"host", "::1"}})).empty());
    // Keys in clear text over a network.
    EXPECT_NE(server_warnings(*options_of({{"host", "0.0.0.0"}, {"api-key-file", "keys"}})).at(0).find("TLS"),
              std::string::npos);
    EXPECT_NE(server_warnings(*options_of({{"allow-faults", "1"}})).at(0).find("FAULTS"), std::string::npos);
}

TEST(ServeSettings, EverySettingIsAVariable) {
    for (const ServeSettingRow& row : serve_setting_rows()) {
        std::string name = "DEEPINFER_SERVE_";
        for (const char c : row.rule.name) {
            name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
        }
        EXPECT_TRUE(is_serve_variable(name));
        EXPECT_EQ(serve_variable(name, "x").row, &row) << name;
        EXPECT_EQ(serve_variable(name, "").row, nullptr) << "an empty value is as if the name were not set";
    }
    EXPECT_EQ(serve_variable("DEEPINFER_SERVE_ALIAS", "a,b").values, (std::vector<std::string>{"a", "b"}));
    EXPECT_EQ(serve_variable("DEEPINFER_SERVE_OTLP_ENDPOINT", "http://a,b").values.size(), 1U);
    EXPECT_EQ(serve_variable("DEEPINFER_SERVE_PROT", "1").warning, "unknown environment variable DEEPINFER_SERVE_PROT");
    EXPECT_FALSE(is_serve_variable("DEEPINFER_THREADS"));
    EXPECT_NE(serve_variable("DEEPINFER_THREADS", "1").warning, "");
}

}  // namespace
}  // namespace di
