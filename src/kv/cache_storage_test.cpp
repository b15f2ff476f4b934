#include "kv/cache_storage.h"

#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

#include "backend/ref/ref_backend.h"

namespace di {
namespace {

// Counts what is taken and can run out.
class SmallBackend : public ref::RefBackend {
  public:
    explicit SmallBackend(int64_t limit) : RefBackend(BackendOptions{}), limit_(limit) {}
    void* allocate(int64_t bytes) override {
        if (bytes > limit_) {
            return nullptr;
        }
        ++live;
        return RefBackend::allocate(bytes);
    }
    void release(void* memory) override {
        --live;
        RefBackend::release(memory);
    }
    int live = 0;

  private:
    int64_t limit_;
};

TEST(CacheStorage, GivesZeroedMemoryAndTakesItBack) {
    SmallBackend backend(1 << 20);
    {
        auto storage =
            CacheStorage::allocate(backend, {.block_bytes = 100, .block_count = 7, .state_bytes = 30, .state_count = 3});
        ASSERT_TRUE(storage) << storage.error().text;
        for (int64_t i = 0; i < 700; ++i) {
            ASSERT_EQ(storage->blocks()[i], 0);
        }
        storage->blocks()[699] = 1;
        storage->states()[89] = 1;
        EXPECT_EQ(backend.live, 2);
        const CacheStorage moved = std::move(*storage);
        EXPECT_EQ(moved.blocks()[699], 1);
    }
    EXPECT_EQ(backend.live, 0);
}

TEST(CacheStorage, SaysWhatDoesNotFit) {
    SmallBackend backend(1000);
    const auto storage =
        CacheStorage::allocate(backend, {.block_bytes = 10, .block_count = 10, .state_bytes = 600, .state_count = 2});
    ASSERT_FALSE(storage);
    EXPECT_EQ(storage.error().code, ErrorCode::kOutOfMemory);
    EXPECT_NE(storage.error().text.find("2 cache state slots of 600 bytes (1200"), std::string::npos) << storage.error().text;
    EXPECT_EQ(backend.live, 0);
}

TEST(CacheStorage, PartsMayBeEmpty) {
    SmallBackend backend(1000);
    const auto storage =
        CacheStorage::allocate(backend, {.block_bytes = 0, .block_count = 10, .state_bytes = 8, .state_count = 1});
    ASSERT_TRUE(storage);
    EXPECT_EQ(storage->blocks(), nullptr);
    EXPECT_NE(storage->states(), nullptr);
}

TEST(CacheStorage, RefusesAProductThatOverflows) {
    SmallBackend backend(1000);
    const auto storage = CacheStorage::allocate(
        backend,
        {.block_bytes = std::numeric_limits<int64_t>::max() / 2, .block_count = 3, .state_bytes = 1, .state_count = 1});
    ASSERT_FALSE(storage);
    EXPECT_EQ(storage.error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace di
