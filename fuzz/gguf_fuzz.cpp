// The header of a GGUF file of any bytes: an error, or a header whose every tensor lies inside the file and whose every value
// can be asked for as every type.
#include "base/check.h"
#include "weights/gguf_file.h"

namespace {

constexpr int64_t kCountMax = 1 << 20;

// Wrong types and values are errors; nothing is read beyond the file.
void read_as_every_type(const di::GgufMetadata& metadata, std::string_view key) {
    static_cast<void>(metadata.shown(key));
    static_cast<void>(metadata.integer(key, {.min = INT64_MIN, .max = INT64_MAX}));
    static_cast<void>(metadata.number(key, {.min = 0.0, .max = 1.0}));
    static_cast<void>(metadata.boolean(key));
    if (const auto text = metadata.text(key)) {
        DI_CHECK(text->size() <= static_cast<size_t>(kCountMax) * 4096, "a string is longer than the file");
    }
    static_cast<void>(metadata.texts(key, kCountMax));
    static_cast<void>(metadata.small_integers(key, kCountMax));
    static_cast<void>(metadata.numbers(key, kCountMax));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const auto header = di::parse_gguf_header({data, size});
    if (!header) {
        return 0;
    }
    for (const di::GgufTensor& tensor : header->tensors) {
        DI_CHECK(tensor.offset >= 0 && tensor.bytes >= 0 && tensor.bytes <= static_cast<int64_t>(size) - tensor.offset,
                 "a tensor lies outside its file");
    }
    for (const std::string_view key : header->metadata.keys()) {
        read_as_every_type(header->metadata, key);
    }
    return 0;
}
