#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/json_reader.h"

// Files that a person writes one JSON object a line (empty lines and lines that begin with # say nothing), or as one JSON array of
// objects.
namespace di {

struct FileRecord {
    std::string place;  // for messages: "keys.jsonl: line 3", or "keys.json: entry 2", both from 1
    JsonValue value;    // an object
};

[[nodiscard]] Result<std::vector<FileRecord>> read_records(const std::string& path);
// `name` stands for the file in messages.
[[nodiscard]] Result<std::vector<FileRecord>> parse_records(std::string_view text, std::string_view name);

// An error for members that are not in `names`, separated by blanks: a field that is spelled wrong must not go unnoticed.
// Null is no value of any.
[[nodiscard]] Status check_members(const FileRecord& record, std::string_view names);

// The strings of a list, or what is wrong with it.
[[nodiscard]] Result<std::vector<std::string>> string_list(const JsonReader& reader, std::string_view key, size_t count_max,
                                                           size_t bytes_max);

}  // namespace di
