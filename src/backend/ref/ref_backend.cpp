#include "backend/ref/ref_backend.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/check.h"

namespace di::ref {

namespace {

int32_t row_number(const Tensor& rows, int64_t index) {
    return rows.empty() ? static_cast<int32_t>(index) : rows.ptr<int32_t>()[index];
}

}  // namespace

std::unique_ptr<Backend> create(const BackendOptions& options) { return std::make_unique<RefBackend>(options); }

float vector_element(const Tensor& vector, int64_t index) {
    if (vector.dtype == DType::kBF16) {
        return bf16_to_f32(vector.ptr<uint16_t>()[index]);
    }
    DI_CHECK(vector.dtype == DType::kF32, "a vector operand is f32 or bf16");
    return vector.ptr<float>()[index];
}

double dot(std::span<const float> x, std::span<const float> y) {
    double sum = 0.0;
    for (size_t i = 0; i < x.size(); ++i) {
        sum += static_cast<double>(x[i]) * static_cast<double>(y[i]);
    }
    return sum;
}

// Large pieces come from calloc as pages that are zero without being touched: a cache costs what is used of it. The address that
// calloc gave stands in front of the aligned one.
void* RefBackend::allocate(int64_t bytes) {
    constexpr size_t kAlignment = 64;
    auto* raw = static_cast<uint8_t*>(std::calloc(1, static_cast<size_t>(std::max<int64_t>(bytes, 1)) + 2 * kAlignment));
    if (raw == nullptr) {
        return nullptr;
    }
    const auto address = reinterpret_cast<uintptr_t>(raw);
    uint8_t* memory = raw + (kAlignment + (kAlignment - address % kAlignment) % kAlignment);
    std::memcpy(memory - sizeof(raw), &raw, sizeof(raw));
    return memory;
}

void RefBackend::release(void* memory) {
    if (memory == nullptr) {
        return;
    }
    void* raw = nullptr;
    std::memcpy(&raw, static_cast<uint8_t*>(memory) - sizeof(raw), sizeof(raw));
    std::free(raw);
}

void RefBackend::copy_bytes(void* to, const void* from, int64_t bytes) { std::memcpy(to, from, static_cast<size_t>(bytes)); }

// Host memory is device memory here.
Tensor RefBackend::upload(const Tensor& host) { return host; }

void RefBackend::download(const Tensor& source, void* host) {
    const int64_t bytes = source.row_size() * dtype_bits(source.dtype) / 8;
    for (int64_t row = 0; row < source.rows(); ++row) {
        std::memcpy(static_cast<char*>(host) + row * bytes,
                    static_cast<const char*>(source.data) + row * source.row_stride * dtype_bits(source.dtype) / 8,
                    static_cast<size_t>(bytes));
    }
}

void RefBackend::embed(const EmbedArgs& args) {
    const int64_t streams = args.streams.shape[1];
    const int64_t dim = args.streams.shape[2];
    for (int64_t row = 0; row < args.ids.rows(); ++row) {
        const int32_t id = args.ids.ptr<int32_t>()[row];
        DI_CHECK(id >= 0 && id < args.table.rows, "a token id is outside the embedding table");
        float* out = args.streams.row<float>(row);
        dequantise_weight_row(args.table, id, 0, {out, static_cast<size_t>(dim)});
        for (int64_t s = 1; s < streams; ++s) {
            std::copy_n(out, dim, out + s * dim);
        }
    }
}

void RefBackend::gather_rows(const GatherRowsArgs& args) {
    const int64_t per_row = args.ids.row_size();
    const int64_t dim = args.table.cols;
    for (int64_t row = 0; row < args.ids.rows(); ++row) {
        for (int64_t k = 0; k < per_row; ++k) {
            const int64_t id = args.ids.row<int64_t>(row)[k];
            DI_CHECK(id >= 0 && id < args.table.rows, "a row number is outside the table");
            float* out = args.output.row<float>(row) + k * dim;
            dequantise_weight_row(args.table, id, 0, {out, static_cast<size_t>(dim)});
            for (int64_t i = 0; i < dim; ++i) {
                out[i] = stored(out[i]);
            }
        }
    }
}

void RefBackend::copy_rows(const CopyRowsArgs& args) {
    const int64_t count = !args.source_rows.empty()   ? args.source_rows.rows()
                          : !args.target_rows.empty() ? args.target_rows.rows()
                                                      : args.source.rows();
    const int64_t bytes = args.source.row_size() * dtype_bits(args.source.dtype) / 8;
    const int64_t source_stride = args.source.row_stride * dtype_bits(args.source.dtype) / 8;
    const int64_t target_stride = args.target.row_stride * dtype_bits(args.target.dtype) / 8;
    for (int64_t i = 0; i < count; ++i) {
        std::memmove(static_cast<char*>(args.target.data) + row_number(args.target_rows, i) * target_stride,
                     static_cast<const char*>(args.source.data) + row_number(args.source_rows, i) * source_stride,
                     static_cast<size_t>(bytes));
    }
}

void RefBackend::linear(const LinearArgs& args) {
    const int64_t rows = args.input.rows();
    const int64_t k = args.weight.cols;
    const int64_t n = args.weight.rows / args.groups;
    DI_CHECK(args.input.row_size() == args.groups * k, "the input does not fit the weight");
    DI_CHECK(args.output.row_size() == args.weight.rows, "the output does not fit the weight");
    std::vector<float> quantised;
    if (args.quantise_input) {
        quantised.resize(static_cast<size_t>(rows * args.groups * k));
        for (int64_t row = 0; row < rows; ++row) {
            const std::span<float> copy{quantised.data() + row * args.groups * k, static_cast<size_t>(args.groups * k)};
            std::copy_n(args.input.row<float>(row), copy.size(), copy.begin());
            fake_quantise_row(RowFormat::kFp8, copy);
        }
    }
    std::vector<float> weights(static_cast<size_t>(k));
    for (int64_t out = 0; out < args.weight.rows; ++out) {
        dequantise_weight_row(args.weight, out, 0, weights);
        for (int64_t row = 0; row < rows; ++row) {
            const float* x = args.quantise_input ? quantised.data() + row * args.groups * k : args.input.row<float>(row);
            double sum = dot({x + out / n * k, static_cast<size_t>(k)}, weights);
            float& y = args.output.row<float>(row)[out];
            if (!args.bias.empty()) {
                sum += static_cast<double>(vector_element(args.bias, out));
            }
            if (args.accumulate) {
                sum += static_cast<double>(y);
            }
            const auto value = static_cast<float>(sum);
            y = args.round_output ? stored(value) : value;
        }
    }
}

void RefBackend::rms_norm(const RmsNormArgs& args) {
    const int64_t dim = args.input.row_size();
    for (int64_t row = 0; row < args.input.rows(); ++row) {
        const float* x = args.input.row<float>(row);
        float* y = args.output.row<float>(row);
        const std::span<const float> values{x, static_cast<size_t>(dim)};
        const double factor =
            1.0 / std::sqrt(dot(values, values) / static_cast<double>(dim) + static_cast<double>(args.epsilon));
        for (int64_t i = 0; i < dim; ++i) {
            const double weight = static_cast<double>(vector_element(args.weight, i));
            y[i] = stored(static_cast<float>(weight * static_cast<double>(x[i]) * factor));
        }
    }
}

void RefBackend::rope(const RopeArgs& args) {
    const int64_t heads = args.x.shape[1];
    const int64_t dim = args.x.shape[2];
    const int64_t pairs = args.frequencies.rows();
    for (int64_t row = 0; row < args.x.rows(); ++row) {
        const auto position = static_cast<float>(args.positions.ptr<int32_t>()[row]);
        for (int64_t i = 0; i < pairs; ++i) {
            const float angle = position * args.frequencies.ptr<float>()[i];
            const double c = std::cos(static_cast<double>(angle));
            const double s = std::sin(static_cast<double>(args.inverse ? -angle : angle));
            for (int64_t head = 0; head < heads; ++head) {
                float* turning = args.x.row<float>(row) + head * dim + dim - 2 * pairs;
                float& first = turning[args.splits_halves ? i : 2 * i];
                float& second = turning[args.splits_halves ? i + pairs : 2 * i + 1];
                const auto a = static_cast<double>(first);
                const auto b = static_cast<double>(second);
                first = stored(static_cast<float>(a * c - b * s));
                second = stored(static_cast<float>(a * s + b * c));
            }
        }
    }
}

void RefBackend::store_rows(const StoreRowsArgs& args) {
    for (int64_t i = 0; i < args.input.rows(); ++i) {
        const int32_t block = args.blocks.ptr<int32_t>()[i];
        if (block < 0) {
            continue;
        }
        const int32_t row = args.rows.ptr<int32_t>()[i];
        quantise_row(args.cache.format, {args.input.row<float>(i), static_cast<size_t>(args.cache.dim)},
                     args.cache.data(block, row), args.cache.scale(block, row));
    }
}

void RefBackend::copy_cache_rows(const CopyCacheRowsArgs& args) {
    const auto data_bytes = static_cast<size_t>(row_data_bytes(args.source.format, args.source.dim));
    const auto scale_bytes = static_cast<size_t>(row_scale_bytes(args.source.format, args.source.dim));
    for (int64_t i = 0; i < args.target_blocks.rows(); ++i) {
        const int32_t target_block = args.target_blocks.ptr<int32_t>()[i];
        if (target_block < 0) {
            continue;
        }
        const int32_t target_row = args.target_rows.ptr<int32_t>()[i];
        const int32_t source_block = args.source_blocks.ptr<int32_t>()[i];
        const int32_t source_row = args.source_rows.ptr<int32_t>()[i];
        std::memcpy(args.target.data(target_block, target_row), args.source.data(source_block, source_row), data_bytes);
        std::memcpy(args.target.scale(target_block, target_row), args.source.scale(source_block, source_row), scale_bytes);
    }
}

void RefBackend::fake_quantise(const FakeQuantiseArgs& args) {
    const int64_t heads = args.x.rank == 3 ? args.x.shape[1] : 1;
    const int64_t dim = args.x.row_size() / heads;
    for (int64_t row = 0; row < args.x.rows(); ++row) {
        for (int64_t head = 0; head < heads; ++head) {
            fake_quantise_row(args.format, {args.x.row<float>(row) + head * dim, static_cast<size_t>(dim)});
        }
    }
}

void RefBackend::sigmoid(const SigmoidArgs& args) {
    for (int64_t row = 0; row < args.x.rows(); ++row) {
        float* x = args.x.row<float>(row);
        for (int64_t i = 0; i < args.x.row_size(); ++i) {
            x[i] = 1.0F / (1.0F + std::exp(-std::clamp(x[i] / args.temperature, -args.limit, args.limit)));
        }
    }
}

}  // namespace di::ref
