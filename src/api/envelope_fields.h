#pragma once

#include "api/json_reader.h"
#include "api/request.h"

namespace di {

// The fields around a conversation that all dialects spell alike: model, ids, cache key, what of
// the reasoning comes back.
[[nodiscard]] Status parse_envelope_fields(const JsonReader& body, Request& request);

// What must hold for a whole request once it is parsed: number of images, everything that
// check_conversation() asks for.
[[nodiscard]] Status check_request(const Request& request);

// The detail of an image part; absent = high.
[[nodiscard]] Result<ImageDetail> parse_image_detail(const JsonReader& part);

}  // namespace di
