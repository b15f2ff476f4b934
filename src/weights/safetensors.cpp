#include "weights/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <utility>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "weights/json_events.h"
#include "weights/limits.h"

namespace di {

namespace {

constexpr int64_t kLengthBytes = 8;
constexpr std::string_view kMetadataKey = "__metadata__";

struct DTypeName {
    DType dtype;
    std::string_view name;
};

constexpr std::array<DTypeName, 10> kDTypeNames{{
    {DType::kF32, "F32"},
    {DType::kBF16, "BF16"},
    {DType::kF16, "F16"},
    {DType::kF8E4M3, "F8_E4M3"},
    {DType::kF8E8M0, "F8_E8M0"},
    {DType::kU8, "U8"},
    {DType::kI8, "I8"},
    {DType::kI16, "I16"},
    {DType::kI32, "I32"},
    {DType::kI64, "I64"},
}};

// Builds the tensor list from the header's events. An entry's offsets are relative to the data until place_tensors.
class HeaderEvents : public JsonEvents {
  public:
    SafetensorsHeader header;
    std::string error;  // why it stopped

    bool key(std::string& name) override {
        if (depth_ == 1) {
            return start_entry(name);
        }
        field_ = name;
        return true;
    }

    bool string(std::string& value) override {
        if (is_metadata_ && depth_ == 2) {
            header.metadata[field_] = value;
            return true;
        }
        if (depth_ != 2 || field_ != "dtype") {
            return unexpected("a string");
        }
        const auto dtype = dtype_from_safetensors(value);
        if (!dtype) {
            error = fmt::format(
                "tensor {}: dtype is \"{}\", expected one of F32, BF16, F16, F8_E4M3, F8_E8M0, U8, I8, I16, I32, I64",
                quoted_for_message(entry_.name), quoted_for_message(value));
            return false;
        }
        entry_.dtype = *dtype;
        has_dtype_ = true;
        return true;
    }

    bool integer(int64_t value) override {
        if (!is_in_list_) {
            return unexpected("a number");
        }
        if (value < 0) {
            error = fmt::format("tensor {}: {} contains {}, expected no negative number", quoted_for_message(entry_.name),
                                field_, value);
            return false;
        }
        std::vector<int64_t>& list = field_ == "shape" ? entry_.shape : offsets_;
        const int64_t size_max = field_ == "shape" ? limits::kTensorRankMax : 2;
        if (std::cmp_greater_equal(list.size(), size_max)) {
            error = fmt::format("tensor {}: {} has more than {} entries", quoted_for_message(entry_.name), field_, size_max);
            return false;
        }
        list.push_back(value);
        return true;
    }

    bool real(double value) override {
        error = fmt::format("tensor {}: {} contains {}, expected integers below 2^63", quoted_for_message(entry_.name),
                            quoted_for_message(field_), value);
        return false;
    }
    bool boolean(bool /*value*/) override { return unexpected("a boolean"); }
    bool null() override { return unexpected("null"); }

    bool start_object() override {
        ++depth_;
        if (depth_ > 2 || is_in_list_) {
            return unexpected("an object");
        }
        return true;
    }

    bool end_object() override {
        --depth_;
        if (depth_ == 1 && !is_metadata_) {
            return finish_entry();
        }
        return true;
    }

    bool start_array() override {
        if (depth_ != 2 || is_metadata_ || is_in_list_ || (field_ != "shape" && field_ != "data_offsets")) {
            return unexpected("an array");
        }
        is_in_list_ = true;
        has_shape_ = has_shape_ || field_ == "shape";
        return true;
    }
    bool end_array() override {
        is_in_list_ = false;
        return true;
    }

  private:
    bool start_entry(const std::string& name) {
        is_metadata_ = name == kMetadataKey;
        if (std::cmp_greater(name.size(), limits::kTensorNameBytesMax)) {
            error = fmt::format("tensor name {} has {} bytes, expected at most {}", quoted_for_message(name), name.size(),
                                limits::kTensorNameBytesMax);
            return false;
        }
        if (std::cmp_greater_equal(header.tensors.size(), limits::kTensorCountMax)) {
            error = fmt::format("more than {} tensors", limits::kTensorCountMax);
            return false;
        }
        entry_ = SafetensorsEntry{};
        entry_.name = name;
        offsets_.clear();
        field_.clear();
        has_dtype_ = false;
        has_shape_ = false;
        return true;
    }

