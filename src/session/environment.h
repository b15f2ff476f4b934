#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "session/settings.h"

// The names DEEPINFER_* that are known, and what they mean here. The environment is read once, when an engine is made.
namespace di {

enum class EnvironmentEffect : uint8_t {
    kSets,       // a setting
    kNone,       // known from the reference implementation; `note` says why nothing of it is here
    kElsewhere,  // read by the part that `note` names, not through a setting
};

struct EnvironmentRow {
    std::string_view name;
    std::string_view default_text;  // what holds when it is not set
    EnvironmentEffect effect = EnvironmentEffect::kSets;
    std::string_view setting = {};  // with kSets
    std::string_view note = {};     // else; also what is to be known of the value
    // Values that are written otherwise here, "nvidia>cuda|0>"; what is not named stays as it is, what becomes
    // nothing is the default.
    std::string_view values = {};
};

[[nodiscard]] std::span<const EnvironmentRow> environment_rows();
// nullptr if the name is not known.
[[nodiscard]] const EnvironmentRow* find_environment_row(std::string_view name);

// What one variable means: a setting and its value, a warning, or nothing.
struct EnvironmentMeaning {
    const SettingRow* setting = nullptr;
    std::string value;
    std::string warning;
};

// An error is a value that is refused whatever else is set. An empty value means nothing, as if the name was not set.
[[nodiscard]] Result<EnvironmentMeaning> meaning_of(std::string_view name, const std::string& value);

// The pairs of this process whose names begin with DEEPINFER_, sorted by name.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> deepinfer_environment();

}  // namespace di
