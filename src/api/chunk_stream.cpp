#include "api/chunk_stream.h"

#include "api/answer_json.h"
#include "base/check.h"

namespace di {

ChunkStream::ChunkStream(const Request& request, const AnswerHead& head, std::string_view object_name)
    : id_(head.id),
      model_(head.model),
      fingerprint_(head.fingerprint),
      created_s_(head.created_s),
      dialect_(request.dialect),
      object_name_(object_name),
      usage_form_(request.stream.has_continuous_usage ? UsageForm::kSoFar
                  : request.stream.includes_usage     ? UsageForm::kNull
                                                      : UsageForm::kAbsent),
      has_usage_chunk_(request.stream.includes_usage),
      open_choices_(head.choice_count) {
    latest_.prompt_tokens = head.prompt_tokens;
    latest_.cached_tokens = head.cached_tokens;
}

JsonObject ChunkStream::head_members(std::string_view object_name) const {
    JsonObject object;
    object.text("id", id_).text("object", object_name).integer("created", created_s_);
    object.text("model", model_).text("system_fingerprint", fingerprint_);
    return object;
}

JsonObject ChunkStream::chunk(JsonValue choice) const {
    JsonObject object = head_members(object_name_);
    JsonValue::Array choices;
    choices.push_back(std::move(choice));
    object.value("choices", JsonValue::array(std::move(choices)));
    return object;
}

void ChunkStream::push(JsonObject chunk, StreamEvents& events) {
    switch (usage_form_) {
        case UsageForm::kAbsent: break;
        case UsageForm::kNull: chunk.null("usage"); break;
        case UsageForm::kSoFar: chunk.value("usage", openai_usage(latest_)); break;
    }
    events.push_back({.name = {}, .data = json_text(chunk.take())});
}

void ChunkStream::send(JsonValue choice, const std::optional<AnswerUsage>& usage, StreamEvents& events) {
    latest_ = usage.value_or(latest_);
    push(chunk(std::move(choice)), events);
}

void ChunkStream::send_first(JsonValue choice, const std::vector<int32_t>* prompt_token_ids, StreamEvents& events) {
    JsonObject object = chunk(std::move(choice));
    if (prompt_token_ids != nullptr) {
        object.value("prompt_token_ids", json_integers(*prompt_token_ids));
    }
    push(std::move(object), events);
}

void ChunkStream::send_last(JsonValue choice, const std::optional<AnswerUsage>& usage, StreamEvents& events) {
    latest_ = usage.value_or(latest_);
    JsonObject object = chunk(std::move(choice));
    --open_choices_;
    if (open_choices_ == 0 && !has_usage_chunk_) {
        waiting_ = std::move(object);  // it carries the usage of the whole
        return;
    }
    push(std::move(object), events);
}

void ChunkStream::end(const AnswerUsage& usage, StreamEvents& events) {
    DI_CHECK(open_choices_ == 0, "every choice ends before the answer does");
    JsonObject last;
    if (waiting_) {
        last = std::move(*waiting_);
        waiting_.reset();
    } else {
        last = head_members(object_name_);
        last.value("choices", JsonValue::array({}));
    }
    last.value("usage", openai_usage(usage));
    events.push_back({.name = {}, .data = json_text(last.take())});
    events.push_back({.name = {}, .data = "[DONE]"});
}

void ChunkStream::fail(const ApiError& error, StreamEvents& events) {
    waiting_.reset();
    events.push_back({.name = {}, .data = error_body(error, dialect_, "")});
}

}  // namespace di
