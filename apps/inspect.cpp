#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "apps/commands.h"
#include "apps/engine_setup.h"
#include "apps/model_report.h"
#include "base/memory.h"

namespace di {
namespace {

using Json = nlohmann::ordered_json;

std::string_view row_format_name(RowFormat format) {
    switch (format) {
        case RowFormat::kF32: return "f32";
        case RowFormat::kFp8: return "fp8/32";
        case RowFormat::kNvfp4: return "nvfp4/16";
        case RowFormat::kMxfp4: return "mxfp4/32";
        case RowFormat::kF16: return "f16";
    }
    return "";
}

// 510286023000 -> "510,286,023,000"
std::string grouped(int64_t number) {
    const std::string digits = fmt::format("{}", number);
    std::string text;
    for (size_t i = 0; i < digits.size(); ++i) {
        const size_t left = digits.size() - i;
        if (i > 0 && left % 3 == 0 && digits[i - 1] != '-') {
            text += ',';
        }
        text += digits[i];
    }
    return text;
}

std::string_view rope_kind_name(RopeKind kind) {
    switch (kind) {
        case RopeKind::kPlain: return "plain";
        case RopeKind::kLinear: return "linear";
        case RopeKind::kLlama3: return "llama3";
    }
    return "";
}

Json transformer_json(const ModelConfig& config) {
    const TransformerConfig& transformer = *config.transformer;
    return {
        {"architecture", config.architecture},
        {"stored", "plain"},
        {"vocab_size", config.vocab_size},
        {"hidden_size", config.hidden_size},
        {"layer_count", config.layer_count},
        {"head_count", config.head_count},
        {"kv_head_count", transformer.kv_head_count},
        {"head_dim", config.head_dim},
        {"intermediate_size", transformer.intermediate_size},
        {"max_position_embeddings", config.max_position_embeddings},
        {"rope_theta", config.rope_theta},
        {"rope_scaling", rope_kind_name(transformer.rope.kind)},
        {"has_qkv_bias", transformer.has_qkv_bias},
        {"has_head_norms", transformer.has_head_norms},
        {"ties_embeddings", transformer.ties_embeddings},
        {"routed_expert_count", config.routed_expert_count},
        {"experts_per_token", config.experts_per_token},
        {"moe_intermediate_size", config.moe_intermediate_size},
    };
}

Json config_json(const ModelConfig& config) {
    if (config.transformer) {
        return transformer_json(config);
    }
    return {
        {"architecture", config.architecture},
        {"stored", config.stored == StoredWeights::kFp8Fp4 ? "fp8/fp4" : "plain"},
        {"vocab_size", config.vocab_size},
        {"hidden_size", config.hidden_size},
        {"layer_count", config.layer_count},
        {"head_count", config.head_count},
        {"head_dim", config.head_dim},
        {"rope_dim", config.rope_dim},
        {"max_position_embeddings", config.max_position_embeddings},
        {"sliding_window", config.sliding_window},
        {"compress_ratios", config.compress_ratios},
        {"kv_source_layer_ids", config.kv_source_layer_ids},
        {"index_source_layer_ids", config.index_source_layer_ids},
        {"index_topk", config.index_topk},
        {"routed_expert_count", config.routed_expert_count},
        {"experts_per_token", config.experts_per_token},
        {"shared_expert_count", config.shared_expert_count},
        {"hyper_connection_streams", config.hc_mult},
        {"engram_layer_ids", config.engram.layer_ids},
        {"draft_stage_count", config.draft.stage_count},
        {"draft_block_size", config.draft.block_size},
        {"vision_layer_count", config.vision.layer_count},
    };
}

Json weights_json(const ModelReport& report) {
    Json parts = Json::array();
    for (int i = 0; i < kModelPartCount; ++i) {
        const auto part = static_cast<ModelPart>(i);
        const PartSize& size = report.inventory.of(part);
        if (size.tensor_count > 0) {
            parts.push_back({{"part", model_part_name(part)},
                             {"tensors", size.tensor_count},
                             {"bytes", size.bytes},
                             {"parameters", size.parameter_count}});
        }
    }
    Json formats = Json::array();
    for (const FormatSize& format : report.formats) {
        formats.push_back({{"dtype", format.dtype}, {"tensors", format.tensor_count}, {"bytes", format.bytes}});
    }
    Json groups = Json::array();
    for (const TensorGroup& group : report.groups) {
        groups.push_back({{"name", group.name},
                          {"dtype", group.dtype},
                          {"shape", group.shape},
                          {"tensors", group.tensor_count},
                          {"bytes", group.bytes}});
    }
    return {{"source", report.has_weights ? "files" : "config"},
            {"tensors", report.tensor_count},
            {"bytes", report.weight_bytes},
            {"parameters", report.inventory.total.parameter_count},
            {"parts_in_official_form", parts},
            {"formats", formats},
            {"groups", groups}};
}

Json geometry_json(const ModelReport& report) {
    Json blocks = Json::array();
    for (const BlockPart& part : report.geometry.blocks) {
        blocks.push_back({{"name", part.name},
                          {"ratio", part.ratio},
                          {"dim", part.dim},
                          {"format", row_format_name(part.format)},
                          {"bytes", part.bytes}});
    }
    Json states = Json::array();
    for (const StatePart& part : report.geometry.states) {
        states.push_back({{"name", part.name},
                          {"tokens", part.tokens},
                          {"dim", part.dim},
                          {"format", row_format_name(part.format)},
                          {"row_bytes", part.row_bytes}});
    }
    return {{"bytes_per_token", report.plan.bytes_per_token}, {"block_tokens", report.geometry.block_tokens},
            {"block_bytes", report.geometry.block_bytes},     {"blocks", blocks},
            {"state_bytes", report.geometry.state_bytes},     {"states", states}};
}

Json memory_json(const ModelReport& report) {
    const MemoryPlan& plan = report.plan;
    return {{"fits", !report.does_not_fit.has_value()},
            {"reason", report.does_not_fit ? Json(*report.does_not_fit) : Json(nullptr)},
            {"machine_bytes", report.machine_bytes},
            {"weights_resident_bytes", plan.weights_resident_bytes},
            {"weights_on_demand_bytes", plan.weights_on_demand_bytes},
            {"kv_block_bytes", plan.kv_block_bytes},
            {"kv_block_count", plan.kv_block_count},
            {"state_slot_bytes", plan.state_slot_bytes},
            {"state_slot_count", plan.state_slot_count},
            {"cache_bytes", plan.cache_bytes()},
            {"workspace_bytes", plan.workspace_bytes},
            {"image_bytes", plan.image_bytes},
            {"total_bytes", plan.total_bytes()},
            {"max_model_len", plan.limits.max_model_len},
            {"max_num_seqs", plan.limits.max_num_seqs},
            {"max_num_batched_tokens", plan.limits.max_num_batched_tokens}};
}

void print_transformer(const ModelConfig& config) {
    const TransformerConfig& transformer = *config.transformer;
    fmt::print("attention     {} heads of keys and values, rope {} of theta {}{}{}\n", transformer.kv_head_count,
               rope_kind_name(transformer.rope.kind), config.rope_theta, transformer.has_qkv_bias ? ", biases" : "",
               transformer.has_head_norms ? ", norms of heads" : "");
    fmt::print("feed-forward  width {}\n", transformer.intermediate_size);
    fmt::print("experts       {}\n", config.routed_expert_count > 0
                                         ? fmt::format("{} routed, {} per token, width {}", config.routed_expert_count,
                                                       config.experts_per_token, config.moe_intermediate_size)
                                         : "none");
    fmt::print("head          {}\n", transformer.ties_embeddings ? "the embedding" : "its own");
}

void print_config(const ModelReport& report) {
    const ModelConfig& config = report.config;
    fmt::print("model         {}\n", report.path);
    fmt::print("architecture  {}, weights stored as {}\n", config.architecture,
               config.stored == StoredWeights::kFp8Fp4 ? "fp8/fp4" : "plain values");
    fmt::print("text          {} layers, hidden {}, {} heads x {} (rotary {}), vocabulary {}, context {}\n", config.layer_count,
               config.hidden_size, config.head_count, config.head_dim, config.rope_dim, config.vocab_size,
               config.max_position_embeddings);
    if (config.transformer) {
        print_transformer(config);
        return;
    }
    fmt::print("attention     window {}, ratios {}, kv sources {}, index sources {}, top-k {}\n", config.sliding_window,
               fmt::join(config.compress_ratios, ","), fmt::join(config.kv_source_layer_ids, ","),
               fmt::join(config.index_source_layer_ids, ","), config.index_topk);
    fmt::print("experts       {} routed, {} per token, {} shared, width {}\n", config.routed_expert_count,
               config.experts_per_token, config.shared_expert_count, config.moe_intermediate_size);
    fmt::print("engram        {}\n", config.engram.present()
                                         ? fmt::format("layers {}, table rows {}", fmt::join(config.engram.layer_ids, ","),
                                                       fmt::join(config.engram.table_rows, ","))
                                         : "none");
    fmt::print("drafts        {}\n", config.draft.present()
                                         ? fmt::format("{} stages, block {}", config.draft.stage_count, config.draft.block_size)
                                         : "none");
    fmt::print("vision        {}\n", config.vision.present() ? fmt::format("{} layers, hidden {}, at most {} tokens an image",
                                                                           config.vision.layer_count, config.vision.hidden_size,
                                                                           config.vision.max_image_tokens)
                                                             : "none");
}

void print_weights(const ModelReport& report) {
    fmt::print("\nweights       {} tensors, {} bytes ({}), {} parameters, {}\n", grouped(report.tensor_count),
               grouped(report.weight_bytes), format_bytes(report.weight_bytes), grouped(report.inventory.total.parameter_count),
               report.has_weights ? "read from the files" : "from the config alone");
    for (const FormatSize& format : report.formats) {
        fmt::print("  {:<12}{:>8} tensors {:>20} bytes\n", format.dtype, grouped(format.tensor_count), grouped(format.bytes));
    }
    fmt::print("{}\n", report.config.file_dtypes.empty() ? "parts, in the official form" : "parts");
    for (int i = 0; i < kModelPartCount; ++i) {
        const auto part = static_cast<ModelPart>(i);
        const PartSize& size = report.inventory.of(part);
        if (size.tensor_count > 0) {
            fmt::print("  {:<20}{:>8} tensors {:>20} bytes\n", model_part_name(part), grouped(size.tensor_count),
                       grouped(size.bytes));
        }
    }
    fmt::print("tensors\n");
    for (const TensorGroup& group : report.groups) {
        fmt::print("  {:<48} {:<8} [{}] x {}\n", group.name, group.dtype, fmt::join(group.shape, ","), group.tensor_count);
    }
}

void print_geometry(const ModelReport& report) {
    fmt::print("\ncache         {} bytes per token of context; blocks of {} tokens, {} bytes\n", report.plan.bytes_per_token,
               report.geometry.block_tokens, grouped(report.geometry.block_bytes));
    for (const BlockPart& part : report.geometry.blocks) {
        fmt::print("  {:<24} 1 row per {} tokens, {} values {}, {} bytes a block\n", part.name, part.ratio, part.dim,
                   row_format_name(part.format), grouped(part.bytes));
    }
    fmt::print("per sequence  {} bytes\n", grouped(report.geometry.state_bytes));
    for (const StatePart& part : report.geometry.states) {
        fmt::print("  {:<24} ring of {} tokens, {} values {}\n", part.name, part.tokens, part.dim,
                   row_format_name(part.format));
    }
}

void print_memory(const ModelReport& report) {
    const MemoryPlan& plan = report.plan;
    fmt::print("\nmemory plan   {} sequences of up to {} tokens, {} rows a step\n", plan.limits.max_num_seqs,
               grouped(plan.limits.max_model_len), plan.limits.max_num_batched_tokens);
    const std::pair<std::string_view, int64_t> lines[] = {
        {"weights, resident", plan.weights_resident_bytes},
        {"weights, on demand", plan.weights_on_demand_bytes},
        {"cache blocks", plan.kv_block_bytes * plan.kv_block_count},
        {"sequence states", plan.state_slot_bytes * plan.state_slot_count},
        {"workspace", plan.workspace_bytes},
        {"images", plan.image_bytes},
        {"total", plan.total_bytes()},
        {"this machine has", report.machine_bytes},
    };
    for (const auto& [name, bytes] : lines) {
        fmt::print("  {:<20}{:>22} bytes  {}\n", name, grouped(bytes), format_bytes(bytes));
    }
    fmt::print("  {}\n", report.does_not_fit ? "does not fit: " + *report.does_not_fit : "fits");
}

}  // namespace

int inspect_command(const Options& options) {
    const Result<EngineOptions> engine = engine_flags(options);
    if (!engine) {
        print_error(engine.error());
        return exit_code_of(engine.error());
    }
    // A path that was given is looked at by the report, which also takes a bare config.json.
    const Result<std::string> path = options.subject.empty() ? model_directory(options) : Result<std::string>(options.subject);
    if (!path) {
        print_error(path.error());
        return exit_code_of(path.error());
    }
    const Result<ModelReport> report = make_model_report(*path, *engine);
    if (!report) {
        print_error(report.error());
        return exit_code_of(report.error());
    }
    if (options.json) {
        const Json object = {{"model", report->path},
                             {"config", config_json(report->config)},
                             {"weights", weights_json(*report)},
                             {"cache", geometry_json(*report)},
                             {"memory_plan", memory_json(*report)}};
        fmt::print("{}\n", object.dump(2, ' ', false, Json::error_handler_t::replace));
        return kExitOk;
    }
    print_config(*report);
    print_weights(*report);
    print_geometry(*report);
    print_memory(*report);
    return kExitOk;
}

}  // namespace di
