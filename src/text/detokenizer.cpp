#include "text/detokenizer.h"

#include <string_view>
#include <utility>

#include "text/unicode.h"

namespace di {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, bool skip_special) : tokenizer_(&tokenizer), skip_special_(skip_special) {}

std::string Detokenizer::push(int32_t id) {
    if (skip_special_ && tokenizer_->is_special(id)) {
        return {};
    }
    held_ += tokenizer_->token_bytes(id);
    std::string text;
    std::string_view rest = held_;
    while (!rest.empty()) {
        const Utf8Step step = utf8_step(rest);
        if (step.kind == Utf8Step::Kind::kIncomplete) {
            break;
        }
        append_utf8(text, step.code_point);
        rest.remove_prefix(step.length);
    }
    held_.erase(0, held_.size() - rest.size());
    return text;
}

std::string Detokenizer::finish() { return decode_lossy(std::exchange(held_, {})); }

}  // namespace di
