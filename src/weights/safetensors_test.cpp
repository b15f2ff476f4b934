#include "weights/safetensors.h"

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/file_io.h"
#include "safetensors_fixture.h"
#include "temporary_directory.h"

namespace di {
namespace {

// A file with this header text and `data_bytes` bytes of data.
std::string file_of(const std::string& header, size_t data_bytes) {
    std::string file(8, '\0');
    for (size_t i = 0; i < 8; ++i) {
        file[i] = static_cast<char>(header.size() >> (8 * i));
    }
    return file + header + std::string(data_bytes, '\1');
}

Result<SafetensorsHeader> parse(const std::string& file) {
    return parse_safetensors_header({reinterpret_cast<const uint8_t*>(file.data()), file.size()});
}

std::string error_of(const std::string& header, size_t data_bytes) {
    const auto parsed = parse(file_of(header, data_bytes));
    return parsed ? "no error" : parsed.error().text;
}

TEST(Safetensors, ReadsWhatAnIndependentReaderReads) {
    const std::string path = DI_TEST_DATA "/v41-tiny-quant/model-00001-of-00002.safetensors";
    const SafetensorsFixture fixture(path);
    const auto file = SafetensorsFile::open(path);
    ASSERT_TRUE(file) << file.error().text;
    ASSERT_EQ(file->header().tensors.size(), fixture.tensors.size());
    EXPECT_EQ(file->header().metadata.at("format"), "pt");
    for (const SafetensorsEntry& entry : file->header().tensors) {
        const FixtureTensor& expected = fixture.at(entry.name);
        EXPECT_EQ(dtype_to_safetensors(entry.dtype), expected.dtype);
        EXPECT_EQ(entry.shape, expected.shape);
        ASSERT_EQ(entry.bytes, std::ssize(expected.bytes));
        EXPECT_EQ(std::memcmp(file->data(entry), expected.bytes.data(), expected.bytes.size()), 0) << entry.name;
    }
}

TEST(Safetensors, WritesWhatItReadsBack) {
    const TemporaryDirectory directory;
    const std::vector<float> a{1, 2, 3, 4, 5, 6};
    const std::vector<uint8_t> b{7, 8, 9};
    const std::vector<SafetensorsOutput> tensors{
        {"logits", DType::kF32, {2, 3}, a.data()},
        {"empty", DType::kBF16, {0, 5}, nullptr},
        {"caf\xc3\xa9 \"quoted\"", DType::kU8, {3}, b.data()},
        {"scalar", DType::kF32, {}, a.data()},
    };
    const std::string path = directory.file("out.safetensors");
    const auto written = write_safetensors(path, tensors, {{"format", "pt"}, {"note", "x"}});
    ASSERT_TRUE(written) << written.error().text;
    const auto file = SafetensorsFile::open(path);
    ASSERT_TRUE(file) << file.error().text;
    EXPECT_EQ(file->header().metadata.at("note"), "x");
    ASSERT_EQ(file->header().tensors.size(), 4U);
    const SafetensorsFixture fixture(path);  // and so does another reader
    EXPECT_EQ(fixture.at("logits").floats(), a);
    EXPECT_EQ(fixture.at("caf\xc3\xa9 \"quoted\"").bytes, b);
    EXPECT_EQ(fixture.at("scalar").floats(), std::vector<float>{1});
    // The first tensor lies on a multiple of 8, so that plain values can be used in place.
    EXPECT_EQ(file->header().tensors[0].offset % 8, 0);
}

TEST(Safetensors, RefusesToWriteWhatItCouldNotRead) {
    const TemporaryDirectory directory;
    const std::string path = directory.file("out.safetensors");
    const uint8_t byte = 0;
    const auto write = [&](const std::vector<SafetensorsOutput>& tensors) { return write_safetensors(path, tensors, {}); };
    EXPECT_NE(write({{"a", DType::kU8, {1}, &byte}, {"a", DType::kU8, {1}, &byte}}).error().text.find("a name used twice"),
              std::string::npos);
    EXPECT_NE(write({{"a", DType::kF4E2M1, {2}, &byte}}).error().text.find("dtype"), std::string::npos);
    EXPECT_NE(write({{"a", DType::kU8, {-1}, &byte}}).error().text.find("impossible shape"), std::string::npos);
    EXPECT_EQ(write_safetensors(directory.file("no/out.safetensors"), {}, {}).error().code, ErrorCode::kNotFound);
    EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(Safetensors, AcceptsEveryDtypeOfTheFormatsThatWeUse) {
    for (const std::string name : {"F32", "BF16", "F16", "F8_E4M3", "F8_E8M0", "U8", "I8", "I16", "I32", "I64"}) {
        const auto dtype = dtype_from_safetensors(name);
        ASSERT_TRUE(dtype) << name;
        EXPECT_EQ(dtype_to_safetensors(*dtype), name);
        const size_t bytes = static_cast<size_t>(dtype_bits(*dtype)) / 8 * 3;
        EXPECT_EQ(error_of(R"({"a":{"dtype":")" + name + R"(","shape":[3],"data_offsets":[0,)" + std::to_string(bytes) + "]}}",
                           bytes),
                  "no error");
    }
    EXPECT_FALSE(dtype_from_safetensors("F64"));
    EXPECT_FALSE(dtype_from_safetensors("f32"));
}

struct BadHeader {
    std::string header;
    size_t data_bytes;
    std::string expected_text;
};

TEST(Safetensors, NamesWhatIsWrongInAHeader) {
    const std::string good = R"("a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
    const std::vector<BadHeader> cases{
        {"", 0, "not JSON"},
        {"[1]", 0, "header is an array"},
        {"7", 0, "header is a number"},
        {R"({"a":7})", 0, "out of place"},
        {R"({"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}})", 8, "dtype is \"F64\", expected one of F32"},
        {R"({"a":{"dtype":"NOPE","shape":[1],"data_offsets":[9,4]}})", 8, "dtype is \"NOPE\""},
        {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[4,0]}})", 4, "data_offsets are [4, 0], expected begin <= end"},
        {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[-4,0]}})", 4, "data_offsets contains -4"},
        {R"({"a":{"dtype":"U8","shape":[-4],"data_offsets":[0,4]}})", 4, "shape contains -4"},
        {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4.0]}})", 4, "expected integers"},
        {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,18446744073709551615]}})", 4, "expected integers below 2^63"},
        {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0]}})", 4, "data_offsets is missing or incomplete"},
        {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4,4]}})", 4, "data_offsets has more than 2 entries"},
        {R"({"a":{"dtype":"U8","shape":[4]}})", 4, "data_offsets is missing"},
        {R"({"a":{"shape":[4],"data_offsets":[0,4]}})", 4, "dtype is missing"},
        {R"({"a":{"dtype":"U8","data_offsets":[0,4]}})", 4, "shape is missing"},
        {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,4]}})", 4,
         "shape [2] of u8 needs 2 bytes, data_offsets [0, 4] give 4"},
        {R"({"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}})", 1, "shape has more than 8 entries"},
        {R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0, "needs more than 2^63 bytes"},
        {R"({"a":{"dtype":"F32","shape":[2305843009213693952,2,4],"data_offsets":[0,0]}})", 0, "needs more than 2^63 bytes"},
        {R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})", 4,
         "truncated: the header promises 8 bytes of data, there are 4"},
        {"{" + good + "}", 6, "2 bytes behind the last tensor"},
        {"{" + good + R"(,"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})", 6, "tensors a and b overlap"},
        {"{" + good + R"(,"b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 4, "overlap"},
        {"{" + good + R"(,"b":{"dtype":"U8","shape":[4],"data_offsets":[6,10]}})", 10, "gap of 2 bytes before tensor b"},
        {"{" + good + "," + good + "}", 4, "key \"a\" occurs twice"},
        {R"({"a":{"dtype":"U8","dtype":"I8","shape":[4],"data_offsets":[0,4]}})", 4, "key \"dtype\" occurs twice"},
        {R"({"__metadata__":{"x":1},)" + good + "}", 4, "__metadata__ contains a number"},
        {R"({"a":{"dtype":"U8","shape":[[4]],"data_offsets":[0,4]}})", 4, "out of place"},
        {R"({"a":{"dtype":"U8","shape":[{}],"data_offsets":[0,4]}})", 4, "out of place"},
        {R"({"a":{"dtype":{"b":1},"shape":[4],"data_offsets":[0,4]}})", 4, "out of place"},
        {R"({"a":)" + std::string(10000, '['), 0, "out of place"},
        {R"({"a":)" + std::string(10000, '{'), 0, "not JSON"},
        {"{\"" + std::string(600, 'n') + R"(":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 4,
         "has 600 bytes, expected at most 512"},
        {"{\"\xff\":1}", 0, "not JSON"},
    };
    for (const BadHeader& item : cases) {
        const std::string error = error_of(item.header, item.data_bytes);
        EXPECT_NE(error.find(item.expected_text), std::string::npos) << item.header.substr(0, 120) << "\n -> " << error;
        EXPECT_LT(error.size(), 700U);
    }
    EXPECT_EQ(error_of("{" + good + "}", 4), "no error");
    EXPECT_EQ(error_of("{}", 0), "no error");
    // Empty tensors share a place with others and with the end.
    EXPECT_EQ(
        error_of(
            "{" + good +
                R"(,"e":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"f":{"dtype":"F32","shape":[3,0],"data_offsets":[4,4]}})",
            4),
        "no error");
}

