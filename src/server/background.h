#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/generations.h"
#include "server/response_store.h"
#include "text/json_text.h"

namespace di {

class Service;

// Stored and background responses. Server's thread.

// The items of a Responses request's `input` as JSON text: a string becomes one user message, items without an id get one.
[[nodiscard]] std::string input_items_text(const JsonValue& body);

// Stores the response as it is now, and again at its end, whatever that is.
[[nodiscard]] Status keep_response(Service& service, Generation& generation, const std::string& input_items);

// The client gets the response as it is now (or, streaming, its events while it listens), and the answer goes on without it.
void run_in_background(Service& service, Generation& generation);

// Background responses that an earlier process began and did not end have failed: whoever asks for them is told so.
[[nodiscard]] Status end_unfinished_responses(ResponseStore& store, int64_t now_s);

// Who listens to background responses that run.
class Followers {
  public:
    // `first` is the number of the next event that the listener wants.
    void add(std::string_view response_id, ExchangePtr exchange, int64_t first);
    // Events `number`, number + 1, ... of a response.
    void write(std::string_view response_id, int64_t number, const StreamEvents& events);
    void end(std::string_view response_id);
    void keep_alive();

  private:
    struct Follower {
        ExchangePtr exchange;
        int64_t first = 0;
    };
    std::map<std::string, std::vector<Follower>, std::less<>> followers_;
};

}  // namespace di
