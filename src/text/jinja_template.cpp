#include "text/jinja_template.h"

#include <algorithm>
#include <exception>
#include <utility>

#include <jinja/lexer.h>
#include <jinja/parser.h>
#include <jinja/runtime.h>

#include "text/unicode.h"

namespace di {

struct JinjaTemplate::Program {
    std::string source;
    jinja::program program;
};

namespace {

// Real templates have up to 25 KB, tags up to 6 KB, and nest up to 12 deep. The engine recurses over what is nested, and
// over the operators of one tag.
constexpr size_t kTemplateBytesMax = size_t{256} << 10;
constexpr size_t kTagBytesMax = size_t{16} << 10;
constexpr int kNestingMax = 100;
// An error of the engine begins with an excerpt of the template; what it is about stands behind this.
constexpr std::string_view kEngineErrorMark = "Error: ";
constexpr std::string_view kRaisedMark = "Jinja Exception: ";
constexpr size_t kEngineErrorBytesMax = 200;

// One line of it.
std::string engine_text(const std::exception& exception) {
    std::string_view text = exception.what();
    if (const size_t mark = text.rfind(kEngineErrorMark); mark != std::string_view::npos) {
        text.remove_prefix(mark + kEngineErrorMark.size());
    }
    if (text.starts_with(kRaisedMark)) {
        text.remove_prefix(kRaisedMark.size());
    }
    text.remove_prefix(std::min(text.find_first_not_of("\n "), text.size()));
    return decode_lossy(text.substr(0, std::min(text.find('\n'), kEngineErrorBytesMax)));
}

// Whether a statement `{% word ... %}` opens or closes a block.
int block_step(std::string_view tag) {
    const size_t begin = tag.find_first_not_of("{%-+ \t\r\n");
    if (begin == std::string_view::npos) {
        return 0;
    }
    const std::string_view rest = tag.substr(begin);
    for (const std::string_view word : {"if", "for", "macro", "call", "filter", "generation"}) {
        if (rest.starts_with(word)) {
            return 1;
        }
    }
    return rest.starts_with("end") && !rest.starts_with("endset") ? -1 : 0;
}

Status check_limits(std::string_view source) {
    if (source.size() > kTemplateBytesMax) {
        return fail(ErrorCode::kInvalidFile, "the template has {} bytes, at most {} are allowed", source.size(),
                    kTemplateBytesMax);
    }
    if (!is_valid_utf8(source)) {
        return fail(ErrorCode::kInvalidFile, "the template is not valid UTF-8");
    }
    int blocks = 0;
    for (size_t at = source.find('{'); at != std::string_view::npos; at = source.find('{', at)) {
        const char kind = at + 1 < source.size() ? source[at + 1] : '\0';
        if (kind != '{' && kind != '%') {
            ++at;
            continue;
        }
        const std::string_view close = kind == '{' ? "}}" : "%}";
        const size_t end = std::min(source.find(close, at + 2), source.size());
        const std::string_view tag = source.substr(at, end - at);
        if (tag.size() > kTagBytesMax) {
            return fail(ErrorCode::kInvalidFile, "the template has a tag of {} bytes, at most {} are allowed", tag.size(),
                        kTagBytesMax);
        }
        blocks += kind == '%' ? block_step(tag) : 0;
        int brackets = 0;
        int deepest = 0;
        for (const char c : tag.substr(2)) {
            brackets += c == '(' || c == '[' || c == '{' ? 1 : 0;
            brackets -= c == ')' || c == ']' || c == '}' ? 1 : 0;
            deepest = std::max(deepest, brackets);
        }
        if (std::max(blocks, deepest) > kNestingMax) {
            return fail(ErrorCode::kInvalidFile, "the template is nested deeper than {} levels", kNestingMax);
        }
        at = end;
    }
    return {};
}

jinja::value to_value(const JsonValue& json, bool is_input, const std::vector<std::string_view>& input_keys) {
    if (json.is_null()) {
        return jinja::mk_val<jinja::value_none>();
    }
    if (json.is_boolean()) {
        return jinja::mk_val<jinja::value_bool>(json.as_boolean());
    }
    if (json.is_number()) {
        const auto integer = json.as_int64();
        return integer ? jinja::value(jinja::mk_val<jinja::value_int>(*integer))
                       : jinja::value(jinja::mk_val<jinja::value_float>(json.as_double()));
    }
    if (json.is_string()) {
        auto text = jinja::mk_val<jinja::value_string>(json.as_string());
        if (is_input) {
            text->mark_input();
        }
        return text;
    }
    if (json.is_array()) {
        auto array = jinja::mk_val<jinja::value_array>();
        for (const JsonValue& item : json.as_array()) {
            array->push_back(to_value(item, is_input, input_keys));
        }
        return array;
    }
    auto object = jinja::mk_val<jinja::value_object>();
    for (const JsonMember& member : json.as_object()) {
        const bool is_marked = is_input || std::ranges::find(input_keys, member.key) != input_keys.end();
        object->insert(member.key, to_value(member.value, is_marked, input_keys));
    }
    return object;
}

}  // namespace

JinjaTemplate::JinjaTemplate(std::unique_ptr<const Program> program) : program_(std::move(program)) {}
JinjaTemplate::JinjaTemplate(JinjaTemplate&&) noexcept = default;
JinjaTemplate& JinjaTemplate::operator=(JinjaTemplate&&) noexcept = default;
JinjaTemplate::~JinjaTemplate() = default;

Result<JinjaTemplate> JinjaTemplate::parse(const std::string& source) {
    DI_TRY_STATUS(check_limits(source));
    try {
        jinja::lexer lexer;
        const jinja::lexer_result tokens = lexer.tokenize(source);
        auto program = std::make_unique<Program>(Program{tokens.source, jinja::parse_from_tokens(tokens)});
        return JinjaTemplate(std::move(program));
    } catch (const std::exception& exception) {
        return fail(ErrorCode::kUnsupported, "the template cannot be read: {}", engine_text(exception));
    }
}

Result<std::vector<TemplateText>> JinjaTemplate::render(const JsonValue& variables,
                                                        const std::vector<std::string_view>& input_keys) const {
    try {
        jinja::context context(program_->source);
        for (const JsonMember& member : variables.as_object()) {
            const bool is_input = std::ranges::find(input_keys, member.key) != input_keys.end();
            context.set_val(member.key, to_value(member.value, is_input, input_keys));
        }
        jinja::runtime runtime(context);
        const jinja::value_string parts = jinja::runtime::gather_string_parts(runtime.execute(program_->program));
        std::vector<TemplateText> texts;
        for (jinja::string_part& part : parts->val_str.parts) {
            if (!part.val.empty()) {
                texts.push_back({.text = std::move(part.val), .is_input = part.is_input});
            }
        }
        return texts;
    } catch (const std::exception& exception) {
        return fail(ErrorCode::kInvalidArgument, "the model's chat template refuses the conversation: {}",
                    engine_text(exception));
    }
}

}  // namespace di
