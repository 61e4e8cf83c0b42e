// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/moe_fp8_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "arena/embedded_json.h"
#include "support/status_matchers.h"

PERMAFROST_EMBEDDED(permafrost_test_moe_fp8)

namespace permafrost {
namespace {

using ::permafrost::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();

ModelConfig DeepSeekV3() {
  ModelConfig config;
  config.source = "deepseek-v3";
  config.hidden_size = 7168;
  config.num_experts = 256;
  config.experts_per_token = 8;
  config.moe_intermediate_size = 2048;
  config.shared_expert_intermediate_size = 2048;
  return config;
}

ModelConfig FromGolden(const nlohmann::json& golden) {
  ModelConfig config;
  config.source = golden.at("name");
  config.hidden_size = golden.at("hidden_size");
  config.num_experts = golden.at("num_experts");
  config.experts_per_token = golden.at("num_experts_per_tok");
  config.moe_intermediate_size = golden.at("moe_intermediate_size");
  config.shared_expert_intermediate_size =
      golden.at("shared_expert_intermediate_size");
  return config;
}

std::vector<ModelConfig> GoldenMoeConfigs() {
  std::vector<ModelConfig> configs;
  const auto golden = PERMAFROST_EMBEDDED_JSON(permafrost_test_moe_fp8);
  for (const nlohmann::json& entry : golden.at("configs")) {
    const ModelConfig config = FromGolden(entry);
    if (config.is_moe()) configs.push_back(config);
  }
  return configs;
}

TEST(MoeFp8LayoutTest, EqualsTheGoldenOffsetsOfEveryModel) {
  const auto golden = PERMAFROST_EMBEDDED_JSON(permafrost_test_moe_fp8);
  int compared = 0;
  for (const nlohmann::json& entry : golden.at("configs")) {
    const ModelConfig config = FromGolden(entry);
    for (const auto& [rows_text, want] : entry.at("rows").items()) {
      SCOPED_TRACE(config.source + " rows=" + rows_text);
      const int64_t rows = std::stoll(rows_text);
      const absl::StatusOr<MoeFp8Layout> layout =
          MoeFp8Layout::ForRows(config, rows);
      if (!config.is_moe()) {
        // The original says "no slab" by zeros; here it is an error.
        EXPECT_EQ(want.at("bytes"), 0);
        EXPECT_THAT(layout, StatusIs(absl::StatusCode::kInvalidArgument));
        continue;
      }
      ASSERT_OK(layout);
      EXPECT_EQ(layout->activation, 0);
      EXPECT_EQ(layout->scale, want.at("scale"));
      EXPECT_EQ(layout->worklist, want.at("worklist"));
      EXPECT_EQ(layout->counter, want.at("counter"));
      EXPECT_EQ(layout->small_worklist, want.at("small_worklist"));
      EXPECT_EQ(layout->small_counter, want.at("small_counter"));
      EXPECT_EQ(layout->small_bytes, want.at("small_bytes"));
      EXPECT_EQ(layout->worklist_bytes, want.at("worklist_bytes"));
      EXPECT_EQ(layout->bytes, want.at("bytes"));
      EXPECT_GE(layout->capacity_tiles(), want.at("entries"));
      EXPECT_FALSE(layout->stable);
      ++compared;
    }
  }
  EXPECT_EQ(compared, 40) << "10 models with experts, 4 row counts each";
}

TEST(MoeFp8LayoutTest, RegionsAreAlignedAndDisjointForEveryRowCount) {
  for (const ModelConfig& config : GoldenMoeConfigs()) {
    for (int64_t rows = 0; rows < 300; ++rows) {
      SCOPED_TRACE(config.source + " rows=" + std::to_string(rows));
      ASSERT_OK_AND_ASSIGN(const MoeFp8Layout layout,
                           MoeFp8Layout::ForRows(config, rows));
      const int64_t pairs = rows * config.experts_per_token;
      const int64_t wide =
          std::max(config.hidden_size, config.shared_expert_intermediate_size);
      // What kernels store, said without the layout's own formulas: routed rows
      // into the down GEMM, token rows into the others.
      ASSERT_GE(layout.scale, pairs * config.moe_intermediate_size);
      ASSERT_GE(layout.scale, rows * wide);
      ASSERT_GE(layout.worklist - layout.scale,
                4 * pairs * ((config.moe_intermediate_size + 127) / 128));
      ASSERT_GE(layout.worklist - layout.scale,
                4 * rows * ((wide + 127) / 128));
      ASSERT_EQ(layout.counter - layout.worklist, layout.worklist_bytes);
      if (layout.has_small_list()) {
        ASSERT_GE(layout.small_worklist, layout.counter + 4);
        ASSERT_GE(layout.small_counter,
                  layout.small_worklist + layout.small_bytes);
        ASSERT_EQ(layout.bytes, layout.small_counter + 4);
      } else {
        ASSERT_EQ(layout.bytes, layout.counter + 4);
      }
      for (int64_t offset :
           {layout.activation, layout.scale, layout.worklist, layout.counter,
            layout.small_worklist, layout.small_counter}) {
        ASSERT_EQ(offset % 256, 0);
      }
    }
  }
}

TEST(MoeFp8LayoutTest, BytesNeverFallAsRowsGrow) {
  for (const ModelConfig& config : GoldenMoeConfigs()) {
    int64_t before = 0;
    for (int64_t rows : {0, 1, 2, 3, 7, 8, 15, 16, 17, 127, 128, 129, 1000,
                         4095, 4096, 100000}) {
      ASSERT_OK_AND_ASSIGN(const MoeFp8Layout layout,
                           MoeFp8Layout::ForRows(config, rows));
      EXPECT_GE(layout.bytes, before) << config.source << " rows=" << rows;
      before = layout.bytes;
    }
  }
}

/// Tiles that `rows_of_expert` needs for an output of `width` columns.
int64_t TilesNeeded(const std::vector<int64_t>& rows_of_expert, int64_t width) {
  int64_t row_tiles = 0;
  for (int64_t rows : rows_of_expert) row_tiles += (rows + 127) / 128;
  return row_tiles * ((width + 63) / 64);
}

TEST(MoeFp8LayoutTest, WorklistHoldsTheWorstRoutes) {
  for (const ModelConfig& config : GoldenMoeConfigs()) {
    for (int64_t rows : {1, 2, 16, 100, 128, 129, 1000}) {
      SCOPED_TRACE(config.source + " rows=" + std::to_string(rows));
      ASSERT_OK_AND_ASSIGN(const MoeFp8Layout layout,
                           MoeFp8Layout::ForRows(config, rows));
      const int64_t width =
          std::max(config.hidden_size, config.moe_intermediate_size);
      const size_t experts = static_cast<size_t>(config.num_experts);
      const int64_t pairs = rows * config.experts_per_token;

      std::vector<int64_t> all_to_one(experts, 0);
      all_to_one[0] = pairs;
      EXPECT_LE(TilesNeeded(all_to_one, width), layout.capacity_tiles());

      // The most tiles for so many pairs: one row to each expert first, then a
      // 129th to as many as the pairs reach.
      std::vector<int64_t> scattered(experts, 0);
      int64_t left = pairs;
      for (int64_t& rows_of_expert : scattered) {
        if (left == 0) break;
        rows_of_expert = 1;
        --left;
      }
      for (int64_t& rows_of_expert : scattered) {
        const int64_t more = std::min<int64_t>(left, 128);
        rows_of_expert += more;
        left -= more;
      }
      scattered.back() += left;
      EXPECT_LE(TilesNeeded(scattered, width), layout.capacity_tiles());
    }
  }
}

TEST(MoeFp8LayoutTest, SmallListHoldsOneRowTileOfEveryExpert) {
  ASSERT_OK_AND_ASSIGN(const MoeFp8Layout layout,
                       MoeFp8Layout::ForRows(DeepSeekV3(), 8));
  EXPECT_TRUE(layout.has_small_list());
  EXPECT_EQ(layout.small_capacity_tiles(), 256 * 112);
}

TEST(MoeFp8LayoutTest, SmallListExistsForExactly256Experts) {
  for (int64_t experts : {255, 256, 257}) {
    ModelConfig config = DeepSeekV3();
    config.num_experts = experts;
    ASSERT_OK_AND_ASSIGN(const MoeFp8Layout layout,
                         MoeFp8Layout::ForRows(config, 8));
    EXPECT_EQ(layout.has_small_list(), experts == 256) << experts;
    EXPECT_EQ(layout.small_capacity_tiles() > 0, experts == 256) << experts;
  }
}

TEST(MoeFp8LayoutTest, StableHasTheOffsetsOfTheLargestBatch) {
  ASSERT_OK_AND_ASSIGN(const MoeFp8Layout largest,
                       MoeFp8Layout::ForRows(DeepSeekV3(), 128));
  std::set<uint64_t> ids;
  for (int64_t rows : {0, 1, 8, 127, 128}) {
    ASSERT_OK_AND_ASSIGN(const MoeFp8Layout layout,
                         MoeFp8Layout::Stable(DeepSeekV3(), 128, rows));
    EXPECT_EQ(layout.rows, rows);
    EXPECT_EQ(layout.max_rows, 128);
    EXPECT_TRUE(layout.stable);
    EXPECT_EQ(layout.counter, largest.counter);
    EXPECT_EQ(layout.small_counter, largest.small_counter);
    EXPECT_EQ(layout.bytes, largest.bytes);
    ids.insert(layout.id());
  }
  EXPECT_EQ(ids, std::set<uint64_t>{largest.id()});
}

TEST(MoeFp8LayoutTest, IdTellsLayoutsOfDifferentRowsApart) {
  std::set<uint64_t> ids;
  for (int64_t rows : {1, 2, 4, 8, 16, 128}) {
    ASSERT_OK_AND_ASSIGN(const MoeFp8Layout layout,
                         MoeFp8Layout::ForRows(DeepSeekV3(), rows));
    ids.insert(layout.id());
  }
  EXPECT_EQ(ids.size(), 6u);
}

TEST(MoeFp8LayoutTest, CounterOfAFewRowsLiesInTheActivationsOfMany) {
  // Why graphs of different buckets must not mix layouts.
  ModelConfig config = DeepSeekV3();
  config.hidden_size = 2048;
  config.num_experts = 512;
  config.experts_per_token = 10;
  config.moe_intermediate_size = 512;
  config.shared_expert_intermediate_size = 512;
  ASSERT_OK_AND_ASSIGN(const MoeFp8Layout few,
                       MoeFp8Layout::ForRows(config, 8));
  ASSERT_OK_AND_ASSIGN(const MoeFp8Layout many,
                       MoeFp8Layout::ForRows(config, 128));
  EXPECT_LT(few.counter, many.scale);
  EXPECT_NE(few.id(), many.id());
}

TEST(MoeFp8LayoutTest, StableRefusesRowsAboveItsLimit) {
  EXPECT_THAT(MoeFp8Layout::Stable(DeepSeekV3(), 8, 9),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("got 9"), HasSubstr("max_rows=8"),
                             HasSubstr("max_batch_tokens"))));
}

