#include "text/tool_grammar.h"

#include <cstdlib>
#include <random>

#include <gtest/gtest.h>

#include "answer_outcome.h"
#include "deepseek_tokenizer.h"
#include "grammar_walk.h"
#include "text/chat_encoding.h"
#include "text/chat_tokens.h"
#include "text/detokenizer.h"
#include "text/json_text.h"

namespace di {
namespace {

struct Vocabulary {
    Tokenizer tokenizer;
    int32_t size;
    int32_t end;
    int32_t marker;
    int32_t think_end;
    std::vector<int32_t> drawable{};  // text, and the three above
    GrammarCompiler compiler;

    Vocabulary(Result<Tokenizer> loaded, int32_t vocab_size)
        : tokenizer(std::move(loaded.value())),
          size(vocab_size),
          end(tokenizer.find(kEndToken).value()),
          marker(tokenizer.find(kToolMarkerToken).value()),
          think_end(tokenizer.find(kThinkEndToken).value()),
          compiler(tokenizer, size, {end}, {.timeout_ms = 120'000}) {
        for (int32_t id = 0; id < tokenizer.vocabulary_size(); ++id) {
            const bool is_drawable = !tokenizer.is_added(id) || id == end || id == marker || id == think_end;
            if (is_drawable && !tokenizer.token_bytes(id).empty()) {
                drawable.push_back(id);
            }
        }
    }
};

Vocabulary& mini() {
    static Vocabulary vocabulary(Tokenizer::open(DI_MODELS "/v41-mini"), 8192);
    return vocabulary;
}

Vocabulary& real() {
    static Vocabulary vocabulary(Tokenizer::parse(deepseek_v41_tokenizer_json()), 129'280);
    return vocabulary;
}

Tool tool(std::string name, std::string_view schema, bool is_strict = false) {
    Tool result;
    result.name = std::move(name);
    result.parameters = parse_json(schema).value();
    result.is_strict = is_strict;
    result.path = "tools[0]";
    return result;
}

std::vector<Tool> tools() {
    return {tool("book", R"({"type": "object", "properties": {
                "city": {"type": "string", "enum": ["Paris", "Rome \"x\"", "<b>"]},
                "days": {"type": "integer", "minimum": 1, "maximum": 31},
                "note": {"type": ["string", "null"]},
                "code": {"type": "string", "pattern": "^[A-Z]{2}[0-9]+$"},
                "short": {"type": "string", "maxLength": 5},
                "rooms": {"type": "array", "items": {"$ref": "#/$defs/room"}, "minItems": 1},
                "when": {"anyOf": [{"type": "number"}, {"type": "string", "format": "ipv4"}]}},
                "$defs": {"room": {"type": "object", "properties": {"beds": {"type": "integer"}, "sea": {"type": "boolean"}}}}})",
                 true),
            tool("search", R"({"type": "object", "properties": {"query": {"type": "string"}, "limit": {"type": "integer"},
                "filter": {"type": "object"}, "tags": {"type": "array"}, "exact": {"type": "boolean"},
                "level": {"enum": ["low", 3, null]}}, "required": ["query"]})"),
            tool("shut", R"({"type": "object", "properties": {"x": {"anyOf": [{"type": "number"}, {"type": "null"}]}},
                "additionalProperties": false})"),
            tool("noop", "{}"), tool("strict_noop", R"({"type": "object"})", true)};
}

Conversation conversation(bool is_thinking, ToolChoice choice = {}) {
    Conversation result = user_conversation("Hello");
    result.is_thinking = is_thinking;
    result.tools = tools();
    result.tool_choice = std::move(choice);
    return result;
}

ToolChoice required(std::vector<std::string> names = {}) {
    return {.kind = ToolChoice::Kind::kRequired, .allowed_names = std::move(names)};
}

std::unique_ptr<TokenMask> mask_of(const Conversation& conversation, bool allows_parallel = true, Vocabulary& in = mini()) {
    const auto spec = answer_grammar(conversation, allows_parallel, in.tokenizer);
    EXPECT_TRUE(spec.has_value() && spec->has_value());
    Result<std::unique_ptr<TokenMask>> mask = compiled_mask(in.compiler, **spec);
    EXPECT_TRUE(mask.has_value()) << (mask ? "" : mask.error().text);
    return mask ? std::move(*mask) : nullptr;
}

