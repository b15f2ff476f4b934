#include "engine/image_embeddings.h"

#include <utility>

namespace di {

namespace {

void encode(Model& model, Backend& backend, SequenceImage& image) {
    const RequestImage& input = *image.input;
    // A tensor is a view of what may be written; the model only reads patches.
    const Tensor patches(const_cast<float*>(input.patches.data()), DType::kF32,
                         {input.grid_height * input.grid_width, model.patch_values()});
    const Tensor output(image.embeddings.get(), backend.activation_dtype(), {image.token_count, model.embedding_size()});
    const ImageInput grid{.patches = backend.upload(patches), .grid_height = input.grid_height, .grid_width = input.grid_width};
    model.encode_image(grid, output);
    backend.synchronize();
    image.is_encoded = true;
}

}  // namespace

Status reserve_image_embeddings(Model& model, Backend& backend, Sequence& sequence, int32_t first, int32_t row_count) {
    for (SequenceImage& image : sequence.images) {
        const bool is_needed = image.input->first_token < first + row_count && image.end_token() > first;
        if (!is_needed || image.embeddings != nullptr) {
            continue;
        }
        const int64_t bytes = image.token_count * model.embedding_size() * dtype_bits(backend.activation_dtype()) / 8;
        image.embeddings = allocate_device(backend, bytes);
        image.is_encoded = false;
        if (image.embeddings == nullptr) {
            return fail(ErrorCode::kOutOfMemory, "no memory for the embeddings of an image of {} tokens ({} bytes)",
                        image.token_count, bytes);
        }
    }
    return {};
}

void encode_reserved_images(Model& model, Backend& backend, Sequence& sequence) {
    for (SequenceImage& image : sequence.images) {
        if (image.embeddings != nullptr && !image.is_encoded) {
            encode(model, backend, image);
        }
    }
}

void drop_passed_images(Sequence& sequence) {
    for (SequenceImage& image : sequence.images) {
        if (image.end_token() <= sequence.cached) {
            image.embeddings.reset();
        }
    }
}

}  // namespace di
