#include "text/image.h"

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <png.h>
#include <turbojpeg.h>
#include <webp/decode.h>

#include "text/limits.h"

namespace di {
namespace {

using Bytes = std::span<const uint8_t>;

constexpr ErrorCode kBadImage = ErrorCode::kInvalidArgument;
constexpr int64_t kChannels = 3;

RgbImage blank_image(ImageSize size) {
    return {size, std::vector<uint8_t>(static_cast<size_t>(size.width * size.height * kChannels))};
}

bool has_at(Bytes bytes, size_t offset, std::string_view text) {
    return bytes.size() >= offset + text.size() && std::memcmp(bytes.data() + offset, text.data(), text.size()) == 0;
}

enum class Format { kPng, kJpeg, kWebp };

Result<Format> sniff(Bytes bytes) {
    if (bytes.empty()) {
        return fail(kBadImage, "image is empty, expected PNG, JPEG or WebP");
    }
    if (bytes.size() > kImageBytesMax) {
        return fail(kBadImage, "image has {} bytes, at most {} are allowed", bytes.size(), kImageBytesMax);
    }
    if (has_at(bytes, 0, "\x89PNG\r\n\x1A\n")) {
        return Format::kPng;
    }
    if (has_at(bytes, 0, "\xFF\xD8\xFF")) {
        return Format::kJpeg;
    }
    if (has_at(bytes, 0, "RIFF") && has_at(bytes, 8, "WEBP")) {
        return Format::kWebp;
    }
    if (has_at(bytes, 0, "GIF8")) {
        return fail(ErrorCode::kUnsupported, "image is a GIF, which is not supported, expected PNG, JPEG or WebP");
    }
    std::string start;
    for (const uint8_t byte : bytes.first(std::min<size_t>(bytes.size(), 8))) {
        start += fmt::format("{:02x}", byte);
    }
    return fail(kBadImage, "image is none: it starts with the bytes {}, expected PNG, JPEG or WebP", start);
}

Status check_size(std::string_view format, int64_t width, int64_t height) {
    if (width < 1 || height < 1) {
        return fail(kBadImage, "{} image is {}x{} pixels, expected sides of at least 1", format, width, height);
    }
    if (width > kImageSideMax || height > kImageSideMax || width * height > kImagePixelsMax) {
        return fail(kBadImage, "{} image is {}x{} pixels, at most {} a side and {} in all are allowed", format, width, height,
                    kImageSideMax, kImagePixelsMax);
    }
    return {};
}

// --- PNG --------------------------------------------------------------------

Result<ImageSize> png_size(Bytes bytes) {
    constexpr size_t kHeaderBytes = 24;  // signature, chunk length and name, width, height
    if (bytes.size() < kHeaderBytes || !has_at(bytes, 12, "IHDR")) {
        return fail(kBadImage, "PNG image is truncated or damaged: no header in its {} bytes", bytes.size());
    }
    const auto big_endian = [&](size_t offset) {
        return int64_t{bytes[offset]} << 24 | int64_t{bytes[offset + 1]} << 16 | int64_t{bytes[offset + 2]} << 8 |
               int64_t{bytes[offset + 3]};
    };
    const ImageSize size{big_endian(16), big_endian(20)};
    DI_TRY_STATUS(check_size("PNG", size.width, size.height));
    return size;
}

// The source that libpng reads from, and where it leaves its message.
struct PngInput {
    Bytes rest;
    std::array<char, 160> message{};
};

void read_png_bytes(png_structp png, png_bytep target, size_t count) {
    auto* input = static_cast<PngInput*>(png_get_io_ptr(png));
    if (count > input->rest.size()) {
        png_error(png, "file is truncated");
    }
    std::memcpy(target, input->rest.data(), count);
    input->rest = input->rest.subspan(count);
}

[[noreturn]] void on_png_error(png_structp png, png_const_charp text) {
    auto* input = static_cast<PngInput*>(png_get_error_ptr(png));
    std::strncpy(input->message.data(), text, input->message.size() - 1);
    png_longjmp(png, 1);
}

// Warnings are about chunks that we do not use.
void on_png_warning(png_structp /*png*/, png_const_charp /*text*/) {}

struct PngReader {
    PngInput input;
    png_structp png = nullptr;
    png_infop info = nullptr;

