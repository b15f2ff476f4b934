#pragma once

#include <string_view>

namespace di {

// Spellings of the tokens that the chat format is made of. Ids are found by spelling in the
// tokenizer that lies beside the weights, never assumed. The bars are U+FF5C, the low lines U+2581.
inline constexpr std::string_view kBeginToken = "<｜begin▁of▁sentence｜>";
inline constexpr std::string_view kEndToken = "<｜end▁of▁sentence｜>";
inline constexpr std::string_view kSystemToken = "<｜System｜>";  // V4.1 only
inline constexpr std::string_view kUserToken = "<｜User｜>";
inline constexpr std::string_view kAssistantToken = "<｜Assistant｜>";
inline constexpr std::string_view kThinkToken = "<think>";
inline constexpr std::string_view kThinkEndToken = "</think>";
inline constexpr std::string_view kToolMarkerToken = "｜DSML｜";  // the brackets around it are text
inline constexpr std::string_view kReminderToken = "<｜latest_reminder｜>";
inline constexpr std::string_view kImageToken = "<｜deepseek_image｜>";
inline constexpr std::string_view kActionToken = "<｜action｜>";
inline constexpr std::string_view kQueryToken = "<｜query｜>";
inline constexpr std::string_view kAuthorityToken = "<｜authority｜>";
inline constexpr std::string_view kDomainToken = "<｜domain｜>";
inline constexpr std::string_view kTitleToken = "<｜title｜>";
inline constexpr std::string_view kReadUrlToken = "<｜read_url｜>";

}  // namespace di
