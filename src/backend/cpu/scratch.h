#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>

#include "base/check.h"

namespace di::cpu {

// Memory that only grows, so that a step of a known shape allocates nothing. The content is whatever stood there.
class Buffer {
  public:
    // `count` values of T, 64-byte aligned, good until the next get().
    template <typename T>
    [[nodiscard]] T* get(int64_t count) {
        const int64_t bytes = count * static_cast<int64_t>(sizeof(T));
        if (bytes > bytes_) {
            const int64_t size = (bytes + bytes / 2 + 63) / 64 * 64;
            memory_.reset(std::aligned_alloc(64, static_cast<size_t>(size)));
            DI_CHECK(memory_ != nullptr, "no memory for the scratch of the CPU backend");
            bytes_ = size;
        }
        return static_cast<T*>(memory_.get());
    }

  private:
    struct Free {
        void operator()(void* memory) const { std::free(memory); }
    };
    std::unique_ptr<void, Free> memory_;
    int64_t bytes_ = 0;
};

// What one thread of the team works in. Named by use: two uses alive at once must not share a buffer.
struct ThreadScratch {
    Buffer strip;     // decoded weights
    Buffer keys;      // decoded cache rows
    Buffer pointers;  // to keys, values, queries, outputs
    Buffer scores;
    Buffer order;             // selections
    int64_t cached_row = -1;  // row whose keys stand in `keys`, within one call of an operation
    int64_t cached_count = 0;
};

}  // namespace di::cpu
