#include "api/chunk_stream.h"

#include <utility>

#include "api/answer_json.h"
#include "base/check.h"

namespace di {
namespace {

constexpr size_t kChoiceBytes = 256;  // room for one, usually

}  // namespace

ChunkWriter::ChunkWriter(const Request& request, AnswerHead head, ObjectNames names, bool has_events)
    : head_(std::move(head)),
      dialect_(request.dialect),
      names_(names),
      has_events_(has_events),
      usage_form_(request.stream.has_continuous_usage ? UsageForm::kSoFar
                  : request.stream.includes_usage     ? UsageForm::kNull
                                                      : UsageForm::kAbsent),
      has_usage_chunk_(request.stream.includes_usage),
      open_choices_(head_.choice_count) {
    latest_.prompt_tokens = head_.prompt_tokens;
    latest_.cached_tokens = head_.cached_tokens;
}

// The members of an answer before its choices.
JsonObject ChunkWriter::head_members(std::string_view object_name) const {
    JsonObject object;
    object.text("id", head_.id).text("object", object_name).integer("created", head_.created_s);
    object.text("model", head_.model).text("system_fingerprint", head_.fingerprint);
    return object;
}

JsonObject ChunkWriter::chunk(JsonValue choice) const {
    JsonObject object = head_members(names_.chunk);
    JsonValue::Array choices;
    choices.push_back(std::move(choice));
    object.value("choices", JsonValue::array(std::move(choices)));
    return object;
}

void ChunkWriter::push(JsonObject chunk, StreamEvents& events) {
    switch (usage_form_) {
        case UsageForm::kAbsent: break;
        case UsageForm::kNull: chunk.null("usage"); break;
        case UsageForm::kSoFar: chunk.value("usage", openai_usage(latest_)); break;
    }
    events.push_back({.name = {}, .data = json_text(chunk.take())});
}

// Most of a stream: what all chunks begin with is written once.
void ChunkWriter::send(const JsonValue& choice, const std::optional<AnswerUsage>& usage, StreamEvents& events) {
    latest_ = usage.value_or(latest_);
    if (chunk_begin_.empty()) {
        chunk_begin_ = json_text(head_members(names_.chunk).take());
        chunk_begin_.back() = ',';  // in place of its brace
        chunk_begin_ += " \"choices\": [";
    }
    StreamEvent& event = events.emplace_back();
    event.data.reserve(chunk_begin_.size() + kChoiceBytes);
    event.data = chunk_begin_;
    event.data += json_text(choice);
    event.data += ']';
    switch (usage_form_) {
        case UsageForm::kAbsent: break;
        case UsageForm::kNull: event.data += ", \"usage\": null"; break;
        case UsageForm::kSoFar:
            event.data += ", \"usage\": ";
            event.data += json_text(openai_usage(latest_));
            break;
    }
    event.data += '}';
}

void ChunkWriter::send_first(JsonValue choice, const std::vector<int32_t>* prompt_token_ids, StreamEvents& events) {
    JsonObject object = chunk(std::move(choice));
    if (prompt_token_ids != nullptr) {
        object.value("prompt_token_ids", json_integers(*prompt_token_ids));
    }
    push(std::move(object), events);
}

void ChunkWriter::send_last(JsonValue choice, const std::optional<AnswerUsage>& usage, StreamEvents& events) {
    latest_ = usage.value_or(latest_);
    JsonObject object = chunk(std::move(choice));
    --open_choices_;
    if (open_choices_ == 0 && !has_usage_chunk_) {
        waiting_ = std::move(object);  // it carries the usage of the whole
        return;
    }
    push(std::move(object), events);
}

void ChunkWriter::end(const AnswerUsage& usage, StreamEvents& events) {
    latest_ = usage;
    if (!has_events_) {
        return;
    }
    DI_CHECK(open_choices_ == 0, "every choice ends before the answer does");
    JsonObject last;
    if (waiting_) {
        last = std::move(*waiting_);
        waiting_.reset();
    } else {
        last = head_members(names_.chunk);
        last.value("choices", JsonValue::array({}));
    }
    last.value("usage", openai_usage(usage));
    events.push_back({.name = {}, .data = json_text(last.take())});
    events.push_back({.name = {}, .data = "[DONE]"});
}

void ChunkWriter::fail(const ApiError& error, StreamEvents& events) {
    error_ = error;
    waiting_.reset();
    if (has_events_) {
        events.push_back({.name = {}, .data = error_body(error, dialect_, "")});
    }
}

void ChunkWriter::cancel(StreamEvents& events) { fail(cancelled_error(), events); }

std::string ChunkWriter::body(const JsonValue& timings) const {
    if (error_) {
        return error_body(*error_, dialect_, "");
    }
    JsonObject object = head_members(names_.whole);
    add_before_choices(object);
    JsonValue::Array choices;
    for (int32_t i = 0; i < head_.choice_count; ++i) {
        choices.push_back(whole_choice(i));
    }
    object.value("choices", JsonValue::array(std::move(choices))).value("usage", openai_usage(latest_));
    add_behind_usage(object);
    if (!timings.is_null()) {
        object.value("timings", timings);
    }
    return json_text(object.take());
}

}  // namespace di
