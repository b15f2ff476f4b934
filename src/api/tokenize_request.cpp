#include "api/tokenize_request.h"

#include <utility>

#include "api/chat_request.h"
#include "api/json_reader.h"
#include "api/json_writing.h"
#include "api/limits.h"

namespace di {

Result<TokenizeRequest> parse_tokenize_request(const JsonValue& body) {
    DI_TRY(const auto reader, JsonReader::open(body, ""));
    TokenizeRequest request;
    DI_TRY(request.model, reader.string_or("model", ""));
    DI_TRY(request.returns_token_strings, reader.boolean_or("return_token_strs", false));
    if (reader.has("messages")) {
        DI_TRY(request.subject, parse_chat_request(body));
        return request;
    }
    TextToTokenise subject;
    DI_TRY(auto text, reader.string("prompt"));
    if (!text) {
        DI_TRY(text, reader.string("content"));
    }
    if (!text) {
        return reader.wrong("prompt", "prompt, content or messages");
    }
    subject.text = std::move(*text);
    DI_TRY(subject.adds_special_tokens, reader.boolean_or("add_special_tokens", true));
    request.subject = std::move(subject);
    return request;
}

std::string tokenize_body(std::span<const int32_t> ids, int64_t context_tokens,
                          const std::optional<std::vector<std::string>>& token_strings) {
    JsonObject object;
    object.integer("count", static_cast<int64_t>(ids.size())).integer("max_model_len", context_tokens);
    object.value("tokens", json_integers(ids));
    if (token_strings) {
        JsonValue::Array items;
        for (const std::string& text : *token_strings) {
            items.push_back(json_string(text));
        }
        object.value("token_strs", JsonValue::array(std::move(items)));
    }
    return json_text(object.take());
}

Result<DetokenizeRequest> parse_detokenize_request(const JsonValue& body, int64_t vocabulary_size) {
    DI_TRY(const auto reader, JsonReader::open(body, ""));
    DetokenizeRequest request;
    DI_TRY(request.model, reader.string_or("model", ""));
    DI_TRY(request.skips_special_tokens, reader.boolean_or("skip_special_tokens", false));
    DI_TRY(const auto* items, reader.array("tokens", kTokenListMax));
    if (items == nullptr) {
        return reader.wrong("tokens", "a list of token ids");
    }
    request.token_ids.reserve(items->size());
    for (size_t i = 0; i < items->size(); ++i) {
        const std::optional<int64_t> id = (*items)[i].as_int64();
        if (!id || *id < 0 || *id >= vocabulary_size) {
            return fail(ErrorCode::kInvalidArgument, "{}: {}, expected a token id below {}", item_path("tokens", i),
                        short_json_text((*items)[i]), vocabulary_size);
        }
        request.token_ids.push_back(static_cast<int32_t>(*id));
    }
    return request;
}

// Three servers have three names for it.
std::string detokenize_body(std::string_view text) {
    return json_text(JsonObject().text("prompt", text).text("text", text).text("content", text).take());
}

std::string template_body(std::string_view prompt_text) { return json_text(JsonObject().text("prompt", prompt_text).take()); }

std::string count_tokens_body(int64_t prompt_tokens) {
    return json_text(JsonObject().integer("input_tokens", prompt_tokens).take());
}

}  // namespace di
