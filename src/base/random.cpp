#include "base/random.h"

#include <random>

namespace di {

uint64_t SystemRandom::next() {
    std::random_device device;
    const uint64_t high = device();
    return (high << 32) | device();
}

}  // namespace di
