#include "server/background.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/log.h"
#include "server/service.h"

namespace di {
namespace {

// What the store has to know of a response at this moment.
StoredResponse record_of(Generation& generation, const std::string& input_items) {
    StoredResponse record;
    record.id = generation.stream->head().id;
    record.owner = generation.owner;
    record.created_s = generation.stream->head().created_s;
    record.parent_id = generation.stream->request().previous_response_id;
    record.input_items = input_items;
    record.body = generation.stream->body(false);
    record.is_complete = generation.stream->is_over();
    if (const Result<JsonValue> body = parse_json(record.body)) {
        if (const JsonValue* output = body->find("output")) {
            record.output_items = json_text(*output);
        }
    }
    return record;
}

}  // namespace

std::string input_items_text(const JsonValue& body) {
    const JsonValue* input = body.find("input");
    JsonValue::Array items;
    if (input != nullptr && input->is_string()) {
        JsonValue part = JsonValue::object({{"type", JsonValue::string("input_text")}, {"text", *input}});
        items.push_back(JsonValue::object({{"type", JsonValue::string("message")},
                                           {"role", JsonValue::string("user")},
                                           {"content", JsonValue::array({std::move(part)})}}));
    } else if (input != nullptr && input->is_array()) {
        items = input->as_array();
    }
    for (size_t i = 0; i < items.size(); ++i) {
        if (items[i].is_object() && items[i].find("id") == nullptr) {
            items[i].set("id", JsonValue::string(fmt::format("in_{}", i)));
        }
    }
    return json_text(JsonValue::array(std::move(items)));
}

Status keep_response(Service& service, Generation& generation, const std::string& input_items) {
    if (generation.stream->request().is_background) {
        DI_TRY_STATUS(service.store()->put(record_of(generation, input_items), service.unix_s()));
    }
    generation.on_end = [&service, input_items](Generation& ended) {
        // A client that got an error instead of an answer has no id to ask for.
        if (!ended.stream->has_begun() && !ended.stream->request().is_background) {
            return;
        }
        if (const Status kept = service.store()->put(record_of(ended, input_items), service.unix_s()); !kept) {
            log_error("response {} is not stored: {}", ended.stream->head().id, kept.error().text);
        }
    };
    return {};
}

void run_in_background(Service& service, Generation& generation) {
    const std::string id = generation.stream->head().id;
    const auto next = std::make_shared<int64_t>(0);
    generation.on_events = [&service, id, next](const Generation& running, const StreamEvents& events) {
        std::vector<std::string> texts;
        for (const StreamEvent& event : events) {
            texts.push_back(event_text(event));
        }
        if (const Status kept = service.store()->append_events(id, running.owner, texts, service.unix_s()); !kept) {
            log_error("events of response {} are not stored: {}", id, kept.error().text);
        }
        service.followers().write(id, *next, events);
        *next += static_cast<int64_t>(events.size());
    };
    generation.on_end = [&service, id, on_end = std::move(generation.on_end)](Generation& ended) {
        on_end(ended);
        service.followers().end(id);
    };
    const ExchangePtr exchange = std::move(generation.exchange);
    generation.exchange.reset();
    if (generation.is_streaming) {
        begin_event_stream(*exchange);
        service.followers().add(id, exchange, 0);
    } else {
        send_json(*exchange, 200, generation.stream->body(false));
    }
}

Status end_unfinished_responses(ResponseStore& store, int64_t now_s) {
    DI_TRY(const std::vector<StoredResponse> unfinished, store.unfinished());
    for (StoredResponse response : unfinished) {
        DI_TRY(JsonValue body, parse_json(response.body));
        body.set("status", JsonValue::string("failed"));
        body.set("error", JsonValue::object({{"code", JsonValue::string("server_error")},
                                             {"message", JsonValue::string("the server ended before the response did")}}));
        response.body = json_text(body);
        response.is_complete = true;
        DI_TRY_STATUS(store.put(response, now_s));
    }
    return {};
}

void Followers::add(std::string_view response_id, ExchangePtr exchange, int64_t first) {
    followers_[std::string(response_id)].push_back({.exchange = std::move(exchange), .first = first});
}

void Followers::write(std::string_view response_id, int64_t number, const StreamEvents& events) {
    const auto found = followers_.find(response_id);
    if (found == followers_.end()) {
        return;
    }
    std::erase_if(found->second, [](const Follower& follower) { return follower.exchange->reply->is_gone(); });
    for (const Follower& follower : found->second) {
        for (size_t i = 0; i < events.size(); ++i) {
            if (number + static_cast<int64_t>(i) >= follower.first) {
                follower.exchange->reply->write(event_text(events[i]));
            }
        }
    }
}

void Followers::end(std::string_view response_id) {
    const auto found = followers_.find(response_id);
    if (found == followers_.end()) {
        return;
    }
    for (const Follower& follower : found->second) {
        if (!follower.exchange->reply->is_gone()) {
            follower.exchange->reply->end_stream();
        }
    }
    followers_.erase(found);
}

void Followers::keep_alive() {
    for (auto& [id, followers] : followers_) {
        std::erase_if(followers, [](const Follower& follower) { return follower.exchange->reply->is_gone(); });
        for (const Follower& follower : followers) {
            follower.exchange->reply->write(": keep-alive\n\n");
        }
    }
}

}  // namespace di
