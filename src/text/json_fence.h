#pragma once

#include <string>
#include <string_view>

namespace di {

// JSON mode: of a text that arrives piece by piece, lets through what stands between the fences "```json" (or "```") and
// "```", or, where a bracket comes before any fence, everything from it on. However the text is cut, the same comes out.
class JsonFence {
  public:
    [[nodiscard]] std::string push(std::string_view piece);
    // The end of the text: what was held back as the possible beginning of a closing fence.
    [[nodiscard]] std::string finish();

  private:
    enum class State { kBefore, kBare, kFenced, kAfter };
    [[nodiscard]] size_t push_before(std::string_view piece);
    [[nodiscard]] std::string push_fenced(std::string_view piece);

    State state_ = State::kBefore;
    std::string held_;  // the beginning of a fence
};

}  // namespace di
