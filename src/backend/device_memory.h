#pragma once

#include <cstdint>
#include <memory>

#include "backend/backend.h"

namespace di {

struct DeviceRelease {
    Backend* backend = nullptr;
    void operator()(void* memory) const { backend->release(memory); }
};

// Owns memory of a backend, which must outlive it.
using DeviceMemory = std::unique_ptr<void, DeviceRelease>;

// Null when there is none left, or for 0 bytes.
[[nodiscard]] inline DeviceMemory allocate_device(Backend& backend, int64_t bytes) {
    return {bytes > 0 ? backend.allocate(bytes) : nullptr, DeviceRelease{&backend}};
}

}  // namespace di
