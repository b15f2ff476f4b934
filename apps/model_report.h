#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/load.h"
#include "weights/inventory.h"

// What `inspect` knows of a model, gathered before anything is printed.
namespace di {

struct FormatSize {
    std::string dtype;  // as in files: "F8_E4M3"; packed FP4 is "F4 (packed I8)"
    int64_t tensor_count = 0;
    int64_t bytes = 0;
};

// Tensors that differ only in layer, stage or expert: "layers.N.attn.wq_a.weight".
struct TensorGroup {
    std::string name;
    std::string dtype;
    std::vector<int64_t> shape;
    int64_t tensor_count = 0;
    int64_t bytes = 0;
};

struct ModelReport {
    std::string path;
    ModelConfig config;
    bool has_weights = false;  // false: sizes of the official form, from the config alone
    InventorySummary inventory;
    int64_t tensor_count = 0;
    int64_t weight_bytes = 0;
    std::vector<FormatSize> formats;  // by name
    std::vector<TensorGroup> groups;  // by name
    CacheGeometry geometry;
    MemoryPlan plan;                          // for this machine, or for one that has enough
    std::optional<std::string> does_not_fit;  // why this machine cannot hold the plan
    int64_t machine_bytes = 0;                // memory that may still be taken here
};

// `path`: a model directory, with or without weights, or a config.json.
[[nodiscard]] Result<ModelReport> make_model_report(const std::string& path, const EngineOptions& options);

}  // namespace di
