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

#include "arena/golden_models.h"
#include "permafrost/arena/moe_fp8_layout.h"
#include "permafrost/arena/moe_routing_layout.h"
#include "support/status_matchers.h"

namespace permafrost {
namespace {

using ::permafrost::testing::ArenaSizesGolden;
using ::permafrost::testing::FindSize;
using ::permafrost::testing::GoldenLimits;
using ::permafrost::testing::GoldenModel;
using ::permafrost::testing::GoldenModels;
using ::permafrost::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

ModelConfig Preset(absl::string_view name) {
  return LoadModelConfig(name).value();
}

// What the decode benchmark runs on has the original's sizes under our rules
// too, from the figures that the reader takes from each preset.
TEST(BufferTableTest, EqualsTheGoldenBytesOfTheDecodeLayerOfEveryPreset) {
  const ServingLimits limits = GoldenLimits(SizeRules::kOurs);
  for (const char* model :
       {"deepseek-v3", "llama-3.1-8b", "mixtral-8x7b", "qwen3-30b-a3b"}) {
    const auto& golden = ArenaSizesGolden().at("models").at(model).at("sizes");
    ASSERT_OK_AND_ASSIGN(const std::vector<BufferSize> sizes,
                         ComputeBufferSizes(Preset(model), limits));
    for (const char* name :
         {"hidden_states", "moe_output", "expert_gate_out", "expert_up_out",
          "expert_down_out", "moe_fp8_scratch"}) {
      EXPECT_EQ(FindSize(sizes, name)->bytes, golden.at(name).get<int64_t>())
          << model << " " << name;
    }
  }
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

/// Every option on, so that no gate but the model's is closed.
ServingLimits AllOptions(int64_t rows) {
  ServingLimits limits;
  limits.max_batch_tokens = rows;
  limits.lora_rank = 16;
  limits.draft_tokens = 1;
  limits.four_bit_weights = true;
  limits.two_bit_weights = true;
  limits.rowwise_bf16_copies = true;
  return limits;
}

// A kernel that writes whole blocks of rows must find them all there, so every
// batch of a block needs what the full block needs.
TEST(BufferTableTest, PaddedBuffersHoldWholeBlocksOfRows) {
  std::set<std::string> padded;
  for (const auto& [model, config] : GoldenModels()) {
    for (const BufferRow& row : BufferTable()) {
      const ServingLimits full = AllOptions(row.row_padding * 5);
      if (row.row_padding == 1 ||
          (row.gate != nullptr && row.gate(config, full))) {
        continue;
      }
      const ServingLimits first = AllOptions(row.row_padding * 4 + 1);
      EXPECT_EQ(*row.bytes(config, first), *row.bytes(config, full))
          << model << " " << row.name;
      padded.insert(row.name);
    }
  }
  EXPECT_THAT(padded,
              IsSupersetOf({"norm_output", "qkv_output", "attn_output",
                            "moe_output", "expert_gate_out", "ssm_qkvz",
                            "ssm_deinterleaved", "gdn_fla_scratch", "logits"}));
}

// The spec of a buffer that the GEMMs write: `ceil16` rows of its width.
TEST(BufferTableTest, RowsAreRoundedUpToSixteenWhereGemmsWriteThem) {
  const ModelConfig config = Preset("llama-3.1-8b");
  ASSERT_OK_AND_ASSIGN(const std::vector<BufferSize> sizes,
                       ComputeBufferSizes(config, {.max_batch_tokens = 33}));
  EXPECT_EQ(FindSize(sizes, "norm_output")->bytes, 48 * 4096 * 2);
  EXPECT_EQ(FindSize(sizes, "qkv_output")->bytes, 48 * (32 + 16) * 128 * 2);
  EXPECT_EQ(FindSize(sizes, "attn_output")->bytes, 48 * 32 * 128 * 2);
  EXPECT_EQ(FindSize(sizes, "hidden_states")->bytes, 33 * 4096 * 2);
}

TEST(BufferTableTest, LayoutsDecideTheirBuffers) {
  const ModelConfig config = Preset("deepseek-v3");
  ASSERT_OK_AND_ASSIGN(const std::vector<BufferSize> sizes,
                       ComputeBufferSizes(config, {.max_batch_tokens = 8}));
  EXPECT_EQ(FindSize(sizes, "moe_fp8_scratch")->bytes,
            MoeFp8Layout::ForRows(config, 8)->bytes);
  EXPECT_EQ(FindSize(sizes, "moe_routing")->bytes,
            MoeRoutingLayout::ForRows(config, 8)->bytes);
}

TEST(BufferTableTest, DenseLayersOfAMixedModelWidenTheExpertBuffers) {
  // 8 experts of 2048 are narrower than the dense layers' 18432.
  ASSERT_OK_AND_ASSIGN(
      const std::vector<BufferSize> sizes,
      ComputeBufferSizes(Preset("deepseek-v3"), {.max_batch_tokens = 1}));
  EXPECT_EQ(FindSize(sizes, "expert_gate_out")->bytes, 16 * 18432 * 4);
}

TEST(BufferTableTest, DenseModelHasNoMoeBuffersAndSaysWhy) {
  ASSERT_OK_AND_ASSIGN(
      const std::vector<BufferSize> sizes,
      ComputeBufferSizes(Preset("llama-3.1-8b"), {.max_batch_tokens = 8}));
  ASSERT_EQ(sizes.size(), BufferTable().size());
  for (const char* name : {"moe_routing", "moe_fp8_scratch"}) {
    EXPECT_EQ(FindSize(sizes, name)->bytes, 0) << name;
    EXPECT_THAT(FindSize(sizes, name)->gate_reason, HasSubstr("experts"))
        << name;
  }
  for (const char* name : {"hidden_states", "expert_gate_out"}) {
    EXPECT_GT(FindSize(sizes, name)->bytes, 0) << name;
    EXPECT_THAT(FindSize(sizes, name)->gate_reason, IsEmpty()) << name;
  }
  EXPECT_EQ(FindSize(sizes, "expert_gate_out")->element, ElementType::kBf16);
}

TEST(BufferTableTest, ExpertRowsOfAMoeModelAreFloats) {
  ASSERT_OK_AND_ASSIGN(
      const std::vector<BufferSize> sizes,
      ComputeBufferSizes(Preset("mixtral-8x7b"), {.max_batch_tokens = 8}));
  EXPECT_EQ(FindSize(sizes, "expert_gate_out")->element, ElementType::kF32);
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

/// A config that opens every gate with figures that no product survives.
ModelConfig EnormousConfig() {
  constexpr int64_t kHuge = int64_t{1} << 62;
  ModelConfig config = GoldenModel("qwen4-exp-defaults");
  for (int64_t ModelConfig::*figure : {&ModelConfig::hidden_size,
                                       &ModelConfig::num_attention_heads,
                                       &ModelConfig::num_kv_heads,
                                       &ModelConfig::head_dim,
                                       &ModelConfig::vocab_size,
                                       &ModelConfig::intermediate_size,
                                       &ModelConfig::num_experts,
                                       &ModelConfig::experts_per_token,
                                       &ModelConfig::moe_intermediate_size,
                                       &ModelConfig::gdn_key_heads,
                                       &ModelConfig::gdn_value_heads,
                                       &ModelConfig::mamba_heads,
                                       &ModelConfig::mamba_head_dim,
                                       &ModelConfig::mamba_state,
                                       &ModelConfig::hyper_connections,
                                       &ModelConfig::hyper_connection_rank,
                                       &ModelConfig::o_groups,
                                       &ModelConfig::o_lora_rank,
                                       &ModelConfig::indexer_heads,
                                       &ModelConfig::indexer_head_dim}) {
    config.*figure = kHuge;
  }
  config.quantization = Quantization::kFp8;
  config.layers = {LayerKind::kLinearAttention};
  return config;
}

TEST(BufferTableTest, OverflowNamesTheBuffer) {
  // Four bytes for each of 2^40 rows are no overflow.
  const std::set<std::string> one_word_a_row = {"token_ids", "lora_seq_slot"};
  ServingLimits limits = AllOptions(int64_t{1} << 40);
  limits.max_batch_size = limits.max_seq_len = limits.lora_rank = int64_t{1}
                                                                  << 40;
  ModelConfig dense = EnormousConfig();
  dense.num_experts = 0;
  for (const SizeRules rules : {SizeRules::kOurs, SizeRules::kSeed}) {
    limits.rules = rules;
    std::set<std::string> refused;
    // Every buffer by itself, so that none hides behind the first.
    for (const BufferRow& row : BufferTable()) {
      if (one_word_a_row.count(row.name) != 0) continue;
      if (rules == SizeRules::kSeed && row.is_ours) continue;
      const bool needs_dense =
          row.gate != nullptr && row.gate(EnormousConfig(), limits).has_value();
      EXPECT_THAT(ComputeBufferSizes(needs_dense ? dense : EnormousConfig(),
                                     limits, {&row, 1}),
                  StatusIs(absl::StatusCode::kInvalidArgument,
                           AllOf(HasSubstr(row.name), HasSubstr("2^63-1"))))
          << row.name;
      refused.insert(row.name);
    }
    EXPECT_EQ(refused.size(), rules == SizeRules::kOurs ? 46u : 44u);
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
      {.name = "image_rows",
       .meaning = "rows of the vision tower",
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
  EXPECT_EQ(FindSize(sizes, "image_rows")->bytes, 32);
  EXPECT_EQ(FindSize(sizes, "image_rows")->tag, "io");
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
