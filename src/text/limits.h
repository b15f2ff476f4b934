#pragma once

#include <cstddef>
#include <cstdint>

// Every bound on what src/text takes from outside, with its reason.
namespace di {

// tokenizer.json: the largest known ones are 35 MB; a DOM of it takes about ten times its size.
inline constexpr size_t kTokenizerFileBytesMax = size_t{128} << 20;
// tokenizer.json needs 6 levels ("model" -> "merges" -> pair); a deeper file is an attack on the parser.
inline constexpr int kTokenizerJsonDepthMax = 32;
// Ids index tables of this size. The largest public vocabulary has 262,144 entries.
inline constexpr int64_t kVocabularySizeMax = int64_t{1} << 22;
// Ids may have holes, but a tiny file must not make us allocate tables for millions of ids.
inline constexpr int64_t kUnusedIdsMax = 65'536;
// Spelling of one token. Real ones reach a few hundred bytes (runs of blanks).
inline constexpr size_t kTokenBytesMax = 16'384;
// Patterns of the pre-tokenizer: real files have one to four, of up to 400 bytes.
inline constexpr size_t kSplitPatternsMax = 16;
inline constexpr size_t kSplitPatternBytesMax = 16'384;
// Text of one encode call: six times what fills a context of 1 M tokens.
inline constexpr size_t kEncodeTextBytesMax = size_t{32} << 20;
// Steps of the regex engine on one piece. The known patterns need a few steps per byte; a pattern that backtracks
// more often than this would take minutes on long input, so the text is refused.
inline constexpr uint32_t kRegexStepsBase = 100'000;
inline constexpr uint32_t kRegexStepsPerByte = 64;
// Heap of the regex interpreter (used only where the JIT's own 32 KiB do not suffice), in KiB.
inline constexpr uint32_t kRegexHeapKibibytesMax = 65'536;
// Piece cache: entries per shard and the longest piece worth keeping; 16 shards, some megabytes in all.
inline constexpr size_t kPieceCacheEntriesMax = 8'192;
inline constexpr size_t kPieceCacheBytesMax = 64;

// An encoded image: larger than any camera's file, smaller than what hurts a request queue.
inline constexpr size_t kImageBytesMax = size_t{64} << 20;
// Side and area as claimed by the header, checked before anything is allocated. The side is JPEG's own limit, the
// area Pillow's threshold for a decompression bomb: 256 MiB of RGB.
inline constexpr int64_t kImageSideMax = 65'535;
inline constexpr int64_t kImagePixelsMax = 89'478'485;
// Sides that the layout rule accepts: more than any file may claim, and products stay exact in a double.
inline constexpr int64_t kPlannedSideMax = 1 << 24;
// Geometry from a config: far above any checkpoint's (patch 14, downsample 3, 1024 tokens), low enough that no
// product overflows.
inline constexpr int64_t kPatchSizeMax = 256;
inline constexpr int64_t kDownsampleRatioMax = 64;
inline constexpr int64_t kImageTokensMax = 65'536;
inline constexpr int64_t kMinPixelsMax = 100'000'000;
// A canvas may be far larger than its image (min_pixels, a thin strip): 3 bytes here, 12 as patches.
inline constexpr int64_t kCanvasPixelsMax = 64'000'000;

// Deepest nesting of a JSON text from a client. Nothing that people send is a tenth as deep; parsing and walking
// recurse, so this bounds the stack. The HTTP interface promises this number.
inline constexpr int64_t kJsonDepthMax = 128;
// Most values in one JSON text. A value takes up to 48 bytes of memory and can be two bytes of text ("0,"), so
// without this a body would grow 24 times. A batch of four prompts of a million token ids fits.
inline constexpr int64_t kJsonValuesMax = 4'000'000;

// A schema, grammar or list of choices as text: compiling costs far more than its size. Regular expressions are shorter.
inline constexpr size_t kGrammarBytesMax = size_t{1} << 20;
inline constexpr size_t kPatternBytesMax = 32'768;
// Nesting of groups in a regular expression or grammar: everything that walks one recurses. Nobody writes a tenth of it.
inline constexpr int kGrammarDepthMax = 100;
// One bound of a repetition, and everything with all repetitions written out: the compiler's time and memory grow with
// the product. Lengths of strings in a schema are counted instead and may be larger.
inline constexpr int64_t kRepetitionMax = 10'000;
inline constexpr int64_t kGrammarWeightMax = 200'000;
inline constexpr int64_t kSchemaLengthMax = 1'000'000;
// Finding rules that never end takes rules times size in the worst case.
inline constexpr size_t kGrammarRulesMax = 1'000;
// Regular expressions up to this size become one automaton: a node more costs about 10 ms of compile time, and every
// token is fast; beyond it the general form is used.
inline constexpr int64_t kPatternSizeMax = 200;
// Schema nodes looked at, references followed again each time: bounds schemas that unfold to something huge.
inline constexpr int64_t kSchemaNodesMax = 10'000;
// Schemas within each other, references followed where they do not stand alone: everything that walks them recurses.
inline constexpr int kSchemaDepthMax = 100;
// Alternatives that a combination of anyOf, oneOf and allOf unfolds to.
inline constexpr size_t kSchemaAlternativesMax = 256;
// References followed while schemas are merged: deeper is a circle.
inline constexpr int kSchemaMergeDepthMax = 32;

// Stop strings are searched in every piece of output; the number is DeepSeek's, the length is far above real ones.
inline constexpr size_t kStopStringsMax = 16;
inline constexpr size_t kStopStringBytesMax = 1024;

// Declared arguments of all tools that are not strict: each is some states of the grammar of calls. Beyond it keys and types
// of these tools are free, so that a request with hundreds of tools still compiles in time.
inline constexpr size_t kTypedArgumentsMax = 1'000;
// Arguments of such tools whose schemas say more than a type. Beyond it types alone are held to.
inline constexpr size_t kArgumentSchemasMax = 50;
// Required arguments of such a tool that may come in any order, each subset being a rule. More of them come as declared.
inline constexpr size_t kAnyOrderMax = 4;
// Bytes of the declared keys of such tools that take further keys, too: a key that is none of them costs the compiler a look
// at the whole vocabulary for each byte (0.1 s at 129,280 tokens). Beyond it keys and types of these tools are free.
inline constexpr size_t kOpenKeyBytesMax = 24;

// A compiled grammar whose masks take longer than this on average is refused: every sequence of the batch waits for them.
inline constexpr int64_t kMaskMicrosecondsMax = 20'000;
// Grammars that wait for a compiling thread: a thousand take a minute, longer than any of them may wait.
inline constexpr size_t kGrammarQueueMax = 1'000;

}  // namespace di
