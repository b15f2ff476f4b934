#include "api/sampling_fields.h"

#include <array>
#include <charconv>
#include <limits>
#include <unordered_set>

#include "api/limits.h"

namespace di {
namespace {

constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();
constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();

// Fields of other servers that change the answer and that we cannot honour. The value that means
// "off" there is accepted, anything else is refused.
struct UnsupportedField {
    std::string_view name;
    std::string_view off;  // JSON text; "" = no value is accepted
    std::string_view reason;
};

constexpr std::array kUnsupportedFields = {
    UnsupportedField{"use_beam_search", "false", "there is no beam search"},
    UnsupportedField{"length_penalty", "1.0", "there is no beam search"},
    UnsupportedField{"samplers", "", "the order of samplers is fixed"},
    UnsupportedField{"mirostat", "0", "there is no mirostat sampler"},
    UnsupportedField{"dry_multiplier", "0.0", "there is no DRY sampler"},
    UnsupportedField{"xtc_probability", "0.0", "there is no XTC sampler"},
    UnsupportedField{"return_hidden_states", "false", "hidden states are not returned"},
    UnsupportedField{"lora_path", "", "there are no adapters"},
    UnsupportedField{"chat_template", "", "templates are built in"},
    UnsupportedField{"prompt_embeds", "", "prompts are text or token ids"},
};

bool is_off(const JsonValue& value, std::string_view off) {
    if (off.empty()) {
        return false;
    }
    const auto expected = parse_json(off);
    if (value.is_number() && expected->is_number()) {
        return value.as_double() == expected->as_double();
    }
    return json_text(value) == off;
}

Status refuse_unsupported(const JsonReader& body) {
    for (const UnsupportedField& field : kUnsupportedFields) {
        const JsonValue* value = body.find(field.name);
        if (value != nullptr && !is_off(*value, field.off)) {
            return fail(ErrorCode::kInvalidArgument, "{}: {} is not supported, {}", body.path_of(field.name),
                        short_json_text(*value), field.reason);
        }
    }
    return {};
}

Status parse_probabilities(const JsonReader& body, SamplingFields& fields) {
    DI_TRY(fields.temperature, body.number("temperature", {.low = 0.0, .high = 2.0}));
    DI_TRY(fields.top_p, body.number("top_p", {.low = 0.0, .high = 1.0, .excludes_low = true}));
    DI_TRY(fields.top_k, body.integer("top_k", {.low = -1, .high = kInt32Max}));
    DI_TRY(fields.min_p, body.number("min_p", {.low = 0.0, .high = 1.0}));
    DI_TRY(fields.presence_penalty, body.number("presence_penalty", {.low = -2.0, .high = 2.0}));
    DI_TRY(fields.frequency_penalty, body.number("frequency_penalty", {.low = -2.0, .high = 2.0}));
    DI_TRY(fields.repetition_penalty, body.number("repetition_penalty", {.low = 0.0, .high = 2.0, .excludes_low = true}));
    DI_TRY(fields.seed, body.integer("seed", {.low = 0, .high = kInt64Max}));
    DI_TRY(fields.priority, body.integer("priority", {.low = -kInt32Max, .high = kInt32Max}));
    return {};
}

Status parse_logit_bias(const JsonReader& body, SamplingFields& fields) {
    DI_TRY(const auto map, body.object("logit_bias"));
    if (!map) {
        return {};
    }
    const JsonValue::Object& members = body.find("logit_bias")->as_object();
    if (members.size() > kLogitBiasEntriesMax) {
        return fail(ErrorCode::kInvalidArgument, "{}: {} entries, expected at most {}", map->path(), members.size(),
                    kLogitBiasEntriesMax);
    }
    std::unordered_set<int32_t> ids;
    for (const JsonMember& member : members) {
        int32_t id = -1;
        const char* last = member.key.data() + member.key.size();
        const auto parsed = std::from_chars(member.key.data(), last, id);
        if (parsed.ec != std::errc{} || parsed.ptr != last || id < 0) {
            return fail(ErrorCode::kInvalidArgument, "{}: key {}, expected a token id", map->path(), short_quoted(member.key));
        }
        if (!ids.insert(id).second) {  // "7" and "07" are one token
            return fail(ErrorCode::kInvalidArgument, "{}: token {} is given twice, expected ids that differ", map->path(), id);
        }
        DI_TRY(const auto bias, map->number(member.key, {.low = -100.0, .high = 100.0}));
        if (bias) {
            fields.logit_bias.push_back({.token_id = id, .bias = static_cast<float>(*bias)});
        }
    }
    return {};
}

Result<std::vector<int32_t>> parse_ids(const JsonReader& body, std::string_view key, int64_t low) {
    std::vector<int32_t> ids;
    DI_TRY(const auto* items, body.array(key, kTokenListMax));
    if (items == nullptr) {
        return ids;
    }
    for (size_t i = 0; i < items->size(); ++i) {
        const std::optional<int64_t> id = (*items)[i].as_int64();
        if (!id || *id < low || *id > kInt32Max) {
            return fail(ErrorCode::kInvalidArgument, "{}: {}, expected a token id", item_path(body.path_of(key), i),
                        short_json_text((*items)[i]));
        }
        ids.push_back(static_cast<int32_t>(*id));
    }
    return ids;
}

Status add_stop(const JsonValue& value, const std::string& path, SamplingFields& fields) {
    if (!value.is_string() || value.as_string().empty()) {
        return fail(ErrorCode::kInvalidArgument, "{}: {}, expected a string of at least one character", path,
                    short_json_text(value));
    }
    if (value.as_string().size() > kStopStringBytesMax) {
        return fail(ErrorCode::kInvalidArgument, "{}: {} bytes, expected at most {}", path, value.as_string().size(),
                    kStopStringBytesMax);
    }
    fields.stop.push_back(value.as_string());
    return {};
}

Status parse_stop(const JsonReader& body, Dialect dialect, SamplingFields& fields) {
    const std::string_view key = dialect == Dialect::kMessages ? "stop_sequences" : "stop";
    const JsonValue* stop = body.find(key);
    if (stop != nullptr && stop->is_string() && dialect != Dialect::kMessages) {
        DI_TRY_STATUS(add_stop(*stop, body.path_of(key), fields));
    } else {
        DI_TRY(const auto* items, body.array(key, kStopStringsMax));
        for (size_t i = 0; items != nullptr && i < items->size(); ++i) {
            DI_TRY_STATUS(add_stop((*items)[i], item_path(body.path_of(key), i), fields));
        }
    }
    DI_TRY(const bool includes, body.boolean_or("include_stop_str_in_output", false));
    DI_TRY(const bool keeps, body.boolean_or("no_stop_trim", false));
    fields.includes_stop_text = includes || keeps;
    return {};
}

Status parse_token_rules(const JsonReader& body, SamplingFields& fields) {
    DI_TRY(fields.stop_token_ids, parse_ids(body, "stop_token_ids", 0));
    DI_TRY(fields.allowed_token_ids, parse_ids(body, "allowed_token_ids", 0));
    DI_TRY(fields.forced_token_ids, parse_ids(body, "golden_token_ids", -1));
    DI_TRY(fields.ignores_eos, body.boolean_or("ignore_eos", false));
    DI_TRY(fields.skips_special_tokens, body.boolean_or("skip_special_tokens", true));
    DI_TRY(const auto* words, body.array("bad_words", kBadWordsMax));
    for (size_t i = 0; words != nullptr && i < words->size(); ++i) {
        const JsonValue& word = (*words)[i];
        if (!word.is_string() || word.as_string().empty() || word.as_string().size() > kStopStringBytesMax) {
            return fail(ErrorCode::kInvalidArgument, "{}: {}, expected a string of 1 to {} bytes",
                        item_path(body.path_of("bad_words"), i), short_json_text(word), kStopStringBytesMax);
        }
        fields.bad_words.push_back(word.as_string());
    }
    return {};
}

// Messages lowers what is above the maximum, the others refuse it.
Result<std::optional<int64_t>> parse_length(const JsonReader& body, std::string_view key, bool is_lowered) {
    DI_TRY(auto length, body.integer(key, {.low = 1, .high = is_lowered ? kInt64Max : kOutputTokensMax}));
    if (length && *length > kOutputTokensMax) {
        length = kOutputTokensMax;
    }
    return length;
}

Status parse_lengths(const JsonReader& body, Dialect dialect, SamplingFields& fields) {
    const std::string_view key = dialect == Dialect::kResponses ? "max_output_tokens" : "max_tokens";
    DI_TRY(fields.output_tokens_max, parse_length(body, key, dialect == Dialect::kMessages));
    if (dialect == Dialect::kChat) {
        DI_TRY(const auto newer, parse_length(body, "max_completion_tokens", false));
        if (newer) {
            fields.output_tokens_max = newer;
        }
    }
    DI_TRY(fields.output_tokens_min, body.integer("min_tokens", {.low = 0, .high = kOutputTokensMax}));
    if (fields.output_tokens_min.value_or(0) > fields.output_tokens_max.value_or(kOutputTokensMax)) {
        return fail(ErrorCode::kInvalidArgument, "{}: {}, expected at most the maximum of {}", body.path_of("min_tokens"),
                    *fields.output_tokens_min, *fields.output_tokens_max);
    }
    DI_TRY(fields.reasoning_tokens_max, body.integer("thinking_token_budget", {.low = 0, .high = kInt64Max}));
    return {};
}

Status parse_choices(const JsonReader& body, Dialect dialect, SamplingFields& fields) {
    if (dialect != Dialect::kChat && dialect != Dialect::kCompletions) {
        return {};
    }
    DI_TRY(const auto count, body.integer("n", {.low = 1, .high = kChoicesMax}));
    fields.choice_count = count.value_or(1);
    DI_TRY(const auto best_of, body.integer("best_of", {.low = 1, .high = kInt64Max}));
    if (best_of.value_or(fields.choice_count) != fields.choice_count) {
        return fail(ErrorCode::kInvalidArgument, "{}: {}, expected the value of n ({}), there is no beam search",
                    body.path_of("best_of"), *best_of, fields.choice_count);
    }
    if (fields.seed && *fields.seed > kInt64Max - (fields.choice_count - 1)) {
        return fail(ErrorCode::kInvalidArgument, "{}: {} is too large for {} choices, each of which adds one",
                    body.path_of("seed"), *fields.seed, fields.choice_count);
    }
    return {};
}

Status parse_logprobs(const JsonReader& body, Dialect dialect, SamplingFields& fields) {
    if (dialect == Dialect::kCompletions) {  // the old field counts the alternatives
        DI_TRY(const auto count, body.integer("logprobs", {.low = 0, .high = kTopLogprobsMax}));
        fields.wants_logprobs = count.has_value();
        fields.top_logprob_count = count.value_or(0);
        DI_TRY(fields.prompt_logprob_count, body.integer("prompt_logprobs", {.low = 0, .high = kTopLogprobsMax}));
        return {};
    }
    if (dialect == Dialect::kMessages) {
        return {};  // has no place for them
    }
    DI_TRY(const auto count, body.integer("top_logprobs", {.low = 0, .high = kTopLogprobsMax}));
    fields.top_logprob_count = count.value_or(0);
    if (dialect != Dialect::kChat) {
        return {};
    }
    DI_TRY(fields.wants_logprobs, body.boolean_or("logprobs", false));
    if (count && !fields.wants_logprobs) {
        return fail(ErrorCode::kInvalidArgument, "{}: {}, expected logprobs to be true with it", body.path_of("top_logprobs"),
                    *count);
    }
    return {};
}

Status check_ids(std::span<const int32_t> ids, std::string_view field, int64_t vocabulary_size) {
    for (size_t i = 0; i < ids.size(); ++i) {
        if (ids[i] >= vocabulary_size) {
            return fail(ErrorCode::kInvalidArgument, "{}[{}]: {}, expected a token id below {}", field, i, ids[i],
                        vocabulary_size);
        }
    }
    return {};
}

}  // namespace

Result<SamplingFields> parse_sampling_fields(const JsonReader& body, Dialect dialect) {
    SamplingFields fields;
    DI_TRY_STATUS(refuse_unsupported(body));
    DI_TRY_STATUS(parse_probabilities(body, fields));
    DI_TRY_STATUS(parse_logit_bias(body, fields));
    DI_TRY_STATUS(parse_stop(body, dialect, fields));
    DI_TRY_STATUS(parse_token_rules(body, fields));
    DI_TRY_STATUS(parse_lengths(body, dialect, fields));
    DI_TRY_STATUS(parse_choices(body, dialect, fields));
    DI_TRY_STATUS(parse_logprobs(body, dialect, fields));
    return fields;
}

Status check_token_ids(const SamplingFields& fields, int64_t vocabulary_size) {
    for (const LogitBias& entry : fields.logit_bias) {
        if (entry.token_id >= vocabulary_size) {
            return fail(ErrorCode::kInvalidArgument, "logit_bias: token {}, expected a token id below {}", entry.token_id,
                        vocabulary_size);
        }
    }
    DI_TRY_STATUS(check_ids(fields.stop_token_ids, "stop_token_ids", vocabulary_size));
    DI_TRY_STATUS(check_ids(fields.allowed_token_ids, "allowed_token_ids", vocabulary_size));
    return check_ids(fields.forced_token_ids, "golden_token_ids", vocabulary_size);
}

Result<StreamFields> parse_stream_fields(const JsonReader& body) {
    StreamFields fields;
    DI_TRY(fields.is_streaming, body.boolean_or("stream", false));
    DI_TRY(const auto options, body.object("stream_options"));
    if (!options) {
        return fields;
    }
    if (!fields.is_streaming) {
        return fail(ErrorCode::kInvalidArgument, "{}: given without streaming, expected stream to be true with it",
                    options->path());
    }
    DI_TRY(fields.includes_usage, options->boolean_or("include_usage", false));
    DI_TRY(fields.has_continuous_usage, options->boolean_or("continuous_usage_stats", false));
    return fields;
}

}  // namespace di
