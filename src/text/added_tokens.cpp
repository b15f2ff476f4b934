#include "text/added_tokens.h"

#include <algorithm>

#include "base/check.h"

namespace di {

AddedTokens::AddedTokens(const std::vector<AddedToken>& tokens) {
    for (const AddedToken& token : tokens) {
        DI_CHECK(!token.spelling.empty(), "an added token has a spelling");
        passes_[token.is_normalized ? 1 : 0].entries.push_back({token.spelling, token.id});
    }
    for (Pass& pass : passes_) {
        index(pass);
    }
}

std::vector<TextSegment> AddedTokens::split(std::string_view text) const {
    std::vector<TextSegment> segments;
    split_text(passes_[0], text, segments);
    if (passes_[1].entries.empty()) {
        return segments;
    }
    std::vector<TextSegment> finer;
    for (const TextSegment& segment : segments) {
        if (segment.token_id >= 0) {
            finer.push_back(segment);
        } else {
            split_text(passes_[1], segment.text, finer);
        }
    }
    return finer;
}

void AddedTokens::index(Pass& pass) {
    std::sort(pass.entries.begin(), pass.entries.end(), [](const Entry& a, const Entry& b) { return a.spelling < b.spelling; });
    for (const Entry& entry : pass.entries) {
        ++pass.first[static_cast<uint8_t>(entry.spelling[0]) + size_t{1}];
    }
    for (size_t byte = 0; byte < 256; ++byte) {
        pass.first[byte + 1] += pass.first[byte];
    }
}

// Narrows the sorted spellings byte by byte to those that the text starts with so far.
const AddedTokens::Entry* AddedTokens::longest_at(const Pass& pass, std::string_view text) {
    const auto lead = static_cast<uint8_t>(text[0]);
    auto begin = pass.entries.begin() + pass.first[lead];
    auto end = pass.entries.begin() + pass.first[lead + size_t{1}];
    const Entry* longest = nullptr;
    for (size_t depth = 1; begin != end; ++depth) {
        // A prefix sorts before its extensions, so the one complete spelling is first.
        if (begin->spelling.size() == depth) {
            longest = &*begin;
            ++begin;
        }
        if (depth == text.size()) {
            break;
        }
        const auto byte = static_cast<uint8_t>(text[depth]);
        const auto byte_at = [depth](const Entry& entry) { return static_cast<uint8_t>(entry.spelling[depth]); };
        begin = std::partition_point(begin, end, [&](const Entry& entry) { return byte_at(entry) < byte; });
        end = std::partition_point(begin, end, [&](const Entry& entry) { return byte_at(entry) <= byte; });
    }
    return longest;
}

void AddedTokens::split_text(const Pass& pass, std::string_view text, std::vector<TextSegment>& segments) {
    size_t start = 0;
    size_t position = 0;
    while (position < text.size()) {
        const auto lead = static_cast<uint8_t>(text[position]);
        const bool has_candidates = pass.first[lead] != pass.first[lead + size_t{1}];
        const Entry* entry = has_candidates ? longest_at(pass, text.substr(position)) : nullptr;
        if (entry == nullptr) {
            ++position;
            continue;
        }
        if (position > start) {
            segments.push_back({text.substr(start, position - start), -1});
        }
        segments.push_back({text.substr(position, entry->spelling.size()), entry->id});
        position += entry->spelling.size();
        start = position;
    }
    if (start < text.size()) {
        segments.push_back({text.substr(start), -1});
    }
}

}  // namespace di
