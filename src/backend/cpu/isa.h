#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backend/cpu/kernels.h"
#include "base/result.h"

namespace di::cpu {

// Names of the instruction sets that this build has and this machine runs, best first; "generic" is always last.
[[nodiscard]] std::vector<std::string> available_isas();

// The kernels of an instruction set of available_isas(); "" = what DEEPINFER_CPU_ISA says, else the best. A name
// that is unknown or that this machine lacks is an error.
[[nodiscard]] Result<const Kernels*> choose_kernels(std::string_view isa);

}  // namespace di::cpu
