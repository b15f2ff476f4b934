#pragma once

#include <cstddef>
#include <cstdint>

// Limits of what the engine takes, each with its reason.
namespace di {

// Below this temperature a draw is the arg-max: the noise, scaled by it, is smaller than a float's step at usual logits.
inline constexpr double kGreedyTemperature = 1e-5;

// Checked at every token, so the list must stay short; services allow far fewer.
inline constexpr int64_t kStopTokenIdsMax = 1024;
// As many as services of this kind take; each is looked at for every row.
inline constexpr int64_t kLogitBiasMax = 1024;
inline constexpr double kLogitBiasValueMax = 100.0;
// A result carries them for every token.
inline constexpr int32_t kTopLogprobsMax = 1000;
// Samples of one prompt; each is a sequence.
inline constexpr int32_t kSamplesMax = 128;
// Above, every token that was used once is as good as banned.
inline constexpr double kRepetitionPenaltyMax = 10.0;
// A forced output is no longer than any context; keeps a bad request from holding memory for ever.
inline constexpr int64_t kGoldenTokenIdsMax = int64_t{1} << 22;

// Rows and sequences of a step: far above any machine of today, far below where products of them overflow.
inline constexpr int32_t kBatchedTokensMax = 1 << 20;
inline constexpr int32_t kSequencesMax = 1 << 16;
inline constexpr int32_t kSnapshotSlotsMax = 1 << 20;
// Positions are int32 and a step looks a little ahead of the last one.
inline constexpr int32_t kModelLengthMax = 1 << 30;

// Steps of one kind: above this share of used blocks no prompt starts, and a prompt has its turn every so many decode
// steps. The reference engine's numbers (engine.md 2).
inline constexpr double kPromptWatermark = 0.9;
inline constexpr int64_t kPromptStepInterval = 70;
// Users whose share is remembered; who has nothing waiting is forgotten beyond that.
inline constexpr int64_t kFairShareUsersMax = 10000;

// Rows of a prompt that even a step that is short of time has room for: prompts must end.
inline constexpr int32_t kPromptRowsLeast = 8;
// How often an engine with nothing else to do looks whether a constraint has been compiled.
inline constexpr int64_t kCompilePollUs = 200;

// Drafts of a round that room is made for when the model's own number is not known yet.
inline constexpr int32_t kDraftsMax = 8;
// Ten years: in microseconds it still fits.
inline constexpr double kDeadlineMsMax = 3.2e11;

// Defaults on a CPU: a step of 512 rows is long enough to read each weight once for many rows and short enough to keep
// running answers moving; more sequences than 16 gain nothing on its few cores.
inline constexpr int32_t kDefaultSequences = 16;
inline constexpr int32_t kDefaultBatchedTokens = 512;

// Steps that the cost of a step is learned from: minutes of decoding, so that a machine that has become busy or idle is
// believed soon, and enough of every number of rows. The slopes are looked at again this often, since that sorts them all.
inline constexpr size_t kCostSamples = 5000;
inline constexpr int64_t kCostRefreshSteps = 256;
// A slope is not taken from fewer steps of one number of rows, nor where they differ less than this share: the noise of the
// clock would be all of it.
inline constexpr size_t kSlopeSamplesMin = 10;
inline constexpr double kSlopeSpreadMin = 0.05;
// Share of what is left for caches that the ends of cached prefixes may take.
inline constexpr double kSnapshotShare = 0.25;
// Logit rows of a step for prompts that want them all; more come in further steps.
inline constexpr int32_t kPromptLogitRows = 64;

// Share of the memory that a plan may fill: text, logs, the allocator and the rest of the machine need some too.
inline constexpr double kMemoryShare = 0.9;

}  // namespace di
