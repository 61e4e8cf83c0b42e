// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Which limit makes which buffer larger: what the table says, against what the
// formulas do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "arena/golden_models.h"
#include "permafrost/arena/arena_plan.h"
#include "permafrost/arena/buffer_table.h"
#include "support/status_matchers.h"

namespace permafrost {
namespace {

using ::permafrost::testing::FindSize;
using ::permafrost::testing::GoldenModel;
using ::permafrost::testing::GoldenModels;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// Every limit that a size may grow with.
const std::vector<std::pair<std::string, int64_t ServingLimits::*>>&
GrowingLimits() {
  static const auto* const limits =
      new std::vector<std::pair<std::string, int64_t ServingLimits::*>>{
          {"max_batch_tokens", &ServingLimits::max_batch_tokens},
          {"max_batch_size", &ServingLimits::max_batch_size},
          {"max_seq_len", &ServingLimits::max_seq_len},
          {"sm_count", &ServingLimits::sm_count},
          {"lora_rank", &ServingLimits::lora_rank},
          {"draft_tokens", &ServingLimits::draft_tokens}};
  return *limits;
}

/// Starting points: which limit decides a union depends on all of them.
std::vector<ServingLimits> StartingPoints() {
  std::vector<ServingLimits> points;
  for (const int64_t rows : {32, 512, 4096}) {
    for (const int64_t drafts : {0, 1}) {
      ServingLimits limits;
      limits.max_batch_tokens = rows;
      limits.lora_rank = 16;
      limits.draft_tokens = drafts;
      limits.four_bit_weights = true;
      limits.two_bit_weights = true;
      limits.rowwise_bf16_copies = true;
      points.push_back(limits);
    }
  }
  return points;
}

/// The golden models as they are and with quantised weights, and one whose
/// layers are known.
std::vector<ModelConfig> Models() {
  std::vector<ModelConfig> models;
  for (auto& [name, config] : GoldenModels()) {
    models.push_back(config);
    models.push_back(config);
    models.back().quantization = Quantization::kFp8;
  }
  models.push_back(GoldenModel("qwen3-next-80b-a3b"));
  models.back().layers.assign(48, LayerKind::kLinearAttention);
  return models;
}

/// The names of the limits of which more makes the row larger somewhere.
std::set<std::string> LimitsThatGrow(const BufferRow& row) {
  std::set<std::string> grow;
  for (const ModelConfig& model : Models()) {
    for (const ServingLimits& start : StartingPoints()) {
      const int64_t bytes =
          ComputeBufferSizes(model, start, {&row, 1}).value().front().bytes;
      for (const auto& [name, field] : GrowingLimits()) {
        ServingLimits more = start;
        more.*field = more.*field * 4 + 4;
        const int64_t more_bytes =
            ComputeBufferSizes(model, more, {&row, 1}).value().front().bytes;
        EXPECT_GE(more_bytes, bytes) << model.source << " " << row.name;
        if (more_bytes > bytes) grow.insert(name);
      }
    }
  }
  return grow;
}

TEST(SizedByTest, NamesExactlyTheLimitsThatMakeABufferLarger) {
  for (const BufferRow& row : BufferTable()) {
    std::set<std::string> named;
    for (const absl::string_view limit :
         absl::StrSplit(row.sized_by, ", ", absl::SkipEmpty())) {
      named.insert(std::string(limit));
    }
    // Switches reserve a buffer and do not make it larger.
    named.erase("two_bit_weights");
    named.erase("rowwise_bf16_copies");
    EXPECT_EQ(LimitsThatGrow(row), named) << row.name;
  }
}

TEST(SizedByTest, ASwitchReservesItsBuffers) {
  const struct {
    const char* buffer;
    bool ServingLimits::*on;
  } switches[] = {
      {"ffn_act_q8", &ServingLimits::four_bit_weights},
      {"q2_dequant_scratch", &ServingLimits::two_bit_weights},
      {"q2_act_q8", &ServingLimits::two_bit_weights},
      {"ssm_rowwise_w_bf16", &ServingLimits::rowwise_bf16_copies},
  };
  // Dense, with delta net layers: no model at hand is both.
  ModelConfig config = GoldenModel("qwen3-next-80b-a3b");
  config.num_experts = 0;
  config.layers = {LayerKind::kLinearAttention};
  for (const auto& [buffer, on] : switches) {
    ServingLimits limits = {.max_batch_tokens = 8};
    ASSERT_OK_AND_ASSIGN(const std::vector<BufferSize> without,
                         ComputeBufferSizes(config, limits));
    limits.*on = true;
    ASSERT_OK_AND_ASSIGN(const std::vector<BufferSize> with,
                         ComputeBufferSizes(config, limits));
    EXPECT_EQ(FindSize(without, buffer)->bytes, 0) << buffer;
    EXPECT_THAT(FindSize(without, buffer)->gate_reason,
                HasSubstr("ServingLimits::"))
        << buffer;
    EXPECT_GT(FindSize(with, buffer)->bytes, 0) << buffer;
  }
}

TEST(SizedByTest, TheRemedyNamesEachLimit) {
  EXPECT_THAT(SizeRemedy("max_batch_tokens"),
              HasSubstr("larger ServingLimits::max_batch_tokens"));
  EXPECT_THAT(SizeRemedy("max_batch_size, max_seq_len"),
              AllOf(HasSubstr("ServingLimits::max_batch_size"),
                    HasSubstr("or ServingLimits::max_seq_len")));
  EXPECT_THAT(SizeRemedy(""),
              AllOf(HasSubstr("config"), Not(HasSubstr("ServingLimits"))));
  EXPECT_THAT(SizeRemedy("two_bit_weights"),
              AllOf(HasSubstr("ServingLimits::two_bit_weights"),
                    Not(HasSubstr("larger"))));
}

TEST(SizedByTest, ThePlanKnowsWhatEachBufferIsSizedBy) {
  ASSERT_OK_AND_ASSIGN(
      std::vector<BufferSize> sizes,
      ComputeBufferSizes(GoldenModel("llama-3.1-8b"), {.max_batch_tokens = 8}));
  ASSERT_OK_AND_ASSIGN(const ArenaPlan plan, PlanArena(sizes, PlanOptions{}));
  EXPECT_EQ(plan.Find("decode_meta")->sized_by,
            "max_batch_size, max_seq_len, draft_tokens");
  EXPECT_EQ(plan.Find("norm_unit_w")->sized_by, "");
}

TEST(NonMonotoneRowsTest, AreSizedForTheWorstBatchNotTheLargest) {
  const BufferRow row = {
      .name = "workspace",
      .meaning = "scratch of a kernel that has a variant for small batches",
      .element = ElementType::kMixed,
      .row_padding = 1,
      .gate = nullptr,
      .bytes = [](const ModelConfig&,
                  const ServingLimits& limits) -> absl::StatusOr<int64_t> {
        return limits.max_batch_tokens <= 4 ? 4096 * limits.max_batch_tokens
                                            : 100;
      },
      .lifetime = Lifetime::kPerLayer,
      .toucher = Toucher::kDevice,
      .tag = "step",
      .is_monotone = false};
  const ModelConfig config = GoldenModel("llama-3.1-8b");
  for (const SizeRules rules : {SizeRules::kOurs, SizeRules::kSeed}) {
    ASSERT_OK_AND_ASSIGN(
        const std::vector<BufferSize> sizes,
        ComputeBufferSizes(config, {.max_batch_tokens = 64, .rules = rules},
                           {&row, 1}));
    EXPECT_EQ(sizes.front().bytes, 16384);
  }
  EXPECT_THAT(ComputeBufferSizes(config, {.max_batch_tokens = (1 << 20) + 1},
                                 {&row, 1}),
              testing::StatusIs(absl::StatusCode::kInvalidArgument,
                                AllOf(HasSubstr("'workspace'"),
                                      HasSubstr("max_batch_tokens"))));
}

}  // namespace
}  // namespace permafrost
