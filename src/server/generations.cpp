#include "server/generations.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace di {

Generations::Generations(TokenBackend& backend, Clock& clock, GenerationObserver& observer)
    : backend_(backend), clock_(clock), observer_(observer) {}

void Generations::start(std::shared_ptr<Generation> generation, std::vector<TokenRequest> prompts) {
    DI_CHECK(!prompts.empty(), "an answer has at least one prompt");
    generation->written_us = clock_.now_us();
    for (size_t i = 0; i < prompts.size(); ++i) {
        prompts[i].id = next_id_++;
        generation->engine_ids.push_back(prompts[i].id);
        generation->owed.push_back(prompts[i].sampling.n);
        places_.emplace(prompts[i].id, Place{.generation = generation, .prompt_index = i});
    }
    open_.emplace(generation->engine_ids.front(), generation);
    if (generation->exchange != nullptr) {
        // Weak: the reply must not keep the answer alive that keeps the reply alive.
        generation->exchange->reply->on_gone([this, weak = std::weak_ptr<Generation>(generation)] {
            if (const std::shared_ptr<Generation> gone = weak.lock(); gone != nullptr && !gone->stream->is_over()) {
                cancel(*gone);
            }
        });
    }
    for (TokenRequest& prompt : prompts) {
        backend_.submit(std::move(prompt));
    }
}

void Generations::take(std::vector<StepOutput> outputs) {
    for (const StepOutput& output : outputs) {
        const auto found = places_.find(output.request_id);
        if (found == places_.end()) {
            continue;
        }
        const Place place = found->second;
        Generation& generation = *place.generation;
        const bool was_over = generation.stream->is_sample_over(place.prompt_index, output.sample_index);
        if (output.finish != FinishReason::kNone && --generation.owed[place.prompt_index] == 0) {
            places_.erase(found);
        }
        if (was_over) {
            if (output.finish == FinishReason::kNone) {
                backend_.cancel_sample(output.request_id, output.sample_index);  // ended with another prompt's record, maybe
            }
            continue;
        }
        count_tokens(generation, output);
        StreamEvents events;
        if (output.finish == FinishReason::kAbort) {
            // Not by us, since the stream goes on: the backend gave it up.
            generation.stream->fail({.kind = ApiErrorKind::kUnavailable, .message = "the request was aborted"}, events);
        } else {
            generation.stream->take(place.prompt_index, output, events);
        }
        deliver(generation, events);
        if (generation.stream->is_over()) {
            finish(place.generation);
        } else if (output.finish == FinishReason::kNone &&
                   generation.stream->is_sample_over(place.prompt_index, output.sample_index)) {
            backend_.cancel_sample(output.request_id, output.sample_index);
        }
    }
}

void Generations::count_tokens(Generation& generation, const StepOutput& output) {
    if (output.token_ids.empty()) {
        return;
    }
    const int64_t now_us = clock_.now_us();
    const bool is_first = generation.first_token_us < 0;
    const int64_t before_us = is_first ? generation.began_us : generation.last_token_us;
    generation.first_token_us = is_first ? now_us : generation.first_token_us;
    generation.last_token_us = now_us;
    observer_.on_tokens(generation, static_cast<int64_t>(output.token_ids.size()), now_us - before_us, is_first);
}

void Generations::deliver(Generation& generation, const StreamEvents& events) {
    if (events.empty()) {
        return;
    }
    if (generation.on_events) {
        generation.on_events(generation, events);
    }
    if (generation.exchange == nullptr || !generation.is_streaming || generation.exchange->reply->is_gone()) {
        return;
    }
    if (!generation.exchange->is_answered) {
        begin_event_stream(*generation.exchange);
    }
    for (const StreamEvent& event : events) {
        generation.exchange->reply->write(event_text(event));
    }
    generation.written_us = clock_.now_us();
}

// The client gets the end of its answer, or the whole of it.
void Generations::finish(const std::shared_ptr<Generation>& generation) {
    open_.erase(generation->engine_ids.front());
    AnswerStream& stream = *generation->stream;
    if (ExchangePtr exchange = std::move(generation->exchange); exchange != nullptr && !exchange->reply->is_gone()) {
        if (generation->is_streaming && exchange->is_answered) {
            exchange->reply->end_stream();
        } else if (stream.error()) {
            send_error(*exchange, *stream.error());
        } else if (generation->is_cancelled && exchange->dialect != Dialect::kResponses) {
            send_error(*exchange, {.kind = ApiErrorKind::kUnavailable, .message = "the request was aborted"});
        } else {
            send_json(*exchange, 200, stream.body(generation->has_timings));
        }
        generation->exchange = std::move(exchange);  // for logs
    }
    observer_.on_end(*generation);
    if (generation->on_end) {
        generation->on_end(*generation);
    }
    generation->exchange.reset();
    generation->admission.reset();
    cancel_prompts(*generation);
}

void Generations::cancel_prompts(Generation& generation) {
    for (size_t i = 0; i < generation.engine_ids.size(); ++i) {
        if (generation.owed[i] > 0) {
            backend_.cancel(generation.engine_ids[i]);
        }
    }
}

void Generations::cancel(Generation& generation) {
    if (generation.stream->is_over()) {
        return;
    }
    const std::shared_ptr<Generation> kept = open_.at(generation.engine_ids.front());
    generation.is_cancelled = true;
    StreamEvents events;
    generation.stream->cancel(events);
    deliver(generation, events);
    finish(kept);
}

int64_t Generations::cancel_named(std::string_view name, const std::string* owner) {
    std::vector<std::shared_ptr<Generation>> named;
    for (const auto& [id, generation] : open_) {
        const bool is_named = generation->request_id == name || generation->stream->head().id == name;
        if (is_named && (owner == nullptr || generation->owner == *owner)) {
            named.push_back(generation);
        }
    }
    for (const std::shared_ptr<Generation>& generation : named) {
        cancel(*generation);
    }
    return static_cast<int64_t>(named.size());
}

void Generations::cancel_all() {
    while (!open_.empty()) {
        cancel(*open_.begin()->second);
    }
}

void Generations::keep_alive(int64_t keepalive_us) {
    const int64_t now_us = clock_.now_us();
    for (const auto& [id, open] : open_) {
        Generation& generation = *open;
        const bool waits = generation.exchange != nullptr && generation.is_streaming && !generation.stream->is_over();
        if (!waits || now_us - generation.written_us < keepalive_us) {
            continue;
        }
        StreamEvents events;
        if (!generation.stream->has_begun()) {
            generation.stream->begin(events);
        }
        deliver(generation, events);
        // Not every dialect begins with an event.
        if (events.empty() && !generation.exchange->reply->is_gone()) {
            if (!generation.exchange->is_answered) {
                begin_event_stream(*generation.exchange);
            }
            generation.exchange->reply->write(generation.stream->keep_alive());
            generation.written_us = now_us;
        }
    }
}

std::shared_ptr<Generation> Generations::find(std::string_view answer_id) const {
    const auto found = std::find_if(open_.begin(), open_.end(),
                                    [answer_id](const auto& entry) { return entry.second->stream->head().id == answer_id; });
    return found == open_.end() ? nullptr : found->second;
}

}  // namespace di
