#include "session/image_source.h"

#include <gtest/gtest.h>

namespace di {
namespace {

TEST(ImageSource, TakesTheImagesOfAConversationInOrder) {
    Conversation conversation = user_conversation("look");
    EXPECT_TRUE(conversation_images(conversation)->empty());
    ContentPart part;
    part.kind = ContentPart::Kind::kImage;
    part.image_url = "data:image/png;base64,TQ==";
    conversation.messages[0].parts.push_back(part);
    part.image_url = "data:image/png;base64,TWE=";
    conversation.messages[0].parts.push_back(part);
    EXPECT_EQ(conversation_images(conversation).value(), (std::vector<std::string>{"M", "Ma"}));
    part.path = "messages[0].content[3]";
    part.image_url = "x";
    conversation.messages[0].parts.push_back(part);
    EXPECT_EQ(conversation_images(conversation).error().text,
              "messages[0].content[3]: image address \"x\", expected data:image/...;base64,... or data:image/...,%...");
}

}  // namespace
}  // namespace di
