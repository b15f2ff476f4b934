#include "kv/cache_storage.h"

#include <string_view>
#include <utility>

namespace di {

namespace {

Result<DeviceMemory> allocate_part(Backend& backend, std::string_view what, int64_t count, int64_t bytes) {
    int64_t total = 0;
    if (count < 0 || bytes < 0 || __builtin_mul_overflow(count, bytes, &total)) {
        return fail(ErrorCode::kInvalidArgument, "{} cache {} of {} bytes are more than can be addressed", count, what, bytes);
    }
    DeviceMemory memory = allocate_device(backend, total);
    if (total > 0 && memory == nullptr) {
        return fail(ErrorCode::kOutOfMemory, "no memory for {} cache {} of {} bytes ({} bytes in all)", count, what, bytes,
                    total);
    }
    return memory;
}

}  // namespace

Result<CacheStorage> CacheStorage::allocate(Backend& backend, const CacheSize& size) {
    DI_TRY(DeviceMemory blocks, allocate_part(backend, "blocks", size.block_count, size.block_bytes));
    DI_TRY(DeviceMemory states, allocate_part(backend, "state slots", size.state_count, size.state_bytes));
    return CacheStorage(size, std::move(blocks), std::move(states));
}

}  // namespace di
