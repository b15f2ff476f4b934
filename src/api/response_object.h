#pragma once

#include <optional>
#include <string>

#include "api/answer.h"
#include "api/json_writing.h"

namespace di {

// The object `response` around the output items: what it repeats of the request, and how far it is.
class ResponseObject {
  public:
    ResponseObject(const Request& request, const AnswerHead& head);

    std::string status = "queued";
    std::string incomplete_reason{};     // "" = not incomplete
    JsonValue error{};                   // {"code", "message"} or null
    std::optional<AnswerUsage> usage{};  // once it is known
    std::optional<int64_t> completed_s{};

    [[nodiscard]] JsonValue value(JsonValue output) const;

  private:
    std::string id_;
    std::string model_;
    int64_t created_s_;
    bool is_background_;
    bool is_stored_;
    JsonValue::Object echoed_;  // members that stay as they are
};

}  // namespace di
