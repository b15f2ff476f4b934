#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "tensor/dtype.h"
#include "weights/inventory.h"

// Random bytes of the weight formats, made with integer arithmetic so that they are the same on every machine.
namespace di {

// xoshiro256++ seeded by splitmix64 (Blackman and Vigna, public domain): 8 bytes a nanosecond.
class RandomWords {
  public:
    RandomWords(uint64_t seed, uint64_t stream);
    uint64_t next();

  private:
    std::array<uint64_t, 4> state_{};
};

enum class CodeKind : uint8_t {
    kF32,
    kBF16,
    kF8E4M3,
    kFp4,       // packed, all 16 codes
    kConstant,  // one byte again and again: scales
};

// An endless run of codes of one kind. Floating-point kinds have a random sign, one of four neighbouring exponents and
// a random mantissa: no NaN, no infinity, no denormal, no huge value.
struct CodePattern {
    CodeKind kind = CodeKind::kConstant;
    int32_t parameter = 0;  // kF32, kBF16: largest exponent field; kConstant: the byte
    friend bool operator==(const CodePattern&, const CodePattern&) = default;
};

struct CodeChoice {
    CodePattern data;
    CodePattern scale;  // only for forms with a scale
};

// Codes (and the one scale of all groups) whose values have about this standard deviation, to the nearest power of two.
[[nodiscard]] CodeChoice choose_codes(const StoredForm& form, double deviation);

// The standard deviation of `tensor.initial`.
[[nodiscard]] double initial_deviation(const ExpectedTensor& tensor);

// The bytes of a pattern from its beginning, in as many calls as wanted.
class PatternSource {
  public:
    PatternSource(const CodePattern& pattern, uint64_t seed);
    // The next bytes.size() bytes, a multiple of 8.
    void fill(std::span<uint8_t> bytes);

  private:
    RandomWords random_;
    uint64_t keep_ = 0;  // bits of each random word
    uint64_t add_ = 0;   // the smallest exponent in every lane, or the constant
};

// Draws a BF16 or F32 tensor value by value, from seed and name.
void fill_vector(const ExpectedTensor& tensor, uint64_t seed, DType dtype, std::span<uint8_t> bytes);

}  // namespace di
