#pragma once

#include <string>

#include "base/result.h"
#include "session/session.h"

namespace di {

// Whether the engine computes what it should, before anybody relies on it. A model directory may hold selftest.json:
// {"prompt_token_ids": [..], "token_ids": [..], "logprobs": [..], "tolerance": T}: greedy decoding must give these tokens, with
// log-probabilities no farther away than T. Without the file some tokens are drawn, whose log-probabilities must be numbers. The
// error says what differs. Before anything else uses the session.
[[nodiscard]] Status run_selftest(Session& session, const std::string& model_directory);

}  // namespace di
