#pragma once

#include <cstddef>
#include <cstdint>

// Every bound of src/server that is no setting (settings.h), with its reason.
namespace di {

// Waiting requests where nothing is set: more would wait for minutes on any machine, each with its prompt in memory.
inline constexpr int64_t kWaitingRequestsMax = 4096;

// Files of keys and permissions: a site has some thousand keys of a hundred bytes.
inline constexpr int64_t kKeyFileBytesMax = int64_t{16} << 20;
inline constexpr size_t kKeysMax = 100'000;
// A key travels in a header of every request; a short one can be guessed.
inline constexpr size_t kKeyBytesMin = 8;
inline constexpr size_t kKeyBytesMax = 512;
// The name of a key stands in logs, metrics and stored responses.
inline constexpr size_t kKeyNameBytesMax = 64;
// Patterns are compared with every tool of a request.
inline constexpr size_t kToolPatternsMax = 1024;
inline constexpr size_t kToolPatternBytesMax = 128;
inline constexpr size_t kToolRulesMax = 10'000;

// Buckets of keys that do nothing are full; so many are looked at before one is made.
inline constexpr size_t kQuotaBucketsMax = kKeysMax;

// Responses that a chain may go back: far beyond any conversation. The text of them all: what a request's body may hold.
inline constexpr int64_t kResponseChainMax = 1000;
inline constexpr int64_t kResponseChainBytesMax = int64_t{64} << 20;
// What a stored response takes besides its texts.
inline constexpr int64_t kStoredResponseOverheadBytes = 512;
// Events of one background response that are kept: one a token of the longest output, and a few around them.
inline constexpr int64_t kStoredEventsMax = 500'000;

// Spans that wait for the collector, and of one message to it: some megabytes, some hundred kilobytes.
inline constexpr size_t kSpansWaitingMax = 8192;
inline constexpr size_t kSpansPerBatch = 512;

// Text work of requests: parsing, rendering, tokenising. Two threads keep up with thousands of requests a minute and leave the
// cores to the engine; what waits there holds its body in memory.
inline constexpr int kTextThreads = 2;
inline constexpr size_t kTextTasksMax = 4096;
// How often clients that wait are looked at.
inline constexpr double kTickSeconds = 1.0;
// A step this long is stuck: the longest honest ones take seconds.
inline constexpr int64_t kStepStuckUs = 120'000'000;
// When to try again: another server has taken over; the model has been loaded.
inline constexpr int kRetryAfterDrainS = 5;
inline constexpr int kRetryAfterUnreadyS = 5;
// Of the tools that a request declares and nobody runs: a line that a person reads.
inline constexpr size_t kLoggedToolTypesMax = 8;
// Some hundred tokens.
inline constexpr int64_t kSelftestFileBytesMax = int64_t{1} << 20;

}  // namespace di
