// tokenizer.json of any bytes: an error or a tokenizer that encodes and decodes.
#include "base/check.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const auto tokenizer = di::Tokenizer::parse({reinterpret_cast<const char*>(data), size});
    if (tokenizer) {
        const auto ids = tokenizer->encode_special("The quick brown fox, 123 na\xc3\xafve caf\xc3\xa9s.\n\n  \xe4\xb8\xad");
        if (ids) {
            for (const int32_t id : *ids) {
                DI_CHECK(id >= 0 && id < tokenizer->vocabulary_size(), "an id outside the vocabulary was given out");
            }
            (void)tokenizer->decode(*ids);
        }
    }
    return 0;
}
