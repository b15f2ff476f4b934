#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/json_text.h"

namespace di {

// A stretch of what a template wrote. Text that came in by marked variables is input; the engine loses that mark where a
// template splits or joins, so it is a hint, and no guard against special tokens (chat_format.cpp has that).
struct TemplateText {
    std::string text;
    bool is_input = false;
};

// A Jinja chat template as models carry them. Immutable; render() may be called from many threads.
class JinjaTemplate {
  public:
    // Errors tell what the engine did not understand, or which limit (limits of jinja_template.cpp) the template breaks.
    [[nodiscard]] static Result<JinjaTemplate> parse(const std::string& source);

    // `variables` is an object, its members become variables of the template; strings anywhere below a member or key that is
    // named in `input_keys` are marked as input. The stretches in order, neighbours differ in is_input. Fails when the
    // template refuses the conversation (raise_exception), with its own text.
    [[nodiscard]] Result<std::vector<TemplateText>> render(const JsonValue& variables,
                                                           const std::vector<std::string_view>& input_keys) const;

    JinjaTemplate(JinjaTemplate&&) noexcept;
    JinjaTemplate& operator=(JinjaTemplate&&) noexcept;
    ~JinjaTemplate();

  private:
    struct Program;
    explicit JinjaTemplate(std::unique_ptr<const Program> program);
    std::unique_ptr<const Program> program_;
};

}  // namespace di
