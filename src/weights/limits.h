#pragma once

#include <cstdint>

// Limits of what a model directory may ask of us, each with its reason. They stand far above every known model and far
// below what would overflow a product of dimensions or fill the memory while a file is being checked.
namespace di::limits {

// --- files ------------------------------------------------------------------

// config.json of every known model is below 10 KB.
inline constexpr int64_t kConfigBytesMax = 1 << 20;
// Flash's index has 96,085 names and 8 MB.
inline constexpr int64_t kIndexBytesMax = 256 << 20;
// The header limit of the safetensors format itself.
inline constexpr int64_t kHeaderBytesMax = 100'000'000;
// Configs and headers nest four deep; deeper files are made to exhaust a parser.
inline constexpr int kJsonNestingMax = 32;
// Text of a foreign value in an error message: enough to recognise it, short enough for one line.
inline constexpr int64_t kQuotedValueMax = 80;
// Real names have fewer than 60 characters.
inline constexpr int64_t kTensorNameBytesMax = 512;
// The format's models use at most 2 dimensions, the format's other users up to 5.
inline constexpr int64_t kTensorRankMax = 8;
// Twenty Flash models: bounds the memory of the tables made from a header.
inline constexpr int64_t kTensorCountMax = 2'000'000;
// Flash has 48 shards; each costs one mapping and one header.
inline constexpr int64_t kShardCountMax = 4096;

// Real GGUF files have some forty keys of some forty bytes; the format's own limit is 65,535 bytes.
inline constexpr int64_t kGgufKeyCountMax = 65'536;
inline constexpr int64_t kGgufKeyBytesMax = 65'535;
// The format asks for a power of two; everybody writes 32. Pages are enough for any mapping.
inline constexpr int64_t kGgufAlignmentMax = 1 << 16;
// Dimensions of a tensor, by the format.
inline constexpr int64_t kGgufRankMax = 4;

// NaN scale bytes are looked for when a checkpoint opens: always in the linears (0.1 % of their weights), and in the scales of
// routed experts and tables only while those are at most this big together (1 GiB of FP4 weights). Larger ones
// stay on the disk untouched: reading them would make a start as slow as reading the whole model (Flash: 22 GB of scales).
inline constexpr int64_t kScaleScanBytesMax = 64 << 20;

// --- config.json ------------------------------------------------------------

// The product of any two widths below fits 44 bits, so that bytes of a whole model fit 63.
inline constexpr int64_t kHiddenSizeMax = 1 << 17;
inline constexpr int64_t kLoraRankMax = 1 << 15;
inline constexpr int64_t kHeadCountMax = 1 << 10;
inline constexpr int64_t kHeadDimMax = 1 << 12;
inline constexpr int64_t kIntermediateSizeMax = 1 << 17;
inline constexpr int64_t kVocabSizeMax = 1 << 24;
inline constexpr int64_t kLayerCountMax = 1024;
inline constexpr int64_t kDraftStageCountMax = 16;
inline constexpr int64_t kExpertCountMax = 1 << 14;
inline constexpr int64_t kSharedExpertCountMax = 64;
// Experts of all layers and stages together (Flash: 15,744): they are what makes a tensor list long.
inline constexpr int64_t kExpertTotalMax = 1 << 18;
// Positions are int32 and get a few draft rows beyond the context.
inline constexpr int64_t kPositionsMax = 1 << 30;
// A window is kept in one ring per layer and sequence; 64 K rows of it are already 33 MB.
inline constexpr int64_t kSlidingWindowMax = 1 << 16;
inline constexpr int64_t kIndexTopkMax = 1 << 16;
inline constexpr int64_t kCandidateBlocksMax = 1 << 20;
// Streams are mixed by fixed-size loops over s * s values.
inline constexpr int64_t kStreamCountMax = 16;
inline constexpr int64_t kSinkhornItersMax = 1000;
// Engram: tables of 2^38 rows are a hundred times Flash's; primes above 2^40 are never meant. Layers, orders and heads
// together bound how many primes are looked for (7,168: some 0.1 s; Flash has 48).
inline constexpr int64_t kTableRowsMax = int64_t{1} << 38;
inline constexpr int64_t kEngramLayersMax = 16;
inline constexpr int64_t kNgramSizeMax = 8;
inline constexpr int64_t kEngramHeadsMax = 64;
inline constexpr int64_t kEngramVocabMax = int64_t{1} << 40;
// Drafted tokens of a round are rows of one step and bits of one mask.
inline constexpr int64_t kDraftBlockMax = 64;
// Vision.
inline constexpr int64_t kVisionHiddenMax = 1 << 15;
inline constexpr int64_t kPatchSizeMax = 256;
inline constexpr int64_t kDownsampleMax = 16;
inline constexpr int64_t kImageTokensMax = 1 << 16;
inline constexpr int64_t kMinPixelsMax = int64_t{1} << 32;

// --- dummy weights ----------------------------------------------------------

// Random bytes that are really made; larger tensors repeat them. 16,381 pages of 4 KiB (64 MiB): a prime, so that tensors
// whose sizes are round numbers do not all begin at the same place of the pattern. Big enough not to fit a core's caches.
inline constexpr int64_t kPatternPages = 4093;
inline constexpr int64_t kPageBytes = 4096;
// A run of one byte repeats anyway.
inline constexpr int64_t kConstantPages = 4096;

}  // namespace di::limits
