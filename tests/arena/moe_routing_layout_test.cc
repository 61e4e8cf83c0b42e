// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/moe_routing_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "support/status_matchers.h"

namespace permafrost {
namespace {

using ::permafrost::testing::StatusIs;
using ::testing::HasSubstr;

ModelConfig Moe(int64_t experts, int64_t top_k) {
  ModelConfig config;
  config.source = "test";
  config.hidden_size = 64;
  config.moe_intermediate_size = 64;
  config.num_experts = experts;
  config.experts_per_token = top_k;
  return config;
}

TEST(MoeRoutingLayoutTest, PlacesEachTableBehindTheOneBefore) {
  ASSERT_OK_AND_ASSIGN(const MoeRoutingLayout layout,
                       MoeRoutingLayout::ForRows(Moe(128, 8), 4));
  // 32 pairs take 128 bytes, 129 expert offsets take 516.
  EXPECT_EQ(layout.topk_ids, 0);
  EXPECT_EQ(layout.topk_weights, 256);
  EXPECT_EQ(layout.offsets, 512);
  EXPECT_EQ(layout.sorted, 512 + 768);
  EXPECT_EQ(layout.inverse, 512 + 768 + 256);
  EXPECT_EQ(layout.bytes, 512 + 768 + 512);
  EXPECT_EQ(layout.rows, 4);
}

TEST(MoeRoutingLayoutTest, TablesAreAlignedDisjointAndGrowWithRows) {
  for (const ModelConfig& config : {Moe(1, 1), Moe(8, 2), Moe(512, 10)}) {
    int64_t before = 0;
    for (int64_t rows = 0; rows < 300; ++rows) {
      ASSERT_OK_AND_ASSIGN(const MoeRoutingLayout layout,
                           MoeRoutingLayout::ForRows(config, rows));
      const int64_t pair_bytes = rows * config.experts_per_token * 4;
      ASSERT_GE(layout.topk_weights - layout.topk_ids, pair_bytes);
      ASSERT_GE(layout.offsets - layout.topk_weights, pair_bytes);
      ASSERT_GE(layout.sorted - layout.offsets, (config.num_experts + 1) * 4);
      ASSERT_GE(layout.inverse - layout.sorted, pair_bytes);
      ASSERT_GE(layout.bytes - layout.inverse, pair_bytes);
      for (int64_t offset : {layout.topk_weights, layout.offsets, layout.sorted,
                             layout.inverse, layout.bytes}) {
        ASSERT_EQ(offset % 256, 0);
      }
      ASSERT_GE(layout.bytes, before);
      before = layout.bytes;
    }
  }
}

TEST(MoeRoutingLayoutTest, DenseModelAndBadRowsAreRefused) {
  EXPECT_THAT(
      MoeRoutingLayout::ForRows(Moe(0, 0), 1),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("dense model")));
  EXPECT_THAT(
      MoeRoutingLayout::ForRows(Moe(8, 2), -1),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rows: got -1")));
}

TEST(MoeRoutingLayoutTest, OverflowIsAnError) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  // One table of kMax/16 * 2 * 4 bytes fits; four of them do not.
  for (int64_t rows : {kMax, kMax / 2, kMax / 8, kMax / 16}) {
    EXPECT_THAT(
        MoeRoutingLayout::ForRows(Moe(8, 2), rows),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("2^63-1")))
        << rows;
  }
  EXPECT_OK(MoeRoutingLayout::ForRows(Moe(8, 2), kMax / 64));
  EXPECT_THAT(
      MoeRoutingLayout::ForRows(Moe(kMax, 1), 1),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("2^63-1")));
}

}  // namespace
}  // namespace permafrost
