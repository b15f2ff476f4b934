#include "server/page.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>

namespace di {
namespace {

// Tests run in the repository's root.
constexpr const char* kFolder = "src/server/page";

std::string text_of(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Page, CarriesEveryFileOfItsFolderUnchanged) {
    int files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
        const std::string name = entry.path().filename().string();
        const PageFile* file = find_page_file(name);
        ASSERT_NE(file, nullptr) << name << " is not in the list of cmake/page.cmake";
        EXPECT_EQ(file->name, name);
        EXPECT_EQ(file->text, text_of(entry.path())) << name;
        ++files;
    }
    EXPECT_GE(files, 3);
}

TEST(Page, NamesTheTypeThatABrowserNeeds) {
    ASSERT_NE(find_page_file("index.html"), nullptr);
    EXPECT_EQ(find_page_file("index.html")->content_type, "text/html; charset=utf-8");
    ASSERT_NE(find_page_file("app.js"), nullptr);
    EXPECT_EQ(find_page_file("app.js")->content_type, "text/javascript; charset=utf-8");
    ASSERT_NE(find_page_file("style.css"), nullptr);
    EXPECT_EQ(find_page_file("style.css")->content_type, "text/css; charset=utf-8");
}

TEST(Page, HasNoFileOfAnotherName) {
    for (const char* name : {"", "index", "INDEX.HTML", "index.html ", "../page.h", "page/index.html", "app.js.map"}) {
        EXPECT_EQ(find_page_file(name), nullptr) << name;
    }
}

TEST(Page, NeedsNothingFromElsewhereAndNeverParsesTextAsMarkup) {
    for (const char* name : {"index.html", "app.js", "live.js", "style.css"}) {
        const PageFile* file = find_page_file(name);
        ASSERT_NE(file, nullptr) << name;
        for (const char* forbidden : {"http://", "https://", "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write",
                                      "eval(", "localStorage", "@import"}) {
            EXPECT_EQ(file->text.find(forbidden), std::string_view::npos) << name << " has " << forbidden;
        }
    }
    // The browser enforces it too.
    EXPECT_NE(find_page_file("index.html")->text.find("default-src 'none'"), std::string_view::npos);
}

}  // namespace
}  // namespace di
