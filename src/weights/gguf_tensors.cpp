#include "weights/gguf_tensors.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/ranges.h>

#include "weights/json_events.h"

namespace di {

namespace {

struct Renaming {
    std::string_view ours;
    std::string_view theirs;
};

constexpr std::array kModelNames{
    Renaming{"embed_tokens.weight", "token_embd.weight"},
    Renaming{"lm_head.weight", "output.weight"},
    Renaming{"norm.weight", "output_norm.weight"},
};

// Behind "layers.N." and "blk.N.", without ".weight" or ".bias".
constexpr std::array kLayerNames{
    Renaming{"input_layernorm", "attn_norm"},    Renaming{"self_attn.q_proj", "attn_q"},
    Renaming{"self_attn.k_proj", "attn_k"},      Renaming{"self_attn.v_proj", "attn_v"},
    Renaming{"self_attn.o_proj", "attn_output"}, Renaming{"self_attn.q_norm", "attn_q_norm"},
    Renaming{"self_attn.k_norm", "attn_k_norm"}, Renaming{"post_attention_layernorm", "ffn_norm"},
    Renaming{"mlp.gate_proj", "ffn_gate"},       Renaming{"mlp.up_proj", "ffn_up"},
    Renaming{"mlp.down_proj", "ffn_down"},       Renaming{"mlp.gate", "ffn_gate_inp"},
};

// Of "mlp.experts.E.": one tensor holds those of all experts.
constexpr std::array kExpertNames{
    Renaming{"gate_proj", "ffn_gate_exps"},
    Renaming{"up_proj", "ffn_up_exps"},
    Renaming{"down_proj", "ffn_down_exps"},
};
constexpr std::string_view kExpertPrefix = "mlp.experts.";

// Tensors that files have beside the model's own: the config has read the first.
constexpr std::array<std::string_view, 1> kOtherNames{"rope_freqs.weight"};

template <size_t kCount>
std::string_view renamed(const std::array<Renaming, kCount>& names, std::string_view ours) {
    const auto* found = std::ranges::find(names, ours, &Renaming::ours);
    return found == names.end() ? std::string_view() : found->theirs;
}

// Where the file keeps a tensor of the inventory.
struct FilePlace {
    std::string name;     // "" for a tensor that GGUF has no name for
    int64_t expert = -1;  // which part of it; -1: the whole
};

// Takes "12" from the front of "12.rest", which becomes "rest".
int64_t take_number(std::string_view& text) {
    const size_t dot = text.find('.');
    int64_t number = 0;
    for (const char c : text.substr(0, dot)) {
        number = number * 10 + (c - '0');
    }
    text.remove_prefix(dot + 1);
    return number;
}

FilePlace place_of(std::string_view name) {
    if (!name.starts_with("layers.")) {
        return {.name = std::string(renamed(kModelNames, name))};
    }
    std::string_view rest = name.substr(std::string_view("layers.").size());
    const int64_t layer = take_number(rest);
    const size_t ending = rest.rfind('.');
    const std::string_view suffix = rest.substr(ending);
    std::string_view body = rest.substr(0, ending);
    FilePlace place;
    std::string_view theirs;
    if (body.starts_with(kExpertPrefix)) {
        body.remove_prefix(kExpertPrefix.size());
        place.expert = take_number(body);
        theirs = renamed(kExpertNames, body);
    } else {
        theirs = renamed(kLayerNames, body);
    }
    place.name = theirs.empty() ? "" : fmt::format("blk.{}.{}{}", layer, theirs, suffix);
    return place;
}

std::string shown_shape(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

class Matcher {
  public:
    explicit Matcher(const GgufFile& file) : file_(file) {
        for (const GgufTensor& tensor : file.header().tensors) {
            tensors_.emplace(tensor.name, &tensor);
        }
    }

    Result<GgufPart> match(const ExpectedTensor& expected) {
        const FilePlace place = place_of(expected.name);
        const auto found = tensors_.find(place.name);
        if (found == tensors_.end()) {
            return fail(ErrorCode::kNotFound, "tensor {} is missing, expected {} of {}",
                        place.name.empty() ? expected.name : place.name, shown_shape(expected.shape()),
                        accepted_dtypes(expected.storage));
        }
        const GgufTensor& tensor = *found->second;
        used_.insert(tensor.name);
        if (!form_for_dtype(expected, tensor.dtype)) {
            return fail(ErrorCode::kInvalidFile, "tensor {} is {}, expected {}", tensor.name, dtype_name(tensor.dtype),
                        accepted_dtypes(expected.storage));
        }
        std::vector<int64_t> shape = expected.shape();
        int64_t part = 0;
        if (place.expert >= 0) {
            part = place.expert;
            // As many experts as there are: too few would be read beyond the tensor, too many never used.
            shape.insert(shape.begin(), tensor.shape.size() == shape.size() + 1 ? tensor.shape.front() : part + 1);
            experts_[tensor.name] = std::max(experts_[tensor.name], part + 1);
        }
        if (tensor.shape != shape || (place.expert >= 0 && part >= tensor.shape.front())) {
            return fail(ErrorCode::kInvalidFile, "tensor {} has shape {}, expected {}", tensor.name, shown_shape(tensor.shape),
                        shown_shape(shape));
        }
        const int64_t bytes = place.expert >= 0 ? tensor.bytes / tensor.shape.front() : tensor.bytes;
        return GgufPart{.dtype = tensor.dtype, .data = file_.data(tensor) + part * bytes, .bytes = bytes};
    }

    // Every tensor of the file belongs to the model, with all of its experts.
    [[nodiscard]] Status check_all_used() const {
        for (const GgufTensor& tensor : file_.header().tensors) {
            const auto experts = experts_.find(tensor.name);
            if (experts != experts_.end() && experts->second != tensor.shape.front()) {
                return fail(ErrorCode::kInvalidFile, "tensor {} has {} experts, expected {}", tensor.name, tensor.shape.front(),
                            experts->second);
            }
            if (!used_.contains(tensor.name) && std::ranges::find(kOtherNames, tensor.name) == kOtherNames.end()) {
                return fail(ErrorCode::kInvalidFile, "tensor {} is not one of this model's", quoted_for_message(tensor.name));
            }
        }
        return {};
    }

  private:
    const GgufFile& file_;
    std::map<std::string_view, const GgufTensor*> tensors_;
    std::set<std::string_view> used_;
    std::map<std::string_view, int64_t> experts_;  // how many parts were asked for
};

}  // namespace

Result<std::vector<GgufPart>> match_gguf_tensors(const GgufFile& file, const std::vector<ExpectedTensor>& expected) {
    Matcher matcher(file);
    std::vector<GgufPart> parts;
    parts.reserve(expected.size());
    for (const ExpectedTensor& tensor : expected) {
        auto part = matcher.match(tensor);
        if (!part) {
            return fail_in(file.path(), std::move(part.error()));
        }
        parts.push_back(*part);
    }
    if (auto status = matcher.check_all_used(); !status) {
        return fail_in(file.path(), std::move(status.error()));
    }
    return parts;
}

}  // namespace di
