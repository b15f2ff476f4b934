#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "apps/options.h"
#include "base/result.h"
#include "engine/load.h"
#include "session/session.h"

// From the program's options to what the library wants, with everything refused that this build cannot honour.
namespace di {

// What a process says to its caller.
inline constexpr int kExitOk = 0;
inline constexpr int kExitRequestFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitModel = 3;
inline constexpr int kExitMemory = 4;

// The exit code of an error that was met while a model was opened.
[[nodiscard]] int exit_code_of(const Error& error);
// One line on stderr.
void print_error(const Error& error);
void print_error(std::string_view text);

// The directory of the model: what was asked for, else the embedded one: beside the program, at the place of its
// sources, or where it was installed. kInvalidArgument for what cannot be a model.
[[nodiscard]] Result<std::string> model_directory(const Options& options);

// Usage errors for options that this build or version cannot honour; the model's directory is left empty.
[[nodiscard]] Result<EngineOptions> engine_flags(const Options& options);
// The same with the model's directory.
[[nodiscard]] Result<EngineOptions> engine_options(const Options& options);

// What --json-schema, --regex or --grammar ask of every answer; none without them. Reads the file that the flag names.
[[nodiscard]] Result<std::optional<GrammarSpec>> answer_grammar(const Options& options);

// Sampling and stop strings of the flags over the model's defaults; 256 tokens unless said otherwise.
[[nodiscard]] PromptRequest default_request(const Options& options, const Session& session);

// Opens a session, with a line on a terminal's stderr while it loads.
[[nodiscard]] Result<std::unique_ptr<Session>> open_session(const Options& options);

// Token classes for an engine without a session: those of the model's tokenizer; where dummy weights have no tokenizer
// beside them, ids counted round.
[[nodiscard]] TokenClasses token_classes_of(const EngineOptions& options);

}  // namespace di
