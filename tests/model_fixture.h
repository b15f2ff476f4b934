#pragma once

// A model of the repository with its backend, for tests that run it.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "backend/backend.h"
#include "engine/single_sequence.h"
#include "model/model.h"
#include "safetensors_fixture.h"
#include "text/token_classes.h"
#include "text/tokenizer.h"

namespace di {

struct FixtureOptions {
    std::string backend = "ref";
    int threads = 1;
    Activations activations = Activations::kF32;
    ModelOptions model;
};

struct ModelFixture {
    ModelConfig config;
    std::unique_ptr<Checkpoint> checkpoint;
    std::unique_ptr<Backend> backend;
    std::unique_ptr<Model> model;

    // Throws (a failed test) when anything cannot be loaded.
    explicit ModelFixture(const std::string& directory, FixtureOptions options = {}) {
        config = take(load_model_config(directory));
        if (config.engram.present() && options.model.token_classes.empty()) {
            options.model.token_classes = take(token_classes(take(Tokenizer::open(directory)), config.vocab_size));
        }
        checkpoint = std::make_unique<Checkpoint>(take(Checkpoint::open(directory, config)));
        build(std::move(options));
    }
    ModelFixture(const ModelConfig& made, uint64_t seed, FixtureOptions options) : config(made) {
        checkpoint = std::make_unique<Checkpoint>(take(Checkpoint::dummy(config, seed)));
        build(std::move(options));
    }

    [[nodiscard]] std::unique_ptr<SingleSequence> sequence(int32_t context_max = 1024) const {
        return take(SingleSequence::create(*model, *backend, context_max));
    }

    template <typename T>
    static T take(Result<T> result) {
        if (!result) {
            throw std::runtime_error(result.error().text);
        }
        return std::move(*result);
    }

  private:
    void build(FixtureOptions options) {
        backend = take(create_backend(options.backend, {.threads = options.threads, .activations = options.activations}));
        if (options.model.rows_max == 0) {
            options.model.rows_max = 512;
        }
        options.model.logit_rows_max = options.model.rows_max;
        if (options.model.sequences_max == 0) {
            options.model.sequences_max = 40;
        }
        options.model.context_max = 1024;
        model = take(create_model(config, *checkpoint, *backend, options.model));
    }
};

inline nlohmann::json read_json(const std::string& path) { return nlohmann::json::parse(read_fixture(path)); }

inline int32_t arg_max(const float* row, int64_t size) { return static_cast<int32_t>(std::max_element(row, row + size) - row); }

inline float largest(const std::vector<float>& values) {
    float top = 0.0F;
    for (const float value : values) {
        if (std::isfinite(value)) {
            top = std::max(top, std::fabs(value));
        }
    }
    return top;
}

// The bound of the fixtures' README for `exact`: max|a - b| <= 1e-4 * (1 + max|b|), per array. Minus infinity must meet itself.
inline void expect_exact(const std::vector<float>& got, const std::vector<float>& want, const std::string& what) {
    ASSERT_EQ(got.size(), want.size()) << what;
    const float bound = 1e-4F * (1.0F + largest(want));
    float worst = 0.0F;
    for (size_t i = 0; i < got.size(); ++i) {
        if (got[i] == want[i]) {
            continue;
        }
        ASSERT_TRUE(std::isfinite(got[i]) && std::isfinite(want[i]))
            << what << " at " << i << ": " << got[i] << " against " << want[i];
        worst = std::max(worst, std::fabs(got[i] - want[i]));
    }
    EXPECT_LE(worst, bound) << what;
}

// Everything a probe saw, by "layers.L.name"; a later step overwrites.
struct ProbeRecord {
    std::map<std::string, std::vector<float>> values;
    std::map<std::string, std::vector<int64_t>> shapes;

    Probe probe() {
        return [this](std::string_view name, int32_t layer, const Tensor& tensor) { add(name, layer, tensor); };
    }
    void add(std::string_view name, int32_t layer, const Tensor& tensor) {
        const std::string key = "layers." + std::to_string(layer) + "." + std::string(name);
        std::vector<float>& out = values[key];
        out.clear();
        shapes[key].assign(tensor.shape.begin(), tensor.shape.begin() + tensor.rank);
        for (int64_t row = 0; row < tensor.rows(); ++row) {
            for (int64_t i = 0; i < tensor.row_size(); ++i) {
                out.push_back(element(tensor, row, i));
            }
        }
    }
    [[nodiscard]] const std::vector<float>& at(int32_t layer, const std::string& name) const {
        return values.at("layers." + std::to_string(layer) + "." + name);
    }

  private:
    static float element(const Tensor& tensor, int64_t row, int64_t i) {
        switch (tensor.dtype) {
            case DType::kF32: return tensor.row<float>(row)[i];
            case DType::kI32: return static_cast<float>(tensor.row<int32_t>(row)[i]);
            case DType::kI64: return static_cast<float>(tensor.row<int64_t>(row)[i]);
            default: throw std::runtime_error("a probe gave a type that the record does not know");
        }
    }
};

inline void expect_same_bits(const std::vector<float>& got, const std::vector<float>& want, const std::string& what) {
    ASSERT_EQ(got.size(), want.size()) << what;
    EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size() * sizeof(float)), 0) << what;
}

// Logits of all rows of `ids`, fed in pieces.
inline std::vector<float> run_in_chunks(const ModelFixture& fixture, std::span<const int32_t> ids, size_t chunk) {
    const auto sequence = fixture.sequence();
    std::vector<float> all;
    for (size_t first = 0; first < ids.size(); first += chunk) {
        const std::vector<float> part =
            sequence->forward(ids.subspan(first, std::min(chunk, ids.size() - first)), true, static_cast<int32_t>(ids.size()));
        all.insert(all.end(), part.begin(), part.end());
    }
    return all;
}

}  // namespace di
