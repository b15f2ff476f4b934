#include "text/answer_parser.h"

#include <algorithm>
#include <utility>

#include "text/answer_items.h"
#include "text/dsml_parser.h"
#include "text/json_fence.h"
#include "text/stop_strings.h"
#include "text/tool_tag_scanner.h"

namespace di {

// What comes passes four stages: items (answer_items.h), tags (tool_tag_scanner.h), the region that they are part of, and for
// answer text the fence of JSON mode and the stop strings.
class AnswerParser::Impl {
    using Kind = AnswerItem::Kind;

  public:
    explicit Impl(AnswerParserOptions options)
        : options_(std::move(options)), input_(options_.finds_markers_in_text), calls_(options_.tools), stop_(options_.stop) {
        switch (options_.start) {
            case AnswerStart::kReasoning:
                region_ = Region::kReasoning;
                is_leading_ = true;
                break;
            case AnswerStart::kReasoningContinued: region_ = Region::kReasoning; break;
            case AnswerStart::kContent:
                is_leading_ = true;
                may_open_reasoning_ = true;
                break;
            case AnswerStart::kContentContinued: break;
            case AnswerStart::kCalls: region_ = Region::kCalls; break;
        }
    }
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;

    void push_text(std::string_view piece, std::vector<AnswerEvent>& events) {
        AnswerItems items;
        input_.push_text(piece, items);
        take(items, events);
    }

    void push_marker(AnswerMarker marker, std::vector<AnswerEvent>& events) {
        AnswerItems items;
        input_.push_marker(marker, items);
        take(items, events);
    }

    void finish(bool is_cut, std::vector<AnswerEvent>& events) {
        AnswerItems items;
        input_.finish(items);
        take(items, events);
        AnswerItems rest;
        tags_.finish(rest);
        take_items(rest, events);
        if (is_over()) {
            return;
        }
        if (region_ == Region::kCalls) {
            calls_.finish(is_cut, events);
        } else {
            give_out(std::exchange(newlines_, {}), events);
            end_content(events);
        }
        is_finished_ = true;
    }

    [[nodiscard]] bool is_over() const {
        return is_finished_ || stop_.is_matched() || (options_.calls_max > 0 && calls_.ended_calls() >= options_.calls_max);
    }
    [[nodiscard]] std::optional<size_t> matched_stop() const {
        return stop_.is_matched() ? std::optional(static_cast<size_t>(stop_.matched_index())) : std::nullopt;
    }
    [[nodiscard]] Region region() const { return region_; }
    [[nodiscard]] int32_t call_count() const { return calls_.begun_calls(); }

  private:
    void take(const AnswerItems& items, std::vector<AnswerEvent>& events) {
        if (!options_.may_call_tools) {
            take_items(items, events);
            return;
        }
        AnswerItems tagged;
        for (const AnswerItem& item : items) {
            tags_.push(item, tagged);
        }
        take_items(tagged, events);
    }

    void take_items(const AnswerItems& items, std::vector<AnswerEvent>& events) {
        for (const AnswerItem& item : items) {
            if (is_over()) {
                return;
            }
            take_item(item, events);
        }
    }

    void take_item(const AnswerItem& item, std::vector<AnswerEvent>& events) {
        if (region_ == Region::kCalls) {
            calls_.push(item, events);
            return;
        }
        switch (item.kind) {
            case Kind::kThink: take_think(item, events); return;
            case Kind::kThinkEnd: take_think_end(); return;
            case Kind::kBlockOpen:
            case Kind::kInvokeOpen:
                newlines_.clear();
                end_content(events);
                region_ = Region::kCalls;
                if (!is_over()) {
                    calls_.push(item, events);
                }
                return;
            case Kind::kText:
            case Kind::kToolMarker:
            case Kind::kParameterOpen:
            case Kind::kToolClose: take_text(item.text, events); return;
        }
    }

    // Models repeat the token that the prompt ended with, or think though they were told not to.
    void take_think(const AnswerItem& item, std::vector<AnswerEvent>& events) {
        const bool opens_reasoning = is_leading_ && (region_ == Region::kReasoning || may_open_reasoning_);
        if (!opens_reasoning) {
            take_text(item.text, events);
            return;
        }
        region_ = Region::kReasoning;
    }

    // In the answer it means nothing.
    void take_think_end() {
        may_open_reasoning_ = false;
        if (region_ == Region::kReasoning) {
            newlines_.clear();
            region_ = Region::kContent;
            is_leading_ = true;
        }
    }

    void take_text(std::string_view text, std::vector<AnswerEvent>& events) {
        if (is_leading_) {
            text.remove_prefix(std::min(text.find_first_not_of('\n'), text.size()));
            if (text.empty()) {
                return;
            }
            is_leading_ = false;
        }
        // Newlines are dropped if what follows ends the region.
        size_t kept = text.size();
        if (region_ == Region::kReasoning || options_.may_call_tools) {
            kept = text.find_last_not_of('\n') + 1;
        }
        if (kept > 0) {
            give_out(std::exchange(newlines_, {}) + std::string(text.substr(0, kept)), events);
        }
        newlines_ += text.substr(kept);
    }

    void give_out(std::string text, std::vector<AnswerEvent>& events) {
        if (region_ == Region::kContent) {
            const std::string part = options_.is_json_object ? fence_.push(text) : std::move(text);
            add_content(stop_.push(part), events);
        } else if (!text.empty()) {
            events.push_back({.kind = AnswerEvent::Kind::kReasoning, .text = std::move(text)});
        }
    }

    // No more answer text comes: what may have been the start of a fence or of a stop string is none.
    void end_content(std::vector<AnswerEvent>& events) {
        add_content(stop_.push(fence_.finish()), events);
        add_content(stop_.finish(), events);
    }

    void add_content(std::string text, std::vector<AnswerEvent>& events) {
        if (stop_.is_matched() && !has_added_stop_) {
            has_added_stop_ = true;
            text += options_.includes_stop_text ? options_.stop[static_cast<size_t>(stop_.matched_index())] : "";
        }
        if (!text.empty()) {
            events.push_back({.kind = AnswerEvent::Kind::kContent, .text = std::move(text)});
        }
    }

    AnswerParserOptions options_;
    AnswerInput input_;
    ToolTagScanner tags_;
    DsmlParser calls_;
    JsonFence fence_;
    StopStrings stop_;
    Region region_ = Region::kContent;
    bool is_leading_ = false;          // nothing but newlines has come in this region
    bool may_open_reasoning_ = false;  // the answer began without reasoning, and nothing has come
    std::string newlines_;             // held back until what follows is known
    bool has_added_stop_ = false;
    bool is_finished_ = false;
};

AnswerParser::AnswerParser(AnswerParserOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
AnswerParser::~AnswerParser() = default;
AnswerParser::AnswerParser(AnswerParser&&) noexcept = default;
AnswerParser& AnswerParser::operator=(AnswerParser&&) noexcept = default;

void AnswerParser::push_text(std::string_view piece, std::vector<AnswerEvent>& events) { impl_->push_text(piece, events); }
void AnswerParser::push_marker(AnswerMarker marker, std::vector<AnswerEvent>& events) { impl_->push_marker(marker, events); }
void AnswerParser::finish(bool is_cut, std::vector<AnswerEvent>& events) { impl_->finish(is_cut, events); }
bool AnswerParser::is_over() const { return impl_->is_over(); }
std::optional<size_t> AnswerParser::matched_stop() const { return impl_->matched_stop(); }
AnswerParser::Region AnswerParser::region() const { return impl_->region(); }
int32_t AnswerParser::call_count() const { return impl_->call_count(); }

}  // namespace di
