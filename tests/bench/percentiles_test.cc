// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

#include "report.h"
#include "routing_inputs.h"

namespace permafrost::bench {
namespace {

// count, count - 1, ..., 1
std::vector<int64_t> Descending(int64_t count) {
  std::vector<int64_t> samples(static_cast<size_t>(count));
  std::iota(samples.rbegin(), samples.rend(), 1);
  return samples;
}

TEST(PercentilesTest, NoSampleGivesNone) {
  const Percentiles none = Summarize({});
  EXPECT_EQ(none.p50, std::nullopt);
  EXPECT_EQ(none.p90, std::nullopt);
  EXPECT_EQ(none.p99, std::nullopt);
}

TEST(PercentilesTest, TooFewSamplesGiveNoTail) {
  const Percentiles nine = Summarize(Descending(9));
  EXPECT_EQ(nine.p50, 5);
  EXPECT_EQ(nine.p90, std::nullopt);
  const Percentiles ten = Summarize(Descending(10));
  EXPECT_EQ(ten.p50, 5);
  EXPECT_EQ(ten.p90, 9);
  EXPECT_EQ(ten.p99, std::nullopt);
  EXPECT_EQ(Summarize(Descending(99)).p99, std::nullopt);
}

TEST(PercentilesTest, AreNearestRanksOfTheSortedSamples) {
  const Percentiles hundred = Summarize(Descending(100));
  EXPECT_EQ(hundred.p50, 50);
  EXPECT_EQ(hundred.p90, 90);
  EXPECT_EQ(hundred.p99, 99);
  EXPECT_EQ(Summarize({7}).p50, 7);
}

// The experts that take part, by the two largest logits of each row.
int RoutedRows(const HostInput& input, int64_t rows, int64_t experts) {
  int routed = 0;
  for (int64_t row = 0; row < rows; ++row) {
    bool is_routed = false;
    for (int64_t e = 0; e < experts; ++e) {
      is_routed |= input.logits[0][static_cast<size_t>(row * experts + e)] > 2;
    }
    routed += is_routed ? 1 : 0;
  }
  return routed;
}

TEST(RoutingInputsTest, LaterInputsRouteFewerRows) {
  const InputDimensions dimensions = {.layers = 1,
                                      .max_rows = 8,
                                      .hidden = 16,
                                      .experts = 8,
                                      .experts_per_token = 2};
  const auto routed = [&](Routing routing) {
    return RoutedRows(MakeInput(dimensions, routing, 8, 1), 8, 8);
  };
  EXPECT_EQ(routed(Routing::kBalanced), 8);
  EXPECT_EQ(routed(Routing::kSkewed), 8);
  EXPECT_EQ(routed(Routing::kShrinking), 4);
  EXPECT_EQ(routed(Routing::kEmpty), 0);
}

TEST(RoutingInputsTest, AreAFunctionOfTheSeed) {
  const InputDimensions dimensions = {.layers = 1,
                                      .max_rows = 2,
                                      .hidden = 16,
                                      .experts = 8,
                                      .experts_per_token = 2};
  const auto hidden = [&](uint64_t seed) {
    return MakeInput(dimensions, Routing::kBalanced, 2, seed).hidden;
  };
  EXPECT_EQ(hidden(1), hidden(1));
  EXPECT_NE(hidden(1), hidden(2));
}

}  // namespace
}  // namespace permafrost::bench
