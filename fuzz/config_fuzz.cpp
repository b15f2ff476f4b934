// config.json of any bytes: an error or a config that the cache geometry's arithmetic can rely on.
#include "base/check.h"
#include "weights/inventory.h"
#include "weights/model_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const auto config = di::parse_model_config({reinterpret_cast<const char*>(data), size});
    if (config) {
        DI_CHECK(config->layer_count > 0 && config->hidden_size > 0, "a config without layers was accepted");
        for (int32_t layer = 0; layer < config->layer_count; ++layer) {
            DI_CHECK(config->ratio(layer) == 0 || config->kv_source(layer) >= 0,
                     "a compressed layer without a source was accepted");
        }
    }
    return 0;
}
