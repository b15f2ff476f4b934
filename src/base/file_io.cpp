#include "base/file_io.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace di {

namespace {

// Closes the descriptor at the end of its scope.
class Descriptor {
  public:
    explicit Descriptor(int value) : value_(value) {}
    ~Descriptor() { close_now(); }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;

    [[nodiscard]] int get() const { return value_; }
    // False when the system reports a late write error.
    bool close_now() {
        const int value = std::exchange(value_, -1);
        return value < 0 || ::close(value) == 0;
    }

  private:
    int value_;
};

tl::unexpected<Error> system_failure(const char* action, const std::string& path, int error_number) {
    const ErrorCode code = error_number == ENOENT || error_number == ENOTDIR ? ErrorCode::kNotFound
                           : error_number == ENOMEM                          ? ErrorCode::kOutOfMemory
                                                                             : ErrorCode::kInvalidFile;
    return fail(code, "cannot {} {}: {}", action, path, std::strerror(error_number));
}

int open_for_reading(const std::string& path, int flags) {
    int descriptor = -1;
    do {
        descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags);
    } while (descriptor < 0 && errno == EINTR);
    return descriptor;
}

int madvise_value(FileAccess access) {
    switch (access) {
        case FileAccess::kNormal: return MADV_NORMAL;
        case FileAccess::kSequential: return MADV_SEQUENTIAL;
        case FileAccess::kRandom: return MADV_RANDOM;
        case FileAccess::kWillNeed: return MADV_WILLNEED;
        case FileAccess::kDontNeed: return MADV_DONTNEED;
    }
    return MADV_NORMAL;
}

// Writes all of `bytes`; false with errno set when the system refuses.
bool write_all(int descriptor, std::span<const uint8_t> bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) {
            continue;
        }
        if (written <= 0) {
            return false;
        }
        bytes = bytes.subspan(static_cast<size_t>(written));
    }
    return true;
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path) {
    // O_NONBLOCK: a pipe in place of the file must not hang us before we can see what it is.
    const Descriptor file(open_for_reading(path, O_NONBLOCK));
    if (file.get() < 0) {
        return system_failure("open", path, errno);
    }
    struct stat info {};
    if (::fstat(file.get(), &info) != 0) {
        return system_failure("inspect", path, errno);
    }
    if (!S_ISREG(info.st_mode)) {
        return fail(ErrorCode::kInvalidFile, "cannot map {}: it is {}, expected a regular file", path,
                    S_ISDIR(info.st_mode) ? "a directory" : "a pipe, socket or device");
    }
    if (info.st_size == 0) {
        return MappedFile(path, nullptr, 0);
    }
    void* data = ::mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_SHARED, file.get(), 0);
    if (data == MAP_FAILED) {
        return system_failure("map", path, errno);
    }
    return MappedFile(path, static_cast<const uint8_t*>(data), info.st_size);
}

MappedFile::MappedFile(std::string path, const uint8_t* data, int64_t size)
    : path_(std::move(path)), data_(data), size_(size) {}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
    if (this != &other) {
        unmap();
        path_ = std::move(other.path_);
        data_ = std::exchange(other.data_, nullptr);
        size_ = std::exchange(other.size_, 0);
    }
    return *this;
}

MappedFile::~MappedFile() { unmap(); }

void MappedFile::unmap() {
    if (data_ != nullptr) {
        ::munmap(const_cast<uint8_t*>(data_), static_cast<size_t>(size_));
        data_ = nullptr;
    }
}

void MappedFile::advise(FileAccess access, int64_t offset, int64_t bytes) const {
    const int64_t begin = std::clamp<int64_t>(offset, 0, size_);
    const int64_t end = begin + std::clamp<int64_t>(bytes, 0, size_ - begin);
    if (begin == end) {
        return;
    }
    // madvise wants a page's first address; the mapping itself starts on one.
    const int64_t page = ::sysconf(_SC_PAGESIZE);
    const int64_t first = begin / page * page;
    // A refused hint changes nothing that we promise, so its result is not looked at.
    ::madvise(const_cast<uint8_t*>(data_) + first, static_cast<size_t>(end - first), madvise_value(access));
}

Result<std::string> read_file(const std::string& path, int64_t bytes_max) {
    const Descriptor file(open_for_reading(path, 0));
    if (file.get() < 0) {
        return system_failure("open", path, errno);
    }
    struct stat info {};
    if (::fstat(file.get(), &info) != 0) {
        return system_failure("inspect", path, errno);
    }
    if (S_ISDIR(info.st_mode)) {
        return fail(ErrorCode::kInvalidFile, "cannot read {}: it is a directory, expected a file", path);
    }
    // The size is only a hint: pipes have none, and files grow. We read to the end or one byte beyond the limit.
    const int64_t hint = S_ISREG(info.st_mode) ? std::min<int64_t>(info.st_size, bytes_max) : 0;
    std::string content;
    size_t used = 0;
    while (true) {
        constexpr size_t kStep = 64 * 1024;
        const size_t wanted = used == 0 ? static_cast<size_t>(hint) + 1 : kStep;
        content.resize(used + std::min(wanted, static_cast<size_t>(bytes_max) + 1 - used));
        const ssize_t got = ::read(file.get(), content.data() + used, content.size() - used);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return system_failure("read", path, errno);
        }
        if (got == 0) {
            break;
        }
        used += static_cast<size_t>(got);
        if (used > static_cast<size_t>(bytes_max)) {
            return fail(ErrorCode::kInvalidFile, "cannot read {}: it has more than {} bytes, the limit", path, bytes_max);
        }
    }
    content.resize(used);
    return content;
}

Status write_file(const std::string& path, std::span<const std::span<const uint8_t>> parts) {
    const std::string temporary = fmt::format("{}.{}.partial", path, ::getpid());
    Descriptor file(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (file.get() < 0) {
        return system_failure("create", temporary, errno);
    }
    bool is_written = true;
    for (const auto& part : parts) {
        is_written = is_written && write_all(file.get(), part);
    }
    is_written = is_written && file.close_now();
    if (is_written && ::rename(temporary.c_str(), path.c_str()) == 0) {
        return {};
    }
    const int error_number = errno;
    ::unlink(temporary.c_str());
    return system_failure("write", path, error_number);
}

}  // namespace di
