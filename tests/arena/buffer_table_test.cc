// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/buffer_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "arena/embedded_json.h"
#include "permafrost/arena/moe_fp8_layout.h"
#include "permafrost/arena/moe_routing_layout.h"
#include "support/status_matchers.h"

PERMAFROST_EMBEDDED(permafrost_test_buffer_sizes)

namespace permafrost {
namespace {

using ::permafrost::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const BufferSize* Find(const std::vector<BufferSize>& sizes,
                       absl::string_view name) {
  for (const BufferSize& size : sizes) {
    if (size.name == name) return &size;
  }
  return nullptr;
}

ModelConfig Preset(absl::string_view name) {
  return LoadModelConfig(name).value();
}

TEST(BufferTableTest, EqualsTheGoldenBytesOfEveryPreset) {
  const auto golden = PERMAFROST_EMBEDDED_JSON(permafrost_test_buffer_sizes);
  const ServingLimits limits = {.max_batch_tokens =
                                    golden.at("max_batch_tokens")};
  int compared = 0;
  for (const auto& [model, buffers] : golden.at("models").items()) {
    ASSERT_OK_AND_ASSIGN(const std::vector<BufferSize> sizes,
                         ComputeBufferSizes(Preset(model), limits));
    for (const auto& [name, bytes] : buffers.items()) {
      const BufferSize* size = Find(sizes, name);
      ASSERT_NE(size, nullptr) << name;
      EXPECT_EQ(size->bytes, bytes) << model << " " << name;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 4 * 6);
}

TEST(BufferTableTest, NamesAreUniqueAndEveryRowIsExplained) {
  std::set<std::string> names;
  for (const BufferRow& row : BufferTable()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_STRNE(row.meaning, "") << row.name;
    EXPECT_STRNE(row.tag, "") << row.name;
    EXPECT_GE(row.row_padding, 1) << row.name;
    ASSERT_NE(row.bytes, nullptr) << row.name;
  }
  EXPECT_EQ(names.count("moe_fp8_scratch"), 1u);
}

TEST(BufferTableTest, PaddedBuffersHoldWholeBlocksOfRows) {
  for (const char* model : {"qwen3-30b-a3b", "deepseek-v3", "llama-3.1-8b"}) {
    const ModelConfig config = Preset(model);
    for (const BufferRow& row : BufferTable()) {
      if (row.gate != nullptr && row.gate(config, {.max_batch_tokens = 48}))
        continue;
      // A kernel that writes whole blocks of rows must find them all there, so
      // every batch of a block needs what the full block needs.
      ASSERT_OK_AND_ASSIGN(const int64_t whole,
                           row.bytes(config, {.max_batch_tokens = 48}));
      ASSERT_OK_AND_ASSIGN(const int64_t first,
                           row.bytes(config, {.max_batch_tokens = 33}));
      ASSERT_OK_AND_ASSIGN(const int64_t below,
                           row.bytes(config, {.max_batch_tokens = 32}));
      if (row.row_padding == 16) {
        EXPECT_EQ(first, whole) << row.name;
        EXPECT_LT(below, first) << row.name;
      } else {
        ASSERT_EQ(row.row_padding, 1) << row.name;
        EXPECT_LT(first, whole) << row.name;
      }
    }
  }
}

TEST(BufferTableTest, LayoutsDecideTheirBuffers) {
  const ModelConfig config = Preset("deepseek-v3");
  ASSERT_OK_AND_ASSIGN(const std::vector<BufferSize> sizes,
                       ComputeBufferSizes(config, {.max_batch_tokens = 8}));
  EXPECT_EQ(Find(sizes, "moe_fp8_scratch")->bytes,
            MoeFp8Layout::ForRows(config, 8)->bytes);
  EXPECT_EQ(Find(sizes, "moe_routing")->bytes,
            MoeRoutingLayout::ForRows(config, 8)->bytes);
}

TEST(BufferTableTest, DenseLayersOfAMixedModelWidenTheExpertBuffers) {
  // 8 experts of 2048 are narrower than the dense layers' 18432.
  ASSERT_OK_AND_ASSIGN(
      const std::vector<BufferSize> sizes,
      ComputeBufferSizes(Preset("deepseek-v3"), {.max_batch_tokens = 1}));
  EXPECT_EQ(Find(sizes, "expert_gate_out")->bytes, 16 * 18432 * 4);
}

TEST(BufferTableTest, DenseModelHasNoMoeBuffersAndSaysWhy) {
  ASSERT_OK_AND_ASSIGN(
      const std::vector<BufferSize> sizes,
      ComputeBufferSizes(Preset("llama-3.1-8b"), {.max_batch_tokens = 8}));
  ASSERT_EQ(sizes.size(), BufferTable().size());
  for (const char* name : {"moe_routing", "moe_fp8_scratch"}) {
    EXPECT_EQ(Find(sizes, name)->bytes, 0) << name;
    EXPECT_THAT(Find(sizes, name)->gate_reason, HasSubstr("experts")) << name;
  }
  for (const char* name : {"hidden_states", "expert_gate_out"}) {
    EXPECT_GT(Find(sizes, name)->bytes, 0) << name;
    EXPECT_THAT(Find(sizes, name)->gate_reason, IsEmpty()) << name;
  }
  EXPECT_EQ(Find(sizes, "expert_gate_out")->element, ElementType::kBf16);
}

TEST(BufferTableTest, ExpertRowsOfAMoeModelAreFloats) {
  ASSERT_OK_AND_ASSIGN(
      const std::vector<BufferSize> sizes,
      ComputeBufferSizes(Preset("mixtral-8x7b"), {.max_batch_tokens = 8}));
  EXPECT_EQ(Find(sizes, "expert_gate_out")->element, ElementType::kF32);
}

TEST(BufferTableTest, LimitsBelowOneRowAreRefused) {
  for (int64_t rows :
       {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::min()}) {
    EXPECT_THAT(
        ComputeBufferSizes(Preset("qwen3-30b-a3b"), {.max_batch_tokens = rows}),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 HasSubstr("max_batch_tokens")));
  }
}

TEST(BufferTableTest, OverflowNamesTheBuffer) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(
      ComputeBufferSizes(Preset("qwen3-30b-a3b"), {.max_batch_tokens = kMax}),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("'hidden_states'"), HasSubstr("2^63-1"))));
  // Every buffer by itself, so that none hides behind the first.
  for (const BufferRow& row : BufferTable()) {
    EXPECT_THAT(ComputeBufferSizes(Preset("qwen3-30b-a3b"),
                                   {.max_batch_tokens = kMax}, {&row, 1}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(row.name), HasSubstr("2^63-1"))))
        << row.name;
  }
}

