#pragma once

#include <string>

#include "base/result.h"
#include "session/session.h"

namespace di {

// Whether the engine computes what it should, before anybody relies on it. A model directory may hold selftest.json (made by
// tools/make_selftest.py): {"prompt_token_ids": [..], "token_ids": [..], "logprobs": [..], "tolerance": T}: greedy decoding must
// give these tokens, the first of them with these log-probabilities, as many as there are, none farther away than T.
//
// Those are the numbers of the default formats. Without the file, with settings that compute something else (dummy weights,
// other formats, replay, banned tokens) or with too little room, some tokens are drawn, whose log-probabilities must be numbers.
// The error says what differs. Before anything else uses the session.
[[nodiscard]] Status run_selftest(Session& session, const std::string& model_directory);

}  // namespace di
