#include "weights/inventory.h"

#include <fmt/format.h>

#include "base/check.h"
#include "weights/safetensors.h"

namespace di {

namespace {

int64_t ceil32(int64_t value) { return (value + 31) / 32; }

// Collects the tensors of one prefix: "layers.3.", "vision.", "".
class Collector {
  public:
    explicit Collector(std::vector<ExpectedTensor>& tensors) : tensors_(tensors) {}

    void set_prefix(std::string prefix) { prefix_ = std::move(prefix); }

    void vector(std::string_view name, int64_t length, Storage storage, ModelPart part, Initial initial) {
        tensors_.push_back({prefix_ + std::string(name), 1, length, 1, storage, part, initial});
    }
    void matrix(std::string_view name, int64_t rows, int64_t cols, Storage storage, ModelPart part,
                Initial initial = Initial::kLinear) {
        tensors_.push_back({prefix_ + std::string(name), 2, rows, cols, storage, part, initial});
    }
    void norm(std::string_view name, int64_t length, ModelPart part) {
        vector(name, length, Storage::kVector, part, Initial::kNearOne);
    }

  private:
    std::vector<ExpectedTensor>& tensors_;
    std::string prefix_;
};

// Which part the tensors of a block count for: a backbone layer's own parts, or all the draft's.
struct BlockParts {
    bool is_draft = false;
    [[nodiscard]] ModelPart of(ModelPart part) const {
        if (!is_draft) {
            return part;
        }
        return part == ModelPart::kRoutedExperts ? ModelPart::kDraftExperts : ModelPart::kDraft;
    }
};

void add_attention(Collector& add, const ModelConfig& config, BlockParts parts) {
    const ModelPart part = parts.of(ModelPart::kAttention);
    const int64_t heads_width = config.head_count * config.head_dim;
    const int64_t groups_width = config.o_groups * config.o_lora_rank;
    add.matrix("attn.wq_a.weight", config.q_lora_rank, config.hidden_size, Storage::kLinear, part);
    add.norm("attn.q_norm.weight", config.q_lora_rank, part);
    add.matrix("attn.wq_b.weight", heads_width, config.q_lora_rank, Storage::kLinear, part);
    add.matrix("attn.wkv.weight", config.head_dim, config.hidden_size, Storage::kLinear, part);
    add.norm("attn.kv_norm.weight", config.head_dim, part);
    add.vector("attn.attn_sink", config.head_count, Storage::kF32, part, Initial::kUnit);
    add.matrix("attn.wo_a.weight", groups_width, heads_width / config.o_groups, Storage::kLinear, part);
    add.matrix("attn.wo_b.weight", config.hidden_size, groups_width, Storage::kLinear, part);
}

void add_hyper_connections(Collector& add, const ModelConfig& config, BlockParts parts) {
    const ModelPart part = parts.of(ModelPart::kHyperConnections);
    const int64_t streams = config.hc_mult;
    const int64_t mixes = (2 + streams) * streams;  // pre, post, comb
    for (const std::string_view block : {"attn", "ffn"}) {
        add.matrix(fmt::format("hc_{}_fn", block), mixes, streams * config.hidden_size, Storage::kF32, part);
        add.vector(fmt::format("hc_{}_base", block), mixes, Storage::kF32, part, Initial::kHalf);
        add.vector(fmt::format("hc_{}_scale", block), 3, Storage::kF32, part, Initial::kScale);
    }
}

void add_feed_forward(Collector& add, const ModelConfig& config, int64_t expert_count, BlockParts parts) {
    const ModelPart gates = parts.of(ModelPart::kGates);
    const ModelPart experts = parts.of(ModelPart::kRoutedExperts);
    const ModelPart shared = parts.of(ModelPart::kSharedExperts);
    const int64_t hidden = config.hidden_size;
    const int64_t width = config.moe_intermediate_size;
    const int64_t shared_width = width * config.shared_expert_count;
    add.matrix("ffn.gate.weight", expert_count, hidden, Storage::kMatrix, gates);
    add.vector("ffn.gate.bias", expert_count, Storage::kF32, gates, Initial::kTenth);
    add.vector("ffn.gate.bias_vl", expert_count, Storage::kF32, gates, Initial::kTenth);
    for (int64_t expert = 0; expert < expert_count; ++expert) {
        add.matrix(fmt::format("ffn.experts.{}.w1.weight", expert), width, hidden, Storage::kExpert, experts);
        add.matrix(fmt::format("ffn.experts.{}.w2.weight", expert), hidden, width, Storage::kExpert, experts);
        add.matrix(fmt::format("ffn.experts.{}.w3.weight", expert), width, hidden, Storage::kExpert, experts);
    }
    add.matrix("ffn.shared_experts.w1.weight", shared_width, hidden, Storage::kLinear, shared);
    add.matrix("ffn.shared_experts.w2.weight", hidden, shared_width, Storage::kLinear, shared);
    add.matrix("ffn.shared_experts.w3.weight", shared_width, hidden, Storage::kLinear, shared);
}

// What a backbone layer and a draft stage have in common.
void add_block(Collector& add, const ModelConfig& config, int64_t expert_count, BlockParts parts) {
    add.norm("attn_norm.weight", config.hidden_size, parts.of(ModelPart::kNorms));
    add.norm("ffn_norm.weight", config.hidden_size, parts.of(ModelPart::kNorms));
    add_attention(add, config, parts);
    add_hyper_connections(add, config, parts);
    add_feed_forward(add, config, expert_count, parts);
}

void add_sources(Collector& add, const ModelConfig& config, int32_t layer) {
    constexpr ModelPart kPart = ModelPart::kIndexers;
    if (config.is_kv_source(layer)) {
        add.matrix("attn.compressor.wkv.weight", config.head_dim, config.hidden_size, Storage::kMatrix, kPart);
        // With one token per entry there is nothing to weigh.
        if (config.ratio(layer) > 1) {
            add.matrix("attn.compressor.wgate.weight", config.head_dim, config.hidden_size, Storage::kMatrix, kPart);
        }
        add.norm("attn.compressor.norm.weight", config.head_dim, kPart);
    }
    if (config.is_index_source(layer)) {
        add.matrix("attn.indexer.wq_b.weight", config.index_head_count * config.index_head_dim, config.q_lora_rank,
                   Storage::kLinear, kPart);
        add.matrix("attn.indexer.weights_proj.weight", config.index_head_count, config.hidden_size, Storage::kMatrix, kPart);
    }
    if (config.is_index_k_source(layer)) {
        add.matrix("attn.indexer.wk.weight", config.index_head_dim, config.head_dim, Storage::kMatrix, kPart);
        add.norm("attn.indexer.k_norm.weight", config.index_head_dim, kPart);
    }
}

void add_engram(Collector& add, const ModelConfig& config, int32_t layer) {
    const int32_t index = config.engram_index(layer);
    if (index < 0) {
        return;
    }
    const EngramConfig& engram = config.engram;
    const int64_t rows = engram.table_rows[static_cast<size_t>(index)];
    const int64_t streams = config.hc_mult;
    add.matrix("engram.embed.weight", rows, engram.head_dim, Storage::kTable, ModelPart::kEngramTables, Initial::kUnit);
    // A key for each stream, and one value for all of them.
    add.matrix("engram.wkv.weight", (streams + 1) * config.hidden_size, engram.rows_per_token() * engram.head_dim,
               Storage::kLinear, ModelPart::kEngramMixing);
    add.matrix("engram.q_weight", streams, config.hidden_size, Storage::kBF16, ModelPart::kEngramMixing, Initial::kNearOne);
    add.matrix("engram.k_weight", streams, config.hidden_size, Storage::kBF16, ModelPart::kEngramMixing, Initial::kNearOne);
}

// The first stage reads the backbone's features, the last one makes the drafts; one stage alone has both.
void add_draft(Collector& add, const ModelConfig& config) {
    constexpr ModelPart kPart = ModelPart::kDraft;
    const DraftConfig& draft = config.draft;
    for (int32_t stage = 0; stage < draft.stage_count; ++stage) {
        add.set_prefix(fmt::format("mtp.{}.", stage));
        add_block(add, config, draft.routed_expert_count, {.is_draft = true});
        if (stage == 0) {
            add.matrix("main_proj.weight", config.hidden_size, config.hidden_size * std::ssize(draft.target_layer_ids),
                       Storage::kLinear, kPart);
            add.norm("main_norm.weight", config.hidden_size, kPart);
        }
        if (stage == draft.stage_count - 1) {
            add.norm("norm.weight", config.hidden_size, kPart);
            add.matrix("markov_head.embed.weight", config.vocab_size, draft.markov_rank, Storage::kMatrix, kPart,
                       Initial::kThird);
            add.matrix("markov_head.head.weight", config.vocab_size, draft.markov_rank, Storage::kMatrix, kPart,
                       Initial::kThird);
            add.matrix("confidence_head.proj.weight", 1, config.hidden_size + draft.markov_rank, Storage::kMatrix, kPart);
        }
    }
}

void add_linear_with_bias(Collector& add, std::string_view name, int64_t rows, int64_t cols, ModelPart part) {
    add.matrix(fmt::format("{}.weight", name), rows, cols, Storage::kMatrix, part);
    add.vector(fmt::format("{}.bias", name), rows, Storage::kVector, part, Initial::kTenth);
}

void add_vision(Collector& add, const ModelConfig& config) {
    const VisionConfig& vision = config.vision;
    if (!vision.present()) {
        return;
    }
    constexpr ModelPart kPart = ModelPart::kVision;
    const int64_t hidden = vision.hidden_size;
    add.set_prefix("vision.");
    add_linear_with_bias(add, "patch_embed.proj", hidden, 3 * vision.patch_size * vision.patch_size, kPart);
    for (int32_t block = 0; block < vision.layer_count; ++block) {
        add.set_prefix(fmt::format("vision.blocks.{}.", block));
        add.norm("norm1.weight", hidden, kPart);
        add.norm("norm2.weight", hidden, kPart);
        add_linear_with_bias(add, "attn.wqkv", 3 * hidden, hidden, kPart);
        add_linear_with_bias(add, "attn.wo", hidden, hidden, kPart);
        add.matrix("mlp.w1.weight", 2 * vision.intermediate_size, hidden, Storage::kMatrix, kPart);
        add.matrix("mlp.w2.weight", hidden, vision.intermediate_size, Storage::kMatrix, kPart);
    }
    add.set_prefix("");
    add.norm("vision.norm.weight", hidden, kPart);
    const int64_t cell = vision.downsample_ratio * vision.downsample_ratio;
    add_linear_with_bias(add, "aligner.w1", config.hidden_size, hidden * cell, ModelPart::kAligner);
    add_linear_with_bias(add, "aligner.w2", config.hidden_size, config.hidden_size, ModelPart::kAligner);
    for (const std::string_view marker : {"image_start", "image_end", "image_newline"}) {
        add.vector(marker, config.hidden_size, Storage::kBF16, ModelPart::kAligner, Initial::kUnit);
    }
}

void add_optional_bias(Collector& add, std::string_view name, int64_t rows, bool has_bias) {
    if (has_bias) {
        add.vector(fmt::format("{}.bias", name), rows, Storage::kPlainVector, ModelPart::kAttention, Initial::kTenth);
    }
}

void add_gated(Collector& add, const std::string& name, int64_t hidden, int64_t width, ModelPart part) {
    add.matrix(name + ".gate_proj.weight", width, hidden, Storage::kPlainMatrix, part);
    add.matrix(name + ".up_proj.weight", width, hidden, Storage::kPlainMatrix, part);
    add.matrix(name + ".down_proj.weight", hidden, width, Storage::kPlainMatrix, part);
}

void add_transformer_layer(Collector& add, const ModelConfig& config, int32_t layer) {
    const TransformerConfig& transformer = *config.transformer;
    constexpr ModelPart kPart = ModelPart::kAttention;
    const auto norm = [&](std::string_view name, int64_t length) {
        add.vector(name, length, Storage::kPlainVector, ModelPart::kNorms, Initial::kNearOne);
    };
    const int64_t hidden = config.hidden_size;
    const int64_t query_width = config.head_count * config.head_dim;
    const int64_t key_width = transformer.kv_head_count * config.head_dim;
    norm("input_layernorm.weight", hidden);
    add.matrix("self_attn.q_proj.weight", query_width, hidden, Storage::kPlainMatrix, kPart);
    add.matrix("self_attn.k_proj.weight", key_width, hidden, Storage::kPlainMatrix, kPart);
    add.matrix("self_attn.v_proj.weight", key_width, hidden, Storage::kPlainMatrix, kPart);
    add.matrix("self_attn.o_proj.weight", hidden, query_width, Storage::kPlainMatrix, kPart);
    add_optional_bias(add, "self_attn.q_proj", query_width, transformer.has_qkv_bias);
    add_optional_bias(add, "self_attn.k_proj", key_width, transformer.has_qkv_bias);
    add_optional_bias(add, "self_attn.v_proj", key_width, transformer.has_qkv_bias);
    add_optional_bias(add, "self_attn.o_proj", hidden, transformer.has_output_bias);
    if (transformer.has_head_norms) {
        norm("self_attn.q_norm.weight", config.head_dim);
        norm("self_attn.k_norm.weight", config.head_dim);
    }
    norm("post_attention_layernorm.weight", hidden);
    if (!config.has_experts(layer)) {
        add_gated(add, "mlp", hidden, transformer.intermediate_size, ModelPart::kFeedForward);
        return;
    }
    add.matrix("mlp.gate.weight", config.routed_expert_count, hidden, Storage::kPlainMatrix, ModelPart::kGates);
    for (int32_t expert = 0; expert < config.routed_expert_count; ++expert) {
        add_gated(add, fmt::format("mlp.experts.{}", expert), hidden, config.moe_intermediate_size, ModelPart::kRoutedExperts);
    }
}

void add_transformer(Collector& add, const ModelConfig& config) {
    constexpr Storage kStorage = Storage::kPlainMatrix;
    add.matrix("embed_tokens.weight", config.vocab_size, config.hidden_size, kStorage, ModelPart::kEmbedding, Initial::kUnit);
    if (!config.transformer->ties_embeddings) {
        add.matrix("lm_head.weight", config.vocab_size, config.hidden_size, kStorage, ModelPart::kHead);
    }
    add.vector("norm.weight", config.hidden_size, Storage::kPlainVector, ModelPart::kNorms, Initial::kNearOne);
    for (int32_t layer = 0; layer < config.layer_count; ++layer) {
        add.set_prefix(fmt::format("layers.{}.", layer));
        add_transformer_layer(add, config, layer);
    }
}

StoredForm plain_form(const ExpectedTensor& tensor, DType dtype) { return {dtype, tensor.shape(), ScaleLayout::kNone, {}}; }

StoredForm block_form(const ExpectedTensor& tensor) {
    return {DType::kF8E4M3, tensor.shape(), ScaleLayout::kBlock32x32, {ceil32(tensor.rows), ceil32(tensor.cols)}};
}

}  // namespace

std::string_view model_part_name(ModelPart part) {
    switch (part) {
        case ModelPart::kRoutedExperts: return "routed experts";
        case ModelPart::kEngramTables: return "Engram tables";
        case ModelPart::kEngramMixing: return "Engram mixing";
        case ModelPart::kAttention: return "attention";
        case ModelPart::kIndexers: return "indexers and compressors";
        case ModelPart::kSharedExperts: return "shared experts";
        case ModelPart::kFeedForward: return "feed-forward";
        case ModelPart::kGates: return "gates";
        case ModelPart::kHyperConnections: return "hyper-connections";
        case ModelPart::kNorms: return "norms";
        case ModelPart::kEmbedding: return "embedding";
        case ModelPart::kHead: return "head";
        case ModelPart::kDraftExperts: return "DSpark experts";
        case ModelPart::kDraft: return "DSpark, the rest";
        case ModelPart::kVision: return "vision tower";
        case ModelPart::kAligner: return "aligner and image markers";
    }
    return "?";
}

std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config) {
    std::vector<ExpectedTensor> tensors;
    Collector add(tensors);
    if (config.transformer) {
        add_transformer(add, config);
        return tensors;
    }
    add.matrix("embed.weight", config.vocab_size, config.hidden_size, Storage::kMatrix, ModelPart::kEmbedding, Initial::kUnit);
    add.matrix("head.weight", config.vocab_size, config.hidden_size, Storage::kMatrix, ModelPart::kHead);
    add.norm("norm.weight", config.hidden_size, ModelPart::kNorms);
    for (int32_t layer = 0; layer < config.layer_count; ++layer) {
        add.set_prefix(fmt::format("layers.{}.", layer));
        add_block(add, config, config.routed_expert_count, {});
        add_sources(add, config, layer);
        add_engram(add, config, layer);
    }
    add_draft(add, config);
    add_vision(add, config);
    return tensors;
}

