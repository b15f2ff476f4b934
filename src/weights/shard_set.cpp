#include "weights/shard_set.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>
#include <utility>

#include "weights/json_events.h"
#include "weights/limits.h"

namespace di {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::string_view kSingleName = "model.safetensors";

// Some exporters put the whole model under one attribute.
std::string_view without_model_prefix(std::string_view name) {
    constexpr std::string_view kPrefix = "model.";
    return name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name;
}

// A shard lies beside its index; a name that leads elsewhere is refused.
bool is_plain_file_name(std::string_view name) {
    return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
           name.find('\0') == std::string_view::npos;
}

// {"metadata": anything, "weight_map": {tensor: file}}
class IndexEvents : public JsonEvents {
  public:
    std::map<std::string, std::string, std::less<>> weight_map;
    bool has_weight_map = false;
    std::string error;

    bool key(std::string& name) override {
        if (depth_ == 1) {
            is_weight_map_ = name == "weight_map";
            has_weight_map = has_weight_map || is_weight_map_;
        }
        tensor_ = name;
        return true;
    }
    bool string(std::string& value) override {
        if (!is_weight_map_) {
            return true;
        }
        if (depth_ != 2) {
            return unexpected();
        }
        if (!is_plain_file_name(value)) {
            error = fmt::format("weight_map puts tensor {} into \"{}\", expected the name of a file beside the index",
                                quoted_for_message(tensor_), quoted_for_message(value));
            return false;
        }
        if (std::cmp_greater_equal(weight_map.size(), limits::kTensorCountMax)) {
            error = fmt::format("weight_map has more than {} tensors", limits::kTensorCountMax);
            return false;
        }
        weight_map.emplace(tensor_, value);
        return true;
    }
    bool integer(int64_t /*value*/) override { return !is_weight_map_ || unexpected(); }
    bool real(double /*value*/) override { return !is_weight_map_ || unexpected(); }
    bool boolean(bool /*value*/) override { return !is_weight_map_ || unexpected(); }
    bool null() override { return !is_weight_map_ || unexpected(); }
    bool start_object() override {
        ++depth_;
        return !is_weight_map_ || depth_ == 2 || unexpected();
    }
    bool end_object() override {
        --depth_;
        is_weight_map_ = is_weight_map_ && depth_ > 1;
        return true;
    }
    bool start_array() override { return !is_weight_map_ || unexpected(); }

  private:
    bool unexpected() {
        error = "weight_map is not an object of file names by tensor name";
        return false;
    }

    std::string tensor_;
    int depth_ = 0;
    bool is_weight_map_ = false;
};

Result<std::map<std::string, std::string, std::less<>>> read_index(const std::string& path) {
    DI_TRY(const std::string text, read_file(path, limits::kIndexBytesMax));
    IndexEvents events;
    if (auto status = read_json_events(text, events); !status) {
        return fail_in(path, std::move(status.error()));
    }
    if (!events.error.empty() || !events.has_weight_map) {
        return fail(ErrorCode::kInvalidFile, "{}: {}", path, events.error.empty() ? "weight_map is missing" : events.error);
    }
    return std::move(events.weight_map);
}

// The files of the directory that end in .safetensors, sorted: the same on every machine.
Result<std::vector<std::string>> list_files(const std::string& directory) {
    std::vector<std::string> paths;
    std::error_code error;
    for (fs::directory_iterator item(directory, error), end; !error && item != end; item.increment(error)) {
        if (item->path().extension() == ".safetensors") {
            paths.push_back(item->path().string());
        }
    }
    if (error) {
        return fail(ErrorCode::kNotFound, "cannot list {}: {}", directory, error.message());
    }
    std::ranges::sort(paths);
    return paths;
}

}  // namespace

Status ShardSet::add_file(const std::string& path) {
    if (std::cmp_greater_equal(files_.size(), limits::kShardCountMax)) {
        return fail(ErrorCode::kInvalidFile, "{} is one shard too many, expected at most {}", path, limits::kShardCountMax);
    }
    DI_TRY(SafetensorsFile file, SafetensorsFile::open(path));
    const auto shard = static_cast<int32_t>(files_.size());
    const auto& tensors = file.header().tensors;
    for (size_t i = 0; i < tensors.size(); ++i) {
        const std::string name(without_model_prefix(tensors[i].name));
        const auto [place, is_new] = places_.emplace(name, TensorPlace{shard, static_cast<int64_t>(i)});
        if (!is_new) {
            const int32_t first = place->second.shard;
            return fail(ErrorCode::kInvalidFile, "tensor {} occurs twice: in {} and in {}", quoted_for_message(name),
                        first == shard ? path : files_[static_cast<size_t>(first)].path(), path);
        }
        if (std::cmp_greater(places_.size(), limits::kTensorCountMax)) {
            return fail(ErrorCode::kInvalidFile, "{}: more than {} tensors in all shards", path, limits::kTensorCountMax);
        }
    }
    files_.push_back(std::move(file));
    return {};
}

Result<ShardSet> ShardSet::open(const std::string& directory) {
    std::error_code ignored;  // a directory that cannot be seen has none of the two files; listing it gives the reason
    const std::string index_path = fmt::format("{}/{}", directory, kIndexName);
    const std::string single_path = fmt::format("{}/{}", directory, kSingleName);
    ShardSet shards;
    if (!fs::exists(index_path, ignored)) {
        std::vector<std::string> paths{single_path};
        if (!fs::exists(single_path, ignored)) {
            DI_TRY(paths, list_files(directory));
        }
        if (paths.empty()) {
            return fail(ErrorCode::kNotFound, "{} has no weights, expected {}, {} or other .safetensors files", directory,
                        kIndexName, kSingleName);
        }
        for (const std::string& path : paths) {
            DI_TRY_STATUS(shards.add_file(path));
        }
        return shards;
    }

    DI_TRY(const auto weight_map, read_index(index_path));
    std::set<std::string> names;
    for (const auto& [tensor, name] : weight_map) {
        names.insert(name);
    }
    for (const std::string& name : names) {
        auto status = shards.add_file(fmt::format("{}/{}", directory, name));
        if (!status && status.error().code == ErrorCode::kNotFound) {
            return fail(ErrorCode::kNotFound, "shard {} named by {} is missing: {}", name, index_path, status.error().text);
        }
        DI_TRY_STATUS(status);
    }
    for (const auto& [tensor, name] : weight_map) {
        const auto place = shards.places_.find(without_model_prefix(tensor));
        if (place == shards.places_.end() || !shards.file(place->second).path().ends_with("/" + name)) {
            return fail(ErrorCode::kInvalidFile, "{}: tensor {} is not in {}, where the index puts it", index_path,
                        quoted_for_message(tensor), name);
        }
    }
    if (weight_map.size() < shards.places_.size()) {
        for (const auto& [name, place] : shards.places_) {
            if (!weight_map.contains(name) && !weight_map.contains("model." + name)) {
                return fail(ErrorCode::kInvalidFile, "{}: tensor {} of {} is not in the index", index_path,
                            quoted_for_message(name), shards.file(place).path());
            }
        }
    }
    return shards;
}

}  // namespace di
