#pragma once

#include <cstdint>

#include "text/json_text.h"

namespace di {

// Kinds of JSON values that a schema lets through, as a set. Integers are numbers: both bits stand for any number.
enum JsonTypeBit : uint32_t {
    kTypeString = 1,
    kTypeInteger = 2,
    kTypeNumber = 4,
    kTypeBoolean = 8,
    kTypeNull = 16,
    kTypeArray = 32,
    kTypeObject = 64,
};
inline constexpr uint32_t kTypesAll = 127;

// Never fails: what is not understood restricts nothing. `root` is what references point into. 0: nothing fits.
[[nodiscard]] uint32_t declared_types(const JsonValue& root, const JsonValue& schema);

}  // namespace di
