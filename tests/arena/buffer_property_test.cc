// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// What must hold of the sizes and the plan of any model, over random ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "permafrost/arena/arena_plan.h"
#include "permafrost/arena/buffer_table.h"
#include "support/status_matchers.h"

namespace permafrost {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// Numbers that do not depend on the standard library's distributions.
class Dice {
 public:
  explicit Dice(uint64_t seed) : engine_(seed) {}

  int64_t Between(int64_t least, int64_t most) {
    const auto span = static_cast<uint64_t>(most - least) + 1;
    return least + static_cast<int64_t>(engine_() % span);
  }
  bool OneIn(int64_t n) { return Between(1, n) == 1; }
  int64_t OneOf(std::initializer_list<int64_t> values) {
    return *(values.begin() +
             Between(0, static_cast<int64_t>(values.size()) - 1));
  }
  /// Any size of number, each as likely as the others.
  int64_t AnyMagnitude(int64_t most_bits) {
    const int64_t bits = Between(0, most_bits);
    return Between((int64_t{1} << bits) - 1, (int64_t{1} << bits) * 2 - 2);
  }

 private:
  std::mt19937_64 engine_;
};

ModelConfig RandomConfig(Dice& dice) {
  ModelConfig config;
  config.source = "random";
  config.model_type = "random";
  config.hidden_size = dice.Between(1, 9000);
  config.num_layers = dice.Between(1, 8);
  config.num_attention_heads = dice.Between(1, 128);
  config.num_kv_heads = dice.Between(1, config.num_attention_heads);
  config.head_dim = dice.OneOf({1, 45, 64, 96, 128, 192, 256, 512});
  config.vocab_size = dice.Between(1, 260000);
  config.gated_attention = dice.OneIn(2);
  config.intermediate_size = dice.Between(1, 30000);
  if (dice.OneIn(2)) {
    config.num_experts = dice.OneOf({1, 2, 60, 255, 256, 257, 512});
    config.experts_per_token =
        dice.Between(1, std::min<int64_t>(10, config.num_experts));
    config.moe_intermediate_size = dice.Between(1, 15000);
    if (dice.OneIn(2)) config.intermediate_size = 0;
    if (dice.OneIn(2)) {
      config.shared_expert_intermediate_size = dice.Between(1, 9000);
    }
    if (dice.OneIn(8)) config.moe_latent_size = dice.Between(1, 4000);
    if (dice.OneIn(8)) config.num_zero_experts = dice.Between(1, 64);
  }
  if (dice.OneIn(4)) {
    config.kv_lora_rank = dice.Between(1, 1024);
    config.q_lora_rank = dice.OneOf({0, 1, 1536});
    config.qk_nope_head_dim = dice.Between(1, 256);
    config.qk_rope_head_dim = dice.Between(1, 128);
    config.v_head_dim = dice.Between(1, 256);
  }
  if (dice.OneIn(4)) {
    config.gdn_key_heads = dice.Between(1, 32);
    config.gdn_value_heads = dice.Between(1, 64);
    config.gdn_key_head_dim = dice.OneOf({64, 128});
    config.gdn_value_head_dim = dice.OneOf({64, 128});
    config.gdn_conv_kernel = 4;
    config.layers.assign(static_cast<size_t>(config.num_layers),
                         LayerKind::kLinearAttention);
  }
  if (dice.OneIn(4)) {
    config.mamba_heads = dice.Between(1, 128);
    config.mamba_head_dim = dice.Between(1, 128);
    config.mamba_state = dice.Between(1, 256);
    config.mamba_groups = dice.Between(0, 8);
  }
  if (dice.OneIn(6)) {
    config.hyper_connections = dice.Between(1, 8);
    config.hyper_connection_rank = dice.OneOf({0, 1, 320});
  }
  if (dice.OneIn(6)) {
    config.o_groups = dice.Between(1, 16);
    config.o_lora_rank = dice.Between(1, 1024);
  }
  if (dice.OneIn(6)) {
    config.indexer_heads = dice.Between(1, 64);
    config.indexer_head_dim = dice.Between(1, 128);
    config.indexer_top_k = dice.Between(1, 2048);
    config.indexer_compress_ratio = dice.Between(0, 16);
  }
  if (dice.OneIn(3)) config.quantization = Quantization::kFp8;
  return config;
}

ServingLimits RandomLimits(Dice& dice) {
  ServingLimits limits;
  limits.max_batch_tokens =
      dice.OneOf({1, 2, 15, 16, 17, 129, 1000, 8192, dice.Between(1, 20000)});
  limits.max_batch_size = dice.Between(1, 300);
  limits.max_seq_len = dice.Between(1, 200000);
  limits.kv_block_size = dice.OneOf({0, 1, 16, 64});
  limits.sm_count = dice.Between(1, 200);
  limits.lora_rank = dice.OneOf({0, 1, 16, 64});
  limits.draft_tokens = dice.OneOf({0, 0, 1, 5});
  limits.split_k = dice.OneIn(2) ? SplitKPolicy::kAuto : SplitKPolicy::kLegacy;
  limits.four_bit_weights = dice.OneIn(2);
  limits.two_bit_weights = dice.OneIn(2);
  limits.rowwise_bf16_copies = dice.OneIn(2);
  return limits;
}

/// The row's bytes at that many rows; 0 where the gate is closed.
int64_t BytesAt(const BufferRow& row, const ModelConfig& config,
                ServingLimits limits, int64_t rows) {
  limits.max_batch_tokens = rows;
  if (row.gate != nullptr && row.gate(config, limits)) return 0;
  const bool seed =
      limits.rules == SizeRules::kSeed && row.seed_bytes != nullptr;
  return (seed ? row.seed_bytes : row.bytes)(config, limits).value();
}

/// Nothing between two present buffers or their guards overlaps, and each
/// starts aligned: said again here, because the planner and `ValidatePlan`
/// could share an error.
void ExpectApartAndAligned(const ArenaPlan& plan) {
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (const PlannedBuffer& buffer : plan.buffers()) {
    if (!buffer.is_present()) continue;
    EXPECT_EQ(buffer.offset_bytes % 256, 0) << buffer.name;
    ranges.emplace_back(
        buffer.offset_bytes,
        buffer.offset_bytes + buffer.bytes + plan.options().guard_bytes);
  }
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i) {
    EXPECT_LE(ranges[i - 1].second, ranges[i].first);
  }
  EXPECT_LE(ranges.back().second, plan.total_bytes());
}