    bool finish_entry() {
        if (!has_dtype_ || !has_shape_ || offsets_.size() != 2) {
            error = fmt::format("tensor {}: {} is missing or incomplete, expected dtype, shape and two data_offsets",
                                quoted_for_message(entry_.name),
                                !has_dtype_   ? "dtype"
                                : !has_shape_ ? "shape"
                                              : "data_offsets");
            return false;
        }
        const int64_t begin = offsets_[0];
        const int64_t end = offsets_[1];
        if (begin > end) {
            error = fmt::format("tensor {}: data_offsets are [{}, {}], expected begin <= end", quoted_for_message(entry_.name),
                                begin, end);
            return false;
        }
        const auto bytes = tensor_bytes(entry_.dtype, entry_.shape);
        if (!bytes || *bytes != end - begin) {
            error = fmt::format("tensor {}: shape [{}] of {} needs {} bytes, data_offsets [{}, {}] give {}",
                                quoted_for_message(entry_.name), fmt::join(entry_.shape, ", "), dtype_name(entry_.dtype),
                                bytes ? std::to_string(*bytes) : "more than 2^63", begin, end, end - begin);
            return false;
        }
        entry_.offset = begin;
        entry_.bytes = end - begin;
        header.tensors.push_back(std::move(entry_));
        return true;
    }

    bool unexpected(std::string_view what) {
        if (depth_ == 0) {
            error = fmt::format("header is {}, expected an object", what);
        } else if (is_metadata_) {
            error = fmt::format("{} contains {}, expected strings only", kMetadataKey, what);
        } else {
            error = fmt::format("tensor {}: {} in \"{}\" is out of place", quoted_for_message(entry_.name), what,
                                quoted_for_message(field_));
        }
        return false;
    }

