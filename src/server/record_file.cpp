#include "server/record_file.h"

#include <algorithm>

#include "base/file_io.h"
#include "server/limits.h"

namespace di {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";

Status add_record(JsonValue value, std::string place, std::vector<FileRecord>& records) {
    if (!value.is_object()) {
        return fail(ErrorCode::kInvalidFile, "{}: {}, expected a JSON object", place, value.kind_name());
    }
    records.push_back({.place = std::move(place), .value = std::move(value)});
    return {};
}

Result<std::vector<FileRecord>> records_of_array(std::string_view text, std::string_view name) {
    const Result<JsonValue> file = parse_json(text);
    if (!file) {
        return fail(ErrorCode::kInvalidFile, "{}: {}", name, file.error().text);
    }
    std::vector<FileRecord> records;
    for (const JsonValue& value : file->as_array()) {
        DI_TRY_STATUS(add_record(value, fmt::format("{}: entry {}", name, records.size() + 1), records));
    }
    return records;
}

}  // namespace

Result<std::vector<FileRecord>> read_records(const std::string& path) {
    DI_TRY(const std::string text, read_file(path, kKeyFileBytesMax));
    return parse_records(text, path);
}

Result<std::vector<FileRecord>> parse_records(std::string_view text, std::string_view name) {
    const size_t first = text.find_first_not_of(kBlanks);
    if (first != std::string_view::npos && text[first] == '[') {
        return records_of_array(text, name);
    }
    std::vector<FileRecord> records;
    for (size_t number = 1; !text.empty(); ++number) {
        const std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(line.size() + 1, text.size()));
        const size_t begin = line.find_first_not_of(kBlanks);
        if (begin == std::string_view::npos || line[begin] == '#') {
            continue;
        }
        Result<JsonValue> value = parse_json(line);
        if (!value) {
            return fail(ErrorCode::kInvalidFile, "{}: line {}: {}", name, number, value.error().text);
        }
        DI_TRY_STATUS(add_record(std::move(*value), fmt::format("{}: line {}", name, number), records));
    }
    return records;
}

Status check_members(const FileRecord& record, std::string_view names) {
    const std::string all = fmt::format(" {} ", names);
    for (const JsonMember& member : record.value.as_object()) {
        if (member.key.find(' ') != std::string::npos || all.find(" " + member.key + " ") == std::string::npos) {
            return fail(ErrorCode::kInvalidFile, "{}: unknown field {}, expected some of {}", record.place,
                        short_quoted(member.key), names);
        }
        // Elsewhere it counts as absent; here that might open what somebody meant to close.
        if (member.value.is_null()) {
            return fail(ErrorCode::kInvalidFile, "{}: {}: null, expected a value or no such field", record.place, member.key);
        }
    }
    return {};
}

Result<std::vector<std::string>> string_list(const JsonReader& reader, std::string_view key, size_t count_max,
                                             size_t bytes_max) {
    DI_TRY(const JsonValue::Array* const items, reader.array(key, count_max));
    std::vector<std::string> texts;
    for (size_t i = 0; items != nullptr && i < items->size(); ++i) {
        const JsonValue& item = (*items)[i];
        if (!item.is_string() || item.as_string().empty() || item.as_string().size() > bytes_max) {
            return fail(ErrorCode::kInvalidFile, "{}: {}, expected a string of 1 to {} bytes",
                        item_path(reader.path_of(key), i), short_json_text(item), bytes_max);
        }
        texts.push_back(item.as_string());
    }
    return texts;
}

}  // namespace di
