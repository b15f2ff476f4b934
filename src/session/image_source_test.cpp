#include "session/image_source.h"

#include <gtest/gtest.h>

namespace di {
namespace {

TEST(ImageSource, DecodesDataUrls) {
    EXPECT_EQ(decode_image_url("data:image/png;base64,").value(), "");
    EXPECT_EQ(decode_image_url("data:image/png;base64,TQ==").value(), "M");
    EXPECT_EQ(decode_image_url("data:image/jpeg;base64,TWE=").value(), "Ma");
    EXPECT_EQ(decode_image_url("data:image/webp;base64,TWFu").value(), "Man");
    EXPECT_EQ(decode_image_url("data:image/png;base64,/+8").value(), "\xff\xef");  // without padding
}

TEST(ImageSource, RefusesWhatIsNoDataUrlAndFetchesNothing) {
    EXPECT_FALSE(decode_image_url("http://127.0.0.1/a.png").has_value());
    EXPECT_FALSE(decode_image_url("file:///etc/passwd").has_value());
    EXPECT_FALSE(decode_image_url("data:image/png,plain").has_value());
    EXPECT_FALSE(decode_image_url("data:image/png;base64,T").has_value());
    const auto error = decode_image_url("data:image/png;base64,TW!u");
    ASSERT_FALSE(error.has_value());
    EXPECT_EQ(error.error().text, "image data: byte 0x21 at 2, expected base64");
}

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
              "messages[0].content[3]: image address \"x\", expected data:image/...;base64,...");
}

}  // namespace
}  // namespace di
