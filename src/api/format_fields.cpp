#include "api/format_fields.h"

#include <array>
#include <utility>

#include "api/limits.h"

namespace di {
namespace {

using Kind = ResponseFormat::Kind;

// Holds the one constraint of a request; a second one is an error that names both.
class FormatCollector {
  public:
    Status add(ResponseFormat format) {
        if (format.kind == Kind::kText) {
            return {};
        }
        if (format_.kind != Kind::kText) {
            return fail(ErrorCode::kInvalidArgument, "{}: the answer is already constrained by {}, expected one of them",
                        format.path, format_.path);
        }
        format_ = std::move(format);
        return {};
    }

    ResponseFormat take() { return std::move(format_); }

  private:
    ResponseFormat format_;
};

Status check_size(size_t bytes, std::string_view path) {
    if (bytes > kFormatBytesMax) {
        return fail(ErrorCode::kInvalidArgument, "{}: {} bytes, expected at most {}", path, bytes, kFormatBytesMax);
    }
    return {};
}

// A schema, as an object or (vLLM's guided_json) as its JSON text.
Result<ResponseFormat> schema_format(const JsonReader& reader, std::string_view key) {
    ResponseFormat format;
    format.kind = Kind::kJsonSchema;
    format.path = reader.path_of(key);
    const JsonValue* value = reader.find(key);
    if (value != nullptr && value->is_string()) {
        DI_TRY_STATUS(check_size(value->as_string().size(), format.path));
        auto parsed = parse_json(value->as_string());
        if (!parsed) {
            return fail_in(format.path, parsed.error());
        }
        format.schema = std::move(*parsed);
    } else if (value != nullptr) {
        format.schema = *value;
    }
    if (!format.schema.is_object()) {
        return reader.wrong(key, "a JSON Schema (an object)");
    }
    DI_TRY_STATUS(check_size(json_text(format.schema).size(), format.path));
    return format;
}

Result<ResponseFormat> pattern_format(const JsonReader& reader, std::string_view key, Kind kind) {
    ResponseFormat format;
    format.kind = kind;
    format.path = reader.path_of(key);
    DI_TRY(format.pattern, reader.required_string(key));
    DI_TRY_STATUS(check_size(format.pattern.size(), format.path));
    return format;
}

Result<ResponseFormat> choice_format(const JsonReader& reader, std::string_view key) {
    ResponseFormat format;
    format.kind = Kind::kChoice;
    format.path = reader.path_of(key);
    DI_TRY(const auto* items, reader.array(key, kFormatBytesMax));
    if (items == nullptr || items->empty()) {
        return reader.wrong(key, "a list of at least one string");
    }
    size_t bytes = 0;
    for (size_t i = 0; i < items->size(); ++i) {
        if (!(*items)[i].is_string()) {
            return fail(ErrorCode::kInvalidArgument, "{}: {}, expected a string", item_path(format.path, i),
                        short_json_text((*items)[i]));
        }
        bytes += (*items)[i].as_string().size() + 1;
        format.choices.push_back((*items)[i].as_string());
    }
    DI_TRY_STATUS(check_size(bytes, format.path));
    return format;
}

Result<ResponseFormat> tag_format(const JsonValue& tag, const std::string& path) {
    ResponseFormat format;
    format.kind = Kind::kStructuralTag;
    format.path = path;
    format.schema = tag;
    DI_TRY_STATUS(check_size(json_text(tag).size(), path));
    return format;
}

// The object of `type` json_schema: chat nests name, schema and strict, the others have them beside it.
Result<ResponseFormat> named_schema_format(const JsonReader& reader, bool is_nested) {
    if (is_nested) {
        DI_TRY(const auto nested, reader.required_object("json_schema"));
        return named_schema_format(nested, false);
    }
    DI_TRY(auto format, schema_format(reader, "schema"));
    DI_TRY(format.is_strict, reader.boolean_or("strict", false));
    return format;
}

// An object with a `type`.
Result<ResponseFormat> parse_typed(const JsonReader& reader, Dialect dialect) {
    DI_TRY(const auto type, reader.required_string("type"));
    if (type == "json_schema") {
        return named_schema_format(reader, dialect == Dialect::kChat || dialect == Dialect::kCompletions);
    }
    ResponseFormat format;
    format.path = reader.path();
    if (dialect != Dialect::kMessages) {
        if (type == "text") {
            return format;
        }
        if (type == "json_object") {
            format.kind = Kind::kJsonObject;
            return format;
        }
    }
    if (dialect == Dialect::kMessages) {
        return reader.wrong("type", "json_schema");
    }
    if (dialect == Dialect::kResponses) {
        return reader.wrong("type", "text, json_object or json_schema");
    }
    if (type == "regex") {
        return pattern_format(reader, "regex", Kind::kRegex);
    }
    if (type == "grammar") {
        return pattern_format(reader, "grammar", Kind::kGrammar);
    }
    return reader.wrong("type", "text, json_object, json_schema, regex, grammar or structural_tag");
}

Status add_typed(const JsonReader& parent, std::string_view key, Dialect dialect, FormatCollector& collector) {
    DI_TRY(const auto reader, parent.object(key));
    if (!reader) {
        return {};
    }
    DI_TRY(const auto type, reader->required_string("type"));
    const bool is_tag = type == "structural_tag" && dialect != Dialect::kResponses && dialect != Dialect::kMessages;
    DI_TRY(auto format, is_tag ? tag_format(*parent.find(key), reader->path()) : parse_typed(*reader, dialect));
    return collector.add(std::move(format));
}

Status add_json_object_flag(const JsonReader& reader, std::string_view key, FormatCollector& collector) {
    DI_TRY(const bool is_wanted, reader.boolean_or(key, false));
    if (!is_wanted) {
        return {};
    }
    ResponseFormat format;
    format.kind = Kind::kJsonObject;
    format.path = reader.path_of(key);
    return collector.add(std::move(format));
}

Status add_structural_tag(const JsonReader& reader, std::string_view key, FormatCollector& collector) {
    const JsonValue* value = reader.find(key);
    if (value == nullptr) {
        return {};
    }
    JsonValue tag = *value;
    if (value->is_string()) {
        DI_TRY_STATUS(check_size(value->as_string().size(), reader.path_of(key)));
        auto parsed = parse_json(value->as_string());
        if (!parsed) {
            return fail_in(reader.path_of(key), parsed.error());
        }
        tag = std::move(*parsed);
    }
    if (!tag.is_object()) {
        return reader.wrong(key, "a structural tag (an object)");
    }
    DI_TRY(auto format, tag_format(tag, reader.path_of(key)));
    return collector.add(std::move(format));
}

enum class Form { kSchema, kRegex, kGrammar, kChoice };

struct NamedForm {
    std::string_view key;
    Form form;
};

// Top-level fields of other servers.
constexpr std::array kBodyForms = {
    NamedForm{"guided_json", Form::kSchema},   NamedForm{"guided_regex", Form::kRegex},
    NamedForm{"guided_choice", Form::kChoice}, NamedForm{"guided_grammar", Form::kGrammar},
    NamedForm{"regex", Form::kRegex},          NamedForm{"ebnf", Form::kGrammar},
    NamedForm{"grammar", Form::kGrammar},      NamedForm{"json_schema", Form::kSchema},
};

constexpr std::array kStructuredOutputForms = {
    NamedForm{"json", Form::kSchema},
    NamedForm{"regex", Form::kRegex},
    NamedForm{"choice", Form::kChoice},
    NamedForm{"grammar", Form::kGrammar},
};

Result<ResponseFormat> parse_form(const JsonReader& reader, const NamedForm& named) {
    switch (named.form) {
        case Form::kSchema: return schema_format(reader, named.key);
        case Form::kRegex: return pattern_format(reader, named.key, Kind::kRegex);
        case Form::kGrammar: return pattern_format(reader, named.key, Kind::kGrammar);
        case Form::kChoice: return choice_format(reader, named.key);
    }
    return ResponseFormat{};
}

template <size_t Count>
Status add_forms(const JsonReader& reader, const std::array<NamedForm, Count>& forms, FormatCollector& collector) {
    for (const NamedForm& named : forms) {
        if (reader.has(named.key)) {
            DI_TRY(auto format, parse_form(reader, named));
            DI_TRY_STATUS(collector.add(std::move(format)));
        }
    }
    return {};
}

}  // namespace

Result<ResponseFormat> parse_format_fields(const JsonReader& body, Dialect dialect) {
    FormatCollector collector;
    if (dialect == Dialect::kResponses || dialect == Dialect::kMessages) {
        DI_TRY(const auto parent, body.object(dialect == Dialect::kResponses ? "text" : "output_config"));
        if (parent) {
            DI_TRY_STATUS(add_typed(*parent, "format", dialect, collector));
        }
    } else {
        DI_TRY_STATUS(add_typed(body, "response_format", dialect, collector));
    }
    DI_TRY(const auto outputs, body.object("structured_outputs"));
    if (outputs) {
        DI_TRY_STATUS(add_forms(*outputs, kStructuredOutputForms, collector));
        DI_TRY_STATUS(add_json_object_flag(*outputs, "json_object", collector));
        DI_TRY_STATUS(add_structural_tag(*outputs, "structural_tag", collector));
    }
    DI_TRY_STATUS(add_forms(body, kBodyForms, collector));
    return collector.take();
}

}  // namespace di
