// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Every preset against the figures it has to give, and the configs that are
// known to be incomplete or of an unsupported family against their reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "arena/golden_models.h"
#include "arena/model_presets.h"
#include "support/status_matchers.h"

PERMAFROST_EMBEDDED(permafrost_test_glm_4_5_partial)
PERMAFROST_EMBEDDED(permafrost_test_granite_4_0_h_1b_partial)
PERMAFROST_EMBEDDED(permafrost_test_jamba_v0_1)
PERMAFROST_EMBEDDED(permafrost_test_nemotron_h_8b_partial)
PERMAFROST_EMBEDDED(permafrost_test_models_page)

namespace permafrost {
namespace {

using ::permafrost::testing::ArenaSizesGolden;
using ::permafrost::testing::ConfigFromFigures;
using ::permafrost::testing::FindSize;
using ::permafrost::testing::GoldenLimits;
using ::permafrost::testing::GoldenModels;
using ::permafrost::testing::kInvalid;
using ::permafrost::testing::Parse;
using ::permafrost::testing::PresetTexts;
using ::permafrost::testing::StatusIs;
using ::permafrost::testing::With;
using ::testing::AllOf;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using Json = nlohmann::json;

/// Every figure of a config under its own name.
std::map<std::string, int64_t> FiguresOf(const ModelConfig& config) {
  return {
      {"hidden_size", config.hidden_size},
      {"vocab_size", config.vocab_size},
      {"num_layers", config.num_layers},
      {"num_attention_heads", config.num_attention_heads},
      {"num_kv_heads", config.num_kv_heads},
      {"head_dim", config.head_dim},
      {"kv_lora_rank", config.kv_lora_rank},
      {"q_lora_rank", config.q_lora_rank},
      {"qk_rope_head_dim", config.qk_rope_head_dim},
      {"qk_nope_head_dim", config.qk_nope_head_dim},
      {"v_head_dim", config.v_head_dim},
      {"num_experts", config.num_experts},
      {"experts_per_token", config.experts_per_token},
      {"moe_intermediate_size", config.moe_intermediate_size},
      {"moe_latent_size", config.moe_latent_size},
      {"num_zero_experts", config.num_zero_experts},
      {"intermediate_size", config.intermediate_size},
      {"shared_expert_intermediate_size",
       config.shared_expert_intermediate_size},
      {"gated_attention", config.gated_attention ? 1 : 0},
      {"gdn_key_heads", config.gdn_key_heads},
      {"gdn_value_heads", config.gdn_value_heads},
      {"gdn_key_head_dim", config.gdn_key_head_dim},
      {"gdn_value_head_dim", config.gdn_value_head_dim},
      {"gdn_conv_kernel", config.gdn_conv_kernel},
      {"mamba_heads", config.mamba_heads},
      {"mamba_head_dim", config.mamba_head_dim},
      {"mamba_state", config.mamba_state},
      {"mamba_groups", config.mamba_groups},
      {"hyper_connections", config.hyper_connections},
      {"hyper_connection_rank", config.hyper_connection_rank},
      {"o_groups", config.o_groups},
      {"o_lora_rank", config.o_lora_rank},
      {"indexer_heads", config.indexer_heads},
      {"indexer_head_dim", config.indexer_head_dim},
      {"indexer_top_k", config.indexer_top_k},
      {"indexer_compress_ratio", config.indexer_compress_ratio},
  };
}

/// What differs between two configs; empty where nothing does.
std::string Differences(const ModelConfig& got, const ModelConfig& want) {
  std::ostringstream out;
  const std::map<std::string, int64_t> got_figures = FiguresOf(got);
  for (const auto& [name, figure] : FiguresOf(want)) {
    if (got_figures.at(name) != figure) {
      out << name << ": got " << got_figures.at(name) << ", want " << figure
          << "\n";
    }
  }
  if (got.model_type != want.model_type) {
    out << "model_type: got " << got.model_type << "\n";
  }
  return out.str();
}

TEST(ModelConfigGoldenTest, EveryPresetHasTheGoldenFigures) {
  std::vector<std::string> names;
  for (const auto& [name, golden] : GoldenModels()) {
    SCOPED_TRACE(name);
    names.push_back(name);
    ASSERT_OK_AND_ASSIGN(const ModelConfig config, LoadModelConfig(name));
    EXPECT_EQ(Differences(config, golden), "");
    EXPECT_EQ(config.layers.size(), static_cast<size_t>(config.num_layers));
    EXPECT_EQ(config.num_moe_layers > 0, config.is_moe());
  }
  EXPECT_EQ(names.size(), 24u);
  EXPECT_THAT(ModelPresets(), ElementsAreArray(names));
}

TEST(ModelConfigGoldenTest, AnyChangedFigureIsFound) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig config,
                       LoadModelConfig("qwen4-exp-defaults"));
  // One short name a figure, so that none is left out of the comparison.
  for (const char* name :
       {"H",   "V",   "L",   "nq",  "nkv", "r_kv", "r_q", "d_rope", "d_nope",
        "d_v", "hd",  "E",   "k",   "Ie",  "I",    "Is",  "nk",     "nv",
        "dk",  "dv",  "ck",  "mh",  "mp",  "ms",   "mg",  "hc",     "hcr",
        "og",  "olr", "inh", "ihd", "itk", "icr"}) {
    Json figures =
        ArenaSizesGolden().at("models").at("qwen4-exp-defaults").at("figures");
    EXPECT_EQ(Differences(config, ConfigFromFigures("same", figures)), "");
    figures[name] = figures.value(name, int64_t{0}) + 1;
    EXPECT_NE(Differences(config, ConfigFromFigures("other", figures)), "")
        << name;
  }
  ModelConfig ungated = config;
  ungated.gated_attention = false;
  EXPECT_THAT(Differences(ungated, config), HasSubstr("gated_attention"));
}