TEST(BufferTableTest, NegativeFigureIsRefusedNotMultiplied) {
  ModelConfig config = Preset("qwen3-30b-a3b");
  config.hidden_size = -2048;
  EXPECT_THAT(ComputeBufferSizes(config, {.max_batch_tokens = 8}),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("'hidden_states'")));
}

TEST(BufferTableTest, AnEnginesOwnRowsAreSizedAlike) {
  std::vector<BufferRow> table(BufferTable().begin(), BufferTable().end());
  table.push_back(
      {.name = "token_ids",
       .meaning = "token ids of the step",
       .element = ElementType::kI32,
       .row_padding = 1,
       .gate = nullptr,
       .bytes = [](const ModelConfig&, const ServingLimits& limits)
           -> absl::StatusOr<int64_t> { return limits.max_batch_tokens * 4; },
       .lifetime = Lifetime::kHostWritten,
       .toucher = Toucher::kHostWritesDeviceReads,
       .tag = "io"});
  ASSERT_OK_AND_ASSIGN(const std::vector<BufferSize> sizes,
                       ComputeBufferSizes(Preset("qwen3-30b-a3b"),
                                          {.max_batch_tokens = 8}, table));
  EXPECT_EQ(Find(sizes, "token_ids")->bytes, 32);
  EXPECT_EQ(Find(sizes, "token_ids")->tag, "io");
}

TEST(BufferTableTest, ARowOfNoBytesNeedsAGate) {
  const BufferRow row = {.name = "placeholder",
                         .meaning = "nothing",
                         .element = ElementType::kI32,
                         .row_padding = 1,
                         .gate = nullptr,
                         .bytes = [](const ModelConfig&, const ServingLimits&)
                             -> absl::StatusOr<int64_t> { return 0; },
                         .lifetime = Lifetime::kPerStep,
                         .toucher = Toucher::kDevice,
                         .tag = "step"};
  EXPECT_THAT(
      ComputeBufferSizes(Preset("qwen3-30b-a3b"), {.max_batch_tokens = 8},
                         {&row, 1}),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("'placeholder'")));
}

}  // namespace
}  // namespace permafrost
