#pragma once

#include <cstdint>

// Sizes at which the CPU backend changes its way of working. None changes a result.
namespace di::cpu {

// Threads of one backend: more than any machine has cores, few enough that starting them cannot fail halfway.
inline constexpr int kThreadsMax = 1024;

// Multiply-adds below which a loop stays on the calling thread: waking the
// team costs about half a microsecond, the time of some 10^4 multiply-adds.
inline constexpr int64_t kParallelWorkMin = 20'000;

// Rows of one pass of the expert layer. Every (row, slot) result is kept until the sum, in Flash
// 7 x 5120 floats a row: 512 rows hold 73 MB.
inline constexpr int64_t kMoeRowsMax = 512;

// Rows that share one decoding of a weight strip: enough to make its cost
// vanish, few enough that a narrow matrix still feeds many threads.
inline constexpr int64_t kLinearRowBlock = 128;

// Outputs of one work item of a product. A multiple of every tile width (3, 4, 6, 8).
inline constexpr int64_t kLinearOutputBlock = 24;
// Outputs of the one-row tile, which also is the work item where a matrix has too few outputs for the threads.
inline constexpr int64_t kLinearOutputTile = 8;

// Rows up to which a product reads the weights in their format; more rows share decoded strips (linear_body.h).
inline constexpr int64_t kDirectRowsMax = 4;

// Bytes of decoded weights that a thread works on at a time: half of a common L2.
inline constexpr int64_t kStripBytesMax = 256 * 1024;

// Index keys scored by one work item.
inline constexpr int64_t kIndexKeyBlock = 128;

// Heads of one attention work item.
inline constexpr int64_t kHeadBlock = 4;

// Keys that a work item of dense attention decodes at a time: 256 keys and values of 128 floats are half of a common L2.
inline constexpr int64_t kCausalKeyBlock = 256;
// Query rows of such an item: enough to share the decoding, few enough that a prompt feeds many threads.
inline constexpr int64_t kCausalRowBlock = 16;

// Query rows of one work item of the vision tower's attention.
inline constexpr int64_t kQueryBlock = 16;

// Rope tables kept from earlier calls: a step turns queries, keys, outputs and index vectors at the same
// positions with two sets of frequencies, compressed rows at others.
inline constexpr int64_t kRopeTablesMax = 8;

}  // namespace di::cpu