TEST(ModelConfigGoldenTest, EveryPresetHasTheGoldenBytes) {
  for (const auto& [name, golden] : ArenaSizesGolden().at("models").items()) {
    ASSERT_OK_AND_ASSIGN(const ModelConfig config, LoadModelConfig(name));
    ASSERT_OK_AND_ASSIGN(
        const std::vector<BufferSize> sizes,
        ComputeBufferSizes(config, GoldenLimits(SizeRules::kSeed)));
    for (const auto& [buffer, bytes] : golden.at("sizes").items()) {
      const BufferSize* size = FindSize(sizes, buffer);
      ASSERT_NE(size, nullptr) << buffer;
      EXPECT_EQ(size->bytes, bytes.get<int64_t>()) << name << " " << buffer;
    }
  }
}

TEST(ModelConfigGoldenTest, LayersOfThePresetsAreCounted) {
  struct Want {
    int64_t moe = 0;
    int64_t linear = 0;
    int64_t sliding = 0;
    int64_t mamba = 0;
    int64_t full = 0;
  };
  const std::map<std::string, Want> want = {
      {"deepseek-r1", {.moe = 58, .full = 61}},
      {"deepseek-v2-lite", {.moe = 26, .full = 27}},
      {"deepseek-v3", {.moe = 58, .full = 61}},
      {"deepseek-v4-flash-defaults", {.moe = 43, .full = 43}},
      {"glm-4.5-air", {.moe = 45, .full = 46}},
      {"glm-4.7-fp8", {.moe = 89, .full = 92}},
      {"gpt-oss-120b", {.moe = 36, .sliding = 18, .full = 18}},
      {"gpt-oss-20b", {.moe = 24, .sliding = 12, .full = 12}},
      {"granite-4.0-micro", {.full = 40}},
      {"kimi-k2", {.moe = 60, .full = 61}},
      {"llama-3.1-70b", {.full = 80}},
      {"llama-3.1-8b", {.full = 32}},
      {"llama-4-scout", {.moe = 48, .full = 48}},
      {"minimax-m1-80k", {.moe = 80, .linear = 70, .full = 10}},
      {"minimax-m2", {.moe = 62, .full = 62}},
      {"mixtral-8x7b", {.moe = 32, .full = 32}},
      {"nemotron-3-nano-30b-a3b", {.moe = 23, .mamba = 23, .full = 6}},
      {"olmoe-1b-7b", {.moe = 16, .full = 16}},
      {"qwen3-235b-a22b", {.moe = 94, .full = 94}},
      {"qwen3-30b-a3b", {.moe = 48, .full = 48}},
      {"qwen3-8b", {.full = 36}},
      {"qwen3-next-80b-a3b", {.moe = 48, .linear = 36, .full = 12}},
      {"qwen3.5-35b-a3b-nested", {.moe = 40, .linear = 30, .full = 10}},
      {"qwen4-exp-defaults", {.moe = 40, .linear = 30, .full = 10}},
  };
  ASSERT_EQ(want.size(), ModelPresets().size());
  for (const auto& [name, counts] : want) {
    SCOPED_TRACE(name);
    ASSERT_OK_AND_ASSIGN(const ModelConfig config, LoadModelConfig(name));
    const auto count = [&layers = config.layers](LayerKind kind) {
      return std::count(layers.begin(), layers.end(), kind);
    };
    EXPECT_EQ(config.num_moe_layers, counts.moe);
    EXPECT_EQ(count(LayerKind::kLinearAttention), counts.linear);
    EXPECT_EQ(count(LayerKind::kSlidingAttention), counts.sliding);
    EXPECT_EQ(count(LayerKind::kMamba2), counts.mamba);
    EXPECT_EQ(count(LayerKind::kFullAttention), counts.full);
  }
}

TEST(ModelConfigGoldenTest, QuantisationOfThePresetsIsRead) {
  const std::map<std::string, Quantization> quantized = {
      {"deepseek-r1", Quantization::kFp8},
      {"deepseek-v3", Quantization::kFp8},
      {"gpt-oss-20b", Quantization::kMxfp4},
      {"minimax-m2", Quantization::kFp8}};
  for (const std::string& name : ModelPresets()) {
    ASSERT_OK_AND_ASSIGN(const ModelConfig config, LoadModelConfig(name));
    const auto found = quantized.find(name);
    EXPECT_EQ(config.quantization,
              found == quantized.end() ? Quantization::kNone : found->second)
        << name;
  }
}

