#include "text/tool_tag_scanner.h"

#include <algorithm>
#include <array>
#include <utility>

namespace di {
namespace {

using Kind = AnswerItem::Kind;

struct OpeningTag {
    std::string_view name;
    Kind kind;
};

// None is the beginning of another.
constexpr std::array kOpeningTags = {
    OpeningTag{" calls>", Kind::kBlockOpen},
    OpeningTag{"tool_calls>", Kind::kBlockOpen},
    OpeningTag{"function_calls>", Kind::kBlockOpen},
    OpeningTag{" invoke name=\"", Kind::kInvokeOpen},
    OpeningTag{"invoke name=\"", Kind::kInvokeOpen},
    OpeningTag{" parameter name=\"", Kind::kParameterOpen},
    OpeningTag{"parameter name=\"", Kind::kParameterOpen},
};

}  // namespace

void ToolTagScanner::push(const AnswerItem& item, AnswerItems& items) {
    if (item.kind == Kind::kText) {
        push_text(item.text, items);
        end_run(items);
        return;
    }
    if (item.kind != Kind::kToolMarker) {
        release();
        end_run(items);
        items.push_back(item);
        return;
    }
    if (!is_tag_ && held_ == "<") {
        held_ += item.text;
        is_tag_ = true;
        name_at_ = held_.size();
        return;
    }
    if (!is_tag_ && held_ == "</") {
        end_run(items);
        items.push_back({.kind = Kind::kToolClose, .text = std::exchange(held_, {}) + item.text});
        return;
    }
    release();
    run_ += item.text;
    end_run(items);
}

void ToolTagScanner::finish(AnswerItems& items) {
    release();
    end_run(items);
}

void ToolTagScanner::push_text(std::string_view text, AnswerItems& items) {
    while (!text.empty()) {
        if (held_.empty()) {
            const size_t plain = std::min(text.find('<'), text.size());
            run_ += text.substr(0, plain);
            text.remove_prefix(plain);
            if (text.empty()) {
                return;
            }
        }
        push_character(text.front(), items);
        text.remove_prefix(1);
    }
}

void ToolTagScanner::push_character(char c, AnswerItems& items) {
    if (is_tag_) {
        const std::string name = held_.substr(name_at_) + c;
        const auto tag = std::find_if(kOpeningTags.begin(), kOpeningTags.end(),
                                      [&name](const OpeningTag& known) { return known.name.starts_with(name); });
        if (tag != kOpeningTags.end()) {
            held_ += c;
            if (tag->name == name) {
                is_tag_ = false;
                end_run(items);
                items.push_back({.kind = tag->kind, .text = std::exchange(held_, {})});
            }
            return;
        }
    }
    if (!is_tag_ && held_ == "<" && c == '/') {
        held_ += c;
        return;
    }
    release();
    (c == '<' ? held_ : run_) += c;
}

void ToolTagScanner::end_run(AnswerItems& items) {
    if (!run_.empty()) {
        items.push_back({.kind = Kind::kText, .text = std::exchange(run_, {})});
    }
}

void ToolTagScanner::release() {
    run_ += std::exchange(held_, {});
    is_tag_ = false;
}

}  // namespace di
