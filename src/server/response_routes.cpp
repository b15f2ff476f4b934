// Stored responses (spec: HTTP interface, section 6.2).
#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "server/routes.h"
#include "server/service.h"

namespace di {
namespace {

constexpr int64_t kItemsPerPage = 20;  // of OpenAI's interface
constexpr int64_t kItemsPerPageMax = 100;

void send_not_found(Exchange& exchange) {
    send_error(exchange, {.kind = ApiErrorKind::kNotFound,
                          .message = fmt::format("no response {} is stored", short_quoted(exchange.path_values.front()))});
}

// The record that the path names; nothing: the client has been told.
std::optional<StoredResponse> stored_response(Service& service, Exchange& exchange) {
    if (service.store() == nullptr) {
        send_not_found(exchange);
        return std::nullopt;
    }
    Result<std::optional<StoredResponse>> found =
        service.store()->get(exchange.path_values.front(), exchange.key_name(), service.unix_s());
    if (!found) {
        send_error(exchange, api_error_of(found.error()));
        return std::nullopt;
    }
    if (!*found) {
        send_not_found(exchange);
    }
    return std::move(*found);
}

std::optional<int64_t> query_integer(const Exchange& exchange, std::string_view name) {
    const std::string text = query_value(exchange.http.query, name);
    int64_t value = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() && !text.empty() ? std::optional(value)
                                                                                                : std::nullopt;
}

// What has happened so far behind event `after`, then, while it runs, what happens.
void stream_response(Service& service, const ExchangePtr& exchange, const StoredResponse& record, int64_t after) {
    int64_t next = after + 1;
    begin_event_stream(*exchange);
    while (true) {
        constexpr int64_t kAtOnce = 1000;
        const auto events = service.store()->events(record.id, exchange->key_name(), next, kAtOnce, service.unix_s());
        if (!events) {
            exchange->reply->break_off();
            return;
        }
        for (const std::string& event : *events) {
            exchange->reply->write(event);
        }
        next += static_cast<int64_t>(events->size());
        if (static_cast<int64_t>(events->size()) < kAtOnce) {
            break;
        }
    }
    if (service.generations().find(record.id) == nullptr) {
        exchange->reply->end_stream();
        return;
    }
    service.followers().add(record.id, exchange, next);
}

}  // namespace

void get_response(Service& service, ExchangePtr exchange) {
    std::optional<StoredResponse> record = stored_response(service, *exchange);
    if (!record) {
        return;
    }
    if (query_value(exchange->http.query, "stream") == "true") {
        const std::string after = query_value(exchange->http.query, "starting_after");
        const std::optional<int64_t> number = query_integer(*exchange, "starting_after");
        if (!after.empty() && (!number || *number < 0)) {
            send_error(*exchange, {.kind = ApiErrorKind::kInvalidRequest,
                                   .message = fmt::format("starting_after: {}, expected the number of an event", after),
                                   .parameter = "starting_after"});
            return;
        }
        stream_response(service, exchange, *record, number.value_or(-1));
        return;
    }
    if (const std::shared_ptr<Generation> running = service.generations().find(record->id)) {
        send_json(*exchange, 200, running->stream->body(false));
        return;
    }
    send_json(*exchange, 200, std::move(record->body));
}

void delete_response(Service& service, ExchangePtr exchange) {
    const std::optional<StoredResponse> record = stored_response(service, *exchange);
    if (!record) {
        return;
    }
    if (const std::shared_ptr<Generation> running = service.generations().find(record->id)) {
        service.generations().cancel(*running);
    }
    const Result<bool> erased = service.store()->erase(record->id, exchange->key_name(), service.unix_s());
    if (!erased) {
        send_error(*exchange, api_error_of(erased.error()));
        return;
    }
    send_json(*exchange, 200,
              json_text(JsonValue::object({{"id", JsonValue::string(record->id)},
                                           {"object", JsonValue::string("response")},
                                           {"deleted", JsonValue::boolean(true)}})));
}

void cancel_response(Service& service, ExchangePtr exchange) {
    std::optional<StoredResponse> record = stored_response(service, *exchange);
    if (!record) {
        return;
    }
    const std::shared_ptr<Generation> running = service.generations().find(record->id);
    if (running == nullptr) {
        const Result<JsonValue> body = parse_json(record->body);
        const JsonValue* background = body ? body->find("background") : nullptr;
        if (background == nullptr || !background->is_boolean() || !background->as_boolean()) {
            send_error(*exchange, {.kind = ApiErrorKind::kInvalidRequest,
                                   .message = "only responses made with background: true can be cancelled"});
            return;
        }
        send_json(*exchange, 200, std::move(record->body));  // ended already
        return;
    }
    service.generations().cancel(*running);
    send_json(*exchange, 200, running->stream->body(false));
}

void list_input_items(Service& service, ExchangePtr exchange) {
    const std::optional<StoredResponse> record = stored_response(service, *exchange);
    if (!record) {
        return;
    }
    const Result<JsonValue> stored = parse_json(record->input_items);
    JsonValue::Array items = stored && stored->is_array() ? stored->as_array() : JsonValue::Array{};
    // As OpenAI: the latest first unless asked otherwise.
    if (query_value(exchange->http.query, "order") != "asc") {
        std::reverse(items.begin(), items.end());
    }
    const auto id_of = [](const JsonValue& item) {
        const JsonValue* id = item.find("id");
        return id != nullptr && id->is_string() ? id->as_string() : std::string();
    };
    if (const std::string after = query_value(exchange->http.query, "after"); !after.empty()) {
        const auto found =
            std::find_if(items.begin(), items.end(), [&](const JsonValue& item) { return id_of(item) == after; });
        if (found == items.end()) {
            send_error(*exchange, {.kind = ApiErrorKind::kInvalidRequest,
                                   .message = fmt::format("after: no item {} in this response", short_quoted(after)),
                                   .parameter = "after"});
            return;
        }
        items.erase(items.begin(), found + 1);
    }
    const std::string limit_text = query_value(exchange->http.query, "limit");
    const std::optional<int64_t> limit = limit_text.empty() ? kItemsPerPage : query_integer(*exchange, "limit");
    if (!limit || *limit < 1 || *limit > kItemsPerPageMax) {
        send_error(*exchange, {.kind = ApiErrorKind::kInvalidRequest,
                               .message = fmt::format("limit: {}, expected 1 .. {}", limit_text, kItemsPerPageMax),
                               .parameter = "limit"});
        return;
    }
    const bool has_more = static_cast<int64_t>(items.size()) > *limit;
    items.resize(std::min(items.size(), static_cast<size_t>(*limit)));
    const auto name = [&](size_t index) { return items.empty() ? JsonValue() : JsonValue::string(id_of(items[index])); };
    JsonValue list = JsonValue::object({{"object", JsonValue::string("list")},
                                        {"first_id", name(0)},
                                        {"last_id", name(items.empty() ? 0 : items.size() - 1)},
                                        {"has_more", JsonValue::boolean(has_more)}});
    list.set("data", JsonValue::array(std::move(items)));
    send_json(*exchange, 200, json_text(list));
}

}  // namespace di
