#include "server/tool_permissions.h"

#include <algorithm>

#include "base/file_io.h"
#include "server/limits.h"
#include "server/record_file.h"

namespace di {
namespace {

bool matches_any(const std::vector<std::string>& patterns, std::string_view text) {
    return std::any_of(patterns.begin(), patterns.end(),
                       [&](const std::string& pattern) { return matches_pattern(pattern, text); });
}

Result<ToolRule> rule_of(const FileRecord& record) {
    DI_TRY(const JsonReader reader, JsonReader::open(record.value, ""));
    ToolRule rule;
    DI_TRY(rule.key_pattern, reader.required_string("key"));
    if (!reader.has("tools")) {
        return reader.wrong("tools", "a list of patterns");
    }
    DI_TRY(rule.tool_patterns, string_list(reader, "tools", kToolPatternsMax, kToolPatternBytesMax));
    return rule;
}

}  // namespace

bool matches_pattern(std::string_view pattern, std::string_view text) {
    // The usual two-pointer walk: only the last star is ever taken back, so the time is at most the product of the lengths.
    size_t p = 0;
    size_t t = 0;
    size_t star = std::string_view::npos;
    size_t star_text = 0;
    while (t < text.size()) {
        if (p < pattern.size() && pattern[p] == '*') {
            star = p++;
            star_text = t;
        } else if (p < pattern.size() && pattern[p] == text[t]) {
            ++p;
            ++t;
        } else if (star != std::string_view::npos) {
            p = star + 1;
            t = ++star_text;
        } else {
            return false;
        }
    }
    return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

Result<ToolPermissions> ToolPermissions::open(const std::string& path) {
    DI_TRY(const std::string text, read_file(path, kKeyFileBytesMax));
    return parse(text, path);
}

Result<ToolPermissions> ToolPermissions::parse(std::string_view text, std::string_view name) {
    DI_TRY(const std::vector<FileRecord> records, parse_records(text, name));
    if (records.size() > kToolRulesMax) {
        return fail(ErrorCode::kInvalidFile, "{}: {} rules, expected at most {}", name, records.size(), kToolRulesMax);
    }
    ToolPermissions permissions;
    permissions.rules_.emplace();
    for (const FileRecord& record : records) {
        DI_TRY_STATUS(check_members(record, "key tools"));
        Result<ToolRule> rule = rule_of(record);
        if (!rule) {
            return fail_in(record.place, {ErrorCode::kInvalidFile, rule.error().text});
        }
        permissions.rules_->push_back(std::move(*rule));
    }
    return permissions;
}

bool ToolPermissions::allows(std::string_view key_name, std::string_view tool) const {
    return !rules_ || std::any_of(rules_->begin(), rules_->end(), [&](const ToolRule& rule) {
        return matches_pattern(rule.key_pattern, key_name) && matches_any(rule.tool_patterns, tool);
    });
}

std::optional<std::string> refused_tool(const ToolPermissions& permissions, std::string_view key_name,
                                        const std::optional<std::vector<std::string>>& allowed,
                                        std::span<const std::string> tools) {
    for (const std::string& tool : tools) {
        if ((allowed && !matches_any(*allowed, tool)) || !permissions.allows(key_name, tool)) {
            return tool;
        }
    }
    return std::nullopt;
}

}  // namespace di
