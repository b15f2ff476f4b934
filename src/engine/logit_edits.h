#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/sample_row.h"

namespace di {

// What a request does to logits before temperature and filters, in this order:
//   bans      banned_token_ids, end tokens before min_tokens, all but allowed_token_ids and end tokens: -inf
//   bias      logit + bias, entries of one token add up
//   penalties of tokens in prompt or output: logit / r if positive, else * r; then, of tokens in the output,
//             logit - presence_penalty - frequency_penalty * count
//   mask      what it does not allow: -inf
// Sums and products that leave the range of float become its largest numbers. Holds scratch memory only.
class LogitEditor {
  public:
    explicit LogitEditor(int64_t vocab_size);

    // The row's own logits where nothing changes, else a changed copy that is valid until the next call.
    [[nodiscard]] std::span<const float> edit(const SampleRow& row);

  private:
    void add_bias(const SamplingParams& params);
    void penalise(const SampleRow& row);
    void ban(const SampleRow& row);
    void keep_allowed(std::span<const uint32_t> words);

    std::vector<float> values_;    // [vocab]
    std::vector<uint32_t> words_;  // [ceil(vocab / 32)] of allowed ids
};

}  // namespace di
