// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// What is particular to the families: layer lists, which layers have experts,
// latent and gated attention, linear layers, streams, indexer, quantisation.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "arena/model_presets.h"
#include "support/status_matchers.h"

namespace permafrost {
namespace {

using ::permafrost::testing::kInvalid;
using ::permafrost::testing::Parse;
using ::permafrost::testing::PresetFigures;
using ::permafrost::testing::StatusIs;
using ::permafrost::testing::With;
using ::permafrost::testing::Without;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;
using enum LayerKind;

/// A granite with `layers` and everything that its Mamba layers need.
Json Granite(const Json& layers) {
  Json json = With(PresetFigures("granite-4.0-micro"), "mamba_n_groups", 1);
  json["num_hidden_layers"] = layers.size();
  json["layer_types"] = layers;
  return json;
}

Json Nemotron(const std::string& pattern) {
  return With(With(PresetFigures("nemotron-3-nano-30b-a3b"),
                   "num_hidden_layers", pattern.size()),
              "hybrid_override_pattern", pattern);
}

TEST(ModelConfigLayersTest, EverySpellingOfALayerIsRead) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig granite,
                       Parse(Granite({"mamba", "attention", "linear_attention",
                                      "full_attention"})));
  EXPECT_THAT(granite.layers,
              ElementsAre(kMamba2, kFullAttention, kMamba2, kFullAttention));
  ASSERT_OK_AND_ASSIGN(const ModelConfig nemotron, Parse(Nemotron("M*-E")));
  EXPECT_THAT(nemotron.layers,
              ElementsAre(kMamba2, kFullAttention, kFeedForward, kExperts));
  EXPECT_EQ(nemotron.num_moe_layers, 1);
  for (const Json& words :
       {Json{"mamba", "attention", "mlp", "moe"},
        Json{"linear_attention", "full_attention", "mlp", "moe"}}) {
    const Json listed =
        With(Without(Nemotron("M*-E"), "hybrid_override_pattern"),
             "layers_block_type", words);
    ASSERT_OK_AND_ASSIGN(const ModelConfig config, Parse(listed));
    EXPECT_EQ(config.layers, nemotron.layers);
  }
  ASSERT_OK_AND_ASSIGN(
      const ModelConfig minimax,
      Parse(With(With(PresetFigures("minimax-m1-80k"), "num_hidden_layers", 2),
                 "attn_type_list", {0, 1})));
  EXPECT_THAT(minimax.layers, ElementsAre(kLinearAttention, kFullAttention));
  ASSERT_OK_AND_ASSIGN(
      const ModelConfig llama,
      Parse(With(With(PresetFigures("llama-4-scout"), "num_hidden_layers", 2),
                 "layer_types", {"chunked_attention", "full_attention"})));
  EXPECT_THAT(llama.layers, ElementsAre(kSlidingAttention, kFullAttention));
  ASSERT_OK_AND_ASSIGN(
      const ModelConfig deepseek,
      Parse(With(With(PresetFigures("deepseek-v4-flash-defaults"),
                      "num_hidden_layers", 3),
                 "layer_types",
                 {"sliding_attention", "compressed_sparse_attention",
                  "heavily_compressed_attention"})));
  EXPECT_THAT(deepseek.layers,
              ElementsAre(kSlidingAttention, kFullAttention, kFullAttention));
  ASSERT_OK_AND_ASSIGN(
      const ModelConfig qwen,
      Parse(With(
          With(PresetFigures("qwen4-exp-defaults"), "num_hidden_layers", 3),
          "layer_types",
          {"linear_attention", "deepseek_sparse_attention",
           "hybrid_indexed"})));
  EXPECT_THAT(qwen.layers,
              ElementsAre(kLinearAttention, kFullAttention, kFullAttention));
}

