// Operations on rows: norms, residual streams, rope, cache rows, Engram, gates.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/sinkhorn.h"
#include "base/check.h"

namespace di::cpu {

void CpuBackend::rms_norm(const RmsNormArgs& args) {
    const int64_t dim = args.input.row_size();
    const bool is_bf16 = args.weight.dtype == DType::kBF16;
    DI_CHECK(is_bf16 || args.weight.dtype == DType::kF32, "a vector operand is f32 or bf16");
    for_items(args.input.rows(), args.input.rows() * dim * 3, [&](int64_t row, int) {
        const float* x = args.input.row<float>(row);
        const float mean = kernels_.sum_squares(x, dim) / static_cast<float>(dim);
        const float factor = 1.0F / std::sqrt(mean + args.epsilon);
        kernels_.norm_row(x, factor, args.weight.ptr<const uint8_t>(), is_bf16, dim, rounds(), args.output.row<float>(row));
    });
}

void CpuBackend::hyper_mixes(const HyperMixesArgs& args) {
    const int64_t s = args.streams.shape[1];
    const int64_t width = args.streams.row_size();
    const int64_t count = s * s + 2 * s;
    const int64_t rows = args.streams.rows();
    DI_CHECK(s <= kStreamsMax, "too many residual streams");
    DI_CHECK(args.fn.row_stride == width, "the mixing matrix is dense");
    const Weight fn{.dtype = DType::kF32, .data = args.fn.data, .rows = count, .cols = width};
    const auto** inputs = inputs_.get<const float*>(rows);
    auto** outputs = outputs_.get<float*>(rows);
    auto* mixes = hidden_.get<float>(rows * count);
    for (int64_t row = 0; row < rows; ++row) {
        inputs[row] = args.streams.row<float>(row);
        outputs[row] = mixes + row * count;
    }
    product({.inputs = inputs, .outputs = outputs, .rows = rows, .weight = fn});
    const float* scale = args.scale.ptr<float>();
    const float* base = args.base.ptr<float>();
    for_items(rows, rows * (width + 4000), [&](int64_t row, int) {
        float* z = mixes + row * count;
        const float mean = kernels_.sum_squares(args.streams.row<float>(row), width) / static_cast<float>(width);
        const float factor = 1.0F / std::sqrt(mean + args.norm_epsilon);
        for (int64_t k = 0; k < count; ++k) {
            z[k] = std::fma(z[k] * factor, scale[k < s ? 0 : k < 2 * s ? 1 : 2], base[k]);
        }
        float* pre = args.pre.row<float>(row);
        float* post = args.post.row<float>(row);
        float* comb = args.comb.row<float>(row);
        std::copy_n(z + 2 * s, s * s, comb);
        kernels_.sigmoid_row(z, 2 * s, std::numeric_limits<float>::infinity());
        for (int64_t i = 0; i < s; ++i) {
            pre[i] = z[i] + args.hc_epsilon;
            post[i] = 2.0F * z[s + i];
        }
        sinkhorn(kernels_, comb, s, args.iterations, args.hc_epsilon);
    });
}

void CpuBackend::hyper_collapse(const HyperCollapseArgs& args) {
    const int64_t s = args.streams.shape[1];
    const int64_t dim = args.streams.shape[2];
    for_items(args.streams.rows(), args.streams.row_size() * args.streams.rows(), [&](int64_t row, int) {
        kernels_.collapse(args.streams.row<float>(row), args.pre.row<float>(row), s, dim, rounds(),
                          args.collapsed.row<float>(row));
    });
}

void CpuBackend::hyper_expand(const HyperExpandArgs& args) {
    const int64_t s = args.streams.shape[1];
    const int64_t dim = args.streams.shape[2];
    DI_CHECK(s <= kStreamsMax, "too many residual streams");
    for_items(args.streams.rows(), args.streams.row_size() * args.streams.rows() * (s + 1), [&](int64_t row, int) {
        kernels_.expand(args.streams.row<float>(row), args.output.row<float>(row), args.post.row<float>(row),
                        args.comb.row<float>(row), s, dim, rounds());
    });
}

void CpuBackend::stream_mean(const StreamMeanArgs& args) {
    const int64_t s = args.streams.shape[1];
    const int64_t dim = args.streams.shape[2];
    DI_CHECK(s <= kStreamsMax, "too many residual streams");
    float weights[kStreamsMax];
    std::fill_n(weights, s, 1.0F / static_cast<float>(s));
    for_items(args.streams.rows(), args.streams.row_size() * args.streams.rows(), [&](int64_t row, int) {
        kernels_.collapse(args.streams.row<float>(row), weights, s, dim, rounds(), args.output.row<float>(row));
    });
}

const CpuBackend::RopeTable& CpuBackend::rope_table(const Tensor& positions, const Tensor& frequencies, bool splits_halves) {
    const int64_t rows = positions.rows();
    const int64_t pairs = frequencies.rows();
    const auto* position = positions.ptr<const int32_t>();
    const auto* frequency = frequencies.ptr<const float>();
    ++rope_uses_;
    RopeTable* oldest = nullptr;
    for (RopeTable& table : rope_tables_) {
        if (table.splits_halves == splits_halves &&
            std::equal(table.positions.begin(), table.positions.end(), position, position + rows) &&
            std::equal(table.frequencies.begin(), table.frequencies.end(), frequency, frequency + pairs)) {
            table.last_use = rope_uses_;
            return table;
        }
        oldest = oldest == nullptr || table.last_use < oldest->last_use ? &table : oldest;
    }
    if (static_cast<int64_t>(rope_tables_.size()) < kRopeTablesMax) {
        oldest = &rope_tables_.emplace_back();
    }
    RopeTable& table = *oldest;
    table.last_use = rope_uses_;
    table.positions.assign(position, position + rows);
    table.frequencies.assign(frequency, frequency + pairs);
    table.splits_halves = splits_halves;
    const auto size = static_cast<size_t>(rows * pairs * 2);
    table.cosines.resize(size);
    table.sines.resize(size);
    table.inverse_sines.resize(size);
    for_items(rows, rows * pairs * 60, [&](int64_t row, int) {
        for (int64_t i = 0; i < pairs; ++i) {
            const float angle = static_cast<float>(position[row]) * frequency[i];
            const float c = std::cos(angle);
            const float s = std::sin(angle);
            if (splits_halves) {
                const auto at = static_cast<size_t>(row * pairs * 2 + i);
                table.cosines[at] = c;
                table.sines[at] = s;
                table.inverse_sines[at] = -s;
                continue;
            }
            const auto at = static_cast<size_t>((row * pairs + i) * 2);
            table.cosines[at] = table.cosines[at + 1] = c;
            table.sines[at] = table.inverse_sines[at + 1] = -s;
            table.sines[at + 1] = table.inverse_sines[at] = s;
        }
    });
    return table;
}

void CpuBackend::rope(const RopeArgs& args) {
    const int64_t heads = args.x.shape[1];
    const int64_t dim = args.x.shape[2];
    const int64_t rows = args.x.rows();
    const int64_t count = args.frequencies.rows() * 2;
    if (rows == 0 || count == 0) {
        return;
    }
    const RopeTable& table = rope_table(args.positions.head(rows), args.frequencies, args.splits_halves);
    const float* cosines = table.cosines.data();
    const float* sines = args.inverse ? table.inverse_sines.data() : table.sines.data();
    for_items(rows, rows * heads * count * 2, [&](int64_t row, int) {
        for (int64_t head = 0; head < heads; ++head) {
            float* turning = args.x.row<float>(row) + (head + 1) * dim - count;
            if (args.splits_halves) {
                kernels_.rotate_halves(turning, cosines + row * count, sines + row * count, count / 2, rounds());
            } else {
                kernels_.rotate(turning, cosines + row * count, sines + row * count, count, rounds());
            }
        }
    });
}

void CpuBackend::store_rows(const StoreRowsArgs& args) {
    const int64_t dim = args.cache.dim;
    const CacheFormat format = cache_format(args.cache.format);
    const bool has_groups = args.cache.format != RowFormat::kF32 && args.cache.format != RowFormat::kF16;
    DI_CHECK(!has_groups || dim % (args.cache.format == RowFormat::kNvfp4 ? 16 : 32) == 0,
             "a quantised cache row is a multiple of its group long");
    for_items(args.input.rows(), args.input.rows() * dim * 4, [&](int64_t i, int) {
        const int32_t block = args.blocks.ptr<int32_t>()[i];
        if (block >= 0) {
            const int32_t row = args.rows.ptr<int32_t>()[i];
            kernels_.encode_cache_row(format, args.input.row<float>(i), dim, args.cache.data(block, row),
                                      args.cache.scale(block, row));
        }
    });
}

void CpuBackend::fake_quantise(const FakeQuantiseArgs& args) {
    const int64_t size = args.x.row_size();
    const int64_t dim = args.x.rank == 3 ? args.x.shape[2] : size;
    if (args.format == RowFormat::kF32) {
        return;
    }
    // Groups of neighbouring heads are the same as groups of one long row.
    DI_CHECK(args.format == RowFormat::kF16 || dim % (args.format == RowFormat::kNvfp4 ? 16 : 32) == 0,
             "a quantised row is a multiple of its group long");
    for_items(args.x.rows(), args.x.rows() * size * 4, [&](int64_t row, int) {
        float* x = args.x.row<float>(row);
        kernels_.fake_quantise(cache_format(args.format), x, size, x);
    });
}

void CpuBackend::compress(const CompressArgs& args) {
    const int64_t dim = args.output.row_size();
    const int64_t ratio = args.ratio;
    for_items(args.output.rows(), args.output.rows() * ratio * dim * 12, [&](int64_t group, int thread) {
        const int32_t sequence = args.group_sequence.ptr<int32_t>()[group];
        const int32_t local_position = args.local_position.ptr<int32_t>()[sequence];
        const auto** values = scratch(thread).pointers.get<const float*>(2 * ratio);
        const float** scores = values + ratio;
        for (int64_t i = 0; i < ratio; ++i) {
            const int64_t position = args.group_position.ptr<int32_t>()[group] + i;
            values[i] = position < local_position
                            ? reinterpret_cast<const float*>(args.partial.data(args.state_slots.ptr<int32_t>()[sequence],
                                                                               position % args.partial.rows_per_block))
                            : args.value_score.row<float>(args.local_row.ptr<int32_t>()[sequence] + position - local_position);
            scores[i] = values[i] + dim;
        }
        kernels_.compress(values, scores, ratio, dim, rounds(), args.output.row<float>(group));
    });
}

void CpuBackend::engram_mix(const EngramMixArgs& args) {
    const int64_t s = args.streams.shape[1];
    const int64_t dim = args.streams.shape[2];
    DI_CHECK(args.q_weight.dtype == DType::kBF16 && args.k_weight.dtype == DType::kBF16, "Engram norm weights are bf16");
    for_items(args.streams.rows(), args.streams.row_size() * args.streams.rows() * 4, [&](int64_t row, int) {
        if (!args.is_image.empty() && args.is_image.ptr<uint8_t>()[row] != 0) {
            return;
        }
        const float* value = args.key_value.row<float>(row) + s * dim;
        for (int64_t stream = 0; stream < s; ++stream) {
            float* h = args.streams.row<float>(row) + stream * dim;
            float sums[3];
            kernels_.engram_dots(h, args.key_value.row<float>(row) + stream * dim,
                                 args.q_weight.ptr<const uint8_t>() + 2 * stream * dim,
                                 args.k_weight.ptr<const uint8_t>() + 2 * stream * dim, dim, sums);
            const auto size = static_cast<float>(dim);
            const float inverse = 1.0F / std::sqrt(sums[0] / size + args.epsilon) / std::sqrt(sums[1] / size + args.epsilon);
            const float d = sums[2] * inverse / std::sqrt(size);
            const float argument = std::copysign(std::sqrt(std::max(std::fabs(d), 1e-6F)), d);
            kernels_.add_scaled(h, value, 1.0F / (1.0F + std::exp(-argument)), dim, rounds());
        }
    });
}

void CpuBackend::sigmoid(const SigmoidArgs& args) {
    for_items(args.x.rows(), args.x.size() * 10, [&](int64_t row, int) {
        float* x = args.x.row<float>(row);
        // Apart from the kernel, which nearly always has no temperature to divide by.
        for (int64_t i = 0; args.temperature != 1.0F && i < args.x.row_size(); ++i) {
            x[i] /= args.temperature;
        }
        kernels_.sigmoid_row(x, args.x.row_size(), args.limit);
    });
}

void CpuBackend::add(const AddArgs& args) {
    for_items(args.x.rows(), args.x.size(), [&](int64_t row, int) {
        kernels_.add_scaled(args.x.row<float>(row), args.y.row<float>(row), 1.0F, args.x.row_size(), rounds());
    });
}

void CpuBackend::gated_silu(const GatedSiluArgs& args) {
    const int64_t width = args.output.row_size();
    for_items(args.output.rows(), args.output.size() * 12, [&](int64_t row, int) {
        const float* gate = args.gate_up.row<float>(row);
        kernels_.swiglu(gate, gate + width, std::numeric_limits<float>::infinity(), 1.0F, width, rounds(),
                        args.output.row<float>(row));
    });
}

void CpuBackend::gelu(const GeluArgs& args) {
    for_items(args.x.rows(), args.x.size() * 40, [&](int64_t row, int) { RefBackend::gelu({.x = args.x.slice(row, 1)}); });
}

}  // namespace di::cpu
