#include "api/response_items.h"

#include <utility>

#include "api/answer_json.h"
#include "api/encrypted_reasoning.h"
#include "api/ids.h"
#include "api/tool_fields.h"
#include "base/check.h"

namespace di {

ResponseItems::ResponseItems(const Request& request, std::string response_id)
    : response_id_(std::move(response_id)),
      includes_encrypted_(request.includes_encrypted_reasoning),
      custom_tools_(custom_tool_names(request)) {
    if (request.conversation) {
        for (const Tool& tool : request.conversation->tools) {
            tools_.insert(tool.name);
        }
    }
}

void ResponseItems::add(const AnswerDelta& delta, ItemEvents& events) {
    switch (delta.kind) {
        case AnswerDelta::Kind::kReasoning:
        case AnswerDelta::Kind::kContent: {
            const Kind kind = delta.kind == AnswerDelta::Kind::kReasoning ? Kind::kReasoning : Kind::kMessage;
            if (delta.text.empty()) {
                return;  // empty items are left out
            }
            if (!is_open_ || items_.back().kind != kind) {
                close(false, events);
                open(kind, delta, events);
            }
            append(delta, events);
            return;
        }
        case AnswerDelta::Kind::kCallBegin:
            if (is_open_ && items_.back().kind == Kind::kMessage) {
                items_.back().is_commentary = true;
            }
            close(false, events);
            open(custom_tools_.contains(delta.text) ? Kind::kCustomCall : Kind::kFunctionCall, delta, events);
            return;
        case AnswerDelta::Kind::kCallArguments: append(delta, events); return;
        case AnswerDelta::Kind::kCallEnd: close(false, events); return;
    }
}

void ResponseItems::open(Kind kind, const AnswerDelta& delta, ItemEvents& events) {
    static constexpr std::string_view kPrefixes[] = {"rs", "msg", "fc", "ctc"};
    Item& item = items_.emplace_back();
    item.kind = kind;
    item.id = item_id(kPrefixes[static_cast<size_t>(kind)], response_id_, static_cast<int64_t>(items_.size()) - 1);
    is_open_ = true;
    if (kind == Kind::kFunctionCall || kind == Kind::kCustomCall) {
        item.call_id = delta.call_id;
        split_name(delta.text, item);
        custom_ = CustomInput();
    }
    JsonObject added;
    added.value("item", item_value(item, true)).integer("output_index", static_cast<int64_t>(items_.size()) - 1);
    push("response.output_item.added", std::move(added), events);
    if (kind == Kind::kReasoning || kind == Kind::kMessage) {
        push("response.content_part.added", place(true).value("part", part_value(item, true)), events);
    }
}

void ResponseItems::append(const AnswerDelta& delta, ItemEvents& events) {
    DI_CHECK(is_open_, "a piece belongs to an open item");
    Item& item = items_.back();
    const std::string piece = item.kind == Kind::kCustomCall ? custom_.push(delta.text) : delta.text;
    if (piece.empty()) {
        return;
    }
    item.text += piece;
    JsonObject members = place(item.kind == Kind::kReasoning || item.kind == Kind::kMessage);
    members.text("delta", piece);
    switch (item.kind) {
        case Kind::kReasoning: push("response.reasoning_text.delta", std::move(members), events); break;
        case Kind::kMessage:
            item.logprobs.insert(item.logprobs.end(), delta.logprobs.begin(), delta.logprobs.end());
            members.value("logprobs", logprob_entries(delta.logprobs));
            push("response.output_text.delta", std::move(members), events);
            break;
        case Kind::kFunctionCall: push("response.function_call_arguments.delta", std::move(members), events); break;
        case Kind::kCustomCall: push("response.custom_tool_call_input.delta", std::move(members), events); break;
    }
}

void ResponseItems::close(bool is_cut, ItemEvents& events) {
    if (is_open_) {
        close_as(is_cut ? "incomplete" : "completed", events);
    }
}

void ResponseItems::abandon() {
    if (std::exchange(is_open_, false)) {
        items_.back().status = "incomplete";
    }
}

void ResponseItems::close_as(std::string_view status, ItemEvents& events) {
    Item& item = items_.back();
    if (item.kind == Kind::kCustomCall) {
        const std::string rest = custom_.finish();
        if (!rest.empty()) {
            item.text += rest;
            push("response.custom_tool_call_input.delta", place(false).text("delta", rest), events);
        }
    }
    item.status = status;
    switch (item.kind) {
        case Kind::kReasoning:
            push("response.reasoning_text.done", place(true).text("text", item.text), events);
            push("response.content_part.done", place(true).value("part", part_value(item, false)), events);
            break;
        case Kind::kMessage:
            push("response.output_text.done",
                 place(true).text("text", item.text).value("logprobs", logprob_entries(item.logprobs)), events);
            push("response.content_part.done", place(true).value("part", part_value(item, false)), events);
            break;
        case Kind::kFunctionCall:
            push("response.function_call_arguments.done", place(false).text("name", item.name).text("arguments", item.text),
                 events);
            break;
        case Kind::kCustomCall:
            push("response.custom_tool_call_input.done", place(false).text("input", item.text), events);
            break;
    }
    JsonObject done;
    done.value("item", item_value(item, false)).integer("output_index", static_cast<int64_t>(items_.size()) - 1);
    push("response.output_item.done", std::move(done), events);
    is_open_ = false;
}

void ResponseItems::push(std::string type, JsonObject members, ItemEvents& events) const {
    JsonObject all;
    all.text("type", type);
    JsonValue rest = members.take();
    for (const JsonMember& member : rest.as_object()) {
        all.value(member.key, member.value);
    }
    events.push_back({.type = std::move(type), .members = std::move(all)});
}

// Where the open item stands.
JsonObject ResponseItems::place(bool has_content) const {
    JsonObject object;
    object.text("item_id", items_.back().id).integer("output_index", static_cast<int64_t>(items_.size()) - 1);
    if (has_content) {
        object.integer("content_index", 0);
    }
    return object;
}

// Names of a namespace's tools are declared to the model as one word. What was not declared stays as it came.
void ResponseItems::split_name(const std::string& name, Item& item) const {
    const size_t joint = name.find(kNamespaceJoint);
    if (joint == std::string::npos || !tools_.contains(name)) {
        item.name = name;
        return;
    }
    item.name_space = name.substr(0, joint);
    item.name = name.substr(joint + kNamespaceJoint.size());
}

JsonValue ResponseItems::part_value(const Item& item, bool is_start) const {
    JsonObject part;
    const std::string_view text = is_start ? std::string_view() : std::string_view(item.text);
    if (item.kind == Kind::kReasoning) {
        return part.text("type", "reasoning_text").text("text", text).take();
    }
    part.text("type", "output_text").text("text", text).value("annotations", JsonValue::array({}));
    return part.value("logprobs", is_start ? JsonValue::array({}) : logprob_entries(item.logprobs)).take();
}

JsonValue ResponseItems::item_value(const Item& item, bool is_start) const {
    static constexpr std::string_view kTypes[] = {"reasoning", "message", "function_call", "custom_tool_call"};
    JsonObject object;
    object.text("type", kTypes[static_cast<size_t>(item.kind)]).text("id", item.id).text("status", item.status);
    JsonValue::Array content;
    if (!is_start) {
        content.push_back(part_value(item, false));
    }
    switch (item.kind) {
        case Kind::kReasoning:
            object.value("summary", JsonValue::array({})).value("content", JsonValue::array(std::move(content)));
            if (includes_encrypted_) {
                object.text("encrypted_content", seal_reasoning(item.text));
            }
            break;
        case Kind::kMessage:
            object.text("role", "assistant").text("phase", item.is_commentary ? "commentary" : "final_answer");
            object.value("content", JsonValue::array(std::move(content)));
            break;
        case Kind::kFunctionCall:
        case Kind::kCustomCall:
            object.text("call_id", item.call_id).text("name", item.name);
            if (!item.name_space.empty()) {
                object.text("namespace", item.name_space);
            }
            object.text(item.kind == Kind::kCustomCall ? "input" : "arguments", item.text);
            break;
    }
    return object.take();
}

JsonValue ResponseItems::output() const {
    JsonValue::Array output;
    for (const Item& item : items_) {
        output.push_back(item_value(item, false));
    }
    return JsonValue::array(std::move(output));
}

}  // namespace di
