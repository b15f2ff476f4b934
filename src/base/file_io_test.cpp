#include "base/file_io.h"

#include <array>
#include <filesystem>
#include <thread>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "temporary_directory.h"

namespace di {
namespace {

std::span<const uint8_t> bytes_of(std::string_view text) {
    return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

TEST(MappedFile, ShowsTheBytesOfTheFile) {
    const TemporaryDirectory directory;
    const std::string path = directory.write("a.bin", "0123456789");
    auto file = MappedFile::open(path);
    ASSERT_TRUE(file) << file.error().text;
    EXPECT_EQ(file->size(), 10);
    EXPECT_EQ(file->path(), path);
    EXPECT_EQ(std::string(file->bytes().begin(), file->bytes().end()), "0123456789");
}

TEST(MappedFile, KeepsItsAddressWhenMoved) {
    const TemporaryDirectory directory;
    auto first = MappedFile::open(directory.write("a.bin", "abc"));
    auto second = MappedFile::open(directory.write("b.bin", "defg"));
    ASSERT_TRUE(first && second);
    const uint8_t* data = first->data();
    MappedFile moved = std::move(*first);
    EXPECT_EQ(moved.data(), data);
    EXPECT_EQ(first->data(), nullptr);
    *second = std::move(moved);
    EXPECT_EQ(second->data(), data);
    EXPECT_EQ(second->size(), 3);
    EXPECT_EQ(second->data()[2], 'c');
}

TEST(MappedFile, AcceptsAnEmptyFileAndHintsBeyondItsEnd) {
    const TemporaryDirectory directory;
    auto empty = MappedFile::open(directory.write("empty", ""));
    ASSERT_TRUE(empty);
    EXPECT_EQ(empty->size(), 0);
    EXPECT_TRUE(empty->bytes().empty());
    empty->advise(FileAccess::kWillNeed, 0, 100);

    auto file = MappedFile::open(directory.write("big", std::string(10000, 'x')));
    ASSERT_TRUE(file);
    for (const auto access :
         {FileAccess::kNormal, FileAccess::kSequential, FileAccess::kRandom, FileAccess::kWillNeed, FileAccess::kDontNeed}) {
        file->advise(access, -5, 1 << 30);
        file->advise(access, 4097, 1);
        file->advise(access, 20000, 5);
    }
    EXPECT_EQ(file->data()[9999], 'x');  // still readable after every hint
}

TEST(MappedFile, NamesPathAndReasonWhenItCannotOpen) {
    const TemporaryDirectory directory;
    const auto missing = MappedFile::open(directory.file("none.bin"));
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
    EXPECT_NE(missing.error().text.find("none.bin"), std::string::npos);
    EXPECT_NE(missing.error().text.find("No such file"), std::string::npos);

    const auto folder = MappedFile::open(directory.path());
    ASSERT_FALSE(folder);
    EXPECT_EQ(folder.error().code, ErrorCode::kInvalidFile);
    EXPECT_NE(folder.error().text.find("a directory"), std::string::npos);

    // A pipe without a writer must not hang us.
    ASSERT_EQ(::mkfifo(directory.file("pipe").c_str(), 0600), 0);
    const auto pipe = MappedFile::open(directory.file("pipe"));
    ASSERT_FALSE(pipe);
    EXPECT_NE(pipe.error().text.find("expected a regular file"), std::string::npos);
}

TEST(ReadFile, ReadsUpToTheLimitAndRefusesOneByteMore) {
    const TemporaryDirectory directory;
    const std::string content(100'000, 'y');
    const std::string path = directory.write("a.txt", content);
    const auto whole = read_file(path, 100'000);
    ASSERT_TRUE(whole) << whole.error().text;
    EXPECT_EQ(*whole, content);
    const auto refused = read_file(path, 99'999);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().text.find("more than 99999 bytes"), std::string::npos);
    EXPECT_EQ(*read_file(directory.write("empty", ""), 10), "");
    EXPECT_EQ(*read_file(directory.write("zero-limit", ""), 0), "");
    EXPECT_EQ(read_file(directory.file("none"), 10).error().code, ErrorCode::kNotFound);
    EXPECT_NE(read_file(directory.path(), 10).error().text.find("directory"), std::string::npos);
}

TEST(ReadFile, ReadsAPipeToItsEnd) {
    const TemporaryDirectory directory;
    const std::string path = directory.file("pipe");
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    const std::string content(300'000, 'z');
    std::thread writer([&] { directory.write("pipe", content); });
    const auto got = read_file(path, 1 << 20);
    writer.join();
    ASSERT_TRUE(got) << got.error().text;
    EXPECT_EQ(*got, content);
}

TEST(WriteFile, WritesAllPartsAndReplacesWhatWasThere) {
    const TemporaryDirectory directory;
    const std::string path = directory.write("out.bin", "something longer than the new content");
    const std::array<std::span<const uint8_t>, 3> parts{bytes_of("abc"), bytes_of(""), bytes_of("def")};
    const auto status = write_file(path, parts);
    ASSERT_TRUE(status) << status.error().text;
    EXPECT_EQ(*read_file(path, 100), "abcdef");
    // Nothing temporary stays behind.
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory.path()), {}), 1);
}

TEST(WriteFile, NamesThePathWhenTheFolderIsMissing) {
    const TemporaryDirectory directory;
    const auto status = write_file(directory.file("no/such/out.bin"), {});
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::kNotFound);
    EXPECT_NE(status.error().text.find("no/such/out.bin"), std::string::npos);
}

}  // namespace
}  // namespace di