bool is_ignored_tensor(const ModelConfig& config, std::string_view name) {
    return config.transformer &&
           ((config.transformer->ties_embeddings && name == "lm_head.weight") || name.ends_with(".rotary_emb.inv_freq"));
}

int64_t StoredForm::bytes() const {
    const auto size = tensor_bytes(dtype, shape);
    DI_CHECK(size.has_value(), "config limits keep every tensor below 2^63 bytes");
    return *size;
}

int64_t StoredForm::scale_bytes() const { return scale_shape.empty() ? 0 : scale_shape[0] * scale_shape[1]; }

std::string scale_name_of(std::string_view weight_name) {
    constexpr std::string_view kSuffix = ".weight";
    DI_CHECK(weight_name.ends_with(kSuffix), "only names that end in .weight have a scale");
    return fmt::format("{}.scale", weight_name.substr(0, weight_name.size() - kSuffix.size()));
}

StoredForm official_form(const ExpectedTensor& tensor, StoredWeights stored) {
    const bool is_quantised = stored == StoredWeights::kFp8Fp4;
    switch (tensor.storage) {
        case Storage::kF32: return plain_form(tensor, DType::kF32);
        case Storage::kVector:
        case Storage::kBF16:
        case Storage::kMatrix: return plain_form(tensor, DType::kBF16);
        case Storage::kLinear:
        case Storage::kTable: return *form_for_dtype(tensor, is_quantised ? DType::kF8E4M3 : DType::kBF16);
        case Storage::kExpert: return *form_for_dtype(tensor, is_quantised ? DType::kI8 : DType::kBF16);
        case Storage::kPlainVector:
        case Storage::kPlainMatrix: return plain_form(tensor, stored == StoredWeights::kPlain32 ? DType::kF32 : DType::kBF16);
    }
    return {};
}