TEST(MoeFp8LayoutTest, NegativeRowsAreRefused) {
  EXPECT_THAT(
      MoeFp8Layout::ForRows(DeepSeekV3(), -1),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rows: got -1")));
  EXPECT_THAT(
      MoeFp8Layout::Stable(DeepSeekV3(), 8, -1),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("rows: got -1")));
}

TEST(MoeFp8LayoutTest, MissingExpertWidthIsNeverTakenForZero) {
  ModelConfig config = DeepSeekV3();
  config.moe_intermediate_size = 0;
  EXPECT_THAT(MoeFp8Layout::ForRows(config, 128),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("moe_intermediate_size: got 0")));
}

TEST(MoeFp8LayoutTest, ContradictoryConfigIsRefused) {
  ModelConfig config = DeepSeekV3();
  config.experts_per_token = 257;
  EXPECT_THAT(MoeFp8Layout::ForRows(config, 1),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("experts_per_token: got 257"),
                             HasSubstr("num_experts=256"))));
}

TEST(MoeFp8LayoutTest, OverflowIsAnErrorInEveryFactor) {
  const auto expect_refused = [](const ModelConfig& config, int64_t rows) {
    EXPECT_THAT(
        MoeFp8Layout::ForRows(config, rows),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("2^63-1")));
  };
  expect_refused(DeepSeekV3(), kInt64Max);
  expect_refused(DeepSeekV3(), kInt64Max / 8);
  // The product alone would fit; its place behind the other regions does not.
  expect_refused(DeepSeekV3(), kInt64Max / (8 * 2048));
  ModelConfig config = DeepSeekV3();
  config.hidden_size = kInt64Max;
  expect_refused(config, 1);
  config = DeepSeekV3();
  config.moe_intermediate_size = kInt64Max;
  expect_refused(config, 1);
  config = DeepSeekV3();
  config.shared_expert_intermediate_size = kInt64Max;
  expect_refused(config, 1);
  config = DeepSeekV3();
  config.num_experts = kInt64Max;
  expect_refused(config, 1);
  config.experts_per_token = kInt64Max;
  expect_refused(config, 2);
}

TEST(MoeFp8LayoutTest, AllThatFitsIsAcceptedUpToTheLimit) {
  // The twin of the test above: the largest rows that do fit are laid out.
  int64_t low = 1;
  int64_t high = kInt64Max;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (MoeFp8Layout::ForRows(DeepSeekV3(), middle).ok() ? low : high) = middle;
  }
  ASSERT_OK_AND_ASSIGN(const MoeFp8Layout layout,
                       MoeFp8Layout::ForRows(DeepSeekV3(), low));
  EXPECT_GT(layout.bytes, kInt64Max / 2);
  EXPECT_GT(layout.counter, layout.worklist);
}

}  // namespace
}  // namespace permafrost