    SafetensorsEntry entry_;
    std::vector<int64_t> offsets_;
    std::string field_;
    int depth_ = 0;  // of objects
    bool is_metadata_ = false;
    bool is_in_list_ = false;
    bool has_dtype_ = false;
    bool has_shape_ = false;
};

// Sorts the tensors by place and makes their offsets absolute. The data must be covered once and completely.
Status place_tensors(std::vector<SafetensorsEntry>& tensors, int64_t data_offset, int64_t data_bytes) {
    // Empty tensors before others at the same place, so that they do not look like an overlap.
    std::ranges::stable_sort(tensors, [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
        return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
    });
    int64_t end = 0;
    const SafetensorsEntry* last = nullptr;
    for (SafetensorsEntry& tensor : tensors) {
        if (tensor.offset < end) {
            return fail(ErrorCode::kInvalidFile, "tensors {} and {} overlap", quoted_for_message(last->name),
                        quoted_for_message(tensor.name));
        }
        if (tensor.offset > end) {
            return fail(ErrorCode::kInvalidFile, "gap of {} bytes before tensor {}, expected none", tensor.offset - end,
                        quoted_for_message(tensor.name));
        }
        end = tensor.offset + tensor.bytes;
        last = &tensor;
    }
    if (end > data_bytes) {
        return fail(ErrorCode::kInvalidFile, "file is truncated: the header promises {} bytes of data, there are {}", end,
                    data_bytes);
    }
    if (end < data_bytes) {
        return fail(ErrorCode::kInvalidFile, "{} bytes behind the last tensor, expected none", data_bytes - end);
    }
    for (SafetensorsEntry& tensor : tensors) {
        tensor.offset += data_offset;
    }
    return {};
}

// `size` as the format's 8 little-endian bytes and back.
std::array<uint8_t, kLengthBytes> to_little_endian(uint64_t size) {
    std::array<uint8_t, kLengthBytes> bytes{};
    for (size_t i = 0; i < bytes.size(); ++i) {
        bytes[i] = static_cast<uint8_t>(size >> (8 * i));
    }
    return bytes;
}

uint64_t from_little_endian(std::span<const uint8_t> bytes) {
    uint64_t size = 0;
    for (size_t i = 0; i < kLengthBytes; ++i) {
        size |= uint64_t{bytes[i]} << (8 * i);
    }
    return size;
}

}  // namespace

std::optional<DType> dtype_from_safetensors(std::string_view name) {
    const auto* found = std::ranges::find(kDTypeNames, name, &DTypeName::name);
    return found == kDTypeNames.end() ? std::nullopt : std::optional(found->dtype);
}

std::optional<std::string_view> dtype_to_safetensors(DType dtype) {
    const auto* found = std::ranges::find(kDTypeNames, dtype, &DTypeName::dtype);
    return found == kDTypeNames.end() ? std::nullopt : std::optional(found->name);
}

std::optional<int64_t> tensor_bytes(DType dtype, std::span<const int64_t> shape) {
    const DTypeBlock block = dtype_block(dtype);
    int64_t bytes = block.bytes;  // of as many values as a block has, for each element
    for (const int64_t dim : shape) {
        if (dim < 0 || __builtin_mul_overflow(bytes, dim, &bytes)) {
            return std::nullopt;
        }
    }
    return bytes / block.values + (bytes % block.values != 0 ? 1 : 0);
}

Result<SafetensorsHeader> parse_safetensors_header(std::span<const uint8_t> file) {
    const auto file_bytes = static_cast<int64_t>(file.size());
    if (file_bytes < kLengthBytes) {
        return fail(ErrorCode::kInvalidFile, "file has {} bytes, too few for the header length of a safetensors file",
                    file_bytes);
    }
    const uint64_t header_bytes = from_little_endian(file);
    if (std::cmp_greater(header_bytes, limits::kHeaderBytesMax)) {
        return fail(ErrorCode::kInvalidFile, "header length is {}, expected at most {}", header_bytes, limits::kHeaderBytesMax);
    }
    const int64_t data_offset = kLengthBytes + static_cast<int64_t>(header_bytes);
    if (data_offset > file_bytes) {
        return fail(ErrorCode::kInvalidFile, "file is truncated: header length is {}, the file has {} bytes", header_bytes,
                    file_bytes);
    }
    const std::string_view text(reinterpret_cast<const char*>(file.data()) + kLengthBytes, header_bytes);
    HeaderEvents events;
    if (auto status = read_json_events(text, events); !status) {
        return fail_in("header", std::move(status.error()));
    }
    if (!events.error.empty()) {
        return fail(ErrorCode::kInvalidFile, "{}", events.error);
    }
    DI_TRY_STATUS(place_tensors(events.header.tensors, data_offset, file_bytes - data_offset));
    return std::move(events.header);
}

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
    DI_TRY(MappedFile file, MappedFile::open(path));
    auto header = parse_safetensors_header(file.bytes());
    if (!header) {
        return fail_in(path, std::move(header.error()));
    }
    return SafetensorsFile(std::move(file), std::move(*header));
}

Status write_safetensors(const std::string& path, std::span<const SafetensorsOutput> tensors,
                         const std::map<std::string, std::string>& metadata) {
    nlohmann::ordered_json header = nlohmann::ordered_json::object();
    if (!metadata.empty()) {
        header[std::string(kMetadataKey)] = metadata;
    }
    std::vector<std::span<const uint8_t>> parts(2);
    std::set<std::string_view> names{kMetadataKey};
    int64_t end = 0;
    for (const SafetensorsOutput& tensor : tensors) {
        const auto dtype = dtype_to_safetensors(tensor.dtype);
        const auto bytes = tensor_bytes(tensor.dtype, tensor.shape);
        if (!dtype || !bytes || !names.insert(tensor.name).second) {
            return fail(ErrorCode::kInvalidArgument, "cannot write {}: tensor {} has {}", path, tensor.name,
                        !dtype   ? "a dtype that the format cannot name"
                        : !bytes ? "an impossible shape"
                                 : "a name used twice");
        }
        header[tensor.name] = {{"dtype", *dtype}, {"shape", tensor.shape}, {"data_offsets", {end, end + *bytes}}};
        parts.emplace_back(static_cast<const uint8_t*>(tensor.data), static_cast<size_t>(*bytes));
        end += *bytes;
    }
    std::string text = header.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
    text.resize((text.size() + 7) / 8 * 8, ' ');  // the data begins aligned
    const auto length = to_little_endian(text.size());
    parts[0] = length;
    parts[1] = {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
    return write_file(path, parts);
}

}  // namespace di