TEST(ModelConfigLayersTest, WithoutAListTheFamilysRuleHolds) {
  ASSERT_OK_AND_ASSIGN(
      const ModelConfig next,
      Parse(With(PresetFigures("qwen3-next-80b-a3b"), "num_hidden_layers", 5)));
  EXPECT_THAT(next.layers,
              ElementsAre(kLinearAttention, kLinearAttention, kLinearAttention,
                          kFullAttention, kLinearAttention));
  ASSERT_OK_AND_ASSIGN(const ModelConfig third,
                       Parse(With(With(PresetFigures("qwen3-next-80b-a3b"),
                                       "num_hidden_layers", 4),
                                  "full_attention_interval", 3)));
  EXPECT_THAT(third.layers, ElementsAre(kLinearAttention, kLinearAttention,
                                        kFullAttention, kLinearAttention));
  ASSERT_OK_AND_ASSIGN(
      const ModelConfig oss,
      Parse(With(PresetFigures("gpt-oss-120b"), "layer_types", nullptr)));
  EXPECT_EQ(oss.layers[0], kSlidingAttention);
  EXPECT_EQ(oss.layers[1], kFullAttention);
  EXPECT_THAT(Parse(Without(PresetFigures("minimax-m1-80k"), "attn_type_list")),
              StatusIs(kInvalid, AllOf(HasSubstr("'layer_types': got no such"),
                                       HasSubstr("attn_type_list"))));
}

TEST(ModelConfigLayersTest, ListsHaveOneEntryALayer) {
  EXPECT_THAT(
      Parse(With(PresetFigures("gpt-oss-20b"), "num_hidden_layers", 23)),
      StatusIs(kInvalid, AllOf(HasSubstr("'layer_types': got 24 layers"),
                               HasSubstr("each of the 23"))));
  EXPECT_THAT(
      Parse(With(Nemotron("M*E"), "num_hidden_layers", 4)),
      StatusIs(kInvalid, HasSubstr("'hybrid_override_pattern': got 3 layers")));
  EXPECT_THAT(Parse(Granite(Json::array())), StatusIs(kInvalid));
}

TEST(ModelConfigLayersTest, ListStandsForAnAbsentCountWhereTheFamilySaysSo) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig pattern,
                       Parse(Without(Nemotron("M*E"), "num_hidden_layers")));
  EXPECT_EQ(pattern.num_layers, 3);
  EXPECT_THAT(Parse(Without(Granite({"attention"}), "num_hidden_layers")),
              StatusIs(kInvalid, HasSubstr("'num_hidden_layers'")));
  const std::string many(65537, 'M');
  EXPECT_THAT(
      Parse(Without(Nemotron(many), "num_hidden_layers")),
      StatusIs(kInvalid, HasSubstr("'hybrid_override_pattern': got 65537")));
}

TEST(ModelConfigLayersTest, HugeCountIsRefusedBeforeAnythingIsMade) {
  EXPECT_THAT(Parse(With(PresetFigures("llama-3.1-8b"), "num_hidden_layers",
                         int64_t{1} << 31)),
              StatusIs(kInvalid, HasSubstr("accepted: 1 to 65536")));
}

TEST(ModelConfigLayersTest, TwoListsMustSayTheSame) {
  const Json same =
      With(Nemotron("M*E"), "layers_block_type", {"mamba", "attention", "moe"});
  EXPECT_OK(Parse(same));
  EXPECT_THAT(
      Parse(With(same, "layers_block_type", {"mamba", "attention", "mlp"})),
      StatusIs(kInvalid, AllOf(HasSubstr("'layers_block_type' and "
                                         "'hybrid_override_pattern' disagree"),
                               HasSubstr("dense feed-forward for layer 2"),
                               HasSubstr("experts"))));
  EXPECT_THAT(Parse(With(same, "layers_block_type", {"mamba", "attention"})),
              StatusIs(kInvalid, HasSubstr("got 2 layers and 3 layers")));
  EXPECT_THAT(Parse(With(PresetFigures("qwen3.5-35b-a3b-nested"),
                         "full_attention_interval", 2)),
              StatusIs(kInvalid, AllOf(HasSubstr("'layer_types'"),
                                       HasSubstr("'full_attention_interval'"),
                                       HasSubstr("layer 1"))));
}

TEST(ModelConfigLayersTest, WordsOfOtherFamiliesAreRefusedByLayer) {
  const auto expect = [](const Json& json, const char* got) {
    EXPECT_THAT(Parse(json), StatusIs(kInvalid, HasSubstr(got)));
  };
  expect(Granite({"attention", "mlp"}), "'mlp' for layer 1");
  expect(Granite({"rwkv"}), "'rwkv' for layer 0");
  expect(Granite({3}), "'3' for layer 0");
  expect(Nemotron("M?"), "'?' for layer 1");
  expect(With(PresetFigures("llama-3.1-8b"), "layer_types",
              std::vector<std::string>(32, "linear_attention")),
         "'linear_attention' for layer 0");
  expect(With(PresetFigures("minimax-m1-80k"), "attn_type_list",
              std::vector<int>(80, 2)),
         "'2' for layer 0");
  expect(With(PresetFigures("qwen3-next-80b-a3b"), "layer_types", "mamba"),
         "got \"mamba\" (a string)");
  expect(With(Nemotron("M"), "hybrid_override_pattern", {"M"}), "got a list");
}

