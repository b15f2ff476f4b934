#include "apps/model_report.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/file_io.h"
#include "base/memory.h"
#include "engine/model_options.h"
#include "weights/checkpoint.h"
#include "weights/limits.h"
#include "weights/safetensors.h"

namespace di {
namespace {

namespace fs = std::filesystem;

struct ListedTensor {
    std::string name;
    std::string dtype;
    std::vector<int64_t> shape;
    int64_t bytes = 0;
};

// "layers.12.ffn.experts.3.w1.weight" -> "layers.N.ffn.experts.N.w1.weight"; digits inside words stay.
std::string group_name(const std::string& name) {
    std::string group;
    for (size_t begin = 0; begin <= name.size();) {
        const size_t end = std::min(name.find('.', begin), name.size());
        const std::string word = name.substr(begin, end - begin);
        const bool is_number = !word.empty() && word.find_first_not_of("0123456789") == std::string::npos;
        group += (begin > 0 ? "." : "") + (is_number ? std::string("N") : word);
        begin = end + 1;
    }
    return group;
}

std::string file_dtype(DType dtype) {
    const auto name = dtype_to_safetensors(dtype);
    return std::string(name ? *name : dtype_name(dtype));
}

std::vector<ListedTensor> listed_from_config(const ModelConfig& config) {
    std::vector<ListedTensor> listed;
    for (const ExpectedTensor& tensor : expected_tensors(config)) {
        const StoredForm form = official_form(tensor, config.stored);
        listed.push_back({tensor.name, file_dtype(form.dtype), form.shape, form.bytes()});
        if (!form.scale_shape.empty()) {
            listed.push_back({scale_name_of(tensor.name), file_dtype(DType::kF8E8M0), form.scale_shape, form.scale_bytes()});
        }
    }
    return listed;
}

std::vector<ListedTensor> listed_from_checkpoint(const Checkpoint& checkpoint) {
    std::vector<ListedTensor> listed;
    for (const auto& [name, tensor] : checkpoint.tensors()) {
        listed.push_back({name, file_dtype(tensor.dtype), tensor.shape, tensor.bytes});
    }
    return listed;
}

void add_tensors(const std::vector<ListedTensor>& listed, ModelReport& report) {
    std::map<std::string, FormatSize> formats;
    std::map<std::tuple<std::string, std::string, std::vector<int64_t>>, TensorGroup> groups;
    for (const ListedTensor& tensor : listed) {
        FormatSize& format = formats[tensor.dtype];
        format.dtype = tensor.dtype;
        ++format.tensor_count;
        format.bytes += tensor.bytes;
        const std::string name = group_name(tensor.name);
        TensorGroup& group = groups[{name, tensor.dtype, tensor.shape}];
        group.name = name;
        group.dtype = tensor.dtype;
        group.shape = tensor.shape;
        ++group.tensor_count;
        group.bytes += tensor.bytes;
        ++report.tensor_count;
        report.weight_bytes += tensor.bytes;
    }
    for (auto& [key, format] : formats) {
        report.formats.push_back(std::move(format));
    }
    for (auto& [key, group] : groups) {
        report.groups.push_back(std::move(group));
    }
}

bool has_weights(const std::string& directory) {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(directory, error)) {
        const std::string name = entry.path().filename().string();
        if (name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json")) {
            return true;
        }
    }
    return false;
}

Status add_memory(const EngineOptions& options, ModelReport& report) {
    report.machine_bytes = available_memory_bytes();
    Result<MemoryPlan> plan = plan_memory(report.config, options, 0);
    if (!plan) {
        if (plan.error().code != ErrorCode::kOutOfMemory) {
            return tl::unexpected<Error>(std::move(plan.error()));
        }
        report.does_not_fit = plan.error().text;
        // What it would take: a machine without end, far from where sums overflow.
        plan = plan_memory(report.config, options, std::numeric_limits<int64_t>::max() / 4);
        if (!plan) {
            return tl::unexpected<Error>(std::move(plan.error()));
        }
    }
    report.plan = *plan;
    DI_TRY(report.geometry, cache_geometry(report.config, make_model_options(options, report.plan.limits, {})));
    return {};
}

}  // namespace

Result<ModelReport> make_model_report(const std::string& path, const EngineOptions& options) {
    ModelReport report;
    report.path = path;
    std::error_code error;
    if (!fs::exists(path, error)) {
        return fail(ErrorCode::kNotFound, "{} does not exist, expected a model directory, a .gguf file or a config.json", path);
    }
    const bool is_gguf = is_gguf_path(path);
    if (is_gguf || fs::is_directory(path, error)) {
        DI_TRY(report.config, load_model_config(path));
        report.has_weights = options.load_format == LoadFormat::kAuto && (is_gguf || has_weights(path));
    } else {
        DI_TRY(const std::string text, read_file(path, limits::kConfigBytesMax));
        Result<ModelConfig> config = parse_model_config(text);
        if (!config) {
            return fail_in(path, std::move(config.error()));
        }
        report.config = std::move(*config);
    }
    report.inventory = summarise_inventory(report.config);
    if (report.has_weights) {
        DI_TRY(const Checkpoint checkpoint, Checkpoint::open(path, report.config));
        add_tensors(listed_from_checkpoint(checkpoint), report);
    } else {
        add_tensors(listed_from_config(report.config), report);
    }
    DI_TRY_STATUS(add_memory(options, report));
    return report;
}

}  // namespace di
