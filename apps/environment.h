#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

// The names DEEPINFER_* that are known, and what they mean here.
namespace di {

struct EnvironmentName {
    std::string_view name;
    std::string_view option;  // the option that it sets; empty: read elsewhere, or without effect
    bool has_effect = true;   // false: known from the reference implementation, nothing of it in this version
};

// nullptr if the name is not known.
[[nodiscard]] const EnvironmentName* find_environment_name(std::string_view name);

// The pairs of this process whose names begin with DEEPINFER_, sorted by name.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> deepinfer_environment();

}  // namespace di