// Feeds text in which markers and `</think>` are the tokens. The end of it that the mask refuses, "" when all is taken.
std::string refused_part(TokenMask& mask, std::string_view text, const Vocabulary& in = mini()) {
    while (!text.empty()) {
        const size_t at = std::min({text.find(kToolMarkerToken), text.find(kThinkEndToken), text.size()});
        if (at == 0) {
            const bool is_marker = text.starts_with(kToolMarkerToken);
            if (!mask.accept(is_marker ? in.marker : in.think_end)) {
                return std::string(text);
            }
            text.remove_prefix((is_marker ? kToolMarkerToken : kThinkEndToken).size());
            continue;
        }
        const std::vector<int32_t> ids = in.tokenizer.encode_plain(text.substr(0, at)).value();
        for (const int32_t id : ids) {
            if (!mask.accept(id)) {
                return std::string(text);
            }
            text.remove_prefix(in.tokenizer.token_bytes(id).size());
        }
    }
    return "";
}

bool allows(TokenMask& mask, int32_t id, const Vocabulary& in = mini()) {
    std::vector<uint32_t> words((static_cast<size_t>(in.size) + 31) / 32);
    const bool is_written = mask.fill(words);
    const bool is_set = !is_written || ((words[static_cast<size_t>(id) / 32] >> (static_cast<uint32_t>(id) % 32)) & 1U) != 0;
    EXPECT_EQ(mask.clone()->accept(id), is_set) << id;
    return is_set;
}

constexpr std::string_view kNoop = "<｜DSML｜ invoke name=\"noop\">\n\n</｜DSML｜ invoke>";

std::string block(std::string_view calls) { return fmt::format("<｜DSML｜ calls>\n{}\n</｜DSML｜ calls>", calls); }

std::string search(std::string_view parameters) {
    return fmt::format("<｜DSML｜ invoke name=\"search\">\n{}\n</｜DSML｜ invoke>", parameters);
}

// --- where a call may begin ---

TEST(ToolGrammar, TheMarkerComesBehindABracketAndNowhereElse) {
    for (const bool is_thinking : {false, true}) {
        const auto mask = mask_of(conversation(is_thinking));
        EXPECT_FALSE(allows(*mask, mini().marker));
        EXPECT_TRUE(allows(*mask, mini().end));
        ASSERT_EQ(refused_part(*mask, "Let me look </"), "");
        EXPECT_FALSE(allows(*mask, mini().marker));
        ASSERT_EQ(refused_part(*mask, " a <"), "");
        EXPECT_TRUE(allows(*mask, mini().marker));
        ASSERT_EQ(refused_part(*mask, "b>"), "");
        EXPECT_FALSE(allows(*mask, mini().marker));
        ASSERT_EQ(refused_part(*mask, "\n\n" + block(kNoop)), "");
        EXPECT_TRUE(allows(*mask, mini().end));
        EXPECT_FALSE(allows(*mask, mini().marker));
        EXPECT_EQ(refused_part(*mask, "x"), "x");
    }
}

TEST(ToolGrammar, AFreeAnswerMayEndAndAForcedOneOnlyBehindItsCalls) {
    const auto free = mask_of(conversation(true));
    ASSERT_EQ(refused_part(*free, "think</think>answer"), "");
    EXPECT_TRUE(free->accept(mini().end));
    EXPECT_TRUE(free->is_finished());
    const auto forced = mask_of(conversation(true, required()));
    ASSERT_EQ(refused_part(*forced, "think"), "");
    EXPECT_FALSE(allows(*forced, mini().end));
    ASSERT_EQ(refused_part(*forced, "</think>"), "");
    EXPECT_EQ(refused_part(*forced, "answer"), "answer");
    ASSERT_EQ(refused_part(*forced, "\n\n" + block(kNoop)), "");
    EXPECT_TRUE(forced->accept(mini().end));
}

TEST(ToolGrammar, AForcedCallMayBeginInsideTheReasoning) {
    const auto mask = mask_of(conversation(true, required()));
    ASSERT_EQ(refused_part(*mask, "I call it.\n" + block(kNoop)), "");
    EXPECT_TRUE(mask->accept(mini().end));
}

