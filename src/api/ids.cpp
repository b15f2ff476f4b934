#include "api/ids.h"

#include <algorithm>

#include <fmt/format.h>

#include "api/limits.h"

namespace di {

std::string new_id(std::string_view prefix, Random& random) {
    const uint64_t high = random.next();
    const uint64_t low = random.next();
    return fmt::format("{}{:016x}{:016x}", prefix, high, low);
}

std::string new_call_id(int32_t index, Random& random) {
    static constexpr std::string_view kCharacters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    constexpr int kDraws = 3;
    constexpr int kCharactersPerDraw = 8;  // 62^8 is below 2^48: the bias of the remainder is no fault, ids only have to differ
    std::string id = fmt::format("call_{:02}_", index);
    for (int draw = 0; draw < kDraws; ++draw) {
        uint64_t bits = random.next();
        for (int i = 0; i < kCharactersPerDraw; ++i) {
            id += kCharacters[bits % kCharacters.size()];
            bits /= kCharacters.size();
        }
    }
    return id;
}

std::string item_id(std::string_view kind, std::string_view response_id, int64_t index) {
    return fmt::format("{}_{}_{}", kind, response_id, index);
}

bool is_request_id(std::string_view text) {
    return !text.empty() && text.size() <= kRequestIdBytesMax &&
           std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
}

}  // namespace di
