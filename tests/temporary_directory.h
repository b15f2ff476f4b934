#pragma once

// A directory of one test, removed with everything in it at the end of its scope.
//
//     const TemporaryDirectory directory;
//     directory.write("config.json", "{}");
//     load(directory.path());

#include <atomic>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <unistd.h>

namespace di {

class TemporaryDirectory {
  public:
    TemporaryDirectory() {
        static std::atomic<int> count{0};  // only uniqueness matters
        path_ = std::filesystem::temp_directory_path() / fmt::format("deepinfer-test-{}-{}", ::getpid(), count.fetch_add(1));
        std::filesystem::create_directories(path_);
    }
    ~TemporaryDirectory() {
        std::error_code ignored;  // a leftover is no failure of the test
        std::filesystem::remove_all(path_, ignored);
    }
    TemporaryDirectory(const TemporaryDirectory&) = delete;
    TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

    [[nodiscard]] std::string path() const { return path_.string(); }
    [[nodiscard]] std::string file(std::string_view name) const { return (path_ / name).string(); }

    // Returns the path of the file.
    std::string write(std::string_view name, std::string_view content) const {
        const std::string path = file(name);
        std::ofstream stream(path, std::ios::binary);
        stream.write(content.data(), static_cast<std::streamsize>(content.size()));
        if (!stream.flush()) {
            throw std::runtime_error("cannot write " + path);
        }
        return path;
    }

  private:
    std::filesystem::path path_;
};

}  // namespace di