TEST(ModelConfigMoeTest, FirstLayersAreDense) {
  const auto count = [](const Json& json) -> int64_t {
    const absl::StatusOr<ModelConfig> config = Parse(json);
    EXPECT_OK(config);
    return config.ok() ? config->num_moe_layers : -1;
  };
  Json json = With(PresetFigures("deepseek-v3"), "num_hidden_layers", 6);
  EXPECT_EQ(count(json), 3);
  EXPECT_EQ(count(With(json, "first_k_dense_replace", 1)), 5);
  // Layers 4 only: 0 and 2 are among the first three.
  EXPECT_EQ(count(With(json, "moe_layer_freq", 2)), 1);
  EXPECT_EQ(count(With(json, "moe_layer_freq", {0, 1, 1, 1, 0, 1})), 2);
  EXPECT_THAT(Parse(With(json, "moe_layer_freq", {0, 1})),
              StatusIs(kInvalid, HasSubstr("'moe_layer_freq': got 2 layers")));
  EXPECT_THAT(
      Parse(With(json, "moe_layer_freq", {0, 1, 2, 1, 0, 1})),
      StatusIs(kInvalid, HasSubstr("'moe_layer_freq': got 2 at place 2")));
  EXPECT_THAT(Parse(With(json, "first_k_dense_replace", 7)),
              StatusIs(kInvalid, HasSubstr("'first_k_dense_replace': got 7")));
  EXPECT_THAT(Parse(With(json, "first_k_dense_replace", 6)),
              StatusIs(kInvalid, AllOf(HasSubstr("first_k_dense_replace"),
                                       HasSubstr("got no layer"))));
}

TEST(ModelConfigMoeTest, SparseStepAndListPickTheDenseLayers) {
  Json json = With(PresetFigures("qwen3-30b-a3b"), "num_hidden_layers", 6);
  ASSERT_OK_AND_ASSIGN(const ModelConfig step,
                       Parse(With(json, "decoder_sparse_step", 2)));
  EXPECT_EQ(step.num_moe_layers, 3);
  ASSERT_OK_AND_ASSIGN(const ModelConfig listed,
                       Parse(With(json, "mlp_only_layers", {0, 5, 5})));
  EXPECT_EQ(listed.num_moe_layers, 4);
  EXPECT_THAT(
      Parse(With(json, "mlp_only_layers", {6})),
      StatusIs(kInvalid, HasSubstr("'mlp_only_layers': got 6 at place 0")));
}

TEST(ModelConfigMoeTest, InterleavedLayersAreCountedOrListed) {
  Json json = With(PresetFigures("llama-4-scout"), "num_hidden_layers", 6);
  ASSERT_OK_AND_ASSIGN(const ModelConfig step,
                       Parse(With(json, "interleave_moe_layer_step", 2)));
  EXPECT_EQ(step.num_moe_layers, 3);
  ASSERT_OK_AND_ASSIGN(const ModelConfig listed,
                       Parse(With(json, "moe_layers", {1, 3})));
  EXPECT_EQ(listed.num_moe_layers, 2);
  EXPECT_THAT(Parse(With(json, "moe_layers", Json::array())),
              StatusIs(kInvalid, HasSubstr("moe_layers")));
}

TEST(ModelConfigMoeTest, ExpertsAreGatedOnTheLayerListOfNemotron) {
  // Dense members are saved with the defaults of the expert keys.
  ASSERT_OK_AND_ASSIGN(const ModelConfig dense, Parse(Nemotron("M-*-")));
  EXPECT_FALSE(dense.is_moe());
  EXPECT_EQ(dense.experts_per_token, 0);
  EXPECT_EQ(dense.moe_intermediate_size, 0);
  EXPECT_THAT(Parse(Without(Nemotron("M-*-"), "intermediate_size")),
              StatusIs(kInvalid, AllOf(HasSubstr("'intermediate_size'"),
                                       HasSubstr("a dense model"))));
  EXPECT_THAT(Parse(Without(Nemotron("ME*-"), "intermediate_size")),
              StatusIs(kInvalid, HasSubstr("'intermediate_size'")));
  EXPECT_OK(Parse(Without(Nemotron("ME*E"), "intermediate_size")));
  EXPECT_THAT(Parse(Without(Nemotron("ME*E"), "n_routed_experts")),
              StatusIs(kInvalid, HasSubstr("n_routed_experts")));
}

