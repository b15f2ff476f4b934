#include "weights/checkpoint.h"

#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include <fmt/ranges.h>

#include "base/check.h"
#include "tensor/quant.h"
#include "weights/dummy_memory.h"
#include "weights/gguf_file.h"
#include "weights/gguf_tensors.h"
#include "weights/inventory.h"
#include "weights/json_events.h"
#include "weights/limits.h"
#include "weights/shard_set.h"

namespace di {

struct Checkpoint::State {
    std::optional<ShardSet> shards;    // of a model directory
    std::optional<GgufFile> gguf;      // or a single file
    std::optional<DummyMemory> dummy;  // or random weights
    std::map<std::string, StoredTensor, std::less<>> tensors;
    std::map<std::string, Weight, std::less<>> weights;  // rank-2 tensors by full name
    int64_t total_bytes = 0;
    std::mutex mutex;  // guards copies: views may be asked for by several threads
    std::map<std::string, std::unique_ptr<std::byte[]>, std::less<>> copies;  // aligned, by name; made once, never moved
};

namespace {

constexpr uint8_t kNanScale = 255;

std::string shown_shape(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

// The matrix that `tensor` in this form is; `scale` only for forms that have one.
Weight make_weight(const ExpectedTensor& tensor, const StoredForm& form, const uint8_t* data, const uint8_t* scale) {
    const bool is_packed = form.dtype == DType::kI8 || form.dtype == DType::kU8;
    return {.dtype = is_packed ? DType::kF4E2M1 : form.dtype,
            .scale_layout = form.scale_layout,
            .data = data,
            .scale = scale,
            .rows = tensor.rows,
            .cols = tensor.cols};
}

// Compares the shards with the expected list, and counts what it used.
class Matcher {
  public:
    Matcher(const ShardSet& shards, const std::string& directory, const ModelConfig& config)
        : shards_(shards), directory_(directory), config_(config) {}

    // The form in which `tensor` is stored, checked together with its scale.
    Result<StoredForm> match(const ExpectedTensor& tensor) {
        const auto place = shards_.places().find(tensor.name);
        if (place == shards_.places().end()) {
            return fail(ErrorCode::kNotFound, "{}: tensor {} is missing, expected {} of {}", directory_, tensor.name,
                        shown_shape(tensor.shape()), accepted_dtypes(tensor.storage));
        }
        ++used_count_;
        const SafetensorsEntry& entry = shards_.entry(place->second);
        const std::string& path = shards_.file(place->second).path();
        const auto form = form_for_dtype(tensor, entry.dtype);
        if (!form) {
            return fail(ErrorCode::kInvalidFile, "{}: tensor {} has dtype {}, expected {}", path, tensor.name,
                        dtype_to_safetensors(entry.dtype).value_or("?"), accepted_dtypes(tensor.storage));
        }
        if (entry.shape != form->shape) {
            return fail(ErrorCode::kInvalidFile, "{}: tensor {} of {} has shape {}, expected {}", path, tensor.name,
                        dtype_to_safetensors(entry.dtype).value_or("?"), shown_shape(entry.shape), shown_shape(form->shape));
        }
        if (form->scale_layout != ScaleLayout::kNone) {
            DI_TRY_STATUS(match_scale(tensor, *form));
        }
        return *form;
    }

    // Every tensor of the shards belongs to the model. A scale of an unquantised weight belongs to nothing.
    [[nodiscard]] Status check_all_used(const std::map<std::string, StoredTensor, std::less<>>& used) const {
        if (std::ssize(shards_.places()) == used_count_) {
            return {};
        }
        for (const auto& [name, place] : shards_.places()) {
            if (!used.contains(name) && !is_ignored_tensor(config_, name)) {
                return fail(ErrorCode::kInvalidFile,
                            "{}: tensor {} is not one of this model's (one of {} such), expected exactly those of config.json",
                            shards_.file(place).path(), quoted_for_message(name, limits::kTensorNameBytesMax),
                            std::ssize(shards_.places()) - used_count_);
            }
        }
        return {};
    }

  private:
    Status match_scale(const ExpectedTensor& tensor, const StoredForm& form) {
        const std::string name = scale_name_of(tensor.name);
        const auto place = shards_.places().find(name);
        if (place == shards_.places().end()) {
            return fail(ErrorCode::kNotFound, "{}: scale {} is missing, expected {} of F8_E8M0 beside the quantised {}",
                        directory_, name, shown_shape(form.scale_shape), tensor.name);
        }
        ++used_count_;
        const SafetensorsEntry& entry = shards_.entry(place->second);
        if (entry.dtype != DType::kF8E8M0 || entry.shape != form.scale_shape) {
            return fail(ErrorCode::kInvalidFile, "{}: scale {} is {} of {}, expected {} of F8_E8M0",
                        shards_.file(place->second).path(), name, shown_shape(entry.shape),
                        dtype_to_safetensors(entry.dtype).value_or("?"), shown_shape(form.scale_shape));
        }
        return {};
    }

    const ShardSet& shards_;
    const std::string& directory_;
    const ModelConfig& config_;
    int64_t used_count_ = 0;
};

// Finds the first NaN scale byte among tensors whose scales are looked at (limits.h says which).
Status check_scales(const std::vector<ExpectedTensor>& expected, const std::map<std::string, Weight, std::less<>>& weights,
                    const std::string& directory) {
    int64_t large_bytes = 0;
    for (const ExpectedTensor& tensor : expected) {
        if (tensor.storage == Storage::kExpert || tensor.storage == Storage::kTable) {
            large_bytes += weights.at(tensor.name).scale_bytes();
        }
    }
    for (const ExpectedTensor& tensor : expected) {
        const bool is_large = tensor.storage == Storage::kExpert || tensor.storage == Storage::kTable;
        const auto weight = weights.find(tensor.name);
        if (weight == weights.end() || weight->second.scale == nullptr ||
            (is_large && large_bytes > limits::kScaleScanBytesMax)) {
            continue;
        }
        const auto* found = static_cast<const uint8_t*>(
            std::memchr(weight->second.scale, kNanScale, static_cast<size_t>(weight->second.scale_bytes())));
        if (found != nullptr) {
            return fail(ErrorCode::kInvalidFile, "{}: scale {} has the NaN byte 255 at place {}, expected 0 to 254", directory,
                        scale_name_of(tensor.name), found - weight->second.scale);
        }
    }
    return {};
}

}  // namespace

Checkpoint::Checkpoint(std::unique_ptr<State> state) : state_(std::move(state)) {}
Checkpoint::Checkpoint(Checkpoint&&) noexcept = default;
Checkpoint& Checkpoint::operator=(Checkpoint&&) noexcept = default;
Checkpoint::~Checkpoint() = default;

Result<Checkpoint> Checkpoint::open(const std::string& model, const ModelConfig& config) {
    return is_gguf_path(model) ? open_gguf(model, config) : open_directory(model, config);
}

Result<Checkpoint> Checkpoint::open_gguf(const std::string& path, const ModelConfig& config) {
    if (!config.transformer) {
        return fail(ErrorCode::kUnsupported, "{}: {} weights are read from safetensors only", path, config.architecture);
    }
    auto state = std::make_unique<State>();
    DI_TRY(state->gguf, GgufFile::open(path));
    const std::vector<ExpectedTensor> expected = expected_tensors(config);
    DI_TRY(const std::vector<GgufPart> parts, match_gguf_tensors(*state->gguf, expected));
    for (size_t i = 0; i < expected.size(); ++i) {
        const ExpectedTensor& tensor = expected[i];
        const GgufPart& part = parts[i];
        state->total_bytes += part.bytes;
        state->tensors[tensor.name] = {part.dtype, tensor.shape(), part.data, part.bytes};
        if (tensor.rank == 2) {
            state->weights[tensor.name] = make_weight(tensor, *form_for_dtype(tensor, part.dtype), part.data, nullptr);
        }
    }
    return Checkpoint(std::move(state));
}

Result<Checkpoint> Checkpoint::open_directory(const std::string& directory, const ModelConfig& config) {
    auto state = std::make_unique<State>();
    DI_TRY(state->shards, ShardSet::open(directory));
    const ShardSet& shards = *state->shards;
    const auto stored = [&](const std::string& name) -> const StoredTensor& {
        const TensorPlace place = shards.places().find(name)->second;
        const SafetensorsEntry& entry = shards.entry(place);
        state->total_bytes += entry.bytes;
        return state->tensors[name] = {entry.dtype, entry.shape, shards.file(place).data(entry), entry.bytes};
    };
    const std::vector<ExpectedTensor> expected = expected_tensors(config);
    Matcher matcher(shards, directory, config);
    for (const ExpectedTensor& tensor : expected) {
        DI_TRY(const StoredForm form, matcher.match(tensor));
        const uint8_t* data = stored(tensor.name).data;
        const bool has_scale = form.scale_layout != ScaleLayout::kNone;
        const uint8_t* scale = has_scale ? stored(scale_name_of(tensor.name)).data : nullptr;
        if (tensor.rank == 2) {
            state->weights[tensor.name] = make_weight(tensor, form, data, scale);
        }
    }
    DI_TRY_STATUS(matcher.check_all_used(state->tensors));
    DI_TRY_STATUS(check_scales(expected, state->weights, directory));
    return Checkpoint(std::move(state));
}

Result<Checkpoint> Checkpoint::dummy(const ModelConfig& config, uint64_t seed) {
    auto state = std::make_unique<State>();
    const std::vector<ExpectedTensor> expected = expected_tensors(config);
    DI_TRY(state->dummy, DummyMemory::make(expected, config.stored, seed));
    for (size_t i = 0; i < expected.size(); ++i) {
        const ExpectedTensor& tensor = expected[i];
        const StoredForm form = official_form(tensor, config.stored);
        const uint8_t* data = state->dummy->data(i);
        const uint8_t* scale = state->dummy->scale(i);
        state->tensors[tensor.name] = {form.dtype, form.shape, data, form.bytes()};
        state->total_bytes += form.bytes() + form.scale_bytes();
        if (scale != nullptr) {
            state->tensors[scale_name_of(tensor.name)] = {DType::kF8E8M0, form.scale_shape, scale, form.scale_bytes()};
        }
        if (tensor.rank == 2) {
            state->weights[tensor.name] = make_weight(tensor, form, data, scale);
        }
    }
    return Checkpoint(std::move(state));
}

// Vector operands of operations are bf16 or f32.
Tensor Checkpoint::widened(std::string_view name, const StoredTensor& stored) const {
    int64_t count = 1;
    for (const int64_t dim : stored.shape) {
        count *= dim;
    }
    const std::lock_guard lock(state_->mutex);
    auto& copy = state_->copies[std::string(name)];
    if (copy == nullptr) {
        copy = std::make_unique<std::byte[]>(static_cast<size_t>(count) * sizeof(float));
        const Weight row{.dtype = DType::kF16, .data = stored.data, .rows = 1, .cols = count};
        dequantise_weight_row(row, 0, 0, {reinterpret_cast<float*>(copy.get()), static_cast<size_t>(count)});
    }
    return stored.shape.size() == 1 ? Tensor(copy.get(), DType::kF32, {count})
                                    : Tensor(copy.get(), DType::kF32, {stored.shape[0], stored.shape[1]});
}

const std::map<std::string, StoredTensor, std::less<>>& Checkpoint::tensors() const { return state_->tensors; }
int64_t Checkpoint::total_bytes() const { return state_->total_bytes; }
bool Checkpoint::is_dummy() const { return state_->dummy.has_value(); }

Weight Checkpoint::weight(std::string_view name) const {
    // Matrices without the ending: "layers.0.hc_attn_fn".
    auto found = state_->weights.find(fmt::format("{}.weight", name));
    if (found == state_->weights.end()) {
        found = state_->weights.find(name);
    }
    DI_CHECK(found != state_->weights.end(), fmt::format("no weight {} in the inventory", name));
    return found->second;
}

Tensor Checkpoint::tensor(std::string_view name) const {
    const auto found = state_->tensors.find(name);
    DI_CHECK(found != state_->tensors.end(), fmt::format("no tensor {} in the inventory", name));
    const StoredTensor& stored = found->second;
    DI_CHECK(stored.shape.size() == 1 || stored.shape.size() == 2, "the inventory has vectors and matrices");
    DI_CHECK(stored.dtype == DType::kF32 || stored.dtype == DType::kBF16 || stored.dtype == DType::kF16,
             fmt::format("tensor {} is quantised: ask for its weight", name));
    if (stored.dtype == DType::kF16) {
        return widened(name, stored);
    }
    const auto alignment = static_cast<uintptr_t>(dtype_bits(stored.dtype) / 8);
    const uint8_t* data = stored.data;
    if (reinterpret_cast<uintptr_t>(data) % alignment != 0) {
        const std::lock_guard lock(state_->mutex);
        auto& copy = state_->copies[std::string(name)];
        if (copy == nullptr) {
            copy = std::make_unique<std::byte[]>(static_cast<size_t>(stored.bytes));
            std::memcpy(copy.get(), data, static_cast<size_t>(stored.bytes));
        }
        data = reinterpret_cast<const uint8_t*>(copy.get());
    }
    // A Tensor is a view for reading and writing; weights are only read.
    void* view = const_cast<uint8_t*>(data);
    if (stored.shape.size() == 1) {
        return Tensor(view, stored.dtype, {stored.shape[0]});
    }
    return Tensor(view, stored.dtype, {stored.shape[0], stored.shape[1]});
}

}  // namespace di
