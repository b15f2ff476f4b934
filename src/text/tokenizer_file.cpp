#include "text/tokenizer_file.h"

#include <nlohmann/json.hpp>

#include "text/limits.h"
#include "text/unicode.h"

namespace di {
namespace {

using Json = nlohmann::json;

constexpr ErrorCode kBadFile = ErrorCode::kInvalidFile;

// The deepest nesting of brackets outside strings; malformed text gives any number.
int nesting_depth(std::string_view text) {
    int depth = 0;
    int deepest = 0;
    bool is_in_string = false;
    for (size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (is_in_string) {
            i += c == '\\' ? 1 : 0;
            is_in_string = c != '"';
        } else if (c == '"') {
            is_in_string = true;
        } else if (c == '{' || c == '[') {
            deepest = std::max(deepest, ++depth);
        } else if (c == '}' || c == ']') {
            --depth;
        }
    }
    return deepest;
}

Result<Json> parse_object(std::string_view text) {
    if (text.size() > kTokenizerFileBytesMax) {
        return fail(kBadFile, "file has {} bytes, at most {} are allowed", text.size(), kTokenizerFileBytesMax);
    }
    if (nesting_depth(text) > kTokenizerJsonDepthMax) {
        return fail(kBadFile, "JSON is nested deeper than {} levels", kTokenizerJsonDepthMax);
    }
    Json root = Json::parse(text, nullptr, false);
    if (root.is_discarded()) {
        return fail(kBadFile, "not valid JSON");
    }
    if (!root.is_object()) {
        return fail(kBadFile, "top level is {}, expected an object", root.type_name());
    }
    return root;
}

// The member, or nullptr when it is absent or null: the format treats both alike.
const Json* member(const Json& object, const char* key) {
    const auto found = object.find(key);
    return found == object.end() || found->is_null() ? nullptr : &*found;
}

// A value for a message, short.
std::string shown(const Json& value) {
    const std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
    constexpr size_t kShownBytesMax = 60;
    return text.size() <= kShownBytesMax ? text : text.substr(0, kShownBytesMax) + "...";
}

Result<std::string> string_member(const Json& object, const char* key) {
    const Json* value = member(object, key);
    if (value == nullptr) {
        return fail(kBadFile, "{} is missing, expected a string", key);
    }
    if (!value->is_string()) {
        return fail(kBadFile, "{} is {}, expected a string", key, shown(*value));
    }
    return value->get_ref<const std::string&>();
}

// A flag; absent or null is false.
Result<bool> bool_member(const Json& object, const char* key) {
    const Json* value = member(object, key);
    if (value == nullptr) {
        return false;
    }
    if (!value->is_boolean()) {
        return fail(kBadFile, "{} is {}, expected true or false", key, shown(*value));
    }
    return value->get<bool>();
}

Result<int32_t> token_id(const Json& value, std::string_view spelling) {
    const bool is_in_range = value.is_number_unsigned() && value.get<uint64_t>() < static_cast<uint64_t>(kVocabularySizeMax);
    if (!is_in_range) {
        return fail(kBadFile, "id of token {:?} is {}, expected an integer from 0 to {}", spelling, shown(value),
                    kVocabularySizeMax - 1);
    }
    return static_cast<int32_t>(value.get<uint64_t>());
}

Status check_spelling(std::string_view spelling) {
    if (spelling.empty()) {
        return fail(kBadFile, "a token has an empty spelling");
    }
    if (spelling.size() > kTokenBytesMax) {
        return fail(kBadFile, "token {:?}... has {} bytes, at most {} are allowed", decode_lossy(spelling.substr(0, 40)),
                    spelling.size(), kTokenBytesMax);
    }
    return {};
}

// --- parts of the file ------------------------------------------------------

Result<AddedToken> parse_added_token(const Json& entry) {
    if (!entry.is_object()) {
        return fail(kBadFile, "entry is {}, expected an object", shown(entry));
    }
    AddedToken token;
    DI_TRY(token.spelling, string_member(entry, "content"));
    DI_TRY_STATUS(check_spelling(token.spelling));
    const Json* id = member(entry, "id");
    if (id == nullptr) {
        return fail(kBadFile, "token {:?} has no id", token.spelling);
    }
    DI_TRY(token.id, token_id(*id, token.spelling));
    DI_TRY(token.is_special, bool_member(entry, "special"));
    DI_TRY(token.is_normalized, bool_member(entry, "normalized"));
    for (const char* key : {"lstrip", "rstrip", "single_word"}) {
        DI_TRY(const bool is_set, bool_member(entry, key));
        if (is_set) {
            return fail(ErrorCode::kUnsupported, "token {:?} has {} true, only false is supported", token.spelling, key);
        }
    }
    return token;
}

Status parse_added_tokens(const Json& root, TokenizerFile& file) {
    const Json* entries = member(root, "added_tokens");
    if (entries == nullptr) {
        return {};
    }
    if (!entries->is_array()) {
        return fail(kBadFile, "added_tokens is {}, expected an array", shown(*entries));
    }
    for (const Json& entry : *entries) {
        auto token = parse_added_token(entry);
        if (!token) {
            return fail_in("added_tokens", std::move(token.error()));
        }
        file.added_tokens.push_back(std::move(*token));
    }
    return {};
}

Status check_normalizer(const Json& root) {
    const Json* normalizer = member(root, "normalizer");
    if (normalizer == nullptr) {
        return {};
    }
    if (normalizer->is_object() && normalizer->value("type", Json()) == "Sequence") {
        const Json* parts = member(*normalizer, "normalizers");
        if (parts != nullptr && parts->is_array() && parts->empty()) {
            return {};
        }
    }
    return fail(ErrorCode::kUnsupported, "normalizer is {}, only null and an empty Sequence are supported", shown(*normalizer));
}

Result<SplitPattern> parse_split(const Json& part) {
    const Json* behavior = member(part, "behavior");
    if (behavior == nullptr || *behavior != "Isolated") {
        return fail(ErrorCode::kUnsupported, "behavior of a Split is {}, only \"Isolated\" is supported",
                    behavior == nullptr ? "missing" : shown(*behavior));
    }
    DI_TRY(const bool is_inverted, bool_member(part, "invert"));
    if (is_inverted) {
        return fail(ErrorCode::kUnsupported, "invert of a Split is true, only false is supported");
    }
    const Json* pattern = member(part, "pattern");
    if (pattern == nullptr || !pattern->is_object() || pattern->size() != 1) {
        return fail(kBadFile, "pattern of a Split is {}, expected {{\"Regex\": ...}} or {{\"String\": ...}}",
                    pattern == nullptr ? "missing" : shown(*pattern));
    }
    SplitPattern split;
    split.is_regex = pattern->contains("Regex");
    DI_TRY(split.text, string_member(*pattern, split.is_regex ? "Regex" : "String"));
    return split;
}

Status check_byte_level(const Json& part) {
    for (const char* key : {"add_prefix_space", "use_regex"}) {
        // Absent means true in this format.
        const Json* value = member(part, key);
        if (value == nullptr || *value != false) {
            return fail(ErrorCode::kUnsupported, "{} of ByteLevel is {}, only false is supported", key,
                        value == nullptr ? "missing (true)" : shown(*value));
        }
    }
    return {};
}

// Splits, then ByteLevel as the last part: the only order in which patterns see characters.
Status parse_pre_tokenizer(const Json& root, TokenizerFile& file) {
    const Json* pre_tokenizer = member(root, "pre_tokenizer");
    if (pre_tokenizer == nullptr || !pre_tokenizer->is_object()) {
        return fail(kBadFile, "is {}, expected an object", pre_tokenizer == nullptr ? "missing" : shown(*pre_tokenizer));
    }
    Json::array_t parts{*pre_tokenizer};
    if (pre_tokenizer->value("type", Json()) == "Sequence") {
        const Json* sequence = member(*pre_tokenizer, "pretokenizers");
        if (sequence == nullptr || !sequence->is_array()) {
            return fail(kBadFile, "pretokenizers of the Sequence is {}, expected an array",
                        sequence == nullptr ? "missing" : shown(*sequence));
        }
        parts = sequence->get_ref<const Json::array_t&>();
    }
    bool has_byte_level = false;
    for (const Json& part : parts) {
        const Json type = part.is_object() ? part.value("type", Json()) : Json();
        if (type == "Split" && !has_byte_level) {
            DI_TRY(SplitPattern split, parse_split(part));
            file.split_patterns.push_back(std::move(split));
        } else if (type == "ByteLevel" && !has_byte_level) {
            DI_TRY_STATUS(check_byte_level(part));
            has_byte_level = true;
        } else {
            return fail(ErrorCode::kUnsupported, "part {} is not supported, expected any number of Split, then one ByteLevel",
                        shown(part));
        }
    }
    if (!has_byte_level) {
        return fail(ErrorCode::kUnsupported, "has no ByteLevel part: only byte-level tokenizers are supported");
    }
    return {};
}

// Parts that do nothing to ids in the only form that we accept.
Status check_other_parts(const Json& root) {
    for (const char* key : {"truncation", "padding"}) {
        if (const Json* value = member(root, key); value != nullptr) {
            return fail(ErrorCode::kUnsupported, "{} is {}, only null is supported", key, shown(*value));
        }
    }
    const auto is_byte_level = [](const Json& part) { return part.is_object() && part.value("type", Json()) == "ByteLevel"; };
    if (const Json* value = member(root, "post_processor"); value != nullptr && !is_byte_level(*value)) {
        return fail(ErrorCode::kUnsupported, "post_processor is {}, only null and ByteLevel are supported", shown(*value));
    }
    const Json* decoder = member(root, "decoder");
    if (decoder == nullptr || !is_byte_level(*decoder)) {
        return fail(ErrorCode::kUnsupported, "decoder is {}, only ByteLevel is supported",
                    decoder == nullptr ? "missing" : shown(*decoder));
    }
    return {};
}

Status check_model_options(const Json& model, TokenizerFile& file) {
    const Json* type = member(model, "type");
    if (type != nullptr && *type != "BPE") {
        return fail(ErrorCode::kUnsupported, "type is {}, only \"BPE\" is supported", shown(*type));
    }
    for (const char* key : {"byte_fallback", "ignore_merges"}) {
        DI_TRY(const bool is_set, bool_member(model, key));
        if (is_set) {
            return fail(ErrorCode::kUnsupported, "{} is true, only false is supported", key);
        }
    }
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
        if (const Json* value = member(model, key); value != nullptr && *value != "") {
            return fail(ErrorCode::kUnsupported, "{} is {}, only null is supported", key, shown(*value));
        }
    }
    if (const Json* dropout = member(model, "dropout"); dropout != nullptr && *dropout != 0) {
        return fail(ErrorCode::kUnsupported, "dropout is {}, only null is supported", shown(*dropout));
    }
    if (const Json* unknown = member(model, "unk_token"); unknown != nullptr) {
        if (!unknown->is_string()) {
            return fail(kBadFile, "unk_token is {}, expected null or a string", shown(*unknown));
        }
        file.has_unknown_token = true;
    }
    return {};
}

Status parse_vocabulary(const Json& model, TokenizerFile& file) {
    const Json* vocabulary = member(model, "vocab");
    if (vocabulary == nullptr || !vocabulary->is_object()) {
        return fail(kBadFile, "vocab is {}, expected an object of spellings and ids",
                    vocabulary == nullptr ? "missing" : shown(*vocabulary));
    }
    if (static_cast<int64_t>(vocabulary->size()) > kVocabularySizeMax) {
        return fail(kBadFile, "vocab has {} entries, at most {} are allowed", vocabulary->size(), kVocabularySizeMax);
    }
    file.vocabulary.reserve(vocabulary->size());
    for (const auto& [spelling, value] : vocabulary->items()) {
        DI_TRY_STATUS(check_spelling(spelling));
        DI_TRY(const int32_t id, token_id(value, spelling));
        file.vocabulary.push_back({spelling, id});
    }
    return {};
}

// A merge is "a b" or, in newer files, ["a", "b"].
Result<std::pair<std::string, std::string>> parse_merge(const Json& merge) {
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
        return std::pair(merge[0].get<std::string>(), merge[1].get<std::string>());
    }
    if (merge.is_string()) {
        const auto& text = merge.get_ref<const std::string&>();
        const size_t blank = text.find(' ');
        if (blank != std::string::npos && text.find(' ', blank + 1) == std::string::npos) {
            return std::pair(text.substr(0, blank), text.substr(blank + 1));
        }
    }
    return fail(kBadFile, "merge {} is not one, expected \"a b\" or [\"a\", \"b\"]", shown(merge));
}

