#include "weights/engram_primes.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace di {

namespace {

__extension__ using Wide = unsigned __int128;  // holds the product of two 64-bit numbers

uint64_t multiply(uint64_t a, uint64_t b, uint64_t modulus) {
    return static_cast<uint64_t>(static_cast<Wide>(a) * b % modulus);
}

uint64_t power(uint64_t base, uint64_t exponent, uint64_t modulus) {
    uint64_t result = 1;
    for (base %= modulus; exponent != 0; exponent >>= 1) {
        if ((exponent & 1U) != 0) {
            result = multiply(result, base, modulus);
        }
        base = multiply(base, base, modulus);
    }
    return result;
}

// Miller-Rabin; these twelve bases decide every number below 3.3e24.
bool is_prime(uint64_t n) {
    constexpr std::array<uint64_t, 12> kBases{2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37};
    if (n < 2) {
        return false;
    }
    for (const uint64_t base : kBases) {
        if (n % base == 0) {
            return n == base;
        }
    }
    uint64_t odd = n - 1;
    int twos = 0;
    for (; odd % 2 == 0; odd /= 2) {
        ++twos;
    }
    return std::ranges::all_of(kBases, [&](uint64_t base) {
        uint64_t x = power(base, odd, n);
        bool is_witness_passed = x == 1 || x == n - 1;
        for (int i = 1; i < twos && !is_witness_passed; ++i) {
            x = multiply(x, x, n);
            is_witness_passed = x == n - 1;
        }
        return is_witness_passed;
    });
}

}  // namespace

std::vector<int64_t> primes_from(int64_t first, int64_t count) {
    DI_CHECK(first >= 0 && first <= int64_t{1} << 62, "primes are looked for among 62-bit numbers");
    std::vector<int64_t> primes;
    primes.reserve(static_cast<size_t>(count));
    for (int64_t candidate = first; static_cast<int64_t>(primes.size()) < count; ++candidate) {
        if (is_prime(static_cast<uint64_t>(candidate))) {
            primes.push_back(candidate);
        }
    }
    return primes;
}

}  // namespace di
