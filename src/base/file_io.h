#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace di {

// How a range of a mapped file is going to be used; a hint for the kernel's read-ahead, never needed for correctness.
enum class FileAccess : uint8_t {
    kNormal,
    kSequential,  // read soon, front to back
    kRandom,      // single rows here and there: no read-ahead
    kWillNeed,    // start reading now
    kDontNeed,    // drop the pages from this process; they are read again when touched
};

// A regular file mapped read-only as a whole. Nothing is read before it is touched. Owns the mapping: data() lives
// as long as the object it was moved to. A file that another process shortens while it is mapped
// kills us with SIGBUS when the lost part is touched; model files are not to be edited under a running engine.
class MappedFile {
  public:
    // The error names the path and the reason: not there, no permission, a directory, not a regular file.
    [[nodiscard]] static Result<MappedFile> open(const std::string& path);

    MappedFile(MappedFile&& other) noexcept;
    MappedFile& operator=(MappedFile&& other) noexcept;
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;
    ~MappedFile();

    [[nodiscard]] const std::string& path() const { return path_; }
    // Null for an empty file.
    [[nodiscard]] const uint8_t* data() const { return data_; }
    [[nodiscard]] int64_t size() const { return size_; }
    [[nodiscard]] std::span<const uint8_t> bytes() const { return {data_, static_cast<size_t>(size_)}; }

    // Hints the use of [offset, offset + bytes), clipped to the file.
    void advise(FileAccess access, int64_t offset, int64_t bytes) const;

  private:
    MappedFile(std::string path, const uint8_t* data, int64_t size);
    void unmap();

    std::string path_;
    const uint8_t* data_ = nullptr;
    int64_t size_ = 0;
};

// The content of a file (or pipe) as bytes. A file with more than `bytes_max` bytes is an error, not cut.
[[nodiscard]] Result<std::string> read_file(const std::string& path, int64_t bytes_max);

// Writes `parts` one after the other to `path`: into a temporary file beside it that takes its place when it is complete, so
// that a reader never sees half a file.
[[nodiscard]] Status write_file(const std::string& path, std::span<const std::span<const uint8_t>> parts);

}  // namespace di
