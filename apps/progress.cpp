#include "apps/progress.h"

#include <cstdio>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

namespace di {
namespace {

constexpr int64_t kBarWidth = 30;
constexpr std::chrono::milliseconds kRedraw{100};

bool stderr_is_terminal() { return isatty(STDERR_FILENO) == 1; }

void wipe_line() {
    std::fputs("\r\033[K", stderr);
    std::fflush(stderr);
}

}  // namespace

ProgressLine::ProgressLine(const std::string& text) : is_shown_(stderr_is_terminal()) {
    if (is_shown_) {
        fmt::print(stderr, "\r{} ...", text);
        std::fflush(stderr);
    }
}

ProgressLine::~ProgressLine() {
    if (is_shown_) {
        wipe_line();
    }
}

ProgressBar::ProgressBar(int64_t total, std::string unit)
    : total_(total),
      unit_(std::move(unit)),
      is_shown_(stderr_is_terminal()),
      start_(std::chrono::steady_clock::now()),
      drawn_(start_) {
    draw(true);
}

ProgressBar::~ProgressBar() { hide(); }

void ProgressBar::advance() {
    ++done_;
    draw(true);
}

void ProgressBar::count_token() {
    ++tokens_;
    draw(false);
}

void ProgressBar::hide() {
    if (is_shown_) {
        wipe_line();
    }
}

void ProgressBar::draw(bool is_forced) {
    const auto now = std::chrono::steady_clock::now();
    if (!is_shown_ || (!is_forced && now - drawn_ < kRedraw)) {
        return;
    }
    drawn_ = now;
    const double seconds = std::chrono::duration<double>(now - start_).count();
    const int64_t filled = total_ > 0 ? done_ * kBarWidth / total_ : kBarWidth;
    std::string bar(static_cast<size_t>(filled), '#');
    bar.append(static_cast<size_t>(kBarWidth - filled), '-');
    fmt::print(stderr, "\r\033[K[{}] {}/{} {}, {:.1f} tokens/s", bar, done_, total_, unit_,
               seconds > 0.0 ? static_cast<double>(tokens_) / seconds : 0.0);
    std::fflush(stderr);
}

}  // namespace di
