#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_io.h"
#include "base/result.h"
#include "tensor/dtype.h"

// The safetensors container: 8 bytes length (little-endian), a JSON header {name: {dtype, shape, data_offsets}}, then the data
// without gaps.
namespace di {

// "F32", "BF16", "F8_E4M3", ...; packed FP4 has no name of its own in these files (it is stored as I8).
[[nodiscard]] std::optional<DType> dtype_from_safetensors(std::string_view name);
[[nodiscard]] std::optional<std::string_view> dtype_to_safetensors(DType dtype);

struct SafetensorsEntry {
    std::string name;
    DType dtype = DType::kF32;
    std::vector<int64_t> shape;  // empty: one value
    int64_t offset = 0;          // of the first byte, in the file
    int64_t bytes = 0;
};

struct SafetensorsHeader {
    std::vector<SafetensorsEntry> tensors;  // in the order of their data
    std::map<std::string, std::string> metadata;
};

// Reads and checks the header of a file whose whole content is `file` (usually mapped: only the header is touched). Accepts
// nothing that a reader could trip over: every offset lies inside the file, the tensors neither overlap nor leave gaps, a
// tensor's bytes are the product of its shape, no name occurs twice.
[[nodiscard]] Result<SafetensorsHeader> parse_safetensors_header(std::span<const uint8_t> file);

// A mapped file with its checked header. Owns the mapping.
class SafetensorsFile {
  public:
    // Errors begin with the path.
    [[nodiscard]] static Result<SafetensorsFile> open(const std::string& path);

    [[nodiscard]] const std::string& path() const { return file_.path(); }
    [[nodiscard]] const SafetensorsHeader& header() const { return header_; }
    [[nodiscard]] const MappedFile& file() const { return file_; }
    // Inside the mapping; may be unaligned. Null when the tensor has no bytes and the file ends there.
    [[nodiscard]] const uint8_t* data(const SafetensorsEntry& entry) const { return file_.data() + entry.offset; }

  private:
    SafetensorsFile(MappedFile file, SafetensorsHeader header) : file_(std::move(file)), header_(std::move(header)) {}

    MappedFile file_;
    SafetensorsHeader header_;
};

// One tensor of a file to be written; does not own. Dense, in the order of `shape`.
struct SafetensorsOutput {
    std::string name;
    DType dtype = DType::kF32;
    std::vector<int64_t> shape;
    const void* data = nullptr;
};

// Writes `tensors` in the given order, with string metadata. The file appears at `path` only when it is complete.
[[nodiscard]] Status write_safetensors(const std::string& path, std::span<const SafetensorsOutput> tensors,
                                       const std::map<std::string, std::string>& metadata);

// Bytes of a tensor, or nothing when a dimension is negative or a product overflows.
[[nodiscard]] std::optional<int64_t> tensor_bytes(DType dtype, std::span<const int64_t> shape);

}  // namespace di