TEST(ModelConfigMoeTest, SharedWidthComesUnderManyNames) {
  const auto shared = [](const Json& json) -> int64_t {
    const absl::StatusOr<ModelConfig> config = Parse(json);
    EXPECT_OK(config);
    return config.ok() ? config->shared_expert_intermediate_size : -1;
  };
  EXPECT_EQ(shared(PresetFigures("nemotron-3-nano-30b-a3b")), 3712);
  EXPECT_EQ(shared(PresetFigures("deepseek-v2-lite")), 2816);
  EXPECT_EQ(shared(PresetFigures("llama-4-scout")), 8192);
  const Json minimax = PresetFigures("minimax-m2");
  EXPECT_EQ(shared(With(minimax, "shared_intermediate_size", {0})), 0);
  EXPECT_EQ(shared(With(minimax, "shared_intermediate_size", {0, 512, 256})),
            512);
  for (const Json& bad :
       {Json::array(), Json{-1}, Json{"x"}, Json{Json{512}}, Json{0.5}}) {
    EXPECT_THAT(Parse(With(minimax, "shared_intermediate_size", bad)),
                StatusIs(kInvalid, HasSubstr("'shared_intermediate_size'")));
  }
  EXPECT_THAT(
      Parse(Without(PresetFigures("nemotron-3-nano-30b-a3b"),
                    "moe_shared_expert_intermediate_size")),
      StatusIs(kInvalid, HasSubstr("moe_shared_expert_intermediate_size")));
  EXPECT_THAT(Parse(With(PresetFigures("deepseek-v3"), "n_shared_experts",
                         int64_t{1} << 31)),
              StatusIs(kInvalid, HasSubstr("'n_shared_experts'")));
}

TEST(ModelConfigMoeTest, DenseGraniteGetsTheWiderOfItsTwoWidths) {
  for (const auto& [width, want] :
       std::vector<std::pair<int64_t, int64_t>>{{16384, 16384}, {4096, 8192}}) {
    ASSERT_OK_AND_ASSIGN(const ModelConfig config,
                         Parse(With(PresetFigures("granite-4.0-micro"),
                                    "shared_intermediate_size", width)));
    EXPECT_EQ(config.intermediate_size, want);
    EXPECT_EQ(config.shared_expert_intermediate_size, 0);
  }
}

TEST(ModelConfigMoeTest, GraniteExpertsHaveTheDenseWidth) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig config,
                       Parse(With(With(With(PresetFigures("granite-4.0-micro"),
                                            "num_local_experts", 64),
                                       "num_experts_per_tok", 6),
                                  "shared_intermediate_size", 1024)));
  EXPECT_EQ(config.moe_intermediate_size, 8192);
  EXPECT_EQ(config.shared_expert_intermediate_size, 1024);
  EXPECT_EQ(config.num_moe_layers, 40);
}

TEST(ModelConfigMoeTest, ExpertsMayWorkOnNarrowerRows) {
  const Json json = PresetFigures("nemotron-3-nano-30b-a3b");
  ASSERT_OK_AND_ASSIGN(const ModelConfig wide,
                       Parse(With(json, "moe_latent_size", nullptr)));
  EXPECT_EQ(wide.moe_latent_size, 0);
  ASSERT_OK_AND_ASSIGN(const ModelConfig narrow,
                       Parse(With(json, "moe_latent_size", 1024)));
  EXPECT_EQ(narrow.moe_latent_size, 1024);
}

TEST(ModelConfigAttentionTest, OutputGateIsReadOrTheFamilysOwn) {
  for (const char* preset : {"qwen3-next-80b-a3b", "qwen4-exp-defaults"}) {
    ASSERT_OK_AND_ASSIGN(const ModelConfig own, Parse(PresetFigures(preset)));
    EXPECT_TRUE(own.gated_attention) << preset;
    ASSERT_OK_AND_ASSIGN(
        const ModelConfig off,
        Parse(With(PresetFigures(preset), "attn_output_gate", false)));
    EXPECT_FALSE(off.gated_attention) << preset;
  }
  EXPECT_THAT(
      Parse(With(PresetFigures("qwen3-next-80b-a3b"), "attn_output_gate", 1)),
      StatusIs(kInvalid, HasSubstr("'attn_output_gate': got 1")));
}

