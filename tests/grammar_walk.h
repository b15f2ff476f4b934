#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/token_mask.h"
#include "text/grammar.h"
#include "text/tokenizer.h"

// A stand-in for a model: draws tokens that a mask allows, with a taste for what comes to an end.
namespace di {

// Waits until it is compiled; a test that waits for ever has found a hang.
inline Result<std::unique_ptr<TokenMask>> compiled_mask(GrammarCompiler& compiler, const GrammarSpec& spec) {
    Result<std::shared_ptr<TokenMaskSource>> source = compiler.submit(spec);
    if (!source) {
        return tl::unexpected<Error>(source.error());
    }
    while (!(*source)->is_ready()) {
        std::this_thread::yield();
    }
    return (*source)->create();
}

struct GrammarWalk {
    std::string text;
    std::vector<int32_t> token_ids;  // without the end token
    bool has_ended = false;
    bool is_dead = false;  // no token was allowed
};

class GrammarWalker {
  public:
    GrammarWalker(const Tokenizer& tokenizer, int64_t vocab_size, int32_t end_token_id, uint64_t seed)
        : tokenizer_(tokenizer), end_(end_token_id), words_(static_cast<size_t>((vocab_size + 31) / 32)), random_(seed) {}

    // Tokens that are drawn in a row when the walk wants to end: what chance would hardly ever spell.
    void set_hint(std::vector<int32_t> token_ids) { hint_ = std::move(token_ids); }

    GrammarWalk walk(TokenMask& mask, size_t tokens_max) {
        GrammarWalk result;
        while (result.token_ids.size() < tokens_max) {
            const std::optional<int32_t> id = pick(mask, result.token_ids.size());
            if (!id || !mask.accept(*id)) {
                result.is_dead = true;
                return result;
            }
            if (*id == end_) {
                result.has_ended = true;
                return result;
            }
            result.token_ids.push_back(*id);
            result.text += tokenizer_.token_bytes(*id);
        }
        return result;
    }

    // None: a dead end. `position` tokens have been drawn: the longer, the more it wants to end.
    std::optional<int32_t> pick(TokenMask& mask, size_t position) {
        std::vector<int32_t> allowed;
        if (!mask.fill(words_)) {
            std::fill(words_.begin(), words_.end(), ~0U);
        }
        for (int32_t id = 0; id < static_cast<int32_t>(tokenizer_.vocabulary_size()); ++id) {
            if (is_set(id) && (id == end_ || !tokenizer_.token_bytes(id).empty())) {
                allowed.push_back(id);
            }
        }
        if (allowed.empty()) {
            return std::nullopt;
        }
        const double patience = position < 40 ? 0.25 : position < 100 ? 0.7 : 0.98;
        const bool wants_end = std::uniform_real_distribution<>(0.0, 1.0)(random_) < patience;
        if ((wants_end || hinted_ > 0) && hinted_ < hint_.size() && is_set(hint_[hinted_])) {
            return hint_[hinted_++];
        }
        if (wants_end) {
            if (is_set(end_)) {
                return end_;
            }
            std::vector<int32_t> closing;
            for (const std::string_view text : {"\"", "}", "]", ")", ";", ">", "0", "null", ",", ":", ".", "x"}) {
                if (const auto id = tokenizer_.find(text); id && is_set(*id)) {
                    closing.push_back(*id);
                }
            }
            if (!closing.empty()) {
                // Mostly the first: brackets close before anything is opened.
                const size_t index = std::geometric_distribution<size_t>(0.7)(random_);
                return closing[std::min(index, closing.size() - 1)];
            }
        }
        return allowed[std::uniform_int_distribution<size_t>(0, allowed.size() - 1)(random_)];
    }

    [[nodiscard]] const std::vector<uint32_t>& words() const { return words_; }

  private:
    [[nodiscard]] bool is_set(int32_t id) const {
        return ((words_[static_cast<size_t>(id) / 32] >> (static_cast<uint32_t>(id) % 32)) & 1U) != 0;
    }

    const Tokenizer& tokenizer_;
    int32_t end_;
    std::vector<uint32_t> words_;
    std::mt19937_64 random_;
    std::vector<int32_t> hint_;
    size_t hinted_ = 0;
};

}  // namespace di
