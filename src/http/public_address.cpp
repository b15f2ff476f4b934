#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>

#include <arpa/inet.h>

#include "http/fetch.h"

// Which addresses are the Internet's (registries of special-purpose addresses, RFC 6890 and later).
namespace di {

namespace {

using Bytes4 = std::array<uint8_t, 4>;
using Bytes16 = std::array<uint8_t, 16>;

struct Range4 {
    Bytes4 first;
    int prefix_bits;
};

constexpr std::array<Range4, 15> kSpecial4{{
    {{0, 0, 0, 0}, 8},        // this network
    {{10, 0, 0, 0}, 8},       // private
    {{100, 64, 0, 0}, 10},    // shared by customers of a provider
    {{127, 0, 0, 0}, 8},      // loopback
    {{169, 254, 0, 0}, 16},   // link-local; where clouds keep their metadata
    {{172, 16, 0, 0}, 12},    // private
    {{192, 0, 0, 0}, 24},     // protocol assignments
    {{192, 0, 2, 0}, 24},     // documentation
    {{192, 88, 99, 0}, 24},   // relays of 6to4
    {{192, 168, 0, 0}, 16},   // private
    {{198, 18, 0, 0}, 15},    // benchmarks
    {{198, 51, 100, 0}, 24},  // documentation
    {{203, 0, 113, 0}, 24},   // documentation
    {{224, 0, 0, 0}, 4},      // multicast
    {{240, 0, 0, 0}, 4},      // reserved, broadcast
}};

struct Range6 {
    std::array<uint8_t, 6> first;
    int prefix_bits;
};

// Within 2000::/3, which is all that is given out; the rest is refused as a whole.
constexpr std::array<Range6, 3> kSpecial6{{
    {{0x20, 0x01, 0x00, 0x00, 0, 0}, 23},  // protocol assignments: Teredo (embeds IPv4), benchmarks, ORCHID
    {{0x20, 0x01, 0x0d, 0xb8, 0, 0}, 32},  // documentation
    {{0x3f, 0xff, 0x00, 0x00, 0, 0}, 20},  // documentation
}};

bool has_prefix(std::span<const uint8_t> address, std::span<const uint8_t> prefix, int bits) {
    for (int bit = 0; bit < bits; bit += 8) {
        const int left = std::min(8, bits - bit);
        const auto mask = static_cast<uint8_t>(0xff << (8 - left));
        if ((address[bit / 8] & mask) != (prefix[bit / 8] & mask)) {
            return false;
        }
    }
    return true;
}

bool is_public4(const Bytes4& address) {
    return std::none_of(kSpecial4.begin(), kSpecial4.end(),
                        [&](const Range4& range) { return has_prefix(address, range.first, range.prefix_bits); });
}

Bytes4 embedded4(const Bytes16& address, size_t begin) {
    return {address[begin], address[begin + 1], address[begin + 2], address[begin + 3]};
}

bool is_public6(const Bytes16& address) {
    constexpr std::array<uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};    // ::ffff:a.b.c.d
    constexpr std::array<uint8_t, 12> kNat64{0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0};  // 64:ff9b::a.b.c.d
    constexpr std::array<uint8_t, 2> k6to4{0x20, 0x02};                                     // 2002:aabb:ccdd::
    constexpr std::array<uint8_t, 1> kGlobal{0x20};
    if (has_prefix(address, kMapped, 96) || has_prefix(address, kNat64, 96)) {
        return is_public4(embedded4(address, 12));
    }
    if (has_prefix(address, k6to4, 16) && !is_public4(embedded4(address, 2))) {
        return false;
    }
    // ISATAP: the second half is 0:5efe:a.b.c.d or 200:5efe:a.b.c.d.
    const bool is_isatap = (address[8] & 0xfd) == 0 && address[9] == 0 && address[10] == 0x5e && address[11] == 0xfe;
    if (is_isatap && !is_public4(embedded4(address, 12))) {
        return false;
    }
    return has_prefix(address, kGlobal, 3) && std::none_of(kSpecial6.begin(), kSpecial6.end(), [&](const Range6& range) {
               return has_prefix(address, range.first, range.prefix_bits);
           });
}

}  // namespace

bool is_public_address(std::string_view address) {
    const std::string text(address);
    Bytes4 bytes4{};
    if (inet_pton(AF_INET, text.c_str(), bytes4.data()) == 1) {
        return is_public4(bytes4);
    }
    Bytes16 bytes16{};
    return inet_pton(AF_INET6, text.c_str(), bytes16.data()) == 1 && is_public6(bytes16);
}

}  // namespace di
