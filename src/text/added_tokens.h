#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace di {

// A token with a spelling of its own that no merge makes: BOS, `<think>`, ...
struct AddedToken {
    int32_t id;
    std::string spelling;
    bool is_special;                // left out by decoding with skip_special
    bool is_normalized;             // looked for in the second pass, see AddedTokens
    bool is_in_plain_text = false;  // found also where added tokens are not to be recognized (GGUF: user-defined)
};

// A stretch of text: an added token, or text between them.
struct TextSegment {
    std::string_view text;
    int32_t token_id;  // -1: ordinary text
};

// Finds added tokens in text: exact, case-sensitive, the longest spelling at the leftmost position. First all tokens with
// is_normalized false in the whole text, then the others in what is left between them.
class AddedTokens {
  public:
    // Spellings must not be empty and must differ.
    explicit AddedTokens(const std::vector<AddedToken>& tokens);

    // The segments of `text` in order, none empty; they point into it.
    [[nodiscard]] std::vector<TextSegment> split(std::string_view text) const;

  private:
    struct Entry {
        std::string spelling;
        int32_t id;
    };
    // One pass: spellings in ascending order, and where those of each first byte begin.
    struct Pass {
        std::vector<Entry> entries;
        std::array<uint32_t, 257> first{};
    };

    static void index(Pass& pass);
    static const Entry* longest_at(const Pass& pass, std::string_view text);
    static void split_text(const Pass& pass, std::string_view text, std::vector<TextSegment>& segments);

    std::array<Pass, 2> passes_;
};

}  // namespace di
