#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "server/quotas.h"

// Who may use the service (docs/serving.md).
namespace di {

struct ApiKey {
    std::string name;  // what logs, metrics and stored responses call it
    bool is_admin = false;
    QuotaLimits quota{};
    std::optional<std::vector<std::string>> allowed_tools{};  // patterns; nothing: any
    int64_t priority = 0;                                     // added to that of its requests
    double deadline_s = 0.0;                                  // 0: none
    Digest256 digest{};                                       // of the key
};

// The keys of a file. Keys themselves are not kept, only their digests. A value type: reading the file again makes another.
class ApiKeys {
  public:
    // The error names line and field. `default_quota` holds for what a key does not say.
    [[nodiscard]] static Result<ApiKeys> open(const std::string& path, const QuotaLimits& default_quota);
    [[nodiscard]] static Result<ApiKeys> parse(std::string_view text, std::string_view name, const QuotaLimits& default_quota);

    // nullptr if nobody has this key. Takes the same time for any key of one length.
    [[nodiscard]] const ApiKey* find(std::string_view presented) const;
    [[nodiscard]] const std::vector<ApiKey>& keys() const { return keys_; }

  private:
    std::vector<ApiKey> keys_;
};

// What a request presents: the header x-api-key, else the token of "Authorization: Bearer TOKEN". "" if neither has one.
[[nodiscard]] std::string_view presented_key(std::string_view authorization, std::string_view x_api_key);

}  // namespace di
