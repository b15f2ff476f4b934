#include "base/base64.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace di {
namespace {

TEST(Base64, SpellsTheVectorsOfTheStandard) {
    EXPECT_EQ(encode_base64(""), "");
    EXPECT_EQ(encode_base64("f"), "Zg==");
    EXPECT_EQ(encode_base64("fo"), "Zm8=");
    EXPECT_EQ(encode_base64("foo"), "Zm9v");
    EXPECT_EQ(encode_base64("foobar"), "Zm9vYmFy");
    EXPECT_EQ(encode_base64("\xff\xef"), "/+8=");
}

TEST(Base64, ReadsBackWhateverWasWritten) {
    SeededRandom random(7);
    for (size_t length = 0; length < 100; ++length) {
        std::string bytes;
        for (size_t i = 0; i < length; ++i) {
            bytes += static_cast<char>(random.below(256));
        }
        EXPECT_EQ(decode_base64(encode_base64(bytes)).value(), bytes);
    }
}

TEST(Base64, PaddingMayBeMissingAndNothingElseMay) {
    EXPECT_EQ(decode_base64("/+8").value(), "\xff\xef");
    EXPECT_EQ(decode_base64("Zm9v").value(), "foo");
    for (const char* broken : {"Z", "Zm9vY", "Zm9 v", "Zm9v\n", "Zm=v", "Zm-_"}) {
        EXPECT_FALSE(decode_base64(broken).has_value()) << broken;
    }
}

}  // namespace
}  // namespace di