TEST(ModelConfigAttentionTest, LowRankQueriesAloneAreNoLatentAttention) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig config,
                       Parse(PresetFigures("deepseek-v4-flash-defaults")));
  EXPECT_EQ(config.q_lora_rank, 1024);
  EXPECT_EQ(config.kv_lora_rank, 0);
  EXPECT_EQ(config.head_dim, 512);
}

TEST(ModelConfigLinearTest, DeltaNetFiguresComeTogether) {
  const Json json = PresetFigures("qwen3-next-80b-a3b");
  const char* const keys[] = {"linear_num_key_heads", "linear_num_value_heads",
                              "linear_key_head_dim", "linear_value_head_dim",
                              "linear_conv_kernel_dim"};
  Json none = json;
  for (const char* key : keys) {
    EXPECT_THAT(Parse(Without(json, key)), StatusIs(kInvalid, HasSubstr(key)));
    none.erase(key);
  }
  EXPECT_THAT(Parse(none),
              StatusIs(kInvalid, HasSubstr("'linear_num_key_heads'")));
  // Without a linear layer there is nothing to size.
  ASSERT_OK_AND_ASSIGN(const ModelConfig full,
                       Parse(With(none, "full_attention_interval", 1)));
  EXPECT_EQ(full.gdn_key_heads, 0);
  EXPECT_THAT(full.layers, Each(kFullAttention));
  ASSERT_OK_AND_ASSIGN(const ModelConfig unused,
                       Parse(With(json, "full_attention_interval", 1)));
  EXPECT_EQ(unused.gdn_key_heads, 0);
}

TEST(ModelConfigLinearTest, MambaIsGatedOnTheLayerList) {
  const Json mamba = Granite({"mamba", "attention"});
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, Parse(mamba));
  EXPECT_EQ(config.mamba_heads, 128);
  EXPECT_EQ(config.mamba_head_dim, 32);
  EXPECT_EQ(config.mamba_state, 256);
  EXPECT_EQ(config.mamba_groups, 1);
  ASSERT_OK_AND_ASSIGN(const ModelConfig none,
                       Parse(Granite({"attention", "attention"})));
  EXPECT_EQ(none.mamba_heads, 0);
  EXPECT_EQ(none.mamba_state, 0);
  for (const char* key :
       {"mamba_n_heads", "mamba_d_head", "mamba_d_state", "mamba_n_groups"}) {
    EXPECT_THAT(Parse(Without(mamba, key)), StatusIs(kInvalid, HasSubstr(key)));
    EXPECT_OK(Parse(Without(Granite({"attention"}), key)));
  }
}

TEST(ModelConfigLinearTest, InnerWidthIsHeadsTimesHeadWidth) {
  // 64 x 64, though expand x hidden_size is 5376.
  ASSERT_OK_AND_ASSIGN(const ModelConfig config,
                       Parse(PresetFigures("nemotron-3-nano-30b-a3b")));
  EXPECT_EQ(config.mamba_heads * config.mamba_head_dim, 4096);
  EXPECT_EQ(config.mamba_groups, 8) << "n_groups, not the router's n_group";
}

TEST(ModelConfigLinearTest, HeadWidthMayBeAuto) {
  const Json json =
      With(Granite({"mamba", "attention"}), "mamba_d_head", "auto");
  ASSERT_OK_AND_ASSIGN(const ModelConfig config,
                       Parse(With(json, "mamba_expand", 2)));
  EXPECT_EQ(config.mamba_head_dim, 2 * 2560 / 128);
  EXPECT_THAT(Parse(json),
              StatusIs(kInvalid, HasSubstr("'mamba_d_head': got \"auto\"")));
  EXPECT_THAT(Parse(With(With(json, "mamba_expand", 2), "mamba_n_heads", 127)),
              StatusIs(kInvalid, HasSubstr("'mamba_d_head': got \"auto\"")));
  EXPECT_THAT(Parse(With(PresetFigures("llama-3.1-8b"), "hidden_size", "auto")),
              StatusIs(kInvalid, HasSubstr("'hidden_size': got \"auto\"")));
}