TEST(ToolGrammar, WithoutReasoningAForcedCallGoesOnInsideTheBlockOfThePrompt) {
    const auto mask = mask_of(conversation(false, required()));
    ASSERT_EQ(refused_part(*mask, std::string(kNoop) + "\n" + std::string(kNoop) + "\n</｜DSML｜ calls>"), "");
    EXPECT_TRUE(mask->accept(mini().end));
}

TEST(ToolGrammar, OnlyOfferedNamesAreCalled) {
    EXPECT_NE(refused_part(*mask_of(conversation(false)), block("<｜DSML｜ invoke name=\"launch\">\n\n</｜DSML｜ invoke>")),
              "");
    const Conversation named = conversation(false, required({"noop"}));
    EXPECT_EQ(refused_part(*mask_of(named), std::string(kNoop)), "");
    EXPECT_NE(refused_part(*mask_of(named), search("")), "");
}

TEST(ToolGrammar, WithoutParallelCallsThereIsOne) {
    const std::string two = std::string(kNoop) + "\n" + std::string(kNoop);
    EXPECT_EQ(refused_part(*mask_of(conversation(false)), block(two)), "");
    const auto mask = mask_of(conversation(false), false);
    EXPECT_EQ(refused_part(*mask, block(kNoop)), "");
    EXPECT_NE(refused_part(*mask_of(conversation(false), false), block(two)), "");
}

TEST(ToolGrammar, AnAnswerIsOfItsFormatOrABlock) {
    for (const bool is_thinking : {false, true}) {
        Conversation both = conversation(is_thinking);
        both.response_format = {
            .kind = ResponseFormat::Kind::kRegex, .schema = {}, .pattern = "[^a]+", .choices = {}, .path = "f"};
        const std::string_view begin = is_thinking ? "hm a <</think>" : "";
        const auto format = mask_of(both);
        ASSERT_EQ(refused_part(*format, std::string(begin) + "bcd <"), "");
        EXPECT_FALSE(allows(*format, mini().marker));
        EXPECT_TRUE(allows(*format, mini().end));
        EXPECT_EQ(refused_part(*format, "a"), "a");
        const auto call = mask_of(both);
        ASSERT_EQ(refused_part(*call, std::string(begin) + "\n\n" + block(kNoop)), "");
        EXPECT_TRUE(call->accept(mini().end));
    }
    Conversation both = conversation(true);
    both.response_format.kind = ResponseFormat::Kind::kJsonObject;
    const auto mask = mask_of(both);
    ASSERT_EQ(refused_part(*mask, "in the middle\n\n" + block(kNoop)), "");
    EXPECT_TRUE(mask->accept(mini().end));
}

TEST(ToolGrammar, WithoutToolsThereIsTheFormatAlone) {
    Conversation none = conversation(true, {.kind = ToolChoice::Kind::kNone, .allowed_names = {}});
    EXPECT_FALSE(answer_grammar(none, true, mini().tokenizer).value().has_value());
    none.response_format.kind = ResponseFormat::Kind::kJsonObject;
    const auto spec = answer_grammar(none, true, mini().tokenizer).value();
    ASSERT_TRUE(spec.has_value());
    EXPECT_EQ(spec->kind, GrammarSpec::Kind::kJsonObject);
    EXPECT_EQ(spec->trigger_token_ids, std::vector<int32_t>{mini().think_end});
    none.task = QuickTask::kTitle;
    EXPECT_TRUE(answer_grammar(none, true, mini().tokenizer).value()->trigger_token_ids.empty());
}

// --- what a call may hold ---

std::string parameter(std::string_view key, std::string_view is_string, std::string_view value) {
    return fmt::format("<｜DSML｜ parameter name=\"{}\" string=\"{}\">{}</｜DSML｜ parameter>", key, is_string, value);
}

