#include "api/ids.h"

#include <set>

#include <gtest/gtest.h>

namespace di {
namespace {

TEST(Ids, HaveTheFormThatClientsKnow) {
    SeededRandom random(1);
    const std::string id = new_id(kChatIdPrefix, random);
    EXPECT_EQ(id.size(), kChatIdPrefix.size() + 32);
    EXPECT_EQ(id.find_first_not_of("0123456789abcdef", kChatIdPrefix.size()), std::string::npos) << id;
    const std::string call = new_call_id(3, random);
    EXPECT_EQ(call.size(), std::string_view("call_03_").size() + 24);
    EXPECT_TRUE(call.starts_with("call_03_")) << call;
    EXPECT_TRUE(new_call_id(123, random).starts_with("call_123_"));
    EXPECT_EQ(item_id("rs", "resp_1", 2), "rs_resp_1_2");
}

TEST(Ids, Differ) {
    SeededRandom random(1);
    std::set<std::string> ids;
    for (int i = 0; i < 1000; ++i) {
        ids.insert(new_id("x", random));
        ids.insert(new_call_id(0, random));
    }
    EXPECT_EQ(ids.size(), 2000U);
}

TEST(Ids, AClientsRequestIdIsPrintableAndShort) {
    EXPECT_TRUE(is_request_id("a b-1"));
    EXPECT_TRUE(is_request_id(std::string(128, 'x')));
    EXPECT_FALSE(is_request_id(""));
    EXPECT_FALSE(is_request_id(std::string(129, 'x')));
    EXPECT_FALSE(is_request_id("a\nb"));
    EXPECT_FALSE(is_request_id("caf\xc3\xa9"));
}

}  // namespace
}  // namespace di