TEST(ModelConfigStreamsTest, HyperConnectionsComeUnderTwoNames) {
  for (const char* key : {"hc_mult", "hc_count"}) {
    const Json json =
        Without(PresetFigures("deepseek-v4-flash-defaults"), "hc_mult");
    ASSERT_OK_AND_ASSIGN(const ModelConfig config, Parse(With(json, key, 2)));
    EXPECT_EQ(config.hyper_connections, 2) << key;
  }
  EXPECT_THAT(Parse(Without(PresetFigures("qwen4-exp-defaults"), "hc_count")),
              StatusIs(kInvalid, AllOf(HasSubstr("'hc_lowrank': got 320"),
                                       HasSubstr("hc_count"))));
}

TEST(ModelConfigStreamsTest, OutputProjectionNeedsGroupsAndRank) {
  const Json json = PresetFigures("deepseek-v4-flash-defaults");
  EXPECT_THAT(Parse(Without(json, "o_groups")),
              StatusIs(kInvalid, HasSubstr("got 0 and 1024")));
  ASSERT_OK_AND_ASSIGN(
      const ModelConfig none,
      Parse(Without(Without(json, "o_groups"), "o_lora_rank")));
  EXPECT_EQ(none.o_groups, 0);
}

TEST(ModelConfigStreamsTest, IndexerIsThereWhollyOrNotAtAll) {
  const Json qwen = PresetFigures("qwen4-exp-defaults");
  const char* const keys[] = {"indexer_n_heads", "indexer_kv_heads",
                              "indexer_head_dim", "indexer_budget",
                              "indexer_compress_ratio"};
  Json none = qwen;
  for (const char* key : keys) {
    EXPECT_THAT(Parse(Without(qwen, key)),
                StatusIs(kInvalid,
                         AllOf(HasSubstr(key), HasSubstr("belong together"))));
    none[key] = nullptr;
  }
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, Parse(none));
  EXPECT_EQ(config.indexer_heads, 0);
  EXPECT_EQ(config.indexer_compress_ratio, 0);
  EXPECT_THAT(Parse(With(qwen, "indexer_kv_heads", 2)),
              StatusIs(kInvalid, HasSubstr("'indexer_kv_heads': got 2")));
  EXPECT_THAT(Parse(With(qwen, "indexer_budget", 2047)),
              StatusIs(kInvalid, HasSubstr("'indexer_budget': got 2047")));
  const Json deepseek = PresetFigures("deepseek-v4-flash-defaults");
  for (const char* key : {"index_n_heads", "index_head_dim", "index_topk"}) {
    EXPECT_THAT(Parse(Without(deepseek, key)),
                StatusIs(kInvalid, HasSubstr(key)));
  }
}

TEST(ModelConfigQuantizationTest, EveryMethodIsRead) {
  const std::vector<std::pair<const char*, Quantization>> methods = {
      {"fp8", Quantization::kFp8},
      {"mxfp4", Quantization::kMxfp4},
      {"gptq", Quantization::kGptq},
      {"awq", Quantization::kAwq},
      {"compressed-tensors", Quantization::kCompressedTensors},
      {"modelopt", Quantization::kModelOpt}};
  for (const auto& [name, kind] : methods) {
    const Json section = {{"quant_method", name}, {"bits", 4}};
    const Json figures = PresetFigures("llama-3.1-8b");
    ASSERT_OK_AND_ASSIGN(const ModelConfig flat,
                         Parse(With(figures, "quantization_config", section)));
    EXPECT_EQ(flat.quantization, kind) << name;
    ASSERT_OK_AND_ASSIGN(
        const ModelConfig outside,
        Parse({{"text_config", figures}, {"quantization_config", section}}));
    EXPECT_EQ(outside.quantization, kind) << name;
  }
}

TEST(ModelConfigQuantizationTest, MlxCopiesAreRefusedByName) {
  const Json figures = PresetFigures("qwen3-30b-a3b");
  const Json mlx = {{"group_size", 64}, {"bits", 4}};
  for (const Json& json :
       {With(figures, "quantization_config", mlx),
        With(figures, "quantization", mlx),
        Json{{"text_config", figures}, {"quantization_config", mlx}}}) {
    EXPECT_THAT(Parse(json),
                StatusIs(kInvalid, AllOf(HasSubstr("MLX"),
                                         HasSubstr("group_size and bits"))));
  }
  EXPECT_OK(Parse(With(figures, "quantization_config", nullptr)));
}