TEST(ModelConfigGoldenTest, EveryPresetStatesItsSource) {
  for (const auto& [name, text] : PresetTexts()) {
    EXPECT_THAT(text.at("_source").get<std::string>(),
                HasSubstr("selected keys"))
        << name;
  }
}

TEST(ModelConfigGoldenTest, IncompleteConfigsAreRefusedForWhatTheyLack) {
  EXPECT_THAT(Parse(PERMAFROST_EMBEDDED_JSON(permafrost_test_glm_4_5_partial)),
              StatusIs(kInvalid, HasSubstr("'vocab_size': got no such key")));
  EXPECT_THAT(
      Parse(PERMAFROST_EMBEDDED_JSON(permafrost_test_granite_4_0_h_1b_partial)),
      StatusIs(kInvalid, HasSubstr("'num_attention_heads': got no such key")));
  EXPECT_THAT(
      Parse(PERMAFROST_EMBEDDED_JSON(permafrost_test_nemotron_h_8b_partial)),
      StatusIs(kInvalid,
               AllOf(HasSubstr("'intermediate_size': got no such key"),
                     HasSubstr("a dense model"))));
}

TEST(ModelConfigGoldenTest, IncompleteConfigsAreReadOnceTheyAreComplete) {
  Json glm = PERMAFROST_EMBEDDED_JSON(permafrost_test_glm_4_5_partial);
  glm.update({{"vocab_size", 151552},
              {"intermediate_size", 12288},
              {"moe_intermediate_size", 1536},
              {"n_routed_experts", 160},
              {"n_shared_experts", 1},
              {"num_experts_per_tok", 8}});
  EXPECT_OK(Parse(glm));
  Json granite =
      PERMAFROST_EMBEDDED_JSON(permafrost_test_granite_4_0_h_1b_partial);
  granite.update({{"num_attention_heads", 12},
                  {"intermediate_size", 4096},
                  {"mamba_d_head", 64},
                  {"mamba_n_groups", 1}});
  ASSERT_OK_AND_ASSIGN(const ModelConfig hybrid, Parse(granite));
  EXPECT_EQ(hybrid.mamba_heads, 48);
  EXPECT_EQ(hybrid.mamba_state, 128);
  ASSERT_OK_AND_ASSIGN(const ModelConfig nemotron,
                       Parse(With(PERMAFROST_EMBEDDED_JSON(
                                      permafrost_test_nemotron_h_8b_partial),
                                  "intermediate_size", 21504)));
  EXPECT_FALSE(nemotron.is_moe());
  EXPECT_EQ(nemotron.mamba_heads, 128);
}

TEST(ModelConfigGoldenTest, JambaIsRefusedByNameForItsMamba1Layers) {
  EXPECT_THAT(
      Parse(PERMAFROST_EMBEDDED_JSON(permafrost_test_jamba_v0_1)),
      StatusIs(kInvalid, AllOf(HasSubstr("'jamba'"), HasSubstr("Mamba-1"),
                               HasSubstr("nemotron_h"))));
}

/// The first two cells of each row of the table under `heading`, unquoted.
std::vector<std::pair<std::string, std::string>> TableUnder(
    const std::string& page, const std::string& heading) {
  std::istringstream lines(page);
  std::vector<std::pair<std::string, std::string>> rows;
  bool inside = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("## ", 0) == 0) inside = line == "## " + heading;
    if (!inside || line.rfind("| `", 0) != 0) continue;
    std::istringstream cells(line);
    std::string skipped, first, second;
    std::getline(cells, skipped, '`');
    std::getline(cells, first, '`');
    std::getline(cells, skipped, '|');
    std::getline(cells, second, '|');
    second.erase(std::remove_if(second.begin(), second.end(),
                                [](char c) { return c == '`' || c == ' '; }),
                 second.end());
    rows.emplace_back(first, second);
  }
  return rows;
}

TEST(ModelConfigGoldenTest, ThePageListsThePresetsAndTheFamilies) {
  const std::string page(permafrost_test_models_page,
                         permafrost_test_models_page_end);
  std::vector<std::string> presets;
  for (const auto& [name, family] : TableUnder(page, "Presets")) {
    presets.push_back(name);
    ASSERT_OK_AND_ASSIGN(const ModelConfig config, LoadModelConfig(name));
    EXPECT_EQ(config.model_type, family) << name;
  }
  EXPECT_THAT(presets, ElementsAreArray(ModelPresets()));

  const std::string known(
      ParseModelConfig(R"({"model_type": "?"})", "test.json")
          .status()
          .message());
  std::string families;
  for (const auto& [family, meaning] : TableUnder(page, "Families")) {
    families += (families.empty() ? "" : ", ") + family;
  }
  EXPECT_THAT(known, ::testing::EndsWith("accepted: " + families));
}

}  // namespace
}  // namespace permafrost
