#include "server/request_limits.h"

#include <algorithm>
#include <string_view>

#include "text/json_text.h"

namespace di {
namespace {

Status at_most(int64_t value, int64_t highest, std::string_view field, std::string_view what) {
    if (value > highest) {
        return fail(ErrorCode::kInvalidArgument, "{}: {} {}, expected at most {}", field, value, what, highest);
    }
    return {};
}

std::string_view output_field(Dialect dialect) { return dialect == Dialect::kResponses ? "max_output_tokens" : "max_tokens"; }

std::string_view stop_field(Dialect dialect) { return dialect == Dialect::kMessages ? "stop_sequences" : "stop"; }

Status check_conversation_limits(const RequestLimits& limits, const Conversation& conversation,
                                 std::string_view messages_field) {
    DI_TRY_STATUS(at_most(static_cast<int64_t>(conversation.messages.size()), limits.messages_max, messages_field, "messages"));
    int64_t images = 0;
    for (const Message& message : conversation.messages) {
        for (const ContentPart& part : message.parts) {
            images += part.kind == ContentPart::Kind::kImage ? 1 : 0;
            if (images > limits.images_max) {
                return fail(ErrorCode::kInvalidArgument, "{}: more than {} images in the request", part.path,
                            limits.images_max);
            }
        }
    }
    DI_TRY_STATUS(at_most(static_cast<int64_t>(conversation.tools.size()), limits.tools_max, "tools", "tools"));
    if (limits.tool_schema_bytes_max < static_cast<int64_t>(kToolSchemaBytesMax)) {  // else the parser has looked
        int64_t bytes = 0;
        for (const Tool& tool : conversation.tools) {
            bytes += static_cast<int64_t>(json_text(tool.parameters).size());
        }
        return at_most(bytes, limits.tool_schema_bytes_max, "tools", "bytes of schemas");
    }
    return {};
}

Status check_sampling_limits(const RequestLimits& limits, Dialect dialect, const SamplingFields& sampling) {
    DI_TRY_STATUS(at_most(sampling.choice_count, limits.choices_max, "n", "choices"));
    DI_TRY_STATUS(at_most(sampling.top_logprob_count, limits.top_logprobs_max,
                          dialect == Dialect::kCompletions ? "logprobs" : "top_logprobs", "alternatives"));
    DI_TRY_STATUS(at_most(static_cast<int64_t>(sampling.stop.size()), limits.stop_strings_max, stop_field(dialect), "strings"));
    for (const std::string& text : sampling.stop) {
        DI_TRY_STATUS(at_most(static_cast<int64_t>(text.size()), limits.stop_string_bytes_max, stop_field(dialect),
                              "bytes in one string"));
    }
    return {};
}

}  // namespace

Status apply_request_limits(const RequestLimits& limits, Request& request) {
    DI_TRY_STATUS(check_sampling_limits(limits, request.dialect, request.sampling));
    if (request.conversation) {
        DI_TRY_STATUS(check_conversation_limits(limits, *request.conversation,
                                                request.dialect == Dialect::kResponses ? "input" : "messages"));
    }
    std::optional<int64_t>& output = request.sampling.output_tokens_max;
    if (output && request.dialect == Dialect::kMessages) {
        output = std::min(*output, limits.output_tokens_max);
    }
    return at_most(output.value_or(0), limits.output_tokens_max, output_field(request.dialect), "tokens");
}

}  // namespace di
