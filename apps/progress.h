#pragma once

#include <chrono>
#include <cstdint>
#include <string>

// Signs of life on a terminal's stderr; nothing at all when stderr is a file or a pipe.
namespace di {

// "loading models/x ..." that is wiped away when the object goes.
class ProgressLine {
  public:
    explicit ProgressLine(const std::string& text);
    ~ProgressLine();
    ProgressLine(const ProgressLine&) = delete;
    ProgressLine& operator=(const ProgressLine&) = delete;

  private:
    bool is_shown_;
};

// "[######----] 6/10 prompts, 123.4 tokens/s", redrawn at most ten times a second.
class ProgressBar {
  public:
    ProgressBar(int64_t total, std::string unit);
    ~ProgressBar();
    ProgressBar(const ProgressBar&) = delete;
    ProgressBar& operator=(const ProgressBar&) = delete;

    // One more of the total is done.
    void advance();
    void count_token();
    // Takes the bar away, so that a line can be printed in its place; the next call draws it again.
    void hide();

  private:
    void draw(bool is_forced);

    int64_t total_;
    std::string unit_;
    bool is_shown_;
    int64_t done_ = 0;
    int64_t tokens_ = 0;
    std::chrono::steady_clock::time_point start_;
    std::chrono::steady_clock::time_point drawn_;
};

}  // namespace di
