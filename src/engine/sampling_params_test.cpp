#include <limits>
#include <string>

#include <gtest/gtest.h>

#include "engine/engine.h"
#include "engine/limits.h"

namespace di {
namespace {

std::string error_of(const SamplingParams& params) {
    const Status status = validate(params, 100);
    return status ? "" : status.error().text;
}

TEST(SamplingParams, DefaultsAndEdgesAreValid) {
    EXPECT_EQ(error_of({}), "");
    SamplingParams params;
    params.temperature = 0.0;
    params.top_p = 1e-9;
    params.top_k = 0;
    params.max_tokens = 0;
    params.stop_token_ids = {0, 99};
    params.golden_token_ids = {-1, 0, 99};
    EXPECT_EQ(error_of(params), "");
    params.top_k = 1000000;
    params.temperature = 1e300;
    params.max_tokens = params.min_tokens = std::numeric_limits<int32_t>::max();
    EXPECT_EQ(error_of(params), "");
}

TEST(SamplingParams, ErrorsNameFieldValueAndRange) {
    SamplingParams params;
    params.temperature = -0.1;
    EXPECT_EQ(error_of(params), "temperature is -0.1, expected a finite number >= 0");
    params.temperature = std::numeric_limits<double>::infinity();
    EXPECT_EQ(error_of(params), "temperature is inf, expected a finite number >= 0");
    params = {};
    for (const double top_p : {0.0, -1.0, 1.0001, std::numeric_limits<double>::quiet_NaN()}) {
        params.top_p = top_p;
        EXPECT_NE(error_of(params).find("expected more than 0 and at most 1"), std::string::npos) << top_p;
    }
    params = {};
    params.top_k = -2;
    EXPECT_EQ(error_of(params), "top_k is -2, expected -1 or 0 (off) or >= 1");
    params = {};
    params.max_tokens = -1;
    EXPECT_EQ(error_of(params), "max_tokens is -1, expected >= 0");
    params = {};
    params.min_tokens = 17;
    EXPECT_EQ(error_of(params), "min_tokens is 17, expected 0 .. max_tokens (16)");
    params = {};
    params.stop_token_ids = {5, 100};
    EXPECT_EQ(error_of(params), "stop_token_ids[1] is 100, expected 0 .. 99");
    params = {};
    params.golden_token_ids = {-2};
    EXPECT_EQ(error_of(params), "golden_token_ids[0] is -2, expected -1 .. 99");
    params = {};
    params.stop_token_ids.assign(static_cast<size_t>(kStopTokenIdsMax) + 1, 3);
    EXPECT_EQ(error_of(params), "stop_token_ids has 1025 entries, expected at most 1024");
}

TEST(FinishReason, HasTheNamesOfTheInterface) {
    EXPECT_EQ(finish_reason_name(FinishReason::kStop), "stop");
    EXPECT_EQ(finish_reason_name(FinishReason::kLength), "length");
    EXPECT_EQ(finish_reason_name(FinishReason::kAbort), "abort");
    EXPECT_EQ(finish_reason_name(FinishReason::kError), "error");
    EXPECT_EQ(finish_reason_name(FinishReason::kNone), "");
}

}  // namespace
}  // namespace di