Status parse_model(const Json& model, TokenizerFile& file) {
    DI_TRY_STATUS(check_model_options(model, file));
    DI_TRY_STATUS(parse_vocabulary(model, file));
    const Json* merges = member(model, "merges");
    if (merges == nullptr || !merges->is_array()) {
        return fail(kBadFile, "merges is {}, expected an array", merges == nullptr ? "missing" : shown(*merges));
    }
    file.merges.reserve(merges->size());
    for (const Json& merge : *merges) {
        DI_TRY(auto pair, parse_merge(merge));
        file.merges.push_back(std::move(pair));
    }
    return {};
}

Result<std::optional<std::string>> named_token(const Json& root, const char* key) {
    const Json* value = member(root, key);
    if (value == nullptr) {
        return std::nullopt;
    }
    if (value->is_object()) {
        auto spelling = string_member(*value, "content");
        if (!spelling) {
            return fail_in(key, std::move(spelling.error()));
        }
        return std::optional(std::move(*spelling));
    }
    DI_TRY(auto spelling, string_member(root, key));
    return std::optional(std::move(spelling));
}

}  // namespace

Result<TokenizerFile> parse_tokenizer_file(std::string_view tokenizer_json) {
    DI_TRY(const Json root, parse_object(tokenizer_json));
    TokenizerFile file;
    DI_TRY_STATUS(parse_added_tokens(root, file));
    DI_TRY_STATUS(check_normalizer(root));
    if (auto status = parse_pre_tokenizer(root, file); !status) {
        return fail_in("pre_tokenizer", std::move(status.error()));
    }
    DI_TRY_STATUS(check_other_parts(root));
    const Json* model = member(root, "model");
    if (model == nullptr || !model->is_object()) {
        return fail(kBadFile, "model is {}, expected an object", model == nullptr ? "missing" : shown(*model));
    }
    if (auto status = parse_model(*model, file); !status) {
        return fail_in("model", std::move(status.error()));
    }
    return file;
}

