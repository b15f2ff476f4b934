#pragma once

#include <cstddef>
#include <cstdint>

// Every bound of src/http that is no option, with its reason.
namespace di {

// One read of a socket: a TLS record, and small enough that thousands of idle connections cost little.
inline constexpr size_t kReadBytes = size_t{16} << 10;
// What a client may send ahead of its answer (pipelining); beyond it, its socket is left unread.
inline constexpr size_t kPipelinedBytesMax = size_t{64} << 10;
// Bodies on their way in, of all connections together, in bodies of the largest size: more is refused (503), so that
// thousands of slow uploads cannot fill the memory.
inline constexpr int64_t kBodiesTogetherMax = 16;
// After the last answer the client has this long to read it and to stop sending: closing at once would make the kernel
// throw the answer away (reset) while a body is still on its way.
inline constexpr double kLingerSeconds = 5.0;
// Clients beyond connections_max that get an answer instead of a closed socket.
inline constexpr int64_t kRefusedMax = 256;
// Without a free file handle the next client is accepted after this.
inline constexpr double kAcceptPauseSeconds = 0.05;
// Capacity that an idle connection may keep of its buffers.
inline constexpr size_t kKeptBufferBytes = size_t{64} << 10;

// Heads of the servers that images are fetched from: real ones have 1 or 2 KiB.
inline constexpr uint32_t kFetchHeaderBytesMax = 32u << 10;
// URLs beyond it are cut by many servers; browsers send no longer ones.
inline constexpr size_t kUrlBytesMax = 8192;
// Fetches that wait for their turn.
inline constexpr size_t kFetchesWaitingMax = 10'000;
// Look-ups of names under way: each holds a thread until the system's resolver gives up, which nothing can hasten.
inline constexpr int kLookupsMax = 32;
// Addresses of one host that are tried, and the time of each.
inline constexpr size_t kAddressesTriedMax = 4;
inline constexpr double kConnectSeconds = 3.0;
// Interim answers (100, 103) before the real one.
inline constexpr int kInterimAnswersMax = 8;

}  // namespace di
