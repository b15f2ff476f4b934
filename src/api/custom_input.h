#pragma once

#include <string>
#include <string_view>

namespace di {

// The free text of a custom tool's call. The model writes it as the argument `input` of a function (tool_fields.h), the client
// gets it as it is: {"input": "a\nb"} becomes a, a line end and b, while it comes. One object a call.
class CustomInput {
  public:
    // The text that became final with a piece of the arguments, often empty.
    [[nodiscard]] std::string push(std::string_view piece);
    // The rest. Arguments that are something else than {"input": text} are given as they are.
    [[nodiscard]] std::string finish();

    // Of arguments that are all there.
    [[nodiscard]] static std::string whole(std::string_view arguments);

  private:
    enum class State { kOpening, kText, kClosed };

    [[nodiscard]] bool take_opening();
    void take_text(std::string& out);

    State state_ = State::kOpening;
    std::string pending_;  // not yet taken; while kOpening all there is
};

}  // namespace di
