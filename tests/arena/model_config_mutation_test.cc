// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Every key of every preset, deleted or replaced by every kind of wrong value:
// the text is read or refused with the key's name, and what is read can be
// sized and planned.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "arena/model_presets.h"
#include "permafrost/arena/arena_plan.h"
#include "permafrost/arena/buffer_table.h"
#include "support/status_matchers.h"

namespace permafrost {
namespace {

using ::permafrost::testing::PresetFigures;
using ::permafrost::testing::PresetTexts;
using ::permafrost::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

/// The figures of every preset, so of every family, by the preset's name.
std::map<std::string, Json> AllFigures() {
  std::map<std::string, Json> figures;
  for (const std::string& name : ModelPresets()) {
    figures.emplace(name, PresetFigures(name));
  }
  return figures;
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
  EXPECT_EQ(config.layers.size(), static_cast<size_t>(config.num_layers));
  if (config.is_moe()) {
    EXPECT_GE(config.num_moe_layers, 1);
    EXPECT_GE(config.experts_per_token, 1);
    EXPECT_LE(config.experts_per_token, config.num_experts);
    EXPECT_GE(config.moe_intermediate_size, 1);
  } else {
    EXPECT_EQ(config.experts_per_token, 0);
    EXPECT_EQ(config.num_moe_layers, 0);
    EXPECT_GE(config.intermediate_size, 1);
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
  for (const auto& [name, preset] : AllFigures()) {
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
  EXPECT_GT(read, 500);
  EXPECT_GT(refused, 3000);
}

TEST(ModelConfigMutationTest, NestedKeysAreReadOrRefusedByName) {
  int read = 0;
  int refused = 0;
  for (const auto& [name, preset] : AllFigures()) {
    for (const auto& [key, value] : preset.items()) {
      for (const Json& wrong : WrongValues()) {
        Json mutant = {{"text_config", preset}};
        mutant["text_config"][key] = wrong;
        CheckMutant(mutant, key, &read, &refused);
      }
    }
  }
  EXPECT_GT(read, 500);
  EXPECT_GT(refused, 3000);
}

/// Where a config may leave a key out: in every preset that has it, or in
/// those that are named.
const std::map<std::string, std::set<std::string>>& OptionalKeys() {
  static const auto* const kKeys =
      new std::map<std::string, std::set<std::string>>{
          {"_source", {}},
          {"num_key_value_heads", {}},
          {"norm_topk_prob", {}},
          {"q_lora_rank", {}},
          {"quantization_config", {}},
          {"attn_output_gate", {}},
          // No layer is dense by them, or the rule of the family holds.
          {"first_k_dense_replace", {}},
          {"moe_layer_freq", {}},
          {"decoder_sparse_step", {}},
          {"mlp_only_layers", {}},
          {"interleave_moe_layer_step", {}},
          {"full_attention_interval", {}},
          {"layer_types",
           {"gpt-oss-20b", "gpt-oss-120b", "qwen3.5-35b-a3b-nested"}},
          {"num_hidden_layers", {"nemotron-3-nano-30b-a3b"}},
          // Exactly hidden_size / num_attention_heads, in their families.
          {"head_dim",
           {"llama-4-scout", "nemotron-3-nano-30b-a3b", "qwen3-235b-a22b",
            "qwen3-30b-a3b", "qwen3-8b"}},
          // Another key says it too.
          {"num_experts_per_tok", {"gpt-oss-20b"}},
          {"experts_per_token", {}},
          {"n_shared_experts", {"nemotron-3-nano-30b-a3b"}},
          {"intermediate_size_mlp", {}},
          // No layer uses them.
          {"intermediate_size", {"nemotron-3-nano-30b-a3b"}},
          {"mamba_d_head", {"granite-4.0-micro"}},
          {"mamba_d_state", {"granite-4.0-micro"}},
          {"mamba_n_heads", {"granite-4.0-micro"}},
          {"conv_kernel", {}},
          {"chunk_size", {}},
          {"expand", {}},
          // What is absent is not there.
          {"shared_intermediate_size", {}},
          {"hc_mult", {}},
          {"hc_lowrank", {}},
          {"qk_rope_head_dim", {"deepseek-v4-flash-defaults"}},
      };
  return *kKeys;
}

TEST(ModelConfigMutationTest, EveryFigureIsRequiredOrHasADocumentedDefault) {
  for (const auto& [name, preset] : AllFigures()) {
    for (const auto& [key, value] : preset.items()) {
      Json mutant = preset;
      mutant.erase(key);
      const auto found = OptionalKeys().find(key);
      const bool is_optional =
          found != OptionalKeys().end() &&
          (found->second.empty() || found->second.count(name) == 1);
      EXPECT_EQ(ParseModelConfig(mutant.dump(), "mutant.json").ok(),
                is_optional)
          << name << ": " << key;
    }
  }
}

TEST(ModelConfigMutationTest, WhatIsAroundTheFiguresIsReadOrRefusedByName) {
  int read = 0;
  int refused = 0;
  for (const auto& [name, preset] : PresetTexts()) {
    if (!preset.contains("text_config")) continue;
    for (const std::string key : {"text_config", "model_type", "_source"}) {
      for (const Json& wrong : WrongValues()) {
        Json mutant = preset;
        mutant[key] = wrong;
        // Without the nested text the family is the first thing that is wrong.
        CheckMutant(mutant, "", &read, &refused);
      }
    }
  }
  EXPECT_GT(read, 20);
  EXPECT_GT(refused, 20);
}

TEST(ModelConfigMutationTest, CutAndDamagedTextNeverCrashes) {
  for (const auto& [name, preset] : PresetTexts()) {
    const std::string text = preset.dump();
    for (size_t length = 0; length < text.size(); length += 3) {
      EXPECT_THAT(ParseModelConfig(text.substr(0, length), "cut.json"),
                  StatusIs(absl::StatusCode::kInvalidArgument,
                           HasSubstr("'cut.json'")));
    }
    // A stride that no pattern of the text has, to keep the test short.
    for (size_t at = 0; at < text.size(); at += 7) {
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
