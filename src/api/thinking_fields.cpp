#include "api/thinking_fields.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace di {
namespace {

struct EffortName {
    std::string_view name;
    int32_t effort;
};

constexpr std::array kEffortNames = {
    EffortName{"minimal", kEffortLow}, EffortName{"low", kEffortLow},    EffortName{"medium", kEffortHigh},
    EffortName{"high", kEffortHigh},   EffortName{"xhigh", kEffortHigh}, EffortName{"max", kEffortMax},
    EffortName{"ultra", kEffortMax},
};

constexpr int32_t kEffortNone = 0;  // the name "none": no thinking, unless thinking is asked for by name

// A name, an integer 1..100, or a fraction of at most 0.99 that means percent.
Result<std::optional<int32_t>> parse_effort(const JsonReader& reader, std::string_view key) {
    const JsonValue* value = reader.find(key);
    if (value == nullptr) {
        return std::optional<int32_t>();
    }
    if (value->is_string()) {
        if (value->as_string() == "none") {
            return std::optional<int32_t>(kEffortNone);
        }
        for (const EffortName& known : kEffortNames) {
            if (known.name == value->as_string()) {
                return std::optional<int32_t>(known.effort);
            }
        }
    } else if (const auto percent = value->as_int64(); percent && *percent >= 1 && *percent <= kEffortMax) {
        return std::optional<int32_t>(static_cast<int32_t>(*percent));
    } else if (value->is_number() && !value->is_integer()) {
        const double share = value->as_double();
        if (share > 0.0 && share <= 0.99) {
            return std::optional<int32_t>(std::max(1, static_cast<int32_t>(std::lround(100.0 * share))));
        }
    }
    return reader.wrong(key, "none, minimal, low, medium, high, xhigh, max, ultra or an integer in [1, 100]");
}

// `thinking`: {"type": ..., "budget_tokens": ...}. Empty when the client did not say.
Result<std::optional<bool>> parse_mode(const JsonReader& body, Dialect dialect, ThinkingFields& fields) {
    DI_TRY(const auto thinking, body.object("thinking"));
    if (!thinking) {
        return std::optional<bool>();
    }
    DI_TRY(fields.budget_tokens, thinking->integer("budget_tokens", {.low = 0, .high = std::numeric_limits<int64_t>::max()}));
    DI_TRY(const auto type, thinking->string("type"));
    if (!type) {
        return thinking->wrong("type", "enabled, disabled or adaptive");
    }
    if (*type == "disabled") {
        return std::optional<bool>(false);
    }
    if (*type == "enabled" || *type == "adaptive" || (*type == "between_tools" && dialect == Dialect::kMessages)) {
        return std::optional<bool>(true);
    }
    return thinking->wrong("type", "enabled, disabled or adaptive");
}

// vLLM and sglang: chat_template_kwargs {thinking | enable_thinking, reasoning_effort}. The fields
// of the body win.
Status parse_template_arguments(const JsonReader& body, std::optional<bool>& mode, std::optional<int32_t>& effort) {
    DI_TRY(const auto arguments, body.object("chat_template_kwargs"));
    if (!arguments) {
        return {};
    }
    for (const std::string_view key : {"thinking", "enable_thinking"}) {
        DI_TRY(const auto value, arguments->boolean(key));
        if (value && !mode) {
            mode = value;
        }
    }
    DI_TRY(const auto value, parse_effort(*arguments, "reasoning_effort"));
    if (value && !effort) {
        effort = value;
    }
    return {};
}

Result<std::optional<int32_t>> parse_nested_effort(const JsonReader& body, std::string_view key) {
    DI_TRY(const auto parent, body.object(key));
    if (!parent) {
        return std::optional<int32_t>();
    }
    return parse_effort(*parent, "effort");
}

}  // namespace

Result<ThinkingFields> parse_thinking_fields(const JsonReader& body, Dialect dialect) {
    ThinkingFields fields;
    std::optional<bool> mode;
    std::optional<int32_t> effort;
    if (dialect == Dialect::kResponses) {
        DI_TRY(effort, parse_nested_effort(body, "reasoning"));
    } else if (dialect == Dialect::kMessages) {
        DI_TRY(mode, parse_mode(body, dialect, fields));
        DI_TRY(effort, parse_nested_effort(body, "output_config"));
    } else {
        DI_TRY(mode, parse_mode(body, dialect, fields));
        DI_TRY(effort, parse_effort(body, "reasoning_effort"));
        DI_TRY_STATUS(parse_template_arguments(body, mode, effort));
    }
    fields.has_mode = mode.has_value();
    fields.is_thinking = mode.value_or(effort != kEffortNone);
    if (fields.is_thinking && effort.value_or(kEffortNone) != kEffortNone) {
        fields.effort = *effort;
    }
    return fields;
}

}  // namespace di
