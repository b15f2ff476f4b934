#include "text/data_url.h"

#include <gtest/gtest.h>

#include "text/limits.h"

namespace di {
namespace {

std::string error_of(std::string_view url) {
    const auto image = decode_image_url(url);
    EXPECT_FALSE(image.has_value()) << url;
    return image ? "" : image.error().text;
}

TEST(DataUrl, DecodesBase64) {
    EXPECT_EQ(decode_image_url("data:image/png;base64,").value(), "");
    EXPECT_EQ(decode_image_url("data:image/png;base64,TQ==").value(), "M");
    EXPECT_EQ(decode_image_url("data:image/jpeg;base64,TWE=").value(), "Ma");
    EXPECT_EQ(decode_image_url("data:image/webp;base64,TWFu").value(), "Man");
    EXPECT_EQ(decode_image_url("data:image/png;base64,/+8").value(), "\xff\xef");  // without padding
    EXPECT_EQ(decode_image_url("data:image/png;name=a;base64,TQ%3D%3d").value(), "M");
    EXPECT_EQ(decode_image_url("data:image/png;base64,%2f%2B8").value(), "\xff\xef");
}

TEST(DataUrl, DecodesPercentEncoding) {
    EXPECT_EQ(decode_image_url("data:image/png,").value(), "");
    EXPECT_EQ(decode_image_url("data:image/png,%89PNG%0d%0A").value(), "\x89PNG\r\n");
    EXPECT_EQ(decode_image_url("data:image/png,a%00b%ff").value(), std::string("a\0b\xff", 4));
    EXPECT_EQ(decode_image_url("data:image/png;charset=x,a,b;base64,c").value(), "a,b;base64,c");
}

TEST(DataUrl, RefusesWhatIsNoDataUrlAndFetchesNothing) {
    for (const std::string_view url :
         {"", "data:", "data:image/png", "data:text/plain,a", "http://127.0.0.1/a.png", "file:///etc/passwd"}) {
        EXPECT_TRUE(error_of(url).starts_with("image address ")) << url;
    }
}

TEST(DataUrl, SaysWhatIsWrongWithTheData) {
    EXPECT_EQ(error_of("data:image/png;base64,TW!u"), "image data: byte 0x21 at 2, expected base64");
    EXPECT_EQ(error_of("data:image/png;base64,T"), "image data: 1 base64 digits, which is never a whole number of bytes");
    for (const std::string_view data : {"ab%", "ab%4", "ab%4g", "ab%g4", "ab%%4", "ab%4\xc2\x89"}) {
        EXPECT_EQ(error_of(std::string("data:image/png,").append(data)),
                  "image data: % at 2, expected two hexadecimal digits behind it");
    }
    EXPECT_EQ(error_of("data:image/png,a\xc2\x89"), "image data: byte 0xc2 at 1, expected it percent-encoded");
    EXPECT_EQ(error_of("data:image/png,a\n"), "image data: byte 0x0a at 1, expected it percent-encoded");
}

TEST(DataUrl, RefusesMoreThanAnImageMayHaveBeforeDecodingIt) {
    const std::string expected =
        fmt::format("image data of about {} bytes, expected at most {}", kImageBytesMax + 1, kImageBytesMax);
    EXPECT_EQ(error_of("data:image/png," + std::string(kImageBytesMax + 1, 'a')), expected);
    EXPECT_EQ(decode_image_url("data:image/png," + std::string(kImageBytesMax, 'a')).value().size(), kImageBytesMax);
    EXPECT_TRUE(
        error_of("data:image/png;base64," + std::string(kImageBytesMax / 3 * 4 + 8, 'A')).starts_with("image data of about"));
}

}  // namespace
}  // namespace di