    explicit PngReader(Bytes bytes) : input{bytes, {}} {
        png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &input, on_png_error, on_png_warning);
        info = png == nullptr ? nullptr : png_create_info_struct(png);
    }
    PngReader(const PngReader&) = delete;
    PngReader& operator=(const PngReader&) = delete;
    ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
};

// libpng leaves by longjmp: the functions that call it own nothing, and nothing local is read after the jump.
bool read_png_header(PngReader& reader) {
    if (setjmp(png_jmpbuf(reader.png)) != 0) {
        return false;
    }
    png_set_user_limits(reader.png, static_cast<png_uint_32>(kImageSideMax), static_cast<png_uint_32>(kImageSideMax));
    png_set_read_fn(reader.png, &reader.input, read_png_bytes);
    png_read_info(reader.png, reader.info);
    return true;
}

// Gray of 16 bits stays as it is: Pillow clips it to 255, where it keeps the high byte of all other 16-bit pixels.
bool is_gray16(const PngReader& reader) {
    return png_get_color_type(reader.png, reader.info) == PNG_COLOR_TYPE_GRAY &&
           png_get_bit_depth(reader.png, reader.info) == 16;
}

bool set_png_conversions(PngReader& reader) {
    if (setjmp(png_jmpbuf(reader.png)) != 0) {
        return false;
    }
    const int color_type = png_get_color_type(reader.png, reader.info);
    if (!is_gray16(reader)) {
        if (color_type == PNG_COLOR_TYPE_PALETTE) {
            png_set_palette_to_rgb(reader.png);
        }
        if (color_type == PNG_COLOR_TYPE_GRAY) {
            png_set_expand_gray_1_2_4_to_8(reader.png);
        }
        png_set_strip_16(reader.png);
        png_set_strip_alpha(reader.png);
        png_set_gray_to_rgb(reader.png);
    }
    png_set_interlace_handling(reader.png);
    png_read_update_info(reader.png, reader.info);
    return true;
}

bool read_png_rows(PngReader& reader, png_bytepp rows) {
    if (setjmp(png_jmpbuf(reader.png)) != 0) {
        return false;
    }
    png_read_image(reader.png, rows);
    png_read_end(reader.png, nullptr);
    return true;
}

Result<RgbImage> decode_png(Bytes bytes) {
    DI_TRY(const ImageSize size, png_size(bytes));
    PngReader reader(bytes);
    if (reader.info == nullptr) {
        return fail(ErrorCode::kInternal, "libpng cannot be initialised");
    }
    const auto damaged = [&] { return fail(kBadImage, "PNG image cannot be decoded: {}", reader.input.message.data()); };
    if (!read_png_header(reader) || !set_png_conversions(reader)) {
        return damaged();
    }
    const bool is_gray = is_gray16(reader);
    const int64_t row_bytes = size.width * (is_gray ? 2 : kChannels);
    if (static_cast<int64_t>(png_get_rowbytes(reader.png, reader.info)) != row_bytes) {
        return fail(ErrorCode::kInternal, "libpng gives rows of {} bytes, expected {}",
                    png_get_rowbytes(reader.png, reader.info), row_bytes);
    }
    RgbImage image = blank_image(size);
    // Two bytes of a gray pixel fit into the three of its colour: both live in one buffer, row by row.
    std::vector<png_bytep> rows;
    rows.reserve(static_cast<size_t>(size.height));
    for (int64_t y = 0; y < size.height; ++y) {
        rows.push_back(image.pixels.data() + y * size.width * kChannels);
    }
    if (!read_png_rows(reader, rows.data())) {
        return damaged();
    }
    if (is_gray) {
        for (uint8_t* row : rows) {
            // From the right, so that no pixel is overwritten before it is read.
            for (int64_t x = size.width - 1; x >= 0; --x) {
                const uint8_t level = row[2 * x] == 0 ? row[2 * x + 1] : uint8_t{255};
                std::fill_n(row + x * kChannels, kChannels, level);
            }
        }
    }
    return image;
}

// --- JPEG -------------------------------------------------------------------

using TurboJpeg = std::unique_ptr<void, int (*)(tjhandle)>;

struct JpegHeader {
    ImageSize size;
    bool is_cmyk;
};

// What libjpeg says of damage that leaves the rest of the picture intact, which Pillow tolerates too. A file that ends
// early is not among it. Its error code does not suffice: an error after a warning is still called a warning.
bool is_tolerable(std::string_view message) {
    const bool ends_early = message.find("premature end") != std::string_view::npos;
    return (message.starts_with("Corrupt JPEG data: ") && !ends_early) || message.starts_with("Warning: ") ||
           message.starts_with("Unknown Adobe color transform");
}

// Of the call that just returned `failed`.
Status jpeg_status(const TurboJpeg& decoder, int failed) {
    if (failed == 0) {
        return {};
    }
    const std::string message = tjGetErrorStr2(decoder.get());
    if (tjGetErrorCode(decoder.get()) == TJERR_WARNING && is_tolerable(message)) {
        return {};
    }
    return fail(kBadImage, "JPEG image cannot be decoded: {}", message);
}

Result<JpegHeader> jpeg_header(const TurboJpeg& decoder, Bytes bytes) {
    if (decoder == nullptr) {
        return fail(ErrorCode::kInternal, "libjpeg-turbo cannot be initialised");
    }
    int width = 0;
    int height = 0;
    int subsampling = 0;
    int colorspace = 0;
    const int failed = tjDecompressHeader3(decoder.get(), bytes.data(), static_cast<unsigned long>(bytes.size()), &width,
                                           &height, &subsampling, &colorspace);
    DI_TRY_STATUS(jpeg_status(decoder, failed));
    DI_TRY_STATUS(check_size("JPEG", width, height));
    return JpegHeader{{width, height}, colorspace == TJCS_CMYK || colorspace == TJCS_YCCK};
}

Status decompress(const TurboJpeg& decoder, Bytes bytes, ImageSize size, uint8_t* pixels, TJPF format) {
    const int failed = tjDecompress2(decoder.get(), bytes.data(), static_cast<unsigned long>(bytes.size()), pixels,
                                     static_cast<int>(size.width), 0, static_cast<int>(size.height), format, TJFLAG_LIMITSCANS);
    return jpeg_status(decoder, failed);
}

// Files of four colours come from Adobe programs, which store them inverted; the arithmetic is Pillow's.
RgbImage rgb_of_inverted_cmyk(const std::vector<uint8_t>& cmyk, ImageSize size) {
    RgbImage image = blank_image(size);
    for (int64_t i = 0; i < size.width * size.height; ++i) {
        const uint8_t* ink = cmyk.data() + i * 4;
        const int brightness = ink[3];
        for (int64_t channel = 0; channel < kChannels; ++channel) {
            const int product = (255 - ink[channel]) * brightness + 128;
            const int absorbed = ((product >> 8) + product) >> 8;
            image.pixels[static_cast<size_t>(i * kChannels + channel)] =
                static_cast<uint8_t>(std::clamp(brightness - absorbed, 0, 255));
        }
    }
    return image;
}

Result<RgbImage> decode_jpeg(Bytes bytes) {
    const TurboJpeg decoder(tjInitDecompress(), &tjDestroy);
    DI_TRY(const JpegHeader header, jpeg_header(decoder, bytes));
    if (header.is_cmyk) {
        std::vector<uint8_t> cmyk(static_cast<size_t>(header.size.width * header.size.height * 4));
        DI_TRY_STATUS(decompress(decoder, bytes, header.size, cmyk.data(), TJPF_CMYK));
        return rgb_of_inverted_cmyk(cmyk, header.size);
    }
    RgbImage image = blank_image(header.size);
    DI_TRY_STATUS(decompress(decoder, bytes, header.size, image.pixels.data(), TJPF_RGB));
    return image;
}

// --- WebP -------------------------------------------------------------------

Result<ImageSize> webp_size(Bytes bytes) {
    WebPBitstreamFeatures features;
    const VP8StatusCode status = WebPGetFeatures(bytes.data(), bytes.size(), &features);
    if (status != VP8_STATUS_OK) {
        return fail(kBadImage, "WebP image is truncated or damaged (status {} of its header)", static_cast<int>(status));
    }
    if (features.has_animation != 0) {
        return fail(ErrorCode::kUnsupported, "WebP image is an animation, which is not supported, expected a still image");
    }
    DI_TRY_STATUS(check_size("WebP", features.width, features.height));
    return ImageSize{features.width, features.height};
}

Result<RgbImage> decode_webp(Bytes bytes) {
    DI_TRY(const ImageSize size, webp_size(bytes));
    RgbImage image = blank_image(size);
    if (WebPDecodeRGBInto(bytes.data(), bytes.size(), image.pixels.data(), image.pixels.size(),
                          static_cast<int>(size.width * kChannels)) == nullptr) {
        return fail(kBadImage, "WebP image is truncated or damaged");
    }
    return image;
}

}  // namespace

Result<ImageSize> read_image_size(std::span<const uint8_t> bytes) {
    DI_TRY(const Format format, sniff(bytes));
    switch (format) {
        case Format::kPng: return png_size(bytes);
        case Format::kWebp: return webp_size(bytes);
        case Format::kJpeg: break;
    }
    const TurboJpeg decoder(tjInitDecompress(), &tjDestroy);
    DI_TRY(const JpegHeader header, jpeg_header(decoder, bytes));
    return header.size;
}

Result<RgbImage> decode_image(std::span<const uint8_t> bytes) {
    DI_TRY(const Format format, sniff(bytes));
    switch (format) {
        case Format::kPng: return decode_png(bytes);
        case Format::kJpeg: return decode_jpeg(bytes);
        case Format::kWebp: return decode_webp(bytes);
    }
    return fail(ErrorCode::kInternal, "image format {} has no decoder", static_cast<int>(format));
}

Result<ImagePatches> load_image(std::span<const uint8_t> bytes, const ImageGeometry& geometry) {
    DI_TRY(const RgbImage image, decode_image(bytes));
    return make_image_patches(image, geometry);
}

}  // namespace di
