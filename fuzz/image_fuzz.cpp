// An image file of any bytes: an error or pixels of the size that the header said.
#include "base/check.h"
#include "text/image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const auto header = di::read_image_size({data, size});
    // Decoding large canvases from a few bytes costs seconds and finds nothing that small ones do not.
    if (header && header->width * header->height <= 1 << 18) {
        (void)di::decode_image({data, size});
    }
    return 0;
}