TEST(ToolGrammar, ArgumentsHaveTheValuesThatTheSchemaDeclares) {
    const auto taken = [](std::string_view parameters) {
        return refused_part(*mask_of(conversation(false)), block(search(parameters))).empty();
    };
    const auto beside = [&taken](std::string_view key, std::string_view is_string, std::string_view value) {
        return taken(parameter(key, is_string, value) + "\n" + parameter("query", "true", ""));
    };
    EXPECT_TRUE(taken(parameter("query", "true", "a <b> </ 2>&1\n\n\"\\ </parameter>")));
    EXPECT_TRUE(beside("limit", "false", "-3"));
    EXPECT_TRUE(beside("filter", "false", "{\"a\": [1, {\"b\": null}]}"));
    EXPECT_TRUE(beside("level", "true", "low"));
    EXPECT_TRUE(beside("level", "false", "3"));
    EXPECT_FALSE(taken(parameter("query", "false", "3")));
    EXPECT_FALSE(beside("limit", "true", "3"));
    EXPECT_FALSE(beside("limit", "false", "3.5"));
    EXPECT_FALSE(beside("filter", "false", "[1]"));
    EXPECT_FALSE(beside("exact", "false", "True"));
    EXPECT_FALSE(beside("level", "false", "[]"));
    EXPECT_FALSE(beside("level", "true", "high"));
    EXPECT_FALSE(beside("level", "false", "80"));
    EXPECT_FALSE(taken(parameter("query", "yes", "a")));
    EXPECT_FALSE(beside("further", "true", "x"));
}

TEST(ToolGrammar, RequiredArgumentsAreThereInAnyOrder) {
    const auto taken = [](const std::vector<std::string>& required, std::string_view keys) {
        Conversation one = conversation(false);
        std::string names;
        for (const std::string& name : required) {
            names += (names.empty() ? "\"" : ", \"") + name + "\"";
        }
        one.tools = {tool("search", R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"},
            "c": {"type": "integer"}, "d": {"type": "integer"}, "e": {"type": "integer"}, "f": {"type": "integer"}},
            "required": [)" + names + "]}")};
        std::string parameters;
        for (const char key : keys) {
            parameters += (parameters.empty() ? "" : "\n") + parameter(std::string(1, key), "false", "1");
        }
        return refused_part(*mask_of(one), block(search(parameters))).empty();
    };
    for (const std::string_view keys : {"ab", "ba", "fab", "afb", "bfa", "bafef"}) {
        EXPECT_TRUE(taken({"a", "b"}, keys)) << keys;
    }
    for (const std::string_view keys : {"", "a", "b", "f", "aef", "aa", "aab"}) {
        EXPECT_FALSE(taken({"a", "b"}, keys)) << keys;
    }
    EXPECT_TRUE(taken({}, ""));
    EXPECT_TRUE(taken({}, "fee"));
    EXPECT_TRUE(taken({"a", "b", "c", "d"}, "dfcba"));
    // Five of them come as declared.
    EXPECT_TRUE(taken({"a", "b", "c", "d", "e"}, "abcfde"));
    EXPECT_FALSE(taken({"a", "b", "c", "d", "e"}, "abcde" + 1));
    EXPECT_FALSE(taken({"a", "b", "c", "d", "e"}, "bacde"));
}

TEST(ToolGrammar, FurtherKeysComeWhereTheSchemaAsksForThem) {
    const auto taken = [](std::string_view schema, std::string_view key, std::string_view value) {
        Conversation one = conversation(false);
        one.tools = {tool("search", schema)};
        return refused_part(*mask_of(one), block(search(parameter(key, "false", value)))).empty();
    };
    const std::string_view open =
        R"({"type": "object", "properties": {"limit": {"type": "integer"}}, "additionalProperties": true})";
    EXPECT_TRUE(taken(open, "more", "[1.5e3]"));
    EXPECT_TRUE(taken(open, "limits", "[1.5e3]"));
    EXPECT_TRUE(taken(open, "limit", "3"));
    EXPECT_FALSE(taken(open, "limit", "[1.5e3]"));
    EXPECT_TRUE(taken(R"({"type": "object"})", "more", "[1.5e3]"));
    EXPECT_FALSE(taken(R"({"type": "object", "properties": {"limit": {"type": "integer"}}})", "more", "1"));
    // With names of so many bytes that telling others from them would cost too much, all keys and values are free.
    EXPECT_TRUE(taken(R"({"type": "object", "properties": {"a_name_of_quite_some_length": {"type": "integer"}},
        "additionalProperties": true})",
                      "a_name_of_quite_some_length", "[1.5e3]"));
}

