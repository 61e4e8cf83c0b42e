// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Every key of every preset, deleted or replaced by every kind of wrong value:
// the text is read or refused with the key's name, and what is read can be
// sized and planned.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "arena/embedded_json.h"
#include "permafrost/arena/arena_plan.h"
#include "permafrost/arena/buffer_table.h"
#include "permafrost/arena/model_config.h"
#include "support/status_matchers.h"

PERMAFROST_EMBEDDED(permafrost_test_deepseek_v3)
PERMAFROST_EMBEDDED(permafrost_test_llama_3_1_8b)
PERMAFROST_EMBEDDED(permafrost_test_mixtral_8x7b)
PERMAFROST_EMBEDDED(permafrost_test_qwen3_30b_a3b)

namespace permafrost {
namespace {

using ::permafrost::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

std::vector<Json> Presets() {
  return {PERMAFROST_EMBEDDED_JSON(permafrost_test_deepseek_v3),
          PERMAFROST_EMBEDDED_JSON(permafrost_test_llama_3_1_8b),
          PERMAFROST_EMBEDDED_JSON(permafrost_test_mixtral_8x7b),
          PERMAFROST_EMBEDDED_JSON(permafrost_test_qwen3_30b_a3b)};
}

std::vector<Json> WrongValues() {
  return {nullptr,
          0,
          -1,
          65,
          0.5,
          true,
          "x",
          Json::array(),
          Json::object(),
          INT64_MIN,
          uint64_t{1} << 32,
          UINT64_MAX};
}

/// What holds of every config that is read, whatever the text was.
void ExpectSound(const ModelConfig& config) {
  EXPECT_GE(config.hidden_size, 1);
  EXPECT_GE(config.head_dim, 1);
  EXPECT_GE(config.num_kv_heads, 1);
  EXPECT_GE(config.intermediate_size, 1);
  if (config.is_moe()) {
    EXPECT_GE(config.experts_per_token, 1);
    EXPECT_LE(config.experts_per_token, config.num_experts);
    EXPECT_GE(config.moe_intermediate_size, 1);
  } else {
    EXPECT_EQ(config.experts_per_token, 0);
  }
  ASSERT_OK_AND_ASSIGN(std::vector<BufferSize> sizes,
                       ComputeBufferSizes(config, {.max_batch_tokens = 8}));
  ASSERT_OK_AND_ASSIGN(const ArenaPlan plan, PlanArena(std::move(sizes), {}));
  EXPECT_OK(ValidatePlan(plan));
}

/// Parses one mutant; counts it as read or refused.
void CheckMutant(const Json& mutant, const std::string& key, int* read,
                 int* refused) {
  SCOPED_TRACE(mutant.dump());
  const absl::StatusOr<ModelConfig> config =
      ParseModelConfig(mutant.dump(), "mutant.json");
  if (config.ok()) {
    ++*read;
    ExpectSound(*config);
  } else {
    ++*refused;
    EXPECT_THAT(config, StatusIs(absl::StatusCode::kInvalidArgument,
                                 AllOf(HasSubstr("'mutant.json'"),
                                       HasSubstr(key), HasSubstr("accepted"))));
  }
}

TEST(ModelConfigMutationTest, EveryKeyIsReadOrRefusedByName) {
  int read = 0;
  int refused = 0;
  for (const Json& preset : Presets()) {
    for (const auto& [key, value] : preset.items()) {
      Json mutant = preset;
      mutant.erase(key);
      CheckMutant(mutant, key, &read, &refused);
      for (const Json& wrong : WrongValues()) {
        mutant = preset;
        mutant[key] = wrong;
        CheckMutant(mutant, key, &read, &refused);
      }
    }
  }
  // Neither a reader that takes everything nor one that takes nothing passes.
  EXPECT_GT(read, 50);
  EXPECT_GT(refused, 400);
}

TEST(ModelConfigMutationTest, NestedKeysAreReadOrRefusedByName) {
  int read = 0;
  int refused = 0;
  for (const Json& preset : Presets()) {
    for (const auto& [key, value] : preset.items()) {
      for (const Json& wrong : WrongValues()) {
        Json mutant = {{"text_config", preset}};
        mutant["text_config"][key] = wrong;
        CheckMutant(mutant, key, &read, &refused);
      }
    }
  }
  EXPECT_GT(read, 50);
  EXPECT_GT(refused, 400);
}

TEST(ModelConfigMutationTest, EveryFigureIsRequiredOrHasADocumentedDefault) {
  // Keys that a config may leave out; all others must be missed.
  const std::set<std::string> optional = {"_source", "head_dim",
                                          "num_key_value_heads",
                                          "norm_topk_prob", "q_lora_rank"};
  for (const Json& preset : Presets()) {
    for (const auto& [key, value] : preset.items()) {
      Json mutant = preset;
      mutant.erase(key);
      EXPECT_EQ(ParseModelConfig(mutant.dump(), "mutant.json").ok(),
                optional.count(key) == 1)
          << key;
    }
  }
}

TEST(ModelConfigMutationTest, CutAndDamagedTextNeverCrashes) {
  for (const Json& preset : Presets()) {
    const std::string text = preset.dump();
    for (size_t length = 0; length < text.size(); ++length) {
      EXPECT_THAT(ParseModelConfig(text.substr(0, length), "cut.json"),
                  StatusIs(absl::StatusCode::kInvalidArgument,
                           HasSubstr("'cut.json'")));
    }
    for (size_t at = 0; at < text.size(); ++at) {
      for (char byte : {'\0', '"', '{', '9', '-', '\xff'}) {
        std::string damaged = text;
        damaged[at] = byte;
        const absl::StatusOr<ModelConfig> config =
            ParseModelConfig(damaged, "damaged.json");
        if (!config.ok()) {
          EXPECT_THAT(config, StatusIs(absl::StatusCode::kInvalidArgument,
                                       HasSubstr("'damaged.json'")));
        }
      }
    }
  }
}

}  // namespace
}  // namespace permafrost
