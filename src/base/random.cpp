#include "base/random.h"

#include <random>

namespace di {

uint64_t SystemRandom::next() {
    // Opening one asks the processor what it is, which a virtual machine answers slowly: once a thread.
    thread_local std::random_device device;
    const uint64_t high = device();
    return (high << 32) | device();
}

}  // namespace di