TEST(BufferPropertyTest, RandomModelsAreMonotoneInRowsAndPlannedApart) {
  Dice dice(20240607);
  for (int round = 0; round < 10000 && !HasFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const ModelConfig config = RandomConfig(dice);
    ServingLimits limits = RandomLimits(dice);
    limits.rules = dice.OneIn(4) ? SizeRules::kSeed : SizeRules::kOurs;
    const int64_t max_rows = limits.max_batch_tokens;
    std::array<int64_t, 3> rows = {dice.Between(1, max_rows),
                                   dice.Between(1, max_rows), max_rows};
    std::sort(rows.begin(), rows.end());
    for (const BufferRow& row : BufferTable()) {
      int64_t below = 0;
      for (const int64_t count : rows) {
        const int64_t bytes = BytesAt(row, config, limits, count);
        EXPECT_GE(bytes, below) << row.name << " at " << count << " rows";
        below = bytes;
      }
    }
    ASSERT_OK_AND_ASSIGN(std::vector<BufferSize> sizes,
                         ComputeBufferSizes(config, limits));
    PlanOptions options;
    options.guard_bytes = dice.OneOf({0, 256, 4096});
    ASSERT_OK_AND_ASSIGN(const ArenaPlan plan,
                         PlanArena(std::move(sizes), options));
    EXPECT_OK(ValidatePlan(plan));
    ExpectApartAndAligned(plan);
  }
}

/// Any number in any figure: the sizes are right, or refused by name.
TEST(BufferPropertyTest, AnyFiguresAreSizedOrRefusedAndNeverWrap) {
  Dice dice(97);
  int sized = 0;
  int refused = 0;
  for (int round = 0; round < 3000 && !HasFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    ModelConfig config = RandomConfig(dice);
    const int64_t most_bits = dice.OneOf({4, 16, 30, 61});
    for (int64_t ModelConfig::*figure :
         {&ModelConfig::hidden_size, &ModelConfig::num_attention_heads,
          &ModelConfig::num_kv_heads, &ModelConfig::head_dim,
          &ModelConfig::vocab_size, &ModelConfig::intermediate_size,
          &ModelConfig::moe_intermediate_size, &ModelConfig::kv_lora_rank,
          &ModelConfig::gdn_value_heads, &ModelConfig::mamba_heads,
          &ModelConfig::hyper_connections, &ModelConfig::indexer_heads}) {
      if (config.*figure == 0 || dice.OneIn(3)) continue;
      config.*figure = dice.AnyMagnitude(most_bits) + 1;
    }
    ServingLimits limits = RandomLimits(dice);
    limits.max_batch_tokens =
        std::max<int64_t>(1, dice.AnyMagnitude(dice.OneOf({10, 39})));
    for (const BufferRow& row : BufferTable()) {
      const absl::StatusOr<std::vector<BufferSize>> sizes =
          ComputeBufferSizes(config, limits, {&row, 1});
      if (!sizes.ok()) {
        ++refused;
        EXPECT_EQ(sizes.status().code(), absl::StatusCode::kInvalidArgument);
        EXPECT_THAT(std::string(sizes.status().message()),
                    AllOf(HasSubstr(row.name), HasSubstr("2^63-1")));
        continue;
      }
      ++sized;
      // A product that wrapped would not double with its rows: it is then a
      // number without relation to the one of half as many.
      ServingLimits half = limits;
      half.max_batch_tokens = (limits.max_batch_tokens + 1) / 2;
      ASSERT_OK_AND_ASSIGN(const std::vector<BufferSize> fewer,
                           ComputeBufferSizes(config, half, {&row, 1}));
      EXPECT_LE(fewer.front().bytes, sizes->front().bytes) << row.name;
      EXPECT_GE(fewer.front().bytes, sizes->front().bytes / 2) << row.name;
    }
  }
  EXPECT_GT(sized, 10000);
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace permafrost
