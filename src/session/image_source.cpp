#include "session/image_source.h"

#include <utility>

#include "text/data_url.h"

namespace di {

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
