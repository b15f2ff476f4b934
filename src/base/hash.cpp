#include "base/hash.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <xxhash.h>

#include "base/check.h"

namespace di {

Hash128 hash_bytes(std::span<const std::byte> bytes) {
    const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
    return {.low = hash.low64, .high = hash.high64};
}

Digest256 sha256(std::string_view bytes) {
    Digest256 digest{};
    const unsigned char* done = SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
    DI_CHECK(done != nullptr, "SHA-256 is part of every OpenSSL");
    return digest;
}

std::optional<Digest256> parse_digest(std::string_view text) {
    Digest256 digest{};
    if (text.size() != 2 * digest.size()) {
        return std::nullopt;
    }
    for (size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0) {
            return std::nullopt;
        }
        digest[i / 2] = static_cast<uint8_t>(digest[i / 2] * 16 + digit);
    }
    return digest;
}

bool equal_in_constant_time(const Digest256& a, const Digest256& b) { return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0; }

}  // namespace di
