#include "text/output_rules_mask.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace di {
namespace {

// Owned by several masks (n > 1) and their source; nobody changes it.
struct SharedRules {
    OutputRules rules;
    std::vector<int32_t> end_token_ids;
};

class OutputRulesMask : public TokenMask {
  public:
    OutputRulesMask(std::shared_ptr<const SharedRules> shared, std::unique_ptr<TokenMask> inner)
        : shared_(std::move(shared)), inner_(std::move(inner)) {}

    [[nodiscard]] bool accept(int32_t token_id) override {
        if (is_finished() || !is_allowed(token_id) || (inner_ != nullptr && !inner_->accept(token_id))) {
            return false;
        }
        const OutputRules& rules = shared_->rules;
        if (reasoning_end_ < 0 && (token_id == rules.reasoning_end_id || token_id == rules.call_marker_id)) {
            reasoning_end_ = static_cast<int64_t>(tokens_.size());
        }
        tokens_.push_back(token_id);
        return true;
    }

    void rollback(int32_t count) override {
        DI_CHECK(count >= 0 && static_cast<size_t>(count) <= tokens_.size(), "a rollback of more tokens than were taken");
        tokens_.resize(tokens_.size() - static_cast<size_t>(count));
        if (reasoning_end_ >= static_cast<int64_t>(tokens_.size())) {
            reasoning_end_ = -1;
        }
        if (inner_ != nullptr && count > 0) {
            inner_->rollback(count);
        }
    }

    [[nodiscard]] bool fill(std::span<uint32_t> words) override {
        bool is_written = inner_ != nullptr && inner_->fill(words);
        if (!is_finished() && must_end_reasoning()) {
            std::fill(words.begin(), words.end(), 0U);
            set_bit(words, shared_->rules.reasoning_end_id, true);
            return true;
        }
        for (const std::vector<int32_t>& sequence : shared_->rules.banned_sequences) {
            if (!ends_before_last(sequence)) {
                continue;
            }
            if (!is_written) {
                std::fill(words.begin(), words.end(), ~0U);
                is_written = true;
            }
            set_bit(words, sequence.back(), false);
        }
        return is_written;
    }

    [[nodiscard]] bool is_finished() const override {
        if (inner_ != nullptr) {
            return inner_->is_finished();
        }
        const std::vector<int32_t>& ends = shared_->end_token_ids;
        return !tokens_.empty() && std::find(ends.begin(), ends.end(), tokens_.back()) != ends.end();
    }

    [[nodiscard]] std::unique_ptr<TokenMask> clone() const override {
        auto copy = std::make_unique<OutputRulesMask>(shared_, inner_ == nullptr ? nullptr : inner_->clone());
        copy->tokens_ = tokens_;
        copy->reasoning_end_ = reasoning_end_;
        return copy;
    }

  private:
    [[nodiscard]] bool must_end_reasoning() const {
        const std::optional<int64_t>& limit = shared_->rules.reasoning_tokens_max;
        return limit && reasoning_end_ < 0 && static_cast<int64_t>(tokens_.size()) >= *limit;
    }

    [[nodiscard]] bool is_allowed(int32_t token_id) const {
        if (must_end_reasoning()) {
            return token_id == shared_->rules.reasoning_end_id;
        }
        const auto& sequences = shared_->rules.banned_sequences;
        return std::none_of(sequences.begin(), sequences.end(), [&](const std::vector<int32_t>& sequence) {
            return sequence.back() == token_id && ends_before_last(sequence);
        });
    }

    // The output ends with all of the sequence but its last token.
    [[nodiscard]] bool ends_before_last(const std::vector<int32_t>& sequence) const {
        const size_t length = sequence.size() - 1;
        return length <= tokens_.size() &&
               std::equal(sequence.begin(), sequence.end() - 1, tokens_.end() - static_cast<std::ptrdiff_t>(length));
    }

    static void set_bit(std::span<uint32_t> words, int32_t token_id, bool value) {
        const auto id = static_cast<size_t>(token_id);
        DI_CHECK(token_id >= 0 && id / 32 < words.size(), "a rule names a token outside of the vocabulary");
        const uint32_t bit = 1U << (id % 32);
        words[id / 32] = value ? words[id / 32] | bit : words[id / 32] & ~bit;
    }

    std::shared_ptr<const SharedRules> shared_;
    std::unique_ptr<TokenMask> inner_;
    std::vector<int32_t> tokens_;  // of the output so far
    int64_t reasoning_end_ = -1;   // index of the token that ended the reasoning
};

class OutputRulesSource : public TokenMaskSource {
  public:
    OutputRulesSource(std::shared_ptr<const SharedRules> shared, std::shared_ptr<TokenMaskSource> inner)
        : shared_(std::move(shared)), inner_(std::move(inner)) {}

    [[nodiscard]] bool is_ready() const override { return inner_ == nullptr || inner_->is_ready(); }
    [[nodiscard]] Result<std::unique_ptr<TokenMask>> create() const override {
        std::unique_ptr<TokenMask> inner;
        if (inner_ != nullptr) {
            DI_TRY(inner, inner_->create());
        }
        return std::make_unique<OutputRulesMask>(shared_, std::move(inner));
    }
    void cancel() override {
        if (inner_ != nullptr) {
            inner_->cancel();
        }
    }

  private:
    std::shared_ptr<const SharedRules> shared_;
    std::shared_ptr<TokenMaskSource> inner_;
};

std::shared_ptr<const SharedRules> shared_rules(OutputRules rules, std::vector<int32_t> end_token_ids) {
    return std::make_shared<const SharedRules>(
        SharedRules{.rules = std::move(rules), .end_token_ids = std::move(end_token_ids)});
}

}  // namespace

std::unique_ptr<TokenMask> output_rules_mask(OutputRules rules, std::unique_ptr<TokenMask> inner,
                                             std::vector<int32_t> end_token_ids) {
    return std::make_unique<OutputRulesMask>(shared_rules(std::move(rules), std::move(end_token_ids)), std::move(inner));
}

std::shared_ptr<TokenMaskSource> output_rules_source(OutputRules rules, std::shared_ptr<TokenMaskSource> inner,
                                                     std::vector<int32_t> end_token_ids) {
    return std::make_shared<OutputRulesSource>(shared_rules(std::move(rules), std::move(end_token_ids)), std::move(inner));
}

}  // namespace di
