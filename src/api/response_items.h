#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "api/answer.h"
#include "api/custom_input.h"
#include "api/json_writing.h"

namespace di {

// An event about an output item, still without its number.
struct ItemEvent {
    std::string type;
    JsonObject members;
};
using ItemEvents = std::vector<ItemEvent>;

// The output items of a response as they grow: one is open at a time, and it is closed before the next opens.
class ResponseItems {
  public:
    ResponseItems(const Request& request, std::string response_id);

    void add(const AnswerDelta& delta, ItemEvents& events);
    // Closes the open item, if there is one. `is_cut`: it is incomplete.
    void close(bool is_cut, ItemEvents& events);
    // The same without a word, behind a failure.
    void abandon();

    [[nodiscard]] JsonValue output() const;

  private:
    enum class Kind : uint8_t { kReasoning, kMessage, kFunctionCall, kCustomCall };

    struct Item {
        Kind kind = Kind::kMessage;
        std::string id;
        std::string status = "in_progress";
        std::string text{};  // of calls the arguments, or the input
        std::vector<LogprobEntry> logprobs{};
        bool is_commentary = false;  // a message that a call follows
        std::string call_id{};
        std::string name{};
        std::string name_space{};
    };

    void open(Kind kind, const AnswerDelta& delta, ItemEvents& events);
    void append(const AnswerDelta& delta, ItemEvents& events);
    void close_as(std::string_view status, ItemEvents& events);
    void push(std::string type, JsonObject members, ItemEvents& events) const;
    [[nodiscard]] JsonObject place(bool has_content) const;
    void split_name(const std::string& name, Item& item) const;
    [[nodiscard]] JsonValue part_value(const Item& item, bool is_start) const;
    [[nodiscard]] JsonValue item_value(const Item& item, bool is_start) const;

    std::string response_id_;
    bool includes_encrypted_;
    std::set<std::string, std::less<>> custom_tools_;
    std::set<std::string, std::less<>> tools_;
    std::vector<Item> items_;
    bool is_open_ = false;  // the last item
    CustomInput custom_;    // of the open item
};

}  // namespace di
