#pragma once

#include <cstdint>
#include <string>

namespace di {

// Bytes of main memory that this process may still take: what the machine has available, and what is left of the
// container's limit where there is one. 0 when the system does not say.
[[nodiscard]] int64_t available_memory_bytes();

// Value in bytes of `key` ("MemAvailable") in the text of /proc/meminfo; -1 when it is not there.
[[nodiscard]] int64_t meminfo_bytes(const std::string& text, const std::string& key);

// "1.5 GiB", "317 B": for people.
[[nodiscard]] std::string format_bytes(int64_t bytes);

}  // namespace di
