// Creation, products of matrices, table look-ups.
#include "backend/cpu/cpu_backend.h"

#include <algorithm>
#include <cstring>

#include "backend/cpu/isa.h"
#include "base/check.h"
#include "tensor/block_quant.h"

namespace di::cpu {

namespace {

void decode_blocks(uint8_t type, const uint8_t* row, int64_t cols, float* out) {
    dequantise_block_row(static_cast<DType>(type), row, 0, {out, static_cast<size_t>(cols)});
}

}  // namespace

Result<std::unique_ptr<Backend>> create(const BackendOptions& options, std::string_view isa) {
    if (options.threads < 1 || options.threads > kThreadsMax) {
        return fail(ErrorCode::kInvalidArgument, "the number of threads is {}, expected 1 to {}", options.threads, kThreadsMax);
    }
    DI_TRY(const Kernels* kernels, choose_kernels(isa));
    return std::make_unique<CpuBackend>(options, *kernels);
}

CpuBackend::CpuBackend(const BackendOptions& options, const Kernels& kernels)
    : RefBackend(options), kernels_(kernels), pool_(options.threads), threads_(static_cast<size_t>(options.threads)) {}

std::string CpuBackend::name() const { return std::string("cpu/") + kernels_.name; }

WeightRows weight_rows(const Weight& weight) {
    WeightRows rows;
    switch (weight.dtype) {
        case DType::kF32: rows.format = WeightFormat::kF32; break;
        case DType::kBF16: rows.format = WeightFormat::kBF16; break;
        case DType::kF8E4M3: rows.format = WeightFormat::kFp8; break;
        case DType::kF4E2M1: rows.format = WeightFormat::kFp4; break;
        case DType::kF16: rows.format = WeightFormat::kF16; break;
        default:
            DI_CHECK(is_block_quantised(weight.dtype),
                     "a weight is f32, bf16, f16, f8_e4m3, packed f4_e2m1 or of a block type");
            rows.format = WeightFormat::kDecoded;
            rows.type = static_cast<uint8_t>(weight.dtype);
            rows.decode = &decode_blocks;
    }
    const bool is_quantised = rows.format == WeightFormat::kFp8 || rows.format == WeightFormat::kFp4;
    DI_CHECK(!is_quantised || weight.cols % 32 == 0, "a quantised weight has a multiple of 32 columns");
    DI_CHECK(is_quantised == (weight.scale_layout != ScaleLayout::kNone), "quantised weights, and only they, have scales");
    rows.data = static_cast<const uint8_t*>(weight.data);
    rows.row_bytes = weight.row_bytes();
    rows.scale = weight.scale;
    rows.scale_row_codes = weight.scale_cols();
    rows.scale_row_shift = weight.scale_layout == ScaleLayout::kBlock32x32 ? 5 : 0;
    return rows;
}

CacheFormat cache_format(RowFormat format) {
    switch (format) {
        case RowFormat::kF32: return CacheFormat::kF32;
        case RowFormat::kFp8: return CacheFormat::kFp8;
        case RowFormat::kNvfp4: return CacheFormat::kNvfp4;
        case RowFormat::kMxfp4: return CacheFormat::kMxfp4;
        case RowFormat::kF16: return CacheFormat::kF16;
    }
    return CacheFormat::kF32;
}

const float* CpuBackend::quantised_rows(const Tensor& input, Buffer& into) {
    const int64_t size = input.row_size();
    DI_CHECK(size % 32 == 0, "a quantised input has a multiple of 32 columns");
    float* rows = into.get<float>(input.rows() * size);
    for_items(input.rows(), input.rows() * size * 4, [&](int64_t row, int) {
        kernels_.fake_quantise(CacheFormat::kFp8, input.row<float>(row), size, rows + row * size);
    });
    return rows;
}

void CpuBackend::run_linear(LinearWork work, ThreadScratch& own) {
    const bool is_decoded = work.weight.format == WeightFormat::kDecoded;
    if (is_decoded || (work.rows > kDirectRowsMax && work.weight.format != WeightFormat::kF32)) {
        work.strip_rows = kLinearOutputBlock * work.k * 4 <= kStripBytesMax ? kLinearOutputBlock : kLinearOutputBlock / 2;
        work.strip = own.strip.get<float>(work.strip_rows * work.k);
    }
    kernels_.linear(work);
}

// Outputs of a work item. Few rows: as many as give each thread one item, in whole tiles, so that all have the same to do. Many rows
// share a decoded strip, and there are enough items anyway.
int64_t CpuBackend::output_block(int64_t outputs, int64_t rows, int64_t row_blocks) const {
    const int64_t threads = pool_.thread_count();
    if (rows <= kDirectRowsMax) {
        const int64_t share = (outputs + threads - 1) / threads;
        const int64_t tile = share < 2 * kLinearOutputTile ? kLinearOutputTile / 2 : kLinearOutputTile;
        return (share + tile - 1) / tile * tile;
    }
    // A narrow matrix (24 mixes of all streams, say) is cut finer so that every thread has a part.
    return outputs * row_blocks < 4 * kLinearOutputBlock * threads ? kLinearOutputTile : kLinearOutputBlock;
}

// Work items: a group of outputs times a block of rows. Small products stay whole.
void CpuBackend::product_items(const ProductArgs& args, const uint16_t* const* inputs_bf16) {
    const int64_t k = args.weight.cols;
    const int64_t outputs = args.weight.rows / args.groups;
    const LinearWork work{.k = k,
                          .weight = weight_rows(args.weight),
                          .bias = args.bias == nullptr ? nullptr : args.bias->ptr<const uint8_t>(),
                          .is_bias_bf16 = args.bias != nullptr && args.bias->dtype == DType::kBF16,
                          .accumulate = args.accumulate,
                          .round = args.round};
    const int64_t row_blocks = (args.rows + kLinearRowBlock - 1) / kLinearRowBlock;
    const int64_t block_size = output_block(outputs * args.groups, args.rows, row_blocks);
    const int64_t output_blocks = (outputs + block_size - 1) / block_size;
    const auto run = [&](int64_t item, int thread) {
        LinearWork part = work;
        const int64_t group = item % args.groups;
        const int64_t row = item / args.groups % row_blocks * kLinearRowBlock;
        const int64_t block = item / args.groups / row_blocks * block_size;
        const int64_t table = group * args.rows + row;
        part.inputs = args.inputs + table;
        part.inputs_bf16 = inputs_bf16 == nullptr ? nullptr : inputs_bf16 + table;
        part.outputs = args.outputs + row;
        part.rows = std::min(kLinearRowBlock, args.rows - row);
        part.first = group * outputs + block;
        part.count = std::min(block_size, outputs - block);
        if (inputs_bf16 != nullptr) {
            kernels_.linear_bf16(part);
            return;
        }
        run_linear(part, scratch(thread));
    };
    for_items(output_blocks * row_blocks * args.groups, args.rows * args.weight.rows * k, run);
}

void CpuBackend::product(const ProductArgs& args) {
    if (args.rows == 0 || args.weight.rows == 0) {
        return;
    }
    const bool may_pair = kernels_.linear_bf16 != nullptr && rounds() && args.weight.dtype == DType::kBF16;
    if (!may_pair) {
        product_items(args, nullptr);
        return;
    }
    // A row whose values are not all bf16 goes the exact way: a property of the row alone, so invariance holds.
    const int64_t k = args.weight.cols;
    const int64_t count = args.rows * args.groups;
    const int64_t pointer_values = static_cast<int64_t>(sizeof(void*) / sizeof(uint16_t));
    auto* memory = narrow_.get<uint16_t>(count * (pointer_values + k));
    auto** rows = reinterpret_cast<uint16_t**>(memory);
    bool all_exact = true;
    for (int64_t i = 0; i < count; ++i) {
        rows[i] = memory + count * pointer_values + i * k;
        all_exact = kernels_.narrow_row(args.inputs[i], k, rows[i]) && all_exact;
    }
    if (all_exact) {
        product_items(args, rows);
        return;
    }
    for (int64_t row = 0; row < args.rows; ++row) {
        bool is_exact = true;
        std::vector<const float*> inputs(static_cast<size_t>(args.groups));
        for (int64_t group = 0; group < args.groups; ++group) {
            inputs[static_cast<size_t>(group)] = args.inputs[group * args.rows + row];
            is_exact = kernels_.narrow_row(args.inputs[group * args.rows + row], k, rows[group]) && is_exact;
        }
        ProductArgs single = args;
        single.inputs = inputs.data();
        single.outputs = args.outputs + row;
        single.rows = 1;
        product_items(single, is_exact ? rows : nullptr);
    }
}

void CpuBackend::linear(const LinearArgs& args) {
    const int64_t rows = args.input.rows();
    const int64_t k = args.weight.cols;
    DI_CHECK(args.input.row_size() == args.groups * k, "the input does not fit the weight");
    DI_CHECK(args.output.row_size() == args.weight.rows, "the output does not fit the weight");
    DI_CHECK(args.weight.rows % args.groups == 0, "the outputs are not divisible by the groups");
    const float* quantised = args.quantise_input ? quantised_rows(args.input, quantised_) : nullptr;
    const auto** inputs = inputs_.get<const float*>(rows * args.groups);
    auto** outputs = outputs_.get<float*>(rows);
    for (int64_t row = 0; row < rows; ++row) {
        const float* x = quantised != nullptr ? quantised + row * args.groups * k : args.input.row<float>(row);
        for (int64_t group = 0; group < args.groups; ++group) {
            inputs[group * rows + row] = x + group * k;
        }
        outputs[row] = args.output.row<float>(row);
    }
    product({.inputs = inputs,
             .outputs = outputs,
             .rows = rows,
             .weight = args.weight,
             .groups = args.groups,
             .bias = args.bias.empty() ? nullptr : &args.bias,
             .accumulate = args.accumulate,
             .round = args.round_output && rounds()});
}

void CpuBackend::embed(const EmbedArgs& args) {
    const int64_t streams = args.streams.shape[1];
    const int64_t dim = args.streams.shape[2];
    const WeightRows table = weight_rows(args.table);
    for_items(args.ids.rows(), args.ids.rows() * streams * dim, [&](int64_t row, int) {
        const int32_t id = args.ids.ptr<int32_t>()[row];
        DI_CHECK(id >= 0 && id < args.table.rows, "a token id is outside the embedding table");
        float* out = args.streams.row<float>(row);
        kernels_.decode_weight_row(table, id, dim, out);
        for (int64_t s = 1; s < streams; ++s) {
            std::memcpy(out + s * dim, out, static_cast<size_t>(dim) * sizeof(float));
        }
    });
}

void CpuBackend::gather_rows(const GatherRowsArgs& args) {
    const int64_t per_row = args.ids.row_size();
    const int64_t dim = args.table.cols;
    const WeightRows table = weight_rows(args.table);
    for_items(args.ids.rows(), args.ids.rows() * per_row * dim * 2, [&](int64_t row, int) {
        float* out = args.output.row<float>(row);
        for (int64_t k = 0; k < per_row; ++k) {
            const int64_t id = args.ids.row<int64_t>(row)[k];
            DI_CHECK(id >= 0 && id < args.table.rows, "a row number is outside the table");
            kernels_.decode_weight_row(table, id, dim, out + k * dim);
        }
        if (rounds()) {
            kernels_.round_row(out, per_row * dim);
        }
    });
}

}  // namespace di::cpu
