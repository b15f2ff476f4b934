// The table of model families.
#include <array>

#include "model/deepseek_v41/cache_layout.h"
#include "model/deepseek_v41/deepseek_v41.h"
#include "model/deepseek_v41/workspace.h"
#include "model/model.h"
#include "model/transformer/layout.h"
#include "model/transformer/transformer.h"

namespace di {

namespace {

struct Family {
    std::string_view architecture;
    Result<std::unique_ptr<Model>> (*create)(const ModelConfig&, const Checkpoint&, Backend&, const ModelOptions&);
    CacheGeometry (*geometry)(const ModelConfig&, const ModelOptions&);
    int64_t (*workspace)(const ModelConfig&, const ModelOptions&, DType);
};

int64_t v41_workspace(const ModelConfig& config, const ModelOptions& options, DType activation_dtype) {
    return v41::make_workspace(config, options, activation_dtype, nullptr).bytes +
           v41::vision_workspace_bytes(config, activation_dtype);
}

int64_t transformer_workspace(const ModelConfig& config, const ModelOptions& options, DType activation_dtype) {
    return transformer::make_workspace(config, options, activation_dtype, nullptr).bytes;
}

constexpr Family transformer_family(std::string_view architecture) {
    return {architecture, transformer::Transformer::create, transformer::make_geometry, transformer_workspace};
}

constexpr std::array kFamilies{
    Family{"DeepseekV41ForCausalLM", v41::DeepseekV41::create, v41::make_geometry, v41_workspace},
    transformer_family("LlamaForCausalLM"),
    transformer_family("MistralForCausalLM"),
    transformer_family("Qwen2ForCausalLM"),
    transformer_family("Qwen3ForCausalLM"),
    transformer_family("Qwen3MoeForCausalLM"),
};

Result<const Family*> find_family(const std::string& architecture) {
    for (const Family& family : kFamilies) {
        if (family.architecture == architecture) {
            return &family;
        }
    }
    return fail(ErrorCode::kUnsupported, "architecture {} is not known, expected {}", architecture,
                kFamilies.front().architecture);
}

}  // namespace

Result<std::unique_ptr<Model>> create_model(const ModelConfig& config, const Checkpoint& checkpoint, Backend& backend,
                                            const ModelOptions& options) {
    DI_TRY(const Family* family, find_family(config.architecture));
    return family->create(config, checkpoint, backend, options);
}

Result<CacheGeometry> cache_geometry(const ModelConfig& config, const ModelOptions& options) {
    DI_TRY(const Family* family, find_family(config.architecture));
    return family->geometry(config, options);
}

Result<int64_t> workspace_bytes(const ModelConfig& config, const ModelOptions& options, DType activation_dtype) {
    DI_TRY(const Family* family, find_family(config.architecture));
    return family->workspace(config, options, activation_dtype);
}

}  // namespace di
