#include <algorithm>

#include <fmt/ranges.h>

#include "backend/backend.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/ref/ref_backend.h"

namespace di {

namespace {

using Create = Result<std::unique_ptr<Backend>> (*)(const BackendOptions&);

Result<std::unique_ptr<Backend>> create_cpu(const BackendOptions& options) { return cpu::create(options); }

Result<std::unique_ptr<Backend>> create_ref(const BackendOptions& options) { return ref::create(options); }

struct BackendEntry {
    std::string_view name;
    Create create;
};

// One line a backend. "auto" is the fastest one that every machine has.
constexpr BackendEntry kBackends[] = {
    {"auto", create_cpu},
    {"cpu", create_cpu},
    {"ref", create_ref},
};

}  // namespace

Result<std::unique_ptr<Backend>> create_backend(std::string_view name, const BackendOptions& options) {
    for (const BackendEntry& entry : kBackends) {
        if (entry.name == name) {
            return entry.create(options);
        }
    }
    return fail(ErrorCode::kInvalidArgument, "unknown backend '{}', expected one of {}", name,
                fmt::join(backend_names(), ", "));
}

std::vector<std::string> backend_names() {
    std::vector<std::string> names;
    for (const BackendEntry& entry : kBackends) {
        names.emplace_back(entry.name);
    }
    return names;
}

}  // namespace di
