#pragma once

#include <cstdint>

#include "base/result.h"
#include "backend/device_memory.h"

namespace di {

struct CacheSize {
    int64_t block_bytes = 0;  // 0: blocks hold nothing
    int64_t block_count = 0;
    int64_t state_bytes = 0;
    int64_t state_count = 0;
};

// The memory behind two pools, blocks and state slots, in one piece each. Owns it; the backend must outlive it.
class CacheStorage {
  public:
    // kOutOfMemory names what did not fit.
    [[nodiscard]] static Result<CacheStorage> allocate(Backend& backend, const CacheSize& size);

    [[nodiscard]] const CacheSize& size() const { return size_; }
    [[nodiscard]] uint8_t* blocks() const { return static_cast<uint8_t*>(blocks_.get()); }  // [block_count, block_bytes]
    [[nodiscard]] uint8_t* states() const { return static_cast<uint8_t*>(states_.get()); }  // [state_count, state_bytes]

  private:
    CacheStorage(const CacheSize& size, DeviceMemory blocks, DeviceMemory states)
        : size_(size), blocks_(std::move(blocks)), states_(std::move(states)) {}

    CacheSize size_;
    DeviceMemory blocks_;
    DeviceMemory states_;
};

}  // namespace di
