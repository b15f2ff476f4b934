#include <algorithm>
#include <charconv>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "apps/bench.h"
#include "apps/bench_load.h"
#include "apps/engine_setup.h"

namespace di {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kDefaultConcurrency = "1,4,16";
// A step has no more sequences.
constexpr int32_t kConcurrencyMax = 1 << 16;
// Every point takes seconds to minutes.
constexpr size_t kPointsMax = 64;
// So that most of a point runs with all of its requests in flight, and one request alone still gives a median.
constexpr int64_t kRequestsPerSlot = 4;
constexpr int64_t kRequestsMin = 16;

Result<std::vector<int32_t>> parse_concurrency(std::string_view text) {
    std::vector<int32_t> values;
    for (size_t begin = 0; begin <= text.size();) {
        const size_t end = std::min(text.find(',', begin), text.size());
        const std::string_view item = text.substr(begin, end - begin);
        int32_t value = 0;
        const auto [stop, error] = std::from_chars(item.data(), item.data() + item.size(), value);
        if (error != std::errc() || stop != item.data() + item.size() || value < 1 || value > kConcurrencyMax) {
            return fail(ErrorCode::kInvalidArgument, "--concurrency: \"{}\", expected integers from 1 to {} such as 1,4,16",
                        item, kConcurrencyMax);
        }
        values.push_back(value);
        begin = end + 1;
    }
    if (values.size() > kPointsMax) {
        return fail(ErrorCode::kInvalidArgument, "--concurrency: {} values, expected at most {}", values.size(), kPointsMax);
    }
    return values;
}

int64_t requests_of_point(const Options& options, int32_t concurrency) {
    return options.prompts_count.value_or(std::max(kRequestsMin, kRequestsPerSlot * concurrency));
}

Json point_json(int32_t concurrency, const LoadFigures& figures) {
    Json object = {{"concurrency", concurrency}};
    object.update(figures_json(figures));
    const double scale = figures.all_accepted_ratio();
    object["all_drafts_accepted"] = {
        {"meaning", "not measured: every verified draft counted as accepted, at the same step times"},
        {"output_tokens_per_s", figures.output_tokens_per_s() * scale},
        {"tokens_per_s_per_user", figures.tokens_per_s_per_user() * scale}};
    return object;
}

void print_head(const BenchLoad& load) {
    fmt::print("model {} on {}; measured, beside it in brackets as if every verified draft had been accepted\n", load.model,
               load.loaded->backend->name());
    fmt::print("{:>11} {:>21} {:>21} {:>18} {:>16} {:>9}  {}\n", "concurrency", "tokens/s", "tokens/s a user",
               "first ms p50 p99", "next ms p50 p99", "accepted", "by position");
}

void print_point(int32_t concurrency, const LoadFigures& figures) {
    const double scale = figures.all_accepted_ratio();
    const auto beside = [&](double value) { return fmt::format("{:.1f} ({:.1f})", value, value * scale); };
    const auto pair = [](const std::vector<double>& values) {
        return fmt::format("{:.2f} {:.2f}", percentile(values, 0.5), percentile(values, 0.99));
    };
    fmt::print("{:>11} {:>21} {:>21} {:>18} {:>16} {:>9.2f}  {}\n", concurrency, beside(figures.output_tokens_per_s()),
               beside(figures.tokens_per_s_per_user()), pair(figures.first_token_ms), pair(figures.inter_token_ms),
               figures.mean_accepted_length(), acceptance_text(figures));
    std::fflush(stdout);
}

// What is to be run; usage errors of flags that do not go together.
Result<std::vector<int32_t>> points_of(const Options& options) {
    DI_TRY(std::vector<int32_t> concurrencies,
           parse_concurrency(options.concurrency ? std::string_view(*options.concurrency) : kDefaultConcurrency));
    const int32_t most = *std::max_element(concurrencies.begin(), concurrencies.end());
    if (options.max_num_seqs && *options.max_num_seqs < most) {
        return fail(ErrorCode::kInvalidArgument, "--concurrency {} with --max-num-seqs {}, expected steps of as many sequences",
                    most, *options.max_num_seqs);
    }
    return concurrencies;
}

// Prints each point as it is there, or collects it for JSON.
Result<Json> run_points(const Options& options, const BenchLoad& load, const std::vector<int32_t>& concurrencies) {
    SystemClock clock;
    Json points = Json::array();
    for (size_t i = 0; i < concurrencies.size(); ++i) {
        const int32_t concurrency = concurrencies[i];
        // The smaller points have the first requests of the largest.
        const int64_t count = requests_of_point(options, concurrency);
        const std::vector<TokenRequest> requests(load.requests.begin(), load.requests.begin() + count);
        DI_TRY_STATUS(warm_up(*load.loaded->engine, requests, concurrency, fmt::format("warm up {}", i), clock));
        DI_TRY(const LoadFigures figures,
               run_load(*load.loaded->engine, requests, concurrency, fmt::format("point {}", i), clock));
        if (options.json) {
            points.push_back(point_json(concurrency, figures));
        } else {
            print_point(concurrency, figures);
        }
    }
    return points;
}

Result<BenchLoad> open_load(const Options& options, const std::vector<int32_t>& concurrencies) {
    const int32_t most = *std::max_element(concurrencies.begin(), concurrencies.end());
    return open_bench_load(options, {.request_count = requests_of_point(options, most), .sequences = most});
}

}  // namespace

int bench_sweep(const Options& options) {
    const Result<std::vector<int32_t>> concurrencies = points_of(options);
    const Result<BenchLoad> load =
        concurrencies.and_then([&](const std::vector<int32_t>& values) { return open_load(options, values); });
    if (!load) {
        print_error(load.error());
        return exit_code_of(load.error());
    }
    if (!options.json) {
        print_head(*load);
    }
    Result<Json> points = run_points(options, *load, *concurrencies);
    if (!points) {
        print_error(points.error());
        return kExitRequestFailed;
    }
    if (options.json) {
        Json object = load_json("sweep", *load);
        object["points"] = std::move(*points);
        fmt::print("{}\n", object.dump(2, ' ', false, Json::error_handler_t::replace));
    }
    return kExitOk;
}

}  // namespace di
