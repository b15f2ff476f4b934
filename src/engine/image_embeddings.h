#pragma once

#include "base/result.h"
#include "engine/sequence.h"
#include "model/model.h"

namespace di {

// Runs the vision tower for every image whose span meets the rows [cached, cached + row_count) and has no embeddings yet. Only
// one sequence is in the middle of its prompt at a time, so that few images are held at once. Fails when the device has no
// memory left for them.
[[nodiscard]] Status make_image_embeddings(Model& model, Backend& backend, Sequence& sequence, int32_t row_count);

// Gives back what lies wholly before `cached`: patches and embeddings, which no row will ask for again.
void drop_passed_images(Sequence& sequence);

}  // namespace di