TEST(ToolGrammar, AClosedToolHasNoFurtherKeys) {
    const auto taken = [](std::string_view key) {
        return refused_part(*mask_of(conversation(false)),
                            block(fmt::format("<｜DSML｜ invoke name=\"shut\">\n<｜DSML｜ parameter name=\"{}\" "
                                              "string=\"false\">1</｜DSML｜ parameter>\n</｜DSML｜ invoke>",
                                              key)))
            .empty();
    };
    EXPECT_TRUE(taken("x"));
    EXPECT_FALSE(taken("y"));
    EXPECT_FALSE(taken("xx"));
}

TEST(ToolGrammar, AStrictSchemaThatCannotBeHeldToIsAnErrorWithItsPlaceAndALooseOneIsNot) {
    for (const bool is_strict : {true, false}) {
        Conversation one = conversation(false);
        one.tools = {tool("f", R"({"type": "object", "properties": {"a": {"type": "integer", "multipleOf": 3}}})", is_strict)};
        const auto spec = answer_grammar(one, true, mini().tokenizer).value();
        const auto source = mini().compiler.submit(*spec);
        ASSERT_EQ(source.has_value(), !is_strict);
        if (is_strict) {
            EXPECT_TRUE(source.error().text.starts_with("tools[0].parameters: ")) << source.error().text;
            EXPECT_NE(source.error().text.find("multipleOf"), std::string::npos) << source.error().text;
        }
    }
}

TEST(ToolGrammar, AStrictToolMayHaveItsPropertiesBehindAReference) {
    Conversation one = conversation(false);
    one.tools = {tool("search", R"({"$ref": "#/$defs/all", "$defs": {"all": {"type": "object", "properties": {"a": {"type":
        "integer"}}, "required": ["a"], "additionalProperties": false}}})",
                      true)};
    const auto taken = [&one](std::string_view value) {
        return refused_part(*mask_of(one), block(search(parameter("a", "false", value)))).empty();
    };
    EXPECT_TRUE(taken("3"));
    EXPECT_FALSE(taken("3.5"));
}

TEST(ToolGrammar, ATokenizerWithoutAMarkerCallsNothing) {
    const Tokenizer plain = Tokenizer::open(DI_TEST_DATA "/v41-tiny").value();
    ASSERT_FALSE(plain.find(kToolMarkerToken).has_value());
    EXPECT_FALSE(answer_grammar(conversation(false), true, plain).value().has_value());
}

// --- random outputs ---

// A tiny judge of its own: the keywords that the tools above use.
bool is_valid(const JsonValue& value, const JsonValue& schema, const JsonValue& root) {
    if (const JsonValue* reference = schema.find("$ref")) {
        EXPECT_EQ(reference->as_string(), "#/$defs/room");
        return is_valid(value, *root.find("$defs")->find("room"), root);
    }
    const auto any = [](const JsonValue& list, const auto& fits) {
        return std::any_of(list.as_array().begin(), list.as_array().end(), fits);
    };
    if (const JsonValue* list = schema.find("anyOf")) {
        return any(*list, [&](const JsonValue& one) { return is_valid(value, one, root); });
    }
    if (const JsonValue* list = schema.find("enum")) {
        return any(*list, [&](const JsonValue& one) { return json_text(one) == json_text(value); });
    }
    const auto has_type = [&value](const JsonValue& type) {
        const std::string& name = type.as_string();
        return (name == "string" && value.is_string()) || (name == "integer" && value.is_integer()) ||
               (name == "number" && value.is_number()) || (name == "boolean" && value.is_boolean()) ||
               (name == "null" && value.is_null()) || (name == "array" && value.is_array()) ||
               (name == "object" && value.is_object());
    };
    if (const JsonValue* type = schema.find("type");
        type != nullptr && !(type->is_string() ? has_type(*type) : any(*type, has_type))) {
        return false;
    }
    if (schema.find("maximum") != nullptr && (value.as_double() < 1 || value.as_double() > 31)) {
        return false;
    }
    if (schema.find("maxLength") != nullptr) {
        const std::string& text = value.as_string();
        return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }) <=
               5;
    }
    if (schema.find("pattern") != nullptr) {
        const std::string& text = value.as_string();
        return text.size() >= 3 && text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 2 &&
               text.find_first_not_of("0123456789", 2) == std::string::npos;
    }
    if (schema.find("items") != nullptr) {
        return !value.as_array().empty() &&
               std::all_of(value.as_array().begin(), value.as_array().end(),
                           [&](const JsonValue& item) { return is_valid(item, *schema.find("items"), root); });
    }
    return true;
}

