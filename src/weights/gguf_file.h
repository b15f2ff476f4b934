#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file_io.h"
#include "base/result.h"
#include "tensor/dtype.h"
#include "weights/gguf_metadata.h"

// The GGUF container, versions 2 and 3, little-endian: magic, counts, keys with values, tensor descriptions, then the data,
// each tensor on a multiple of general.alignment.
namespace di {

struct GgufTensor {
    std::string name;
    DType dtype = DType::kF32;
    std::vector<int64_t> shape;  // rows first, as elsewhere here (the file has the row length first)
    int64_t offset = 0;          // of the first byte, in the file
    int64_t bytes = 0;
};

struct GgufHeader {
    uint32_t version = 0;
    GgufMetadata metadata;            // views into the file's bytes
    std::vector<GgufTensor> tensors;  // in the order of the file
};

// Reads and checks everything before the data of a file whose whole content is `file` (usually mapped). Accepts nothing that
// a reader could trip over: all counts and lengths lie inside the file, every tensor too, none overlap, no name or key
// occurs twice. A file without tensors or keys is right by itself (a vocabulary alone).
[[nodiscard]] Result<GgufHeader> parse_gguf_header(std::span<const uint8_t> file);

// A mapped file with its checked header. Owns the mapping.
class GgufFile {
  public:
    // Errors begin with the path.
    [[nodiscard]] static Result<GgufFile> open(const std::string& path);

    [[nodiscard]] const std::string& path() const { return file_.path(); }
    [[nodiscard]] const GgufHeader& header() const { return header_; }
    [[nodiscard]] const GgufMetadata& metadata() const { return header_.metadata; }
    [[nodiscard]] const MappedFile& file() const { return file_; }
    // Inside the mapping.
    [[nodiscard]] const uint8_t* data(const GgufTensor& tensor) const { return file_.data() + tensor.offset; }

  private:
    GgufFile(MappedFile file, GgufHeader header) : file_(std::move(file)), header_(std::move(header)) {}

    MappedFile file_;
    GgufHeader header_;
};

// Whether `path` names a GGUF file rather than a model directory: by its ending.
[[nodiscard]] bool is_gguf_path(std::string_view path);

}  // namespace di
