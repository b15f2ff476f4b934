#pragma once

#include <cstddef>
#include <cstdint>

#include "text/limits.h"

// Every bound on what a request may ask for, with its reason; those on stop strings stand in text/limits.h.
namespace di {

// Longest output of one request: the maximum of DeepSeek's own service.
inline constexpr int64_t kOutputTokensMax = 393'216;
// Choices of one request: each holds cache and a row of every step.
inline constexpr int64_t kChoicesMax = 16;
// Alternatives a token, as in OpenAI's interface.
inline constexpr int64_t kTopLogprobsMax = 20;
// Entries of logit_bias, as in OpenAI's interface.
inline constexpr size_t kLogitBiasEntriesMax = 300;
// Lists of token ids (stop, allowed, forced): no vocabulary is larger, no output longer.
inline constexpr size_t kTokenListMax = 1 << 20;
inline constexpr int64_t kTokenIdMax = 0x7fff'ffff;  // the type of an id; the vocabulary is checked where it is known
// Strings of bad_words: each is searched in every step.
inline constexpr size_t kBadWordsMax = 1024;
// Messages of one conversation; also items of a Responses input and parts of one message.
inline constexpr size_t kMessagesMax = 10'000;
// Images of one request: each is a tower run and up to a thousand positions.
inline constexpr size_t kRequestImagesMax = 600;
// Tools, the length of a name, and the JSON text of all schemas together: they all go into the prompt.
inline constexpr size_t kToolsMax = 1024;
inline constexpr size_t kToolNameBytesMax = 128;
inline constexpr size_t kToolSchemaBytesMax = size_t{1} << 20;
// Schema, regex or grammar of the answer: compiling costs far more than its size.
inline constexpr size_t kFormatBytesMax = size_t{1} << 20;
// Names and keys that are compared or logged: model, request id, cache key.
inline constexpr size_t kNameBytesMax = 1024;
// A request id is echoed in headers and written into every log line.
inline constexpr size_t kRequestIdBytesMax = 128;
// Prompts of one completions request: with the choices of each they all run at once.
inline constexpr size_t kPromptsMax = 256;
// A pause that a test may ask for: longer ones only tie up the engine.
inline constexpr int64_t kFaultPauseMsMax = 600'000;

}  // namespace di
