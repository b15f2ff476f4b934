// The header of a safetensors file of any bytes: an error or a header whose every tensor lies inside the file.
#include "base/check.h"
#include "weights/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const auto header = di::parse_safetensors_header({data, size});
    if (header) {
        for (const di::SafetensorsEntry& entry : header->tensors) {
            DI_CHECK(entry.offset >= 0 && entry.bytes >= 0 && entry.offset + entry.bytes <= static_cast<int64_t>(size),
                     "a tensor lies outside its file");
        }
    }
    return 0;
}
