#include "kv/prefix_key.h"

#include <algorithm>
#include <string>
#include <type_traits>

#include "base/check.h"

namespace di {

namespace {

// A place of an image in its block: what the bits of the block depend on besides its content.
struct ImagePart {
    int64_t offset = 0;  // of its first token from the block's start; negative: it begins in a block before
    int64_t token_count = 0;
    Hash128 content;
};
static_assert(sizeof(ImagePart) == 32, "parts are hashed as bytes, so they must have no padding");

template <typename T>
void append(std::vector<std::byte>& bytes, std::span<const T> values) {
    static_assert(std::has_unique_object_representations_v<T>, "padding must not reach the hash");
    const auto raw = std::as_bytes(values);
    bytes.insert(bytes.end(), raw.begin(), raw.end());
}

}  // namespace

PrefixKey prefix_root(std::string_view identity, std::string_view salt) {
    // The length in front: ("ab", "c") is not ("a", "bc").
    const std::string text = std::to_string(identity.size()) + ":" + std::string(identity) + std::string(salt);
    return hash_bytes(std::as_bytes(std::span(text)));
}

void extend_prefix_keys(const PrefixKey& root, std::span<const int32_t> tokens, std::span<const PrefixImage> images,
                        int64_t block_tokens, std::vector<PrefixKey>& keys) {
    DI_CHECK(block_tokens > 0, "a block without tokens");
    const int64_t block_count = static_cast<int64_t>(tokens.size()) / block_tokens;
    std::vector<std::byte> bytes;
    for (auto block = static_cast<int64_t>(keys.size()); block < block_count; ++block) {
        const int64_t first = block * block_tokens;
        const int64_t end = first + block_tokens;
        bytes.clear();
        append(bytes, std::span(keys.empty() ? &root : &keys.back(), 1));
        append(bytes, tokens.subspan(static_cast<size_t>(first), static_cast<size_t>(block_tokens)));
        auto image = std::partition_point(images.begin(), images.end(), [&](const PrefixImage& candidate) {
            return int64_t{candidate.first_token} + candidate.token_count <= first;
        });
        for (; image != images.end() && image->first_token < end; ++image) {
            const ImagePart part{
                .offset = image->first_token - first, .token_count = image->token_count, .content = image->content};
            append(bytes, std::span(&part, 1));
        }
        keys.push_back(hash_bytes(bytes));
    }
}

}  // namespace di
