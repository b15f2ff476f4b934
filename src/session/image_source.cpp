#include "session/image_source.h"

#include <utility>

#include "base/base64.h"
#include "text/json_text.h"
#include "text/limits.h"

namespace di {

Result<std::string> decode_image_url(std::string_view url) {
    constexpr std::string_view kMark = ";base64,";
    const size_t comma = url.find(kMark);
    if (!url.starts_with("data:image/") || comma == std::string_view::npos) {
        return fail(ErrorCode::kInvalidArgument, "image address {}, expected data:image/...;base64,...", short_quoted(url));
    }
    const std::string_view data = url.substr(comma + kMark.size());
    if (data.size() / 4 * 3 > kImageBytesMax) {
        return fail(ErrorCode::kInvalidArgument, "image data of about {} bytes, expected at most {}", data.size() / 4 * 3,
                    kImageBytesMax);
    }
    Result<std::string> image = decode_base64(data);
    if (!image) {
        return fail_in("image data", std::move(image.error()));
    }
    return image;
}

Result<std::vector<std::string>> conversation_images(const Conversation& conversation) {
    std::vector<std::string> images;
    for (const Message& message : conversation.messages) {
        for (const ContentPart& part : message.parts) {
            if (part.kind != ContentPart::Kind::kImage) {
                continue;
            }
            auto image = decode_image_url(part.image_url);
            if (!image) {
                return fail_in(part.path, std::move(image.error()));
            }
            images.push_back(std::move(*image));
        }
    }
    return images;
}

}  // namespace di