std::optional<StoredForm> form_for_dtype(const ExpectedTensor& tensor, DType dtype) {
    const Storage storage = tensor.storage;
    if (storage == Storage::kPlainVector || storage == Storage::kPlainMatrix) {
        const bool is_plain = dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
        const bool is_block =
            storage == Storage::kPlainMatrix && is_block_quantised(dtype) && tensor.cols % dtype_block(dtype).values == 0;
        return is_plain || is_block ? std::optional(plain_form(tensor, dtype)) : std::nullopt;
    }
    switch (dtype) {
        case DType::kF32: return storage == Storage::kBF16 ? std::nullopt : std::optional(plain_form(tensor, dtype));
        case DType::kBF16: return storage == Storage::kF32 ? std::nullopt : std::optional(plain_form(tensor, dtype));
        case DType::kF8E4M3:
            if (storage == Storage::kTable) {
                return StoredForm{dtype, tensor.shape(), ScaleLayout::kRow32, {tensor.rows, ceil32(tensor.cols)}};
            }
            return storage == Storage::kLinear || storage == Storage::kExpert ? std::optional(block_form(tensor))
                                                                              : std::nullopt;
        case DType::kI8:
        case DType::kU8:
            if (storage != Storage::kExpert) {
                return std::nullopt;
            }
            return StoredForm{dtype, {tensor.rows, tensor.cols / 2}, ScaleLayout::kRow32, {tensor.rows, ceil32(tensor.cols)}};
        case DType::kF16:
        case DType::kF8E8M0:
        case DType::kF4E2M1:
        case DType::kI16:
        case DType::kI32:
        case DType::kI64:
        case DType::kQ4_0:
        case DType::kQ4_1:
        case DType::kQ5_0:
        case DType::kQ5_1:
        case DType::kQ8_0:
        case DType::kQ2_K:
        case DType::kQ3_K:
        case DType::kQ4_K:
        case DType::kQ5_K:
        case DType::kQ6_K:
        case DType::kIq4Nl:
        case DType::kMxfp4: return std::nullopt;
    }
    return std::nullopt;
}