void expect_valid(const ParsedCall& call) {
    const std::vector<Tool> all = tools();
    const auto found = std::find_if(all.begin(), all.end(), [&call](const Tool& one) { return one.name == call.name; });
    ASSERT_NE(found, all.end()) << call.name;
    const Result<JsonValue> arguments = parse_json(call.arguments);
    ASSERT_TRUE(arguments.has_value() && arguments->is_object()) << call.arguments;
    const JsonValue* properties = found->parameters.find("properties");
    const size_t declared = properties == nullptr ? 0 : properties->as_object().size();
    if (found->is_strict) {
        EXPECT_EQ(arguments->as_object().size(), declared) << call.arguments;
    }
    if (const JsonValue* required = found->parameters.find("required")) {
        for (const JsonValue& name : required->as_array()) {
            EXPECT_NE(arguments->find(name.as_string()), nullptr) << name.as_string() << " in " << call.arguments;
        }
    }
    for (const JsonMember& member : arguments->as_object()) {
        const JsonValue* schema = properties == nullptr ? nullptr : properties->find(member.key);
        if (schema != nullptr) {
            EXPECT_TRUE(is_valid(member.value, *schema, found->parameters)) << member.key << " in " << call.arguments;
        } else {
            EXPECT_EQ(found->name, "noop") << call.arguments;
        }
    }
}

// Draws what the mask allows, with a taste for calls and for what comes to an end.
class Caller {
  public:
    Caller(Vocabulary& in, uint64_t seed) : in_(in), random_(seed), words_((static_cast<size_t>(in.size) + 31) / 32) {}

    // Ids without the end; `is_complete`: it ended. A dead end is a failure.
    std::vector<int32_t> draw(TokenMask& mask, bool& is_complete) {
        std::vector<int32_t> ids;
        is_complete = false;
        while (ids.size() < 1500) {
            const int32_t id = pick(mask, ids.size());
            if (id < 0 || !mask.accept(id)) {
                ADD_FAILURE() << "dead end behind: " << in_.tokenizer.decode(ids);
                return ids;
            }
            if (id == in_.end) {
                is_complete = true;
                return ids;
            }
            ids.push_back(id);
        }
        return ids;
    }

  private:
    bool chance(double p) { return std::uniform_real_distribution<>(0.0, 1.0)(random_) < p; }
    bool is_set(int32_t id) const {
        return ((words_[static_cast<size_t>(id) / 32] >> (static_cast<uint32_t>(id) % 32)) & 1U) != 0;
    }

    int32_t pick(TokenMask& mask, size_t position) {
        if (!mask.fill(words_)) {
            std::fill(words_.begin(), words_.end(), ~0U);
        }
        const double haste = position < 100 ? 0.3 : 0.97;
        if (is_set(in_.marker) && chance(0.9)) {
            return in_.marker;
        }
        if (is_set(in_.end) && chance(0.1 + haste / 2)) {
            return in_.end;
        }
        for (const std::string_view text : {"</", "\"", "}", "]", "0", "null", ">", "<", ",", ":", "."}) {
            const std::optional<int32_t> id = in_.tokenizer.find(text);
            if (id && is_set(*id) && chance(haste)) {
                return *id;
            }
        }
        std::vector<int32_t> allowed;
        std::copy_if(in_.drawable.begin(), in_.drawable.end(), std::back_inserter(allowed),
                     [this](int32_t id) { return is_set(id); });
        return allowed.empty() ? -1 : allowed[std::uniform_int_distribution<size_t>(0, allowed.size() - 1)(random_)];
    }

    Vocabulary& in_;
    std::mt19937_64 random_;
    std::vector<uint32_t> words_;
};

