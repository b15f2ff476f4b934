#include "server/api_keys.h"

#include <algorithm>
#include <map>

#include "base/file_io.h"
#include "server/limits.h"
#include "server/record_file.h"

namespace di {
namespace {

constexpr std::string_view kFields =
    "name key key_sha256 admin requests_per_minute tokens_per_minute concurrent allowed_tools priority deadline_s";
constexpr int64_t kQuotaMax = 1'000'000'000'000;
constexpr int64_t kPriorityMax = 1'000'000;
constexpr double kDeadlineMax = 1e6;

bool is_name(std::string_view text) {
    return !text.empty() && text.size() <= kKeyNameBytesMax && std::all_of(text.begin(), text.end(), [](unsigned char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
    });
}

bool is_key(std::string_view text) {
    return text.size() >= kKeyBytesMin && text.size() <= kKeyBytesMax &&
           std::all_of(text.begin(), text.end(), [](unsigned char c) { return c > 0x20 && c < 0x7F; });
}

// Never with the value: this ends in a log.
Result<Digest256> digest_of(const JsonReader& reader) {
    if (reader.has("key") == reader.has("key_sha256")) {
        return fail(ErrorCode::kInvalidFile, "{}, expected one of them",
                    reader.has("key") ? "both key and key_sha256" : "neither key nor key_sha256");
    }
    const JsonValue& value = reader.has("key") ? *reader.find("key") : *reader.find("key_sha256");
    if (reader.has("key")) {
        if (!value.is_string() || !is_key(value.as_string())) {
            return fail(ErrorCode::kInvalidFile, "key: expected a string of {} to {} printable characters without blanks",
                        kKeyBytesMin, kKeyBytesMax);
        }
        return sha256(value.as_string());
    }
    const std::optional<Digest256> digest = value.is_string() ? parse_digest(value.as_string()) : std::nullopt;
    if (!digest) {
        return fail(ErrorCode::kInvalidFile, "key_sha256: expected a string of 64 hexadecimal digits");
    }
    return *digest;
}

Result<ApiKey> key_of(const FileRecord& record, const QuotaLimits& default_quota) {
    DI_TRY(const JsonReader reader, JsonReader::open(record.value, ""));
    ApiKey key;
    DI_TRY(key.name, reader.required_string("name"));
    if (!is_name(key.name)) {
        return reader.wrong("name", fmt::format("1 to {} letters, digits, dots, underscores and hyphens", kKeyNameBytesMax));
    }
    DI_TRY(key.digest, digest_of(reader));
    DI_TRY(key.is_admin, reader.boolean_or("admin", false));
    static constexpr IntegerRange kQuotaRange{.low = 0, .high = kQuotaMax};
    DI_TRY(const auto requests, reader.integer("requests_per_minute", kQuotaRange));
    DI_TRY(const auto tokens, reader.integer("tokens_per_minute", kQuotaRange));
    DI_TRY(const auto concurrent, reader.integer("concurrent", kQuotaRange));
    key.quota = {.requests_per_minute = requests.value_or(default_quota.requests_per_minute),
                 .tokens_per_minute = tokens.value_or(default_quota.tokens_per_minute),
                 .concurrent = concurrent.value_or(default_quota.concurrent)};
    if (reader.has("allowed_tools")) {
        DI_TRY(key.allowed_tools, string_list(reader, "allowed_tools", kToolPatternsMax, kToolPatternBytesMax));
    }
    DI_TRY(const auto priority, reader.integer("priority", {.low = -kPriorityMax, .high = kPriorityMax}));
    key.priority = priority.value_or(0);
    DI_TRY(const auto deadline, reader.number("deadline_s", {.low = 0.0, .high = kDeadlineMax, .excludes_low = true}));
    key.deadline_s = deadline.value_or(0.0);
    return key;
}

}  // namespace

Result<ApiKeys> ApiKeys::open(const std::string& path, const QuotaLimits& default_quota) {
    DI_TRY(const std::string text, read_file(path, kKeyFileBytesMax));
    return parse(text, path, default_quota);
}

Result<ApiKeys> ApiKeys::parse(std::string_view text, std::string_view name, const QuotaLimits& default_quota) {
    DI_TRY(const std::vector<FileRecord> records, parse_records(text, name));
    if (records.empty() || records.size() > kKeysMax) {
        return fail(ErrorCode::kInvalidFile, "{}: {} keys, expected 1 to {}", name, records.size(), kKeysMax);
    }
    ApiKeys keys;
    std::map<std::string, std::string> names;  // name -> place
    std::map<Digest256, std::string> digests;  // digest -> place
    for (const FileRecord& record : records) {
        DI_TRY_STATUS(check_members(record, kFields));
        Result<ApiKey> key = key_of(record, default_quota);
        if (!key) {
            return fail_in(record.place, {ErrorCode::kInvalidFile, key.error().text});
        }
        if (const auto [other, is_new] = names.emplace(key->name, record.place); !is_new) {
            return fail(ErrorCode::kInvalidFile, "{}: name: \"{}\" stands twice, expected a name of its own (first: {})",
                        record.place, key->name, other->second);
        }
        if (const auto [other, is_new] = digests.emplace(key->digest, record.place); !is_new) {
            return fail(ErrorCode::kInvalidFile, "{}: key: stands twice, expected a key of its own (first: {})", record.place,
                        other->second);
        }
        keys.keys_.push_back(std::move(*key));
    }
    return keys;
}

const ApiKey* ApiKeys::find(std::string_view presented) const {
    const Digest256 digest = sha256(presented);
    const ApiKey* found = nullptr;
    for (const ApiKey& key : keys_) {  // all of them: where the right one stands must not show
        found = equal_in_constant_time(key.digest, digest) ? &key : found;
    }
    return found;
}

std::string_view presented_key(std::string_view authorization, std::string_view x_api_key) {
    if (!x_api_key.empty()) {
        return x_api_key;
    }
    static constexpr std::string_view kScheme = "bearer ";
    const bool is_bearer = authorization.size() > kScheme.size() &&
                           std::equal(kScheme.begin(), kScheme.end(), authorization.begin(), [](char wanted, char given) {
                               return wanted == (given >= 'A' && given <= 'Z' ? static_cast<char>(given + 32) : given);
                           });
    if (!is_bearer) {
        return {};
    }
    authorization.remove_prefix(kScheme.size());
    const size_t begin = std::min(authorization.find_first_not_of(' '), authorization.size());
    return authorization.substr(begin);
}

}  // namespace di
