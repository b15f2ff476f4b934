#include "backend/cpu/sinkhorn.h"

#include <algorithm>
#include <cstring>

// Twenty iterations of divisions for every sub-block of every token: four streams, the usual number, go as four
// vectors of four.
namespace di::cpu {

namespace {

using Four = float __attribute__((vector_size(16)));

// Divides every lane by the sum of the four vectors in it, plus epsilon.
void normalise_lanes(Four (&m)[4], float epsilon) {
    const Four floor{epsilon, epsilon, epsilon, epsilon};
    const Four sum = ((m[0] + m[1]) + m[2]) + m[3] + floor;
    for (Four& vector : m) {
        vector = vector / sum;
    }
}

void transpose(Four (&m)[4]) {
    const Four a = __builtin_shufflevector(m[0], m[1], 0, 4, 1, 5);
    const Four b = __builtin_shufflevector(m[2], m[3], 0, 4, 1, 5);
    const Four c = __builtin_shufflevector(m[0], m[1], 2, 6, 3, 7);
    const Four d = __builtin_shufflevector(m[2], m[3], 2, 6, 3, 7);
    m[0] = __builtin_shufflevector(a, b, 0, 1, 4, 5);
    m[1] = __builtin_shufflevector(a, b, 2, 3, 6, 7);
    m[2] = __builtin_shufflevector(c, d, 0, 1, 4, 5);
    m[3] = __builtin_shufflevector(c, d, 2, 3, 6, 7);
}

void iterate_four(float* c, int iterations, float epsilon) {
    Four m[4];
    std::memcpy(m, c, sizeof(m));
    normalise_lanes(m, epsilon);
    for (int iteration = 1; iteration < iterations; ++iteration) {
        transpose(m);
        normalise_lanes(m, epsilon);
        transpose(m);
        normalise_lanes(m, epsilon);
    }
    std::memcpy(c, m, sizeof(m));
}

void iterate_any(float* c, int64_t s, int iterations, float epsilon) {
    const auto normalise = [&](int64_t outer, int64_t inner) {
        for (int64_t a = 0; a < s; ++a) {
            float sum = 0.0F;
            for (int64_t b = 0; b < s; ++b) {
                sum += c[a * outer + b * inner];
            }
            for (int64_t b = 0; b < s; ++b) {
                c[a * outer + b * inner] /= sum + epsilon;
            }
        }
    };
    normalise(1, s);
    for (int iteration = 1; iteration < iterations; ++iteration) {
        normalise(s, 1);
        normalise(1, s);
    }
}

}  // namespace

void sinkhorn(const Kernels& kernels, float* c, int64_t s, int iterations, float epsilon) {
    for (int64_t i = 0; i < s; ++i) {
        float* row = c + i * s;
        const float top = *std::max_element(row, row + s);
        for (int64_t j = 0; j < s; ++j) {
            row[j] -= top;
        }
    }
    kernels.exp_row(c, s * s);
    for (int64_t i = 0; i < s; ++i) {
        float* row = c + i * s;
        float sum = 0.0F;
        for (int64_t j = 0; j < s; ++j) {
            sum += row[j];
        }
        for (int64_t j = 0; j < s; ++j) {
            row[j] = row[j] / sum + epsilon;
        }
    }
    if (s == 4) {
        iterate_four(c, iterations, epsilon);
        return;
    }
    iterate_any(c, s, iterations, epsilon);
}

}  // namespace di::cpu
