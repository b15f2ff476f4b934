#include "weights/dummy_memory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "weights/limits.h"
#include "weights/random_codes.h"

namespace di {

namespace {

// Tensors begin on a cache line, as they do for every other allocation of the engine.
constexpr int64_t kAlignment = 64;

int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

// Address space filled by repetitions of one pattern, shared by all tensors that want that pattern.
struct PatternUse {
    CodePattern pattern;
    int64_t bytes = 0;  // handed out so far
};

// Index of the pattern in `uses`, which stays in order of first use: the same for every run.
size_t use_of(std::vector<PatternUse>& uses, const CodePattern& pattern) {
    const auto found = std::ranges::find(uses, pattern, &PatternUse::pattern);
    if (found != uses.end()) {
        return static_cast<size_t>(found - uses.begin());
    }
    uses.push_back({pattern, 0});
    return uses.size() - 1;
}

int64_t take(int64_t& used, int64_t bytes) { return std::exchange(used, used + round_up(bytes, kAlignment)); }

tl::unexpected<Error> memory_failure(std::string_view action, int64_t bytes) {
    return fail(ErrorCode::kOutOfMemory, "cannot {} {} bytes for dummy weights: {}", action, bytes, std::strerror(errno));
}

// Writes the first `bytes` of the pattern in steps that stay in the cache: cheaper than faulting in a mapping page by page.
bool write_pattern(int file, const CodePattern& pattern, int64_t bytes, uint64_t seed) {
    constexpr int64_t kStepBytes = 256 * 1024;
    std::vector<uint8_t> step(static_cast<size_t>(std::min(bytes, kStepBytes)));
    PatternSource source(pattern, seed);
    for (int64_t offset = 0; offset < bytes;) {
        const std::span<uint8_t> part(step.data(), static_cast<size_t>(std::min(bytes - offset, kStepBytes)));
        source.fill(part);
        const ssize_t written = ::pwrite(file, part.data(), part.size(), offset);
        if (written != static_cast<ssize_t>(part.size())) {
            return false;  // memory files take a write whole or are out of memory
        }
        offset += written;
    }
    return true;
}

// A memory file with the first `bytes` of the pattern in it; the descriptor is the caller's.
Result<int> make_pattern_file(const CodePattern& pattern, int64_t bytes, uint64_t seed) {
    const int file = ::memfd_create("deepinfer-dummy-weights", MFD_CLOEXEC);
    if (file < 0) {
        return memory_failure("create a memory file of", bytes);
    }
    if (!write_pattern(file, pattern, bytes, seed)) {
        auto failure = memory_failure("write", bytes);
        ::close(file);
        return failure;
    }
    return file;
}

// Maps the file over [address, address + bytes) as often as it takes.
bool map_repeatedly(int file, int64_t file_bytes, uint8_t* address, int64_t bytes) {
    for (int64_t offset = 0; offset < bytes; offset += file_bytes) {
        const auto size = static_cast<size_t>(std::min(file_bytes, bytes - offset));
        if (::mmap(address + offset, size, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED) {
            return false;
        }
    }
    return true;
}

// Returns the address of the filled space of `bytes` (a multiple of the page size).
Result<uint8_t*> make_pattern_space(const CodePattern& pattern, int64_t bytes, uint64_t seed) {
    const int64_t pages_max = pattern.kind == CodeKind::kConstant ? limits::kConstantPages : limits::kPatternPages;
    const int64_t page = std::max<int64_t>(limits::kPageBytes, ::sysconf(_SC_PAGESIZE));
    const int64_t file_bytes = std::min(bytes, pages_max * page);
    DI_TRY(const int file, make_pattern_file(pattern, file_bytes, seed));
    void* space = ::mmap(nullptr, static_cast<size_t>(bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    const bool is_mapped = space != MAP_FAILED && map_repeatedly(file, file_bytes, static_cast<uint8_t*>(space), bytes);
    if (!is_mapped) {
        auto failure = memory_failure("map", bytes);
        if (space != MAP_FAILED) {
            ::munmap(space, static_cast<size_t>(bytes));
        }
        ::close(file);
        return failure;
    }
    ::close(file);  // the mappings keep it
    return static_cast<uint8_t*>(space);
}

// Where data and scale of a tensor come from, before there is any memory.
struct TensorPlan {
    bool is_vector = false;  // drawn one by one
    size_t pattern = 0;
    int64_t offset = 0;  // in the pattern's space, or among the vectors
    bool has_scale = false;
    size_t scale_pattern = 0;
    int64_t scale_offset = 0;
};

struct DummyPlan {
    std::vector<TensorPlan> tensors;
    std::vector<PatternUse> uses;
    int64_t vector_bytes = 0;
};

DummyPlan plan_dummy(const std::vector<ExpectedTensor>& tensors, StoredWeights stored) {
    DummyPlan plan;
    for (const ExpectedTensor& tensor : tensors) {
        const StoredForm form = official_form(tensor, stored);
        TensorPlan& place = plan.tensors.emplace_back();
        place.is_vector =
            tensor.initial != Initial::kLinear && tensor.initial != Initial::kUnit && tensor.initial != Initial::kThird;
        place.is_vector = place.is_vector || tensor.rank == 1;
        if (place.is_vector) {
            place.offset = take(plan.vector_bytes, form.bytes());
            continue;
        }
        const CodeChoice choice = choose_codes(form, initial_deviation(tensor));
        place.pattern = use_of(plan.uses, choice.data);
        place.offset = take(plan.uses[place.pattern].bytes, form.bytes());
        if (form.scale_layout != ScaleLayout::kNone) {
            place.has_scale = true;
            place.scale_pattern = use_of(plan.uses, choice.scale);
            place.scale_offset = take(plan.uses[place.scale_pattern].bytes, form.scale_bytes());
        }
    }
    return plan;
}

}  // namespace

Result<DummyMemory> DummyMemory::make(const std::vector<ExpectedTensor>& tensors, StoredWeights stored, uint64_t seed) {
    const DummyPlan plan = plan_dummy(tensors, stored);
    const int64_t page = std::max<int64_t>(limits::kPageBytes, ::sysconf(_SC_PAGESIZE));
    DummyMemory memory;
    std::vector<uint8_t*> spaces;
    for (const PatternUse& use : plan.uses) {
        const int64_t bytes = round_up(use.bytes, page);
        DI_TRY(uint8_t* const space, make_pattern_space(use.pattern, bytes, seed));
        memory.regions_.push_back({space, bytes});
        spaces.push_back(space);
    }
    const int64_t vector_bytes = round_up(std::max<int64_t>(plan.vector_bytes, 1), page);
    void* vectors =
        ::mmap(nullptr, static_cast<size_t>(vector_bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (vectors == MAP_FAILED) {
        return memory_failure("map", vector_bytes);
    }
    memory.regions_.push_back({vectors, vector_bytes});
    for (size_t i = 0; i < tensors.size(); ++i) {
        const TensorPlan& place = plan.tensors[i];
        Place& made = memory.places_.emplace_back();
        if (place.is_vector) {
            uint8_t* data = static_cast<uint8_t*>(vectors) + place.offset;
            const StoredForm form = official_form(tensors[i], stored);
            fill_vector(tensors[i], seed, form.dtype, {data, static_cast<size_t>(form.bytes())});
            made.data = data;
            continue;
        }
        made.data = spaces[place.pattern] + place.offset;
        made.scale = place.has_scale ? spaces[place.scale_pattern] + place.scale_offset : nullptr;
    }
    ::mprotect(vectors, static_cast<size_t>(vector_bytes), PROT_READ);  // a stray write should be seen, but need not be
    return memory;
}

DummyMemory::DummyMemory(DummyMemory&& other) noexcept
    : places_(std::move(other.places_)), regions_(std::exchange(other.regions_, {})) {}

DummyMemory& DummyMemory::operator=(DummyMemory&& other) noexcept {
    if (this != &other) {
        release();
        places_ = std::move(other.places_);
        regions_ = std::exchange(other.regions_, {});
    }
    return *this;
}

DummyMemory::~DummyMemory() { release(); }

void DummyMemory::release() {
    for (const Region& region : regions_) {
        ::munmap(region.address, static_cast<size_t>(region.bytes));
    }
    regions_.clear();
}

}  // namespace di
