#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "weights/inventory.h"

namespace di {

// Random weights that cost almost nothing: matrices are stretches of address space over which a few prepared patterns
// of random codes repeat (the same pages mapped again and again), so that a 475 GiB model opens in a fraction of a second
// and takes some hundred MB. Norms, biases and other vectors are drawn one by one. Codes are always valid
// numbers, and scales make a matrix's values about as large as those of a fresh network. The bytes depend on seed and
// tensor list only. Because the pages repeat, resident memory and cache traffic are smaller than
// a real checkpoint's. Owns the memory; read-only.
class DummyMemory {
  public:
    [[nodiscard]] static Result<DummyMemory> make(const std::vector<ExpectedTensor>& tensors, StoredWeights stored,
                                                  uint64_t seed);

    DummyMemory(DummyMemory&& other) noexcept;
    DummyMemory& operator=(DummyMemory&& other) noexcept;
    DummyMemory(const DummyMemory&) = delete;
    DummyMemory& operator=(const DummyMemory&) = delete;
    ~DummyMemory();

    // Of tensor `index` of the list given to make().
    [[nodiscard]] const uint8_t* data(size_t index) const { return places_[index].data; }
    // Null when it has no scale.
    [[nodiscard]] const uint8_t* scale(size_t index) const { return places_[index].scale; }

  private:
    struct Place {
        const uint8_t* data = nullptr;
        const uint8_t* scale = nullptr;
    };
    struct Region {
        void* address = nullptr;
        int64_t bytes = 0;
    };
    DummyMemory() = default;
    void release();

    std::vector<Place> places_;
    std::vector<Region> regions_;
};

}  // namespace di