std::string_view accepted_dtypes(Storage storage) {
    switch (storage) {
        case Storage::kBF16: return "BF16";
        case Storage::kF32: return "F32";
        case Storage::kVector:
        case Storage::kMatrix: return "BF16 or F32";
        case Storage::kLinear:
        case Storage::kTable: return "F8_E4M3, BF16 or F32";
        case Storage::kExpert: return "I8 (packed FP4), F8_E4M3, BF16 or F32";
        case Storage::kPlainVector: return "BF16, F16 or F32";
        case Storage::kPlainMatrix: return "BF16, F16, F32 or a block type of GGUF whose blocks fill the rows";
    }
    return "?";
}

InventorySummary summarise_inventory(const ModelConfig& config) {
    InventorySummary summary;
    const std::vector<ExpectedTensor> tensors = expected_tensors(config);
    DI_CHECK(config.file_dtypes.empty() || config.file_dtypes.size() == tensors.size(), "a file has a type for each tensor");
    for (size_t i = 0; i < tensors.size(); ++i) {
        const ExpectedTensor& tensor = tensors[i];
        const StoredForm form = official_form(tensor, config.stored);
        const int64_t values = tensor.rows * tensor.cols;
        const int64_t bytes =
            config.file_dtypes.empty() ? form.bytes() + form.scale_bytes() : dtype_bytes(config.file_dtypes[i], values);
        for (PartSize* size : {&summary.parts[static_cast<size_t>(tensor.part)], &summary.total}) {
            size->tensor_count += form.scale_shape.empty() ? 1 : 2;
            size->bytes += bytes;
            size->parameter_count += values;
        }
    }
    return summary;
}

}  // namespace di
