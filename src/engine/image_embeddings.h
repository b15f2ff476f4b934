#pragma once

#include "base/result.h"
#include "engine/sequence.h"
#include "model/model.h"

namespace di {

// Takes memory for the embeddings of every image whose span meets the rows [first, first + row_count) and has none yet. Only
// one sequence is in the middle of its prompt at a time, so that few images are held at once. Fails when the device has no
// memory left for them.
[[nodiscard]] Status reserve_image_embeddings(Model& model, Backend& backend, Sequence& sequence, int32_t first,
                                              int32_t row_count);

// Runs the vision tower for the images that have memory and are not encoded.
void encode_reserved_images(Model& model, Backend& backend, Sequence& sequence);

// Gives back the embeddings of what lies wholly before `cached`. A sequence that is computed again encodes again, so patches stay.
void drop_passed_images(Sequence& sequence);

}  // namespace di
