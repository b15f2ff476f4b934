// An address of any bytes: an error that a client can read, or an image no longer than its text; what was decoded and is
// encoded again, both ways, is decoded to the same bytes.
#include "base/base64.h"
#include "base/check.h"
#include "text/data_url.h"
#include "text/unicode.h"

namespace {

std::string percent_encoded(std::string_view bytes) {
    std::string text;
    for (const char byte : bytes) {
        text += fmt::format("%{:02X}", static_cast<unsigned char>(byte));
    }
    return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const std::string_view url(reinterpret_cast<const char*>(data), size);
    const auto image = di::decode_image_url(url);
    if (!image) {
        // What is quoted of an address comes out of a JSON body and is valid UTF-8 there.
        DI_CHECK(!di::is_valid_utf8(url) || di::is_valid_utf8(image.error().text), "an error is readable");
        return 0;
    }
    DI_CHECK(image->size() <= url.size(), "decoding makes nothing longer");
    DI_CHECK(di::decode_image_url("data:image/png;base64," + di::encode_base64(*image)).value() == *image, "base64 goes round");
    DI_CHECK(di::decode_image_url("data:image/png," + percent_encoded(*image)).value() == *image,
             "percent-encoding goes round");
    return 0;
}