Result<NamedTokens> parse_tokenizer_config(std::string_view tokenizer_config_json) {
    DI_TRY(const Json root, parse_object(tokenizer_config_json));
    NamedTokens names;
    DI_TRY(names.bos, named_token(root, "bos_token"));
    DI_TRY(names.eos, named_token(root, "eos_token"));
    DI_TRY(names.pad, named_token(root, "pad_token"));
    return names;
}

Result<std::optional<std::string>> parse_chat_template(std::string_view tokenizer_config_json) {
    DI_TRY(const Json root, parse_object(tokenizer_config_json));
    const Json* value = member(root, "chat_template");
    if (value == nullptr) {
        return std::nullopt;
    }
    if (value->is_string()) {
        return std::optional(value->get<std::string>());
    }
    if (!value->is_array()) {
        return fail(kBadFile, "chat_template is {}, expected a string or a list of named ones", shown(*value));
    }
    for (const Json& entry : *value) {
        const auto name = entry.is_object() ? string_member(entry, "name") : Result<std::string>(std::string());
        if (name && *name == "default") {
            DI_TRY(std::string source, string_member(entry, "template"));
            return std::optional(std::move(source));
        }
    }
    return fail(kBadFile, "chat_template is a list without one that is named \"default\"");
}

}  // namespace di
