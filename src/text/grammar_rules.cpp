#include "text/grammar_rules.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "text/limits.h"
#include "text/unicode.h"

namespace di {
namespace {

using Kind = GrammarNode::Kind;

// Beyond every limit; sums and products stop here.
constexpr int64_t kHuge = int64_t{1} << 50;

int64_t add(int64_t a, int64_t b) { return std::min(kHuge, a + b); }
int64_t multiply(int64_t a, int64_t b) { return a != 0 && b > kHuge / a ? kHuge : a * b; }

int64_t character_count(std::string_view text) {
    return std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

// How large the node is when every repetition is written out: what compiling costs grows with it. A repeated class costs
// the same whatever the count is, because the machine counts it.
int64_t weight(const GrammarNode& node) {
    switch (node.kind) {
        case Kind::kText: return static_cast<int64_t>(node.text.size());
        case Kind::kClass:
        case Kind::kRule: return 1;
        case Kind::kSequence:
        case Kind::kChoice: {
            int64_t sum = 1;
            for (const GrammarNode& item : node.items) {
                sum = add(sum, weight(item));
            }
            return sum;
        }
        case Kind::kRepeat:
            if (node.items[0].kind == Kind::kClass) {
                return 2;
            }
            return multiply(weight(node.items[0]), std::max<int64_t>({1, node.least, node.most}));
        case Kind::kPattern: return weight(node.items[0]);
        case Kind::kFreeText: {
            int64_t sum = 1;
            for (const std::string& text : node.excludes) {
                sum = add(sum, static_cast<int64_t>(text.size()));
            }
            for (const GrammarNode& item : node.items) {
                sum = add(sum, weight(item));
            }
            return sum;
        }
    }
    return 0;
}

class Finisher {
  public:
    explicit Finisher(GrammarRules& grammar) : grammar_(grammar), can_end_(grammar.rules.size(), false) {}

    Status run() {
        find_ends();
        if (!can_end_[0]) {
            return fail(ErrorCode::kInvalidArgument,
                        "no text fits the whole of it, expected at least one that comes to an end");
        }
        int64_t total = 0;
        for (GrammarRules::Rule& rule : grammar_.rules) {
            prune(rule.body);
            total = add(total, weight(rule.body));
            if (!is_text(rule.body)) {
                return fail(ErrorCode::kInvalidArgument, "a NUL character in a text, or an empty excluded text, expected none");
            }
        }
        if (total > kGrammarWeightMax) {
            return fail(ErrorCode::kInvalidArgument,
                        "too large: {}{} characters and alternatives with every repetition written out, expected at most {}",
                        total == kHuge ? "more than " : "", total, kGrammarWeightMax);
        }
        inline_rules();
        return {};
    }

  private:
    bool can_end(const GrammarNode& node) const {
        switch (node.kind) {
            case Kind::kText: return true;
            case Kind::kClass: return !node.characters.is_empty();
            case Kind::kRule: return can_end_[static_cast<size_t>(node.rule)];
            case Kind::kSequence:
                return std::all_of(node.items.begin(), node.items.end(), [this](const auto& item) { return can_end(item); });
            case Kind::kChoice:
                return std::any_of(node.items.begin(), node.items.end(), [this](const auto& item) { return can_end(item); });
            case Kind::kRepeat: return node.least == 0 || can_end(node.items[0]);
            case Kind::kPattern: return can_end(node.items[0]);
            case Kind::kFreeText: return true;
        }
        return false;
    }

    // Which rules have a text at all: the smallest solution, grown until nothing changes.
    void find_ends() {
        for (bool is_changed = true; is_changed;) {
            is_changed = false;
            // Backwards: rules tend to stand before what they refer to.
            for (size_t i = grammar_.rules.size(); i-- > 0;) {
                if (!can_end_[i] && can_end(grammar_.rules[i].body)) {
                    can_end_[i] = true;
                    is_changed = true;
                }
            }
        }
    }

    void prune(GrammarNode& node) const {
        if (node.kind == Kind::kRepeat && !can_end(node.items[0])) {
            node = can_end(node) ? sequence_node({}) : choice_node({});
            return;
        }
        if (node.kind == Kind::kChoice || node.kind == Kind::kFreeText) {
            std::erase_if(node.items, [this](const GrammarNode& item) { return !can_end(item); });
        }
        for (GrammarNode& item : node.items) {
            prune(item);
        }
    }

    static bool is_text(const GrammarNode& node) {
        const bool excludes_text = std::all_of(node.excludes.begin(), node.excludes.end(), [](const std::string& text) {
            return !text.empty() && text.find('\0') == std::string::npos;
        });
        return excludes_text && node.text.find('\0') == std::string::npos &&
               std::all_of(node.items.begin(), node.items.end(), [](const auto& item) { return is_text(item); });
    }

    struct Visit {
        size_t rule = 0;
        int64_t chain = 0;  // rules from the root
    };

    static void references(const GrammarNode& node, std::vector<size_t>& found) {
        if (node.kind == Kind::kRule) {
            found.push_back(static_cast<size_t>(node.rule));
        }
        if (node.kind == Kind::kFreeText) {
            // Its rules have to stay rules: once more for each.
            for (const GrammarNode& item : node.items) {
                references(item, found);
            }
        }
        for (const GrammarNode& item : node.items) {
            references(item, found);
        }
    }

    // References from what the root reaches. Every sixteenth rule of a chain gets one more and so stays a rule: nothing
    // nests without a bound.
    std::vector<int64_t> count_references() const {
        std::vector<int64_t> counts(grammar_.rules.size(), 0);
        counts[0] = 2;
        std::vector<Visit> pending = {{.rule = 0, .chain = 0}};
        while (!pending.empty()) {
            const Visit visit = pending.back();
            pending.pop_back();
            std::vector<size_t> found;
            references(grammar_.rules[visit.rule].body, found);
            for (const size_t rule : found) {
                if (counts[rule]++ == 0) {
                    counts[rule] += visit.chain % 16 == 15 ? 1 : 0;
                    pending.push_back({.rule = rule, .chain = visit.chain + 1});
                }
            }
        }
        return counts;
    }

    // The machine knows what follows a piece only inside a rule, and is far faster where it does. A reachable rule with
    // one reference cannot be part of a cycle.
    void inline_rules() {
        const std::vector<int64_t> counts = count_references();
        std::vector<int32_t> numbers(grammar_.rules.size(), -1);
        std::vector<GrammarRules::Rule> kept;
        for (size_t i = 0; i < grammar_.rules.size(); ++i) {
            if (counts[i] >= 2) {
                numbers[i] = static_cast<int32_t>(kept.size());
                kept.push_back(grammar_.rules[i]);
            }
        }
        for (GrammarRules::Rule& rule : kept) {
            resolve(rule.body, numbers);
        }
        grammar_.rules = std::move(kept);
    }

    void resolve(GrammarNode& node, const std::vector<int32_t>& numbers) const {
        if (node.kind == Kind::kRule) {
            const auto old = static_cast<size_t>(node.rule);
            if (numbers[old] >= 0) {
                node.rule = numbers[old];
                return;
            }
            node = grammar_.rules[old].body;
            resolve(node, numbers);
            return;
        }
        for (GrammarNode& item : node.items) {
            resolve(item, numbers);
        }
    }

    GrammarRules& grammar_;
    std::vector<bool> can_end_;
};

}  // namespace

GrammarNode text_node(std::string text) { return {.kind = Kind::kText, .text = std::move(text)}; }
GrammarNode class_node(CharacterClass characters) { return {.kind = Kind::kClass, .characters = std::move(characters)}; }
GrammarNode rule_node(int32_t rule) { return {.kind = Kind::kRule, .rule = rule}; }

GrammarNode sequence_node(std::vector<GrammarNode> items) {
    return items.size() == 1 ? std::move(items[0]) : GrammarNode{.kind = Kind::kSequence, .items = std::move(items)};
}

GrammarNode choice_node(std::vector<GrammarNode> items) {
    return items.size() == 1 ? std::move(items[0]) : GrammarNode{.kind = Kind::kChoice, .items = std::move(items)};
}

GrammarNode repeat_node(GrammarNode item, int64_t least, int64_t most) {
    GrammarNode node{.kind = Kind::kRepeat, .least = least, .most = most};
    node.items.push_back(std::move(item));
    return node;
}

GrammarNode optional_node(GrammarNode item) { return repeat_node(std::move(item), 0, 1); }

int32_t append_rules(GrammarRules& grammar, GrammarRules part) {
    const auto first = static_cast<int32_t>(grammar.rules.size());
    for (GrammarRules::Rule& rule : part.rules) {
        shift_rules(rule.body, first);
        grammar.rules.push_back(std::move(rule));
    }
    return first;
}

void shift_rules(GrammarNode& node, int32_t by) {
    node.rule += node.kind == Kind::kRule ? by : 0;
    for (GrammarNode& item : node.items) {
        shift_rules(item, by);
    }
}

int64_t characters_max(const GrammarNode& node) {
    switch (node.kind) {
        case Kind::kText: return character_count(node.text);
        case Kind::kClass: return 1;
        case Kind::kRule: return -1;
        case Kind::kSequence:
        case Kind::kChoice: {
            int64_t result = 0;
            for (const GrammarNode& item : node.items) {
                const int64_t part = characters_max(item);
                if (part < 0) {
                    return -1;
                }
                result = node.kind == Kind::kSequence ? add(result, part) : std::max(result, part);
            }
            return result;
        }
        case Kind::kRepeat: {
            const int64_t part = characters_max(node.items[0]);
            if (part == 0) {
                return 0;
            }
            return part < 0 || node.most < 0 ? -1 : multiply(part, node.most);
        }
        case Kind::kPattern: return characters_max(node.items[0]);
        case Kind::kFreeText: return -1;
    }
    return -1;
}

int64_t characters_min(const GrammarNode& node) {
    switch (node.kind) {
        case Kind::kText: return character_count(node.text);
        case Kind::kClass: return 1;
        case Kind::kRule: return 0;
        case Kind::kSequence: {
            int64_t sum = 0;
            for (const GrammarNode& item : node.items) {
                sum = add(sum, characters_min(item));
            }
            return sum;
        }
        case Kind::kChoice: {
            int64_t least = node.items.empty() ? 0 : kHuge;
            for (const GrammarNode& item : node.items) {
                least = std::min(least, characters_min(item));
            }
            return least;
        }
        case Kind::kRepeat: return multiply(characters_min(node.items[0]), node.least);
        case Kind::kPattern: return characters_min(node.items[0]);
        case Kind::kFreeText: return 0;
    }
    return 0;
}

Status finish_grammar(GrammarRules& grammar) {
    DI_CHECK(!grammar.rules.empty(), "a grammar has a root");
    return Finisher(grammar).run();
}

}  // namespace di
