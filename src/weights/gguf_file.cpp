#include "weights/gguf_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <unordered_set>
#include <utility>

#include <fmt/ranges.h>

#include "weights/json_events.h"
#include "weights/limits.h"

namespace di {

namespace {

constexpr uint32_t kVersionMin = 2;
constexpr uint32_t kVersionMax = 3;
constexpr int64_t kDefaultAlignment = 32;
constexpr std::string_view kAlignmentKey = "general.alignment";
// The least that one description takes: a name of one byte, rank, one dimension, type, offset.
constexpr int64_t kTensorBytesMin = 8 + 1 + 4 + 8 + 4 + 8;
constexpr int64_t kPairBytesMin = 8 + 4 + 1;

struct TensorType {
    uint32_t number;
    std::string_view name;
    std::optional<DType> dtype;  // none: known and not supported
};

constexpr std::array<TensorType, 34> kTensorTypes{{
    {0, "F32", DType::kF32},       {1, "F16", DType::kF16},      {2, "Q4_0", DType::kQ4_0},     {3, "Q4_1", DType::kQ4_1},
    {6, "Q5_0", DType::kQ5_0},     {7, "Q5_1", DType::kQ5_1},    {8, "Q8_0", DType::kQ8_0},     {9, "Q8_1", std::nullopt},
    {10, "Q2_K", DType::kQ2_K},    {11, "Q3_K", DType::kQ3_K},   {12, "Q4_K", DType::kQ4_K},    {13, "Q5_K", DType::kQ5_K},
    {14, "Q6_K", DType::kQ6_K},    {15, "Q8_K", std::nullopt},   {16, "IQ2_XXS", std::nullopt}, {17, "IQ2_XS", std::nullopt},
    {18, "IQ3_XXS", std::nullopt}, {19, "IQ1_S", std::nullopt},  {20, "IQ4_NL", DType::kIq4Nl}, {21, "IQ3_S", std::nullopt},
    {22, "IQ2_S", std::nullopt},   {23, "IQ4_XS", std::nullopt}, {24, "I8", DType::kI8},        {25, "I16", DType::kI16},
    {26, "I32", DType::kI32},      {27, "I64", DType::kI64},     {28, "F64", std::nullopt},     {29, "IQ1_M", std::nullopt},
    {30, "BF16", DType::kBF16},    {34, "TQ1_0", std::nullopt},  {35, "TQ2_0", std::nullopt},   {39, "MXFP4", DType::kMxfp4},
    {40, "NVFP4", std::nullopt},   {41, "Q1_0", std::nullopt},
}};

Result<DType> tensor_type(uint32_t number, const std::string& shown_name) {
    const auto* found = std::ranges::find(kTensorTypes, number, &TensorType::number);
    if (found == kTensorTypes.end()) {
        return fail(ErrorCode::kInvalidFile, "tensor {}: type is {}, which is no known type", shown_name, number);
    }
    if (!found->dtype) {
        return fail(
            ErrorCode::kUnsupported,
            "tensor {}: type {} is not supported (F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K to Q6_K, IQ4_NL and "
            "MXFP4 are)",
            shown_name, found->name);
    }
    return *found->dtype;
}

struct Counts {
    uint32_t version = 0;
    int64_t tensors = 0;
    int64_t keys = 0;
};

Result<Counts> read_counts(GgufCursor& cursor) {
    DI_TRY(const std::span<const uint8_t> magic, cursor.take(4, "the magic"));
    if (!std::ranges::equal(magic, std::string_view("GGUF"), {}, {}, [](char c) { return static_cast<uint8_t>(c); })) {
        return fail(ErrorCode::kInvalidFile, "the file begins with {:02x}, expected the magic \"GGUF\"", fmt::join(magic, " "));
    }
    Counts counts;
    DI_TRY(counts.version, cursor.number<uint32_t>("the version"));
    if (counts.version < kVersionMin || counts.version > kVersionMax) {
        const uint32_t swapped = __builtin_bswap32(counts.version);
        if (swapped >= 1 && swapped <= kVersionMax) {
            return fail(ErrorCode::kUnsupported,
                        "the file is big-endian (version {} in that order), only little-endian is read", swapped);
        }
        return fail(ErrorCode::kUnsupported, "the version is {}, only {} and {} are read", counts.version, kVersionMin,
                    kVersionMax);
    }
    DI_TRY(counts.tensors, cursor.count("the number of tensors", kTensorBytesMin, limits::kTensorCountMax));
    DI_TRY(counts.keys, cursor.count("the number of keys", kPairBytesMin, limits::kGgufKeyCountMax));
    return counts;
}

Result<int64_t> read_alignment(const GgufMetadata& metadata) {
    DI_TRY(const int64_t alignment, metadata.integer(kAlignmentKey, {1, limits::kGgufAlignmentMax}, kDefaultAlignment));
    if (!std::has_single_bit(static_cast<uint64_t>(alignment))) {
        return fail(ErrorCode::kInvalidFile, "{} is {}, expected a power of two", kAlignmentKey, alignment);
    }
    return alignment;
}

// Rows first, and the bytes they take. Each dimension is at least 1, their product and its bytes fit 63 bits.
Status read_shape(GgufCursor& cursor, const std::string& shown_name, GgufTensor& tensor) {
    const std::string field = fmt::format("dimensions of tensor {}", shown_name);
    DI_TRY(const uint32_t rank, cursor.number<uint32_t>(field));
    if (rank < 1 || rank > limits::kGgufRankMax) {
        return fail(ErrorCode::kInvalidFile, "tensor {} has {} dimensions, expected 1 to {}", shown_name, rank,
                    limits::kGgufRankMax);
    }
    std::vector<uint64_t> dims;  // row length first
    for (uint32_t i = 0; i < rank; ++i) {
        DI_TRY(const uint64_t dim, cursor.number<uint64_t>(field));
        dims.push_back(dim);
    }
    int64_t count = 1;
    for (const uint64_t dim : dims) {
        if (dim < 1 || std::cmp_greater(dim, INT64_MAX) || __builtin_mul_overflow(count, static_cast<int64_t>(dim), &count)) {
            return fail(ErrorCode::kInvalidFile,
                        "tensor {} has the dimensions {}, expected at least 1 each and a product below 2^63", shown_name,
                        fmt::join(dims, " x "));
        }
    }
    tensor.shape.assign(dims.rbegin(), dims.rend());
    tensor.bytes = count;  // values so far: the type comes behind
    return {};
}

Result<GgufTensor> read_tensor(GgufCursor& cursor, int64_t index) {
    GgufTensor tensor;
    DI_TRY(const std::string_view name, cursor.text(fmt::format("name of tensor {}", index), limits::kTensorNameBytesMax));
    const std::string shown_name = quoted_for_message(name);
    if (name.empty()) {
        return fail(ErrorCode::kInvalidFile, "tensor {} has an empty name", index);
    }
    tensor.name = name;
    DI_TRY_STATUS(read_shape(cursor, shown_name, tensor));
    DI_TRY(const uint32_t type, cursor.number<uint32_t>(fmt::format("type of tensor {}", shown_name)));
    DI_TRY(tensor.dtype, tensor_type(type, shown_name));
    const DTypeBlock block = dtype_block(tensor.dtype);
    if (tensor.shape.back() % block.values != 0) {
        return fail(ErrorCode::kInvalidFile, "tensor {}: rows have {} values, expected a multiple of {} for {}", shown_name,
                    tensor.shape.back(), block.values, dtype_name(tensor.dtype));
    }
    if (__builtin_mul_overflow(tensor.bytes / block.values, block.bytes, &tensor.bytes)) {
        return fail(ErrorCode::kInvalidFile, "tensor {} has more than 2^63 bytes", shown_name);
    }
    DI_TRY(const uint64_t offset, cursor.number<uint64_t>(fmt::format("offset of tensor {}", shown_name)));
    if (std::cmp_greater(offset, INT64_MAX)) {
        return fail(ErrorCode::kInvalidFile, "tensor {}: offset is {}, expected less than 2^63", shown_name, offset);
    }
    tensor.offset = static_cast<int64_t>(offset);
    return tensor;
}

// Makes the offsets absolute: the data begins at `data_offset` of `file_bytes`.
Status place_tensors(std::vector<GgufTensor>& tensors, int64_t data_offset, int64_t file_bytes, int64_t alignment) {
    const int64_t data_bytes = std::max<int64_t>(file_bytes - data_offset, 0);
    for (GgufTensor& tensor : tensors) {
        if (tensor.offset % alignment != 0) {
            return fail(ErrorCode::kInvalidFile, "tensor {}: offset is {}, expected a multiple of the alignment {}",
                        quoted_for_message(tensor.name), tensor.offset, alignment);
        }
        if (tensor.offset > data_bytes || tensor.bytes > data_bytes - tensor.offset) {
            return fail(ErrorCode::kInvalidFile,
                        "tensor {}: {} bytes at offset {} of the data, which has {} bytes: the file is truncated or damaged",
                        quoted_for_message(tensor.name), tensor.bytes, tensor.offset, data_bytes);
        }
        tensor.offset += data_offset;
    }
    std::vector<const GgufTensor*> by_place;
    by_place.reserve(tensors.size());
    for (const GgufTensor& tensor : tensors) {
        by_place.push_back(&tensor);
    }
    std::ranges::stable_sort(by_place, {}, &GgufTensor::offset);
    for (size_t i = 1; i < by_place.size(); ++i) {
        const GgufTensor& before = *by_place[i - 1];
        if (by_place[i]->offset < before.offset + before.bytes) {
            return fail(ErrorCode::kInvalidFile, "tensors {} and {} overlap", quoted_for_message(before.name),
                        quoted_for_message(by_place[i]->name));
        }
    }
    return {};
}

}  // namespace

Result<GgufHeader> parse_gguf_header(std::span<const uint8_t> file) {
    GgufCursor cursor(file);
    DI_TRY(const Counts counts, read_counts(cursor));
    GgufHeader header{.version = counts.version, .metadata = {}, .tensors = {}};
    DI_TRY(header.metadata, GgufMetadata::read(cursor, counts.keys));
    DI_TRY(const int64_t alignment, read_alignment(header.metadata));
    std::unordered_set<std::string_view> names;
    header.tensors.reserve(static_cast<size_t>(counts.tensors));  // so that the views of names stay
    for (int64_t i = 0; i < counts.tensors; ++i) {
        DI_TRY(GgufTensor tensor, read_tensor(cursor, i));
        header.tensors.push_back(std::move(tensor));
        if (!names.insert(header.tensors.back().name).second) {
            return fail(ErrorCode::kInvalidFile, "tensor {} occurs twice", quoted_for_message(header.tensors.back().name));
        }
    }
    const int64_t data_offset = (cursor.offset() + alignment - 1) / alignment * alignment;
    DI_TRY_STATUS(place_tensors(header.tensors, data_offset, static_cast<int64_t>(file.size()), alignment));
    return header;
}

Result<GgufFile> GgufFile::open(const std::string& path) {
    DI_TRY(MappedFile file, MappedFile::open(path));
    auto header = parse_gguf_header(file.bytes());
    if (!header) {
        return fail_in(path, std::move(header.error()));
    }
    return GgufFile(std::move(file), std::move(*header));
}

bool is_gguf_path(std::string_view path) { return path.ends_with(".gguf"); }

}  // namespace di
