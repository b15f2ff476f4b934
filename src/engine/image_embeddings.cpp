#include "engine/image_embeddings.h"

#include <utility>

namespace di {

namespace {

Status encode(Model& model, Backend& backend, SequenceImage& image) {
    const int64_t dim = model.embedding_size();
    const int64_t bytes = image.token_count * dim * dtype_bits(backend.activation_dtype()) / 8;
    DeviceMemory memory = allocate_device(backend, bytes);
    if (memory == nullptr) {
        return fail(ErrorCode::kOutOfMemory, "no memory for the embeddings of an image of {} tokens ({} bytes)",
                    image.token_count, bytes);
    }
    RequestImage& input = image.input;
    const Tensor patches(input.patches.data(), DType::kF32, {input.grid_height * input.grid_width, model.patch_values()});
    const Tensor output(memory.get(), backend.activation_dtype(), {image.token_count, dim});
    const ImageInput grid{.patches = backend.upload(patches), .grid_height = input.grid_height, .grid_width = input.grid_width};
    model.encode_image(grid, output);
    backend.synchronize();  // the patches may go now
    input.patches = {};
    image.embeddings = std::move(memory);
    return {};
}

}  // namespace

Status make_image_embeddings(Model& model, Backend& backend, Sequence& sequence, int32_t row_count) {
    for (SequenceImage& image : sequence.images) {
        const bool is_needed = image.input.first_token < sequence.cached + row_count && image.end_token() > sequence.cached;
        if (is_needed && image.embeddings == nullptr) {
            DI_TRY_STATUS(encode(model, backend, image));
        }
    }
    return {};
}

void drop_passed_images(Sequence& sequence) {
    for (SequenceImage& image : sequence.images) {
        if (image.end_token() <= sequence.cached) {
            image.embeddings.reset();
        }
    }
}

}  // namespace di
