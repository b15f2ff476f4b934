#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

// Fetches images that clients name by URL, without being a door into the network that the server stands in.
namespace di {

struct FetchOptions {
    int64_t bytes_max = int64_t{20} << 20;
    double timeout_s = 10.0;  // from the call to the last byte, redirects included
    int redirects_max = 3;
    bool allows_private_hosts = false;
    int concurrent_max = 16;  // more wait for their turn, within their time
};

struct FetchFailure {
    bool is_clients_fault = true;  // bad URL, refused address, 404, too large; else upstream 5xx, timeout, DNS
    std::string text;
};

using FetchResult = tl::expected<std::string, FetchFailure>;

// http and https only, no user:password. The address is checked after resolution, at every redirect, and the connection goes to
// that very address: no private, loopback, link-local, shared, unspecified or multicast target, nor an IPv6 form that embeds
// one. No header of the client is passed on, no proxy of the environment used.
class Fetcher {
  public:
    [[nodiscard]] static std::unique_ptr<Fetcher> create(const FetchOptions& options);
    virtual ~Fetcher() = default;
    // Calls back on a thread of the fetcher, exactly once.
    virtual void fetch(std::string url, std::function<void(FetchResult)> done) = 0;
};

// Whether a resolved address ("10.0.0.1", "::ffff:7f00:1") may be fetched from.
[[nodiscard]] bool is_public_address(std::string_view address);

}  // namespace di
