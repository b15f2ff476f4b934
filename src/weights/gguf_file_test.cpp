#include "weights/gguf_file.h"

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "gguf_builder.h"
#include "temporary_directory.h"

namespace di {
namespace {

constexpr uint32_t kF32Type = 0;
constexpr uint32_t kQ4_1Type = 3;
constexpr uint32_t kQ6KType = 14;

Result<GgufHeader> parse(const std::string& file) {
    return parse_gguf_header({reinterpret_cast<const uint8_t*>(file.data()), file.size()});
}

std::string error_of(const std::string& file) {
    const auto parsed = parse(file);
    return parsed ? "no error" : parsed.error().text;
}
std::string error_of(const GgufBuilder& file) { return error_of(file.build()); }

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// Values of every type and three tensors.
GgufBuilder sample() {
    GgufBuilder file;
    file.text("general.architecture", "llama").number<uint32_t>("llama.block_count", 30);
    file.number<int64_t>("a.i64", -5).number<uint64_t>("a.u64", UINT64_MAX).number<uint8_t>("a.u8", 200);
    file.number<float>("a.f32", 0.5F).number<double>("a.f64", 1e5).boolean("a.bool", true);
    file.texts("tokens", {"a", "", "b c"}).numbers<float>("scores", {0.0F, -1.0F});
    file.numbers<int32_t>("types", {1, 3, 6}).numbers<uint8_t>("small", {1, 3, 6});
    file.tensor("embd", kF32Type, {3, 2}, std::string(24, '\1'));
    file.tensor("blk.0.q", kQ4_1Type, {64, 3}, std::string(120, '\2'));
    file.tensor("blk.0.e", kQ6KType, {256, 2, 4}, std::string(1680, '\3'));
    return file;
}

TEST(GgufFile, ReadsTensorsOfVersions2And3) {
    const TemporaryDirectory directory;
    for (const uint32_t version : {2U, 3U}) {
        GgufBuilder builder = sample();
        builder.version = version;
        const auto file = GgufFile::open(directory.write("model.gguf", builder.build()));
        ASSERT_TRUE(file) << file.error().text;
        EXPECT_EQ(file->header().version, version);
        const auto& tensors = file->header().tensors;
        ASSERT_EQ(tensors.size(), 3U);
        EXPECT_EQ(tensors[0].name, "embd");
        EXPECT_EQ(tensors[0].shape, (std::vector<int64_t>{2, 3}));  // rows first
        EXPECT_EQ(tensors[1].dtype, DType::kQ4_1);
        EXPECT_EQ(tensors[1].bytes, 3 * 2 * 20);
        EXPECT_EQ(tensors[2].shape, (std::vector<int64_t>{4, 2, 256}));
        EXPECT_EQ(tensors[2].bytes, 1680);
        for (size_t i = 0; i < tensors.size(); ++i) {
            EXPECT_EQ(tensors[i].offset % 32, 0);
            EXPECT_EQ(file->data(tensors[i])[0], i + 1);
            EXPECT_EQ(file->data(tensors[i])[tensors[i].bytes - 1], i + 1);
        }
    }
}

TEST(GgufFile, ErrorsBeginWithThePath) {
    const TemporaryDirectory directory;
    const std::string path = directory.write("model.gguf", "GGUX....");
    const auto file = GgufFile::open(path);
    ASSERT_FALSE(file);
    EXPECT_TRUE(file.error().text.starts_with(path + ": the file begins with 47 47 55 58")) << file.error().text;
    EXPECT_FALSE(GgufFile::open(directory.file("absent.gguf")));
    EXPECT_FALSE(GgufFile::open(directory.write("empty.gguf", "")));
}

TEST(GgufFile, RefusesOtherVersionsAndBigEndianByName) {
    GgufBuilder file = sample();
    file.version = 1;
    EXPECT_EQ(error_of(file), "the version is 1, only 2 and 3 are read");
    file.version = 4;
    EXPECT_EQ(error_of(file), "the version is 4, only 2 and 3 are read");
    file.version = 0x03000000;
    EXPECT_TRUE(contains(error_of(file), "the file is big-endian (version 3"));
}

TEST(GgufFile, EveryCutIsAnErrorAndNoCrash) {
    const std::string file = sample().build();
    for (size_t size = 0; size < file.size(); ++size) {
        ASSERT_FALSE(parse(file.substr(0, size))) << size << " of " << file.size();
    }
    EXPECT_TRUE(parse(file));
}

TEST(GgufFile, DamagedBytesAreAnErrorOrAHeaderInsideTheFile) {
    const std::string file = sample().build();
    constexpr uint64_t kSeed = 6;
    std::mt19937_64 random(kSeed);
    SCOPED_TRACE(testing::Message() << "seed " << kSeed);
    for (int round = 0; round < 20'000; ++round) {
        std::string damaged = file;
        for (int i = 0; i < 3; ++i) {
            damaged[random() % 700] = static_cast<char>(random() % 2 == 0 ? 0xff : random());
        }
        const auto parsed = parse(damaged);
        if (!parsed) {
            continue;
        }
        for (const GgufTensor& tensor : parsed->tensors) {
            ASSERT_LE(tensor.bytes, std::ssize(damaged) - tensor.offset);
        }
    }
}

// F01: lengths and counts far beyond the file.
TEST(GgufFile, RefusesLengthsBeyondTheFileBeforeAllocating) {
    const auto header = [](uint64_t tensors, uint64_t keys) {
        return "GGUF" + GgufBuilder::bytes_of<uint32_t>(3) + GgufBuilder::bytes_of(tensors) + GgufBuilder::bytes_of(keys);
    };
    const auto number = [](uint64_t value) { return GgufBuilder::bytes_of(value); };
    EXPECT_EQ(error_of(header(0, 1) + number(0xFFFFFFFFFFFF) + std::string(100, 'x')),
              "offset 24: key 0 is 281474976710655 bytes long, the file has 100 more");
    GgufBuilder long_string;
    long_string.raw("general.name", GgufBuilder::kString, number(1 << 30) + std::string(100, 'x'));
    EXPECT_EQ(error_of(long_string), "offset 48: general.name is 1073741824 bytes long, the file has 100 more");
    for (const uint32_t element : {GgufBuilder::kU8, GgufBuilder::kU64, GgufBuilder::kString}) {
        for (const uint64_t count : {uint64_t{1} << 40, UINT64_MAX, uint64_t{1} << 61}) {
            GgufBuilder long_array;
            long_array.raw("tokens", GgufBuilder::kArray,
                           GgufBuilder::bytes_of(element) + number(count) + std::string(100, 'x'));
            EXPECT_TRUE(contains(error_of(long_array), "length of tokens is ")) << error_of(long_array);
        }
    }
    for (const uint64_t count : {uint64_t{100}, uint64_t{1'000'000}, uint64_t{1} << 40, UINT64_MAX}) {
        EXPECT_TRUE(contains(error_of(header(count, 0) + std::string(100, '\0')), "the number of tensors is "));
        EXPECT_TRUE(contains(error_of(header(0, count) + std::string(100, '\0')), "the number of keys is "));
    }
}

// F02: keys that are empty or occur twice; nothing at all.
TEST(GgufFile, RefusesEmptyAndRepeatedNames) {
    GgufBuilder empty;
    empty.raw("", GgufBuilder::kU8, std::string(1, '\0'));
    ASSERT_EQ(empty.build().size(), 37U);
    EXPECT_EQ(error_of(empty), "offset 24: key 0 is empty");
    EXPECT_EQ(error_of(sample().number<uint8_t>("a.u8", 1).build()).substr(0, 7), "offset ");
    EXPECT_TRUE(contains(error_of(sample().number<uint8_t>("a.u8", 1)), "key a.u8 occurs twice"));
    EXPECT_EQ(error_of(sample().tensor("embd", kF32Type, {1}, std::string(4, '\0'))), "tensor embd occurs twice");
    EXPECT_EQ(error_of(sample().tensor("", kF32Type, {1}, std::string(4, '\0'))), "tensor 3 has an empty name");
}

TEST(GgufFile, AcceptsAFileWithoutTensorsOrKeys) {
    const auto parsed = parse(GgufBuilder().build());
    ASSERT_TRUE(parsed) << parsed.error().text;
    EXPECT_EQ(parsed->metadata.size(), 0);
    EXPECT_TRUE(parsed->tensors.empty());
    EXPECT_TRUE(parse(GgufBuilder().text("general.architecture", "llama").build()));
}

// F05: ranks, products, places.
TEST(GgufFile, RefusesShapesThatDoNotFit) {
    const std::vector<uint64_t> nine(9, 1);
    EXPECT_EQ(error_of(GgufBuilder().describe("x", kF32Type, nine, 0)), "tensor x has 9 dimensions, expected 1 to 4");
    EXPECT_EQ(error_of(GgufBuilder().describe("x", kF32Type, {}, 0)), "tensor x has 0 dimensions, expected 1 to 4");
    constexpr uint64_t kHalf = uint64_t{1} << 32;
    for (const std::vector<uint64_t>& dims : std::vector<std::vector<uint64_t>>{
             {kHalf, kHalf}, {kHalf, kHalf, 1, 1}, {0}, {4, 0}, {UINT64_MAX}, {uint64_t{1} << 63}, {kHalf, kHalf >> 1}}) {
        EXPECT_TRUE(contains(error_of(GgufBuilder().describe("x", kF32Type, dims, 0)), "a product below 2^63"));
    }
    // The values fit 63 bits, their bytes do not.
    EXPECT_EQ(error_of(GgufBuilder().describe("x", kF32Type, {uint64_t{1} << 62}, 0)), "tensor x has more than 2^63 bytes");
    EXPECT_EQ(error_of(GgufBuilder().describe("x", kQ4_1Type, {48, 1}, 0)),
              "tensor x: rows have 48 values, expected a multiple of 32 for q4_1");
    EXPECT_EQ(error_of(GgufBuilder().describe("x", kQ6KType, {128, 2}, 0)),
              "tensor x: rows have 128 values, expected a multiple of 256 for q6_k");
}

TEST(GgufFile, RefusesUnknownAndUnsupportedTypes) {
    EXPECT_EQ(error_of(GgufBuilder().describe("x", 99, {32}, 0)), "tensor x: type is 99, which is no known type");
    EXPECT_EQ(error_of(GgufBuilder().describe("x", 4, {32}, 0)), "tensor x: type is 4, which is no known type");
    EXPECT_TRUE(error_of(GgufBuilder().describe("x", 23, {256}, 0)).starts_with("tensor x: type IQ4_XS is not supported"));
    EXPECT_EQ(parse(GgufBuilder().describe("x", 23, {256}, 0).build()).error().code, ErrorCode::kUnsupported);
}

TEST(GgufFile, RefusesPlacesOutsideTheFileAndOverlaps) {
    const std::string data(64, '\0');
    const auto place = [&](uint64_t offset) {
        return error_of(GgufBuilder().tensor("a", kF32Type, {16}, data).describe("b", kF32Type, {8}, offset));
    };
    EXPECT_EQ(place(0), "tensors a and b overlap");
    EXPECT_EQ(place(32), "tensors a and b overlap");
    EXPECT_EQ(place(4), "tensor b: offset is 4, expected a multiple of the alignment 32");
    EXPECT_EQ(place(64), "tensor b: 32 bytes at offset 64 of the data, which has 64 bytes: the file is truncated or damaged");
    EXPECT_TRUE(contains(place(uint64_t{1} << 40), "the file is truncated or damaged"));
    EXPECT_TRUE(contains(place(INT64_MAX - 31), "the file is truncated or damaged"));
    EXPECT_TRUE(contains(place(UINT64_MAX - 31), "expected less than 2^63"));
    // In any order of the file, with gaps and behind a larger tensor.
    EXPECT_EQ(error_of(GgufBuilder().describe("b", kF32Type, {1}, 32).tensor("a", kF32Type, {16}, data)),
              "tensors a and b overlap");
    GgufBuilder cut = sample();
    cut.missing_bytes = 1;
    EXPECT_TRUE(contains(error_of(cut), "tensor blk.0.e: 1680 bytes at offset"));
}

TEST(GgufFile, HonoursTheAlignmentOfTheFile) {
    for (const uint32_t alignment : {1U, 8U, 64U, 4096U}) {
        GgufBuilder file;
        file.alignment = alignment;
        file.number<uint32_t>("general.alignment", alignment);
        file.tensor("a", kF32Type, {1}, std::string(4, '\1')).tensor("b", kF32Type, {1}, std::string(4, '\2'));
        const std::string bytes = file.build();
        const auto parsed = parse(bytes);
        ASSERT_TRUE(parsed) << parsed.error().text;
        EXPECT_EQ(bytes[static_cast<size_t>(parsed->tensors[0].offset)], '\1');
        EXPECT_EQ(bytes[static_cast<size_t>(parsed->tensors[1].offset)], '\2');
        EXPECT_EQ(parsed->tensors[1].offset % alignment, 0);
    }
    EXPECT_EQ(error_of(GgufBuilder().number<uint32_t>("general.alignment", 24)),
              "general.alignment is 24, expected a power of two");
    EXPECT_TRUE(contains(error_of(GgufBuilder().number<uint32_t>("general.alignment", 0)), "is u32 0, expected an integer"));
    EXPECT_TRUE(contains(error_of(GgufBuilder().text("general.alignment", "32")), "is string \"32\", expected an integer"));
}

// --- values ---------------------------------------------------------------------

TEST(GgufMetadata, ReadsEveryTypeThroughItsGetter) {
    const std::string file = sample().build();
    const auto parsed = parse(file);
    ASSERT_TRUE(parsed) << parsed.error().text;
    const GgufMetadata& metadata = parsed->metadata;
    constexpr GgufMetadata::IntegerRange kAny{INT64_MIN, INT64_MAX};
    EXPECT_EQ(metadata.text("general.architecture").value(), "llama");
    EXPECT_EQ(metadata.integer("llama.block_count", kAny).value(), 30);
    EXPECT_EQ(metadata.integer("a.i64", kAny).value(), -5);
    EXPECT_EQ(metadata.integer("a.u8", kAny).value(), 200);
    EXPECT_EQ(metadata.number("a.f32", {0, 1}).value(), 0.5);
    EXPECT_EQ(metadata.number("a.f64", {0, 1e6}).value(), 1e5);
    EXPECT_TRUE(metadata.boolean("a.bool").value());
    EXPECT_EQ(metadata.texts("tokens", 3).value(), (std::vector<std::string_view>{"a", "", "b c"}));
    EXPECT_EQ(metadata.numbers("scores", 2).value(), (std::vector<float>{0.0F, -1.0F}));
    EXPECT_EQ(metadata.small_integers("types", 3).value(), (std::vector<int32_t>{1, 3, 6}));
    EXPECT_EQ(metadata.integer("absent", kAny, 7).value(), 7);
    EXPECT_EQ(metadata.number("absent", {0, 1}, 0.25).value(), 0.25);
    EXPECT_EQ(metadata.text("absent", "x").value(), "x");
    EXPECT_TRUE(metadata.boolean("absent", true).value());
    EXPECT_EQ(metadata.keys().size(), 12U);
    EXPECT_TRUE(metadata.has("a.u8") && !metadata.has("absent"));
}

TEST(GgufMetadata, ErrorsNameKeyValueAndWhatWasExpected) {
    const std::string file = sample().build();
    const auto parsed = parse(file);
    ASSERT_TRUE(parsed) << parsed.error().text;
    const GgufMetadata& metadata = parsed->metadata;
    const auto text = [](const auto& result) { return result ? "no error" : result.error().text; };
    EXPECT_EQ(text(metadata.integer("absent", {1, 9})), "absent is missing, expected an integer from 1 to 9");
    EXPECT_EQ(text(metadata.integer("llama.block_count", {1, 9})),
              "llama.block_count is u32 30, expected an integer from 1 to 9");
    EXPECT_EQ(text(metadata.integer("a.u64", {1, 9})), "a.u64 is u64 18446744073709551615, expected an integer from 1 to 9");
    EXPECT_EQ(text(metadata.integer("a.f32", {0, 9})), "a.f32 is f32 0.5, expected an integer from 0 to 9");
    EXPECT_EQ(text(metadata.integer("general.architecture", {0, 9}, 3)),
              "general.architecture is string \"llama\", expected an integer from 0 to 9");
    EXPECT_EQ(text(metadata.number("a.u8", {0, 1})), "a.u8 is u8 200, expected an f32 or f64 from 0 to 1");
    EXPECT_EQ(text(metadata.boolean("a.u8")), "a.u8 is u8 200, expected a bool");
    EXPECT_EQ(text(metadata.text("a.bool")), "a.bool is bool true, expected a string");
    EXPECT_EQ(text(metadata.texts("tokens", 2)), "tokens is array of 3 string, expected an array of at most 2 string");
    // F04: the right count, another element type.
    EXPECT_EQ(text(metadata.numbers("small", 3)), "small is array of 3 u8, expected an array of at most 3 f32");
    EXPECT_EQ(text(metadata.small_integers("small", 3)), "small is array of 3 u8, expected an array of at most 3 i32");
    EXPECT_EQ(text(metadata.small_integers("absent", 3)), "absent is missing, expected an array of at most 3 i32");
}

TEST(GgufMetadata, RefusesNumbersThatAreNone) {
    GgufBuilder file;
    file.number<float>("nan", std::numeric_limits<float>::quiet_NaN()).number<float>("inf", HUGE_VALF);
    const std::string bytes = file.build();
    const auto parsed = parse(bytes);
    ASSERT_TRUE(parsed) << parsed.error().text;
    EXPECT_FALSE(parsed->metadata.number("nan", {-1e300, 1e300}));
    EXPECT_FALSE(parsed->metadata.number("inf", {-1e300, 1e300}));
}

TEST(GgufMetadata, RefusesBadTypes) {
    EXPECT_TRUE(contains(error_of(GgufBuilder().raw("x", 13, "....")), "type of x is 13, expected 0 to 12"));
    EXPECT_TRUE(contains(error_of(GgufBuilder().raw("x", GgufBuilder::kBool, "\2")), "bool x is 2, expected 0 or 1"));
    const std::string nested = GgufBuilder::bytes_of<uint32_t>(GgufBuilder::kArray) + GgufBuilder::bytes_of<uint64_t>(1) +
                               GgufBuilder::bytes_of<uint32_t>(GgufBuilder::kU8) + GgufBuilder::bytes_of<uint64_t>(0);
    EXPECT_TRUE(contains(error_of(GgufBuilder().raw("x", GgufBuilder::kArray, nested)), "array of arrays"));
}

}  // namespace
}  // namespace di
