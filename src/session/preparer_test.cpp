#include "session/preparer.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "text/chat_tokens.h"

namespace di {
namespace {

TEST(Preparer, ControlTokensHaveNoPlaceInAnAnswerButEndsAndDelimiters) {
    const Result<Tokenizer> tokenizer = Tokenizer::open(DI_MODELS "/v41-mini");
    ASSERT_TRUE(tokenizer.has_value());
    const Result<ModelConfig> config = load_model_config(DI_MODELS "/v41-mini");
    ASSERT_TRUE(config.has_value());
    const Preparer preparer({}, *config, *tokenizer, {}, ChatFormat::deepseek(ChatDialect::kV41));
    const auto bans = [&](bool may_call_tools, std::string_view spelling) {
        const std::vector<int32_t> ids = preparer.control_token_ids(may_call_tools);
        return std::find(ids.begin(), ids.end(), tokenizer->find(spelling)) != ids.end();
    };
    for (const std::string_view banned : {kBeginToken, kUserToken, kAssistantToken, kSystemToken}) {
        EXPECT_TRUE(bans(true, banned)) << banned;
        EXPECT_TRUE(bans(false, banned)) << banned;
    }
    for (const std::string_view allowed : {kEndToken, kThinkToken, kThinkEndToken}) {
        EXPECT_FALSE(bans(true, allowed)) << allowed;
        EXPECT_FALSE(bans(false, allowed)) << allowed;
    }
    EXPECT_TRUE(bans(false, kToolMarkerToken));
    EXPECT_FALSE(bans(true, kToolMarkerToken));
}

}  // namespace
}  // namespace di