AnswerOutcome parsed(const Conversation& conversation, const std::vector<int32_t>& ids, bool is_complete,
                     const Vocabulary& in) {
    AnswerParser parser({.start = answer_start(conversation), .may_call_tools = true, .tools = conversation.tools});
    Detokenizer detokenizer(in.tokenizer, true);
    std::vector<AnswerEvent> events;
    for (const int32_t id : ids) {
        if (id == in.marker || id == in.think_end) {
            parser.push_text(detokenizer.finish(), events);
            parser.push_marker(id == in.marker ? AnswerMarker::kToolMarker : AnswerMarker::kThinkEnd, events);
        } else {
            parser.push_text(detokenizer.push(id), events);
        }
    }
    parser.push_text(detokenizer.finish(), events);
    parser.finish(!is_complete, events);
    return joined(events);
}

// How many of so many random outputs came to an end; each call of any of them is valid.
size_t walk(Vocabulary& in, int walks) {
    const std::vector<Conversation> conversations = {conversation(false), conversation(true), conversation(false, required()),
                                                     conversation(true, required()), conversation(true, required({"book"}))};
    size_t complete_count = 0;
    for (int i = 0; i < walks; ++i) {
        const size_t which = static_cast<size_t>(i) % conversations.size();
        const Conversation& asked = conversations[which];
        const auto seed = static_cast<uint64_t>(1000 + i);
        SCOPED_TRACE(fmt::format("conversation {} seed {}", which, seed));
        const auto mask = mask_of(asked, i % 2 == 0, in);
        bool is_complete = false;
        const std::vector<int32_t> ids = Caller(in, seed).draw(*mask, is_complete);
        const AnswerOutcome outcome = parsed(asked, ids, is_complete, in);
        EXPECT_EQ(outcome.content.find(kToolMarkerToken), std::string::npos) << outcome.content;
        EXPECT_EQ(outcome.reasoning.find(kToolMarkerToken), std::string::npos) << outcome.reasoning;
        const bool is_forced = asked.tool_choice.kind == ToolChoice::Kind::kRequired;
        EXPECT_TRUE(!is_forced || outcome.content.empty()) << outcome.content;
        for (size_t call = 0; call < outcome.calls.size(); ++call) {
            if (is_complete || call + 1 < outcome.calls.size()) {
                expect_valid(outcome.calls[call]);
            }
        }
        if (is_complete) {
            ++complete_count;
            const bool has_marker = std::find(ids.begin(), ids.end(), in.marker) != ids.end();
            EXPECT_EQ(outcome.calls.empty(), !has_marker && !is_forced);
            EXPECT_TRUE(i % 2 == 0 || outcome.calls.size() <= 1);
        }
        if (testing::Test::HasFailure()) {
            ADD_FAILURE() << in.tokenizer.decode(ids);
            return complete_count;
        }
    }
    return complete_count;
}

// More of them with DEEPINFER_TOOL_WALKS.
TEST(ToolGrammar, EveryCallOfARandomOutputIsValid) {
    const char* asked = std::getenv("DEEPINFER_TOOL_WALKS");
    const int walks = asked == nullptr ? 100 : std::atoi(asked);
    const size_t complete_count = walk(mini(), walks);
    EXPECT_GE(complete_count * 10, static_cast<size_t>(walks) * 9) << "outputs that came to an end";
}

TEST(ToolGrammar, EveryCallOfARandomOutputIsValidWithARealVocabulary) { EXPECT_GE(walk(real(), 15), 12U); }

TEST(ToolGrammar, HundredsOfToolsCompile) {
    Conversation many = conversation(false);
    many.tools.clear();
    for (int i = 0; i < 200; ++i) {
        std::string properties;
        for (int k = 0; k < 8; ++k) {
            properties += fmt::format("{}\"argument_{}\": {{\"type\": \"string\"}}", k == 0 ? "" : ", ", k);
        }
        many.tools.push_back(
            tool(fmt::format("server__tool_{}", i), "{\"type\": \"object\", \"properties\": {" + properties + "}}"));
    }
    const auto mask = mask_of(many);
    ASSERT_NE(mask, nullptr);
    EXPECT_EQ(refused_part(*mask, block("<｜DSML｜ invoke name=\"server__tool_173\">\n<｜DSML｜ parameter name=\"argument_3\" "
                                        "string=\"true\">x</｜DSML｜ parameter>\n</｜DSML｜ invoke>")),
              "");
}

}  // namespace
}  // namespace di
