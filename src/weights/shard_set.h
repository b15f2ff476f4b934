#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "weights/safetensors.h"

namespace di {

// Where a tensor lies: file and entry of that file's header.
struct TensorPlace {
    int32_t shard = 0;
    int64_t entry = 0;  // in header().tensors
};

// The safetensors files of a model directory. Owns the mappings.
class ShardSet {
  public:
    // With `model.safetensors.index.json`: the shards that it names, which must hold exactly the tensors that it says. Else
    // `model.safetensors`. Else every *.safetensors file of the directory.
    [[nodiscard]] static Result<ShardSet> open(const std::string& directory);

    // By name, without a leading "model.". No name occurs in two places.
    [[nodiscard]] const std::map<std::string, TensorPlace, std::less<>>& places() const { return places_; }

    [[nodiscard]] const SafetensorsEntry& entry(TensorPlace place) const {
        return file(place).header().tensors[static_cast<size_t>(place.entry)];
    }
    [[nodiscard]] const SafetensorsFile& file(TensorPlace place) const { return files_[static_cast<size_t>(place.shard)]; }
    [[nodiscard]] const std::vector<SafetensorsFile>& files() const { return files_; }

  private:
    Status add_file(const std::string& path);

    std::vector<SafetensorsFile> files_;
    std::map<std::string, TensorPlace, std::less<>> places_;
};

}  // namespace di