TEST(Safetensors, RejectsFilesThatEndTooEarly) {
    const std::string file = file_of(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 4);
    ASSERT_TRUE(parse(file));
    for (size_t length = 0; length < file.size(); ++length) {
        const auto parsed = parse(file.substr(0, length));
        ASSERT_FALSE(parsed) << length;
        EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidFile);
    }
    std::string huge = file;
    huge.replace(0, 8, std::string(8, '\xff'));
    EXPECT_NE(parse(huge).error().text.find("header length is 18446744073709551615"), std::string::npos);
}

TEST(Safetensors, SurvivesEveryFlippedByteOfAHeader) {
    const std::string file = file_of(
        R"({"__metadata__":{"f":"pt"},"a":{"dtype":"U8","shape":[2,2],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
        8);
    std::mt19937 random(20260101);  // fixed seed
    for (int round = 0; round < 20000; ++round) {
        std::string changed = file;
        for (uint32_t i = 0; i < 1 + random() % 3; ++i) {
            changed[random() % changed.size()] = static_cast<char>(random());
        }
        if (const auto parsed = parse(changed)) {
            for (const SafetensorsEntry& entry : parsed->tensors) {
                EXPECT_GE(entry.offset, 0);
                EXPECT_LE(entry.offset + entry.bytes, std::ssize(changed));
            }
        }
    }
}

TEST(TensorBytes, RefuseWhatDoesNotFit) {
    const auto bytes = [](DType dtype, std::vector<int64_t> shape) { return tensor_bytes(dtype, shape); };
    EXPECT_EQ(bytes(DType::kF32, {2, 3}), 24);
    EXPECT_EQ(bytes(DType::kF32, {}), 4);
    EXPECT_EQ(bytes(DType::kF4E2M1, {3, 32}), 48);
    EXPECT_EQ(bytes(DType::kU8, {0, int64_t{1} << 40}), 0);
    EXPECT_FALSE(bytes(DType::kU8, {int64_t{1} << 40, int64_t{1} << 40}));
    EXPECT_FALSE(bytes(DType::kU8, {-1}));
}

}  // namespace
}  // namespace di
