#include "text/image.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "safetensors_fixture.h"

namespace di {
namespace {

std::vector<uint8_t> file_bytes(const std::string& path) {
    const std::string text = read_fixture(path);
    return {text.begin(), text.end()};
}

std::vector<uint8_t> image_file(const std::string& name) { return file_bytes(DI_TEST_DATA "/images/" + name); }

const SafetensorsFixture& expected() {
    static const SafetensorsFixture fixture(DI_TEST_DATA "/images/expected.safetensors");
    return fixture;
}

int largest_difference(const std::vector<uint8_t>& a, const std::vector<uint8_t>& b) {
    int largest = a.size() == b.size() ? 0 : 256;
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
        largest = std::max(largest, std::abs(int{a[i]} - int{b[i]}));
    }
    return largest;
}

void expect_decoded(const std::string& name, int tolerance) {
    const auto bytes = image_file(name);
    const auto size = read_image_size(bytes);
    ASSERT_TRUE(size.has_value()) << name << ": " << size.error().text;
    const auto image = decode_image(bytes);
    ASSERT_TRUE(image.has_value()) << name << ": " << image.error().text;
    const FixtureTensor& pixels = expected().at(name);
    EXPECT_EQ(size->height, pixels.shape[0]) << name;
    EXPECT_EQ(size->width, pixels.shape[1]) << name;
    EXPECT_EQ(image->size.height, pixels.shape[0]) << name;
    EXPECT_EQ(image->size.width, pixels.shape[1]) << name;
    EXPECT_LE(largest_difference(image->pixels, pixels.bytes), tolerance) << name;
}

TEST(Image, DecodesEveryPngAsPillowDoes) {
    for (const char* name : {"rgb.png", "rgba.png", "gray.png", "gray_alpha.png", "bilevel.png", "gray2.png", "palette4.png",
                             "palette8.png", "gray16.png", "rgb16.png", "gray_alpha16.png", "interlaced.png"}) {
        expect_decoded(name, 0);
    }
}

TEST(Image, DecodesJpegAndWebpAsPillowDoes) {
    // Two levels: other versions of the decoders may round the inverse transform otherwise.
    for (const char* name :
         {"baseline.jpg", "gray.jpg", "progressive.jpg", "cmyk.jpg", "rotated_exif.jpg", "lossy.webp", "lossy_alpha.webp"}) {
        expect_decoded(name, 2);
    }
    expect_decoded("lossless_alpha.webp", 0);
}

TEST(Image, ResizesExactlyAsPillowDoes) {
    const FixtureTensor& source = expected().at("resize.source");
    const RgbImage image{{source.shape[1], source.shape[0]}, source.bytes};
    for (const ImageSize size : {ImageSize{74, 46}, {10, 23}, {37, 5}, {100, 7}, {1, 1}, {41, 29}, {9, 61}}) {
        const std::string name = "resize." + std::to_string(size.width) + "x" + std::to_string(size.height);
        const RgbImage resized = resize_bicubic(image, size);
        EXPECT_EQ(resized.size.width, size.width);
        EXPECT_EQ(resized.pixels, expected().at(name).bytes) << name;
    }
    EXPECT_EQ(resize_bicubic(image, image.size).pixels, image.pixels);
}

TEST(Image, PreparesTheUnitImageExactly) {
    const SafetensorsFixture unit(DI_TEST_DATA "/units/image_preprocess.safetensors");
    const FixtureTensor& source = unit.at("rgb_u8");
    const RgbImage image{{source.shape[1], source.shape[0]}, source.bytes};
    const ImageGeometry geometry{
        .patch_size = 14, .downsample_ratio = 3, .max_image_tokens = 64, .min_pixels = 1764, .max_wh_ratio = {}};
    const auto patches = make_image_patches(image, geometry);
    ASSERT_TRUE(patches.has_value()) << patches.error().text;
    EXPECT_EQ(patches->values, unit.at("patches").floats());
    EXPECT_EQ(patches->grid_height, unit.at("grid_hw").as<int32_t>()[0]);
    EXPECT_EQ(patches->grid_width, unit.at("grid_hw").as<int32_t>()[1]);
}

TEST(Image, LoadsTheImageOfTheTinyModelExactly) {
    const SafetensorsFixture golden(DI_TEST_DATA "/v41-tiny/golden_exact.safetensors");
    const ImageGeometry geometry{
        .patch_size = 14, .downsample_ratio = 3, .max_image_tokens = 64, .min_pixels = 1764, .max_wh_ratio = {}};
    const auto patches = load_image(file_bytes(DI_TEST_DATA "/v41-tiny/image.png"), geometry);
    ASSERT_TRUE(patches.has_value()) << patches.error().text;
    std::vector<float> values = golden.at("image.pixel_values").floats();
    EXPECT_EQ(patches->values, values);
    EXPECT_EQ(patches->grid_height, 5);
    EXPECT_EQ(patches->grid_width, 6);
    EXPECT_EQ(patches->token_rows, 2);
    EXPECT_EQ(patches->token_columns, 2);
    EXPECT_EQ(patches->token_count, 8);
}

// --- images that are none ---------------------------------------------------

void expect_refused(const std::vector<uint8_t>& bytes, const char* named) {
    for (const auto& error : {decode_image(bytes).has_value() ? std::string() : decode_image(bytes).error().text,
                              read_image_size(bytes).has_value() ? std::string() : read_image_size(bytes).error().text}) {
        EXPECT_NE(error.find(named), std::string::npos) << error;
    }
}

TEST(Image, RefusesWhatIsNoImage) {
    expect_refused({}, "empty");
    expect_refused({'h', 'e', 'l', 'l', 'o'}, "68656c6c6f");
    expect_refused(image_file("rgb.gif"), "GIF");
    expect_refused(image_file("animated.webp"), "animation");
    expect_refused(std::vector<uint8_t>((size_t{64} << 20) + 1), "67108865 bytes");
}

void put_big_endian(std::vector<uint8_t>& bytes, size_t offset, uint32_t value) {
    for (size_t i = 0; i < 4; ++i) {
        bytes[offset + i] = static_cast<uint8_t>(value >> (24 - 8 * i));
    }
}

TEST(Image, RefusesClaimedSizesBeforeAllocating) {
    auto png = image_file("rgb.png");
    put_big_endian(png, 16, 40'000);
    put_big_endian(png, 20, 40'000);
    expect_refused(png, "40000x40000");
    put_big_endian(png, 16, 0);
    expect_refused(png, "0x40000");
    put_big_endian(png, 16, 0xFFFFFFFF);
    expect_refused(png, "4294967295x40000");
    // A JPEG's frame header: marker FFC0, length, precision, height, width.
    auto jpeg = image_file("baseline.jpg");
    for (size_t i = 0; i + 9 < jpeg.size(); ++i) {
        if (jpeg[i] == 0xFF && jpeg[i + 1] == 0xC0) {
            jpeg[i + 5] = jpeg[i + 7] = 0x9C;  // 40,000
            jpeg[i + 6] = jpeg[i + 8] = 0x40;
            break;
        }
    }
    expect_refused(jpeg, "40000x40000");
    auto webp = image_file("lossy.webp");  // "RIFF" size "WEBP" "VP8 " size frame(3) start code(3) width height
    webp[26] = webp[28] = 0xFF;
    webp[27] = webp[29] = 0x3F;
    expect_refused(webp, "16383x16383");
}

TEST(Image, RefusesEveryTruncatedFile) {
    for (const char* name : {"rgb.png", "interlaced.png", "palette4.png", "gray16.png", "baseline.jpg", "progressive.jpg",
                             "cmyk.jpg", "lossy.webp", "lossless_alpha.webp"}) {
        const auto whole = image_file(name);
        // Cuts of the last two bytes leave all pixels in some formats; everything shorter must fail.
        for (size_t size = 0; size + 3 < whole.size(); size += size < 64 ? 1 : 7) {
            const auto image = decode_image(std::span(whole).first(size));
            ASSERT_FALSE(image.has_value()) << name << " cut to " << size << " of " << whole.size() << " bytes";
        }
    }
}

TEST(Image, ToleratesStrayBytesInAJpegAsPillowDoes) {
    auto bytes = image_file("baseline.jpg");
    // Before the first marker after the start of the image: libjpeg skips to the marker with a warning.
    bytes.insert(bytes.begin() + 20, {0x00, 0x01, 0x02});
    const auto image = decode_image(bytes);
    ASSERT_TRUE(image.has_value()) << image.error().text;
    EXPECT_LE(largest_difference(image->pixels, expected().at("baseline.jpg").bytes), 2);
}

TEST(Image, SurvivesEveryDamagedByte) {
    for (const char* name : {"palette4.png", "gray16.png", "baseline.jpg", "cmyk.jpg", "lossy.webp", "lossless_alpha.webp"}) {
        auto bytes = image_file(name);
        for (size_t i = 0; i < bytes.size(); ++i) {
            const uint8_t kept = bytes[i];
            bytes[i] ^= 0xA5;
            const auto image = decode_image(bytes);
            if (image) {
                EXPECT_EQ(static_cast<int64_t>(image->pixels.size()), image->size.width * image->size.height * 3);
            } else {
                EXPECT_FALSE(image.error().text.empty());
            }
            bytes[i] = kept;
        }
    }
}

TEST(Image, RefusesABadGeometry) {
    EXPECT_FALSE(
        load_image(image_file("rgb.png"),
                   {.patch_size = 0, .downsample_ratio = 3, .max_image_tokens = 64, .min_pixels = 1, .max_wh_ratio = {}})
            .has_value());
}

}  // namespace
}  // namespace di