TEST(ModelConfigQuantizationTest, WhatIsNotKnownIsNamed) {
  const auto expect = [](const Json& section, const char* message) {
    EXPECT_THAT(Parse(With(PresetFigures("deepseek-v3"), "quantization_config",
                           section)),
                StatusIs(kInvalid, HasSubstr(message)));
  };
  expect({{"quant_method", "quip"}},
         "'quantization_config.quant_method': got \"quip\"");
  expect({{"quant_method", 8}}, "got 8");
  expect(Json::object(), "got no such key or null");
  expect({{"quant_method", "fp8"}, {"fmt", "e5m2"}},
         "'quantization_config.fmt': got \"e5m2\"");
  for (const Json& size : {Json{128}, Json{128, 0}, Json{128, 128, 128},
                           Json("128"), Json{128, 0.5}}) {
    expect({{"quant_method", "fp8"}, {"weight_block_size", size}},
           "'quantization_config.weight_block_size'");
  }
  EXPECT_OK(Parse(With(PresetFigures("deepseek-v3"), "quantization_config",
                       {{"quant_method", "fp8"}, {"fmt", "float8_e4m3fn"}})));
}

TEST(ModelConfigQuantizationTest, InsideAndOutsideMustAgree) {
  const Json fp8 = {{"quant_method", "fp8"}};
  const Json inner =
      With(PresetFigures("llama-3.1-8b"), "quantization_config", fp8);
  EXPECT_OK(Parse({{"text_config", inner}, {"quantization_config", fp8}}));
  EXPECT_THAT(Parse({{"text_config", inner},
                     {"quantization_config", {{"quant_method", "awq"}}}}),
              StatusIs(kInvalid,
                       AllOf(HasSubstr("'text_config.quantization_config' and "
                                       "'quantization_config' disagree"),
                             HasSubstr("fp8"), HasSubstr("awq"))));
}

TEST(ModelConfigBoundsTest, RowsBeyondAllMeasureAreRefused) {
  const Json llama = PresetFigures("llama-3.1-8b");
  EXPECT_THAT(
      Parse(With(llama, "head_dim", int64_t{1} << 30)),
      StatusIs(kInvalid, AllOf(HasSubstr("'num_attention_heads' x 'head_dim'"),
                               HasSubstr("got 34359738368"))));
  EXPECT_OK(Parse(With(llama, "head_dim", int64_t{1} << 26)));
  EXPECT_THAT(Parse(With(PresetFigures("qwen3-30b-a3b"),
                         "moe_intermediate_size", int64_t{1} << 31)),
              StatusIs(kInvalid, HasSubstr("'num_experts_per_tok' x "
                                           "'moe_intermediate_size'")));
  EXPECT_THAT(Parse(With(PresetFigures("qwen4-exp-defaults"), "hc_count",
                         int64_t{1} << 31)),
              StatusIs(kInvalid, HasSubstr("'hc_count' x 'hidden_size'")));
}

TEST(ModelConfigBoundsTest, HiddenWidthsOfOlderFamiliesAreRefusedByName) {
  for (const char* key : {"n_embd", "d_model"}) {
    const Json json = Without(PresetFigures("llama-3.1-8b"), "hidden_size");
    EXPECT_THAT(
        Parse(With(json, key, 4096)),
        StatusIs(kInvalid, AllOf(HasSubstr(key), HasSubstr("hidden_size"))));
  }
}

TEST(ModelConfigFamilyTest, OuterNamesMeanTheTextModel) {
  for (const auto& [outer, preset] :
       std::vector<std::pair<const char*, const char*>>{
           {"llama4", "llama-4-scout"},
           {"qwen3_5_moe", "qwen3.5-35b-a3b-nested"},
           {"qwen4_exp", "qwen4-exp-defaults"}}) {
    const Json figures = Without(PresetFigures(preset), "model_type");
    ASSERT_OK_AND_ASSIGN(
        const ModelConfig config,
        Parse({{"model_type", outer}, {"text_config", figures}}));
    EXPECT_EQ(config.model_type, std::string(outer) + "_text");
  }
}

}  // namespace
}  // namespace permafrost
