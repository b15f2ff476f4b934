#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace di {

// `encrypted_content` of a Responses reasoning item: a blob with which a client that stores nothing on our side sends the
// reasoning back. It holds the text and the version of its form; clients may not look into it, but nothing is hidden from them
// that they did not see before.
[[nodiscard]] std::string seal_reasoning(std::string_view text);
// The text; empty for a blob that we cannot read, from another service or another version.
[[nodiscard]] std::optional<std::string> open_reasoning(std::string_view blob);

}  // namespace di
