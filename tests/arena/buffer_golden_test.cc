// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "arena/golden_models.h"
#include "permafrost/arena/buffer_table.h"
#include "support/status_matchers.h"

namespace permafrost {
namespace {

using ::permafrost::testing::ArenaSizesGolden;
using ::permafrost::testing::FindSize;
using ::permafrost::testing::GoldenLimits;
using ::permafrost::testing::GoldenModel;
using ::permafrost::testing::GoldenModels;
using ::testing::HasSubstr;

std::vector<BufferSize> SeedSizes(const std::string& model) {
  return ComputeBufferSizes(GoldenModel(model), GoldenLimits(SizeRules::kSeed))
      .value();
}

TEST(SeedRulesTest, EqualTheGoldenBytesOfEveryBufferOfEveryModel) {
  int compared = 0;
  for (const auto& [model, golden] : ArenaSizesGolden().at("models").items()) {
    const std::vector<BufferSize> sizes = SeedSizes(model);
    int64_t total = 0;
    for (const BufferSize& size : sizes) total += size.bytes;
    EXPECT_EQ(total, golden.at("total").get<int64_t>()) << model;
    for (const auto& [name, bytes] : golden.at("sizes").items()) {
      const BufferSize* size = FindSize(sizes, name);
      ASSERT_NE(size, nullptr) << name;
      EXPECT_EQ(size->bytes, bytes.get<int64_t>()) << model << " " << name;
      ++compared;
    }
  }
  EXPECT_EQ(compared, 24 * 46);
}

TEST(SeedRulesTest, KnowNoBufferButTheOriginals) {
  std::set<std::string> golden_names;
  for (const auto& [name, bytes] :
       ArenaSizesGolden().at("models").at("deepseek-v3").at("sizes").items()) {
    golden_names.insert(name);
  }
  EXPECT_EQ(golden_names.size(), 46u);
  for (const BufferRow& row : BufferTable()) {
    EXPECT_EQ(golden_names.count(row.name), row.is_ours ? 0u : 1u) << row.name;
  }
  const std::vector<BufferSize> sizes = SeedSizes("deepseek-v3");
  for (const char* ours : {"moe_routing", "decode_meta"}) {
    EXPECT_EQ(FindSize(sizes, ours)->bytes, 0) << ours;
    EXPECT_THAT(FindSize(sizes, ours)->gate_reason, HasSubstr("original"))
        << ours;
  }
}

TEST(SeedRulesTest, KeepPlaceholdersWhereOursSaysWhyThereIsNoBuffer) {
  const ModelConfig llama = GoldenModel("llama-3.1-8b");
  ServingLimits limits = GoldenLimits(SizeRules::kSeed);
  ASSERT_OK_AND_ASSIGN(const std::vector<BufferSize> seed,
                       ComputeBufferSizes(llama, limits));
  limits.rules = SizeRules::kOurs;
  ASSERT_OK_AND_ASSIGN(const std::vector<BufferSize> ours,
                       ComputeBufferSizes(llama, limits));
  for (const char* name :
       {"gate_logits", "gate_logits_f32", "moe_router_in_f32", "o_latent",
        "hc_streams", "hc_post", "hc_comb", "hc_lowrank_scratch",
        "qsa_select_scratch", "ssm_conv_out_f32"}) {
    EXPECT_EQ(FindSize(seed, name)->bytes, 256) << name;
    EXPECT_EQ(FindSize(seed, name)->gate_reason, "") << name;
    EXPECT_EQ(FindSize(ours, name)->bytes, 0) << name;
    EXPECT_THAT(FindSize(ours, name)->gate_reason, HasSubstr(" ")) << name;
  }
}

// The golden models leave these out: their option is off.
TEST(SeedRulesTest, OptionalBuffersFollowTheirFormulas) {
  ModelConfig config = GoldenModel("qwen3-next-80b-a3b");
  config.layers.assign(48, LayerKind::kLinearAttention);
  for (size_t i = 3; i < 48; i += 4) {
    config.layers[i] = LayerKind::kFullAttention;
  }
  ServingLimits limits = GoldenLimits(SizeRules::kSeed);
  limits.two_bit_weights = true;
  limits.rowwise_bf16_copies = true;
  ASSERT_OK_AND_ASSIGN(const std::vector<BufferSize> sizes,
                       ComputeBufferSizes(config, limits));
  // The in-projection of 12288 is the widest output.
  EXPECT_EQ(FindSize(sizes, "q2_dequant_scratch")->bytes, 12288 * 2048 * 2);
  // Rows of 5120 values, four bytes a value, and the tail.
  EXPECT_EQ(FindSize(sizes, "q2_act_q8")->bytes, 2048 * 5120 * 4 + 1048576);
  EXPECT_EQ(FindSize(sizes, "ssm_rowwise_w_bf16")->bytes,
            int64_t{36} * (12288 * 2048 + 2048 * 4096) * 2);
}

TEST(SeedRulesTest, LegacySplitsHaveASlotForEachMultiprocessor) {
  ServingLimits limits = GoldenLimits(SizeRules::kSeed);
  limits.split_k = SplitKPolicy::kLegacy;
  ASSERT_OK_AND_ASSIGN(const std::vector<BufferSize> sizes,
                       ComputeBufferSizes(GoldenModel("llama-3.1-8b"), limits));
  EXPECT_EQ(FindSize(sizes, "splitk_workspace")->bytes, 132 * (128 + 2) * 4);
}

TEST(SeedRulesTest, NoPagedCacheMeansABlockTableOf256Columns) {
  ServingLimits limits = GoldenLimits(SizeRules::kSeed);
  limits.kv_block_size = 0;
  limits.max_batch_tokens = 16;
  ASSERT_OK_AND_ASSIGN(const std::vector<BufferSize> sizes,
                       ComputeBufferSizes(GoldenModel("llama-3.1-8b"), limits));
  EXPECT_EQ(FindSize(sizes, "scratch")->bytes, 32768 + 256 * (24 + 4 * 256));
}

// Router choices without an expert, and experts behind a down projection, are
// in no golden model.
TEST(SeedRulesTest, ZeroExpertsAndLatentExpertsAreCounted) {
  ModelConfig config = GoldenModel("qwen3-30b-a3b");
  config.num_zero_experts = 32;
  config.moe_latent_size = 1024;
  ASSERT_OK_AND_ASSIGN(
      const std::vector<BufferSize> sizes,
      ComputeBufferSizes(config, GoldenLimits(SizeRules::kSeed)));
  EXPECT_EQ(FindSize(sizes, "gate_logits")->bytes, 2048 * (128 + 32) * 2);
  EXPECT_EQ(FindSize(sizes, "gate_logits_f32")->bytes, 2048 * (128 + 32) * 4);
  EXPECT_EQ(FindSize(sizes, "expert_down_out")->bytes, 2048 * 8 * 1024 * 2);
  EXPECT_EQ(FindSize(sizes, "ssm_ba")->bytes, 2048 * 1024 * 2);
}

}  // namespace
}  // namespace permafrost
