#include "apps/prompt_lines.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "api/chat_request.h"
#include "api/format_fields.h"
#include "api/sampling_fields.h"
#include "base/check.h"
#include "base/file_io.h"
#include "session/image_source.h"
#include "session/request_fields.h"
#include "text/json_text.h"

namespace di {
namespace {

// A file of prompts is read in one piece; a million prompts of a kilobyte fit.
constexpr int64_t kPromptsBytesMax = int64_t{1} << 30;
// Longest list of ids of a line: no context is longer.
constexpr size_t kLineIdsMax = size_t{1} << 24;

Result<std::vector<int32_t>> parse_ids(const JsonReader& line) {
    DI_TRY(const JsonValue::Array* items, line.array("prompt_token_ids", kLineIdsMax));
    std::vector<int32_t> ids;
    ids.reserve(items->size());
    for (const JsonValue& item : *items) {
        const std::optional<int64_t> id = item.is_number() ? item.as_int64() : std::nullopt;
        if (!id || *id < 0 || *id > std::numeric_limits<int32_t>::max()) {
            return fail(ErrorCode::kInvalidArgument, "prompt_token_ids[{}]: {}, expected a token id", ids.size(),
                        short_json_text(item));
        }
        ids.push_back(static_cast<int32_t>(*id));
    }
    return ids;
}

Status parse_messages(const JsonValue& line, PromptRequest& request) {
    DI_TRY(Request chat, parse_chat_request(line));
    DI_CHECK(chat.conversation.has_value(), "a chat request without a conversation");
    if (chat.conversation->response_format.kind != ResponseFormat::Kind::kText) {
        request.grammar.reset();  // of the line wins over the flag
    }
    DI_TRY(request.images, conversation_images(*chat.conversation));
    DI_TRY_STATUS(refuse_service_fields(chat.sampling));
    apply_sampling_fields(chat.sampling, request);
    request.prompt = std::move(*chat.conversation);
    return {};
}

}  // namespace

Result<std::vector<std::string>> read_prompt_lines(const std::string& path) {
    DI_TRY(const std::string text, read_file(path == "-" ? "/dev/stdin" : path, kPromptsBytesMax));
    std::vector<std::string> lines;
    for (size_t begin = 0; begin < text.size();) {
        const size_t end = std::min(text.find('\n', begin), text.size());
        std::string line = text.substr(begin, end - begin);
        if (line.find_first_not_of(" \t\r") != std::string::npos) {
            lines.push_back(std::move(line));
        }
        begin = end + 1;
    }
    return lines;
}

Result<PromptRequest> parse_prompt_line(std::string_view line, const PromptRequest& defaults) {
    DI_TRY(const JsonValue value, parse_json(line));
    if (!value.is_object()) {
        return fail(ErrorCode::kInvalidArgument, "{}, expected a JSON object with prompt, prompt_token_ids or messages",
                    value.kind_name());
    }
    DI_TRY(const JsonReader reader, JsonReader::open(value, ""));
    const int given =
        (reader.has("prompt") ? 1 : 0) + (reader.has("prompt_token_ids") ? 1 : 0) + (reader.has("messages") ? 1 : 0);
    if (given != 1) {
        return fail(ErrorCode::kInvalidArgument, "{} of prompt, prompt_token_ids and messages, expected exactly one", given);
    }
    PromptRequest request = defaults;
    if (reader.has("messages")) {
        DI_TRY_STATUS(parse_messages(value, request));
        return request;
    }
    DI_TRY(const SamplingFields fields, parse_sampling_fields(reader, Dialect::kCompletions));
    DI_TRY_STATUS(refuse_service_fields(fields));
    apply_sampling_fields(fields, request);
    DI_TRY(const ResponseFormat format, parse_format_fields(reader, Dialect::kCompletions));
    if (std::optional<GrammarSpec> grammar = format_grammar(format)) {
        request.grammar = std::move(grammar);
    }
    if (reader.has("prompt")) {
        DI_TRY(request.prompt, reader.required_string("prompt"));
    } else {
        DI_TRY(request.prompt, parse_ids(reader));
    }
    return request;
}

}  // namespace di
