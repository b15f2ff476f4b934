#include "text/prompt_writer.h"

#include <algorithm>
#include <utility>

#include "text/chat_tokens.h"

namespace di {

void PromptWriter::special(std::string_view spelling) {
    const auto begin = static_cast<int64_t>(prompt_.text.size());
    prompt_.text += spelling;
    prompt_.special_ranges.push_back({.begin = begin, .end = begin + static_cast<int64_t>(spelling.size())});
}

void PromptWriter::template_text(std::string_view text) {
    while (true) {
        size_t nearest = text.size();
        std::string_view found;
        for (const std::string_view token : {kToolMarkerToken, kThinkToken, kThinkEndToken}) {
            if (const size_t at = text.find(token); at < nearest) {
                nearest = at;
                found = token;
            }
        }
        plain(text.substr(0, nearest));
        if (found.empty()) {
            return;
        }
        special(found);
        text.remove_prefix(nearest + found.size());
    }
}

void PromptWriter::image(ImageReference reference) {
    reference.range_index = static_cast<int64_t>(prompt_.special_ranges.size());
    special(kImageToken);
    prompt_.images.push_back(reference);
}

EncodedPrompt PromptWriter::finish(EncodedPrompt ending) {
    ending.text = std::move(prompt_.text);
    ending.special_ranges = std::move(prompt_.special_ranges);
    ending.images = std::move(prompt_.images);
    return ending;
}

}  // namespace di
