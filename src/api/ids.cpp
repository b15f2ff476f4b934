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
    constexpr int kLength = 24;
    std::string id = fmt::format("call_{:02}_", index);
    for (int i = 0; i < kLength; ++i) {
        // The bias of the remainder is no fault here: ids only have to differ.
        id += kCharacters[random.next() % kCharacters.size()];
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
