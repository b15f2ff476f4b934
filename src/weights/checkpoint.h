#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tensor/tensor.h"
#include "tensor/weight.h"
#include "weights/model_config.h"

namespace di {

struct StoredTensor {
    DType dtype = DType::kF32;
    std::vector<int64_t> shape;
    const uint8_t* data = nullptr;  // inside the checkpoint's mapping; may be unaligned
    int64_t bytes = 0;
};

// The tensors of a model directory: memory-mapped safetensors (single file or shards with an index), of a GGUF file, or dummy
// weights. Owns the mappings; every pointer it gives lives as long as it does. Nothing is read before it is used.
class Checkpoint {
  public:
    // Maps `model`, a directory or a .gguf file, checks every header and that the tensors are exactly those that `config` asks for
    // (names, shapes, dtypes; a leading "model." is tolerated).
    [[nodiscard]] static Result<Checkpoint> open(const std::string& model, const ModelConfig& config);
    // Random weights of the same inventory from `seed`: the same bytes on every machine. Pages are made when first touched
    // where that is possible in whole; otherwise filled at once.
    [[nodiscard]] static Result<Checkpoint> dummy(const ModelConfig& config, uint64_t seed);

    Checkpoint(Checkpoint&&) noexcept;
    Checkpoint& operator=(Checkpoint&&) noexcept;
    ~Checkpoint();

    [[nodiscard]] const std::map<std::string, StoredTensor, std::less<>>& tensors() const;

    // A linear or table `name`.weight with its `name`.scale where there is one: [rows, cols] in whichever accepted format it
    // is stored. The name must be of the inventory (else it is our bug).
    [[nodiscard]] Weight weight(std::string_view name) const;
    // A plain vector or matrix by its full name ("norm.weight", "layers.0.hc_attn_fn"), as a view.
    // Aligned for its dtype: a copy is kept when the file's place is not. F16 comes as an F32 copy.
    [[nodiscard]] Tensor tensor(std::string_view name) const;

    [[nodiscard]] int64_t total_bytes() const;
    [[nodiscard]] bool is_dummy() const;

  private:
    [[nodiscard]] Tensor widened(std::string_view name, const StoredTensor& stored) const;

    struct State;
    [[nodiscard]] static Result<Checkpoint> open_directory(const std::string& directory, const ModelConfig& config);
    [[nodiscard]] static Result<Checkpoint> open_gguf(const std::string& path, const ModelConfig& config);
    explicit Checkpoint(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

}  // namespace di
