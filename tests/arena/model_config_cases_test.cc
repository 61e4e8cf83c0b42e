// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Configs that other engines read wrongly, one test for each public report. A
// case that tells of a wrong reader also plants that reader and has to find it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "arena/model_presets.h"
#include "permafrost/arena/buffer_table.h"
#include "permafrost/arena/moe_fp8_layout.h"
#include "support/status_matchers.h"

namespace permafrost {
namespace {

using ::permafrost::testing::FiguresOf;
using ::permafrost::testing::kInvalid;
using ::permafrost::testing::Parse;
using ::permafrost::testing::PresetFigures;
using ::permafrost::testing::PresetTexts;
using ::permafrost::testing::StatusIs;
using ::permafrost::testing::With;
using ::permafrost::testing::Without;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;
using Reader = std::function<absl::StatusOr<ModelConfig>(const Json&)>;

constexpr const char* kExpertKeys[] = {"num_experts", "n_routed_experts",
                                       "num_local_experts"};

// --- B67: widths that no group of 128 divides.

/// Bytes that the slab keeps for scales, at least one f32 a group of 128.
bool ScalesHoldEveryGroup(const MoeFp8Layout& layout, int64_t rows,
                          int64_t width) {
  const int64_t groups = width / 128 + (width % 128 != 0 ? 1 : 0);
  return layout.worklist - layout.scale >= rows * groups * 4;
}

TEST(ModelConfigCases, B67_ScalesCountThePartialGroup) {
  for (int64_t width : {64, 70, 192, 1408}) {
    SCOPED_TRACE(width);
    // Hidden is narrow, so that the experts decide how many scales there are.
    const Json json = With(With(With(PresetFigures("qwen3-30b-a3b"),
                                     "moe_intermediate_size", width),
                                "hidden_size", 64),
                           "num_experts_per_tok", 1);
    ASSERT_OK_AND_ASSIGN(const ModelConfig config, Parse(json));
    EXPECT_EQ(config.moe_intermediate_size, width);
    constexpr int64_t kRows = 4096;
    ASSERT_OK_AND_ASSIGN(MoeFp8Layout layout,
                         MoeFp8Layout::ForRows(config, kRows));
    EXPECT_TRUE(ScalesHoldEveryGroup(layout, kRows, width));
    // The planted fault: rounding the groups down.
    layout.worklist = layout.scale + kRows * (width / 128) * 4;
    EXPECT_EQ(ScalesHoldEveryGroup(layout, kRows, width), width % 128 == 0);
  }
}

// --- B119: head_dim derived although it is stated.

Json StatedHeadDim() {
  return With(
      With(With(With(PresetFigures("llama-3.1-8b"), "hidden_size", 3072),
                "num_attention_heads", 16),
           "num_key_value_heads", 16),
      "head_dim", 256);
}

/// What a reader gets wrong of the presets that state their head width.
std::vector<std::string> WronglyDerived(const Reader& reader) {
  std::vector<std::string> wrong;
  const auto check = [&](const std::string& name, Json json) {
    const Json& figures = FiguresOf(json);
    if (!figures.contains("head_dim")) return;
    const absl::StatusOr<ModelConfig> config = reader(json);
    if (!config.ok() || config->head_dim != figures.at("head_dim")) {
      wrong.push_back(name);
    }
  };
  check("3072 / 16", StatedHeadDim());
  for (const auto& [name, json] : PresetTexts()) check(name, json);
  return wrong;
}

/// The planted reader: divides, whatever the config says.
absl::StatusOr<ModelConfig> ReadByDividing(const Json& json) {
  absl::StatusOr<ModelConfig> config = Parse(json);
  if (config.ok()) {
    config->head_dim = config->hidden_size / config->num_attention_heads;
  }
  return config;
}

TEST(ModelConfigCases, B119_HeadDimIsTakenAsStated) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, Parse(StatedHeadDim()));
  EXPECT_EQ(config.head_dim, 256);
  EXPECT_THAT(WronglyDerived(Parse), ::testing::IsEmpty());
  EXPECT_THAT(WronglyDerived(ReadByDividing),
              ::testing::IsSupersetOf(
                  {"3072 / 16", "qwen3-30b-a3b", "gpt-oss-20b", "glm-4.5-air",
                   "minimax-m2", "nemotron-3-nano-30b-a3b",
                   "qwen3-next-80b-a3b", "deepseek-v4-flash-defaults"}));
}

/// Bytes that the rows of the true model's attention need beyond what the plan
/// of `planned` holds for them; 0 where they fit.
absl::StatusOr<int64_t> OverrunBytes(const ModelConfig& planned,
                                     const ModelConfig& truth) {
  constexpr int64_t kRows = 64;
  const auto bytes = [](const ModelConfig& config) -> absl::StatusOr<int64_t> {
    absl::StatusOr<std::vector<BufferSize>> sizes =
        ComputeBufferSizes(config, {.max_batch_tokens = kRows});
    if (!sizes.ok()) return sizes.status();
    for (const BufferSize& size : *sizes) {
      if (size.name == "qkv_output") return size.bytes;
    }
    return absl::NotFoundError("qkv_output");
  };
  const absl::StatusOr<int64_t> held = bytes(planned);
  if (!held.ok()) return held.status();
  const int64_t written = kRows *
                          (truth.num_attention_heads + 2 * truth.num_kv_heads) *
                          truth.head_dim * 2;
  return std::max(written - *held, int64_t{0});
}

TEST(ModelConfigCases, B119_ADividedHeadDimWouldOverrunItsBuffer) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig truth, Parse(StatedHeadDim()));
  ASSERT_OK_AND_ASSIGN(const ModelConfig divided,
                       ReadByDividing(StatedHeadDim()));
  ASSERT_OK_AND_ASSIGN(const int64_t none, OverrunBytes(truth, truth));
  EXPECT_EQ(none, 0);
  // 64 rows of 48 heads, each 64 values too narrow: far into the next buffer.
  ASSERT_OK_AND_ASSIGN(const int64_t over, OverrunBytes(divided, truth));
  EXPECT_EQ(over, 64 * 48 * 64 * 2);
}

// --- B120: a key that is present with null, or with a number of another type.

/// The config's text with `raw` as the value of `key`.
std::string WithRaw(Json config, const std::string& key,
                    const std::string& raw) {
  constexpr char kMark[] = "@value@";
  std::string text = With(std::move(config), key, kMark).dump();
  const std::string quoted = "\"" + std::string(kMark) + "\"";
  text.replace(text.find(quoted), quoted.size(), raw);
  return text;
}

/// What absence (and null) and 0 mean of one key; nullopt is an error.
struct KeyRule {
  const char* preset;
  const char* key;
  int64_t ModelConfig::*figure;
  std::optional<int64_t> absent;
  std::optional<int64_t> zero;
};

constexpr std::nullopt_t kError = std::nullopt;

const std::vector<KeyRule>& KeyRules() {
  using C = ModelConfig;
  static const auto* const kRules = new std::vector<KeyRule>{
      {"llama-3.1-8b", "hidden_size", &C::hidden_size, kError, kError},
      {"llama-3.1-8b", "vocab_size", &C::vocab_size, kError, kError},
      {"llama-3.1-8b", "num_hidden_layers", &C::num_layers, kError, kError},
      {"llama-3.1-8b", "num_attention_heads", &C::num_attention_heads, kError,
       kError},
      {"llama-3.1-8b", "num_key_value_heads", &C::num_kv_heads, 32, kError},
      {"llama-3.1-8b", "intermediate_size", &C::intermediate_size, kError,
       kError},
      {"qwen3-8b", "head_dim", &C::head_dim, 128, kError},
      {"glm-4.5-air", "head_dim", &C::head_dim, kError, kError},
      {"gpt-oss-20b", "head_dim", &C::head_dim, kError, kError},
      {"qwen3-30b-a3b", "num_experts", &C::num_experts, kError, kError},
      {"qwen3-30b-a3b", "num_experts_per_tok", &C::experts_per_token, kError,
       kError},
      {"qwen3-30b-a3b", "moe_intermediate_size", &C::moe_intermediate_size,
       kError, kError},
      {"qwen3-30b-a3b", "decoder_sparse_step", &C::num_moe_layers, 48, kError},
      {"mixtral-8x7b", "intermediate_size", &C::moe_intermediate_size, kError,
       kError},
      {"llama-4-scout", "intermediate_size_mlp", &C::intermediate_size, 8192,
       kError},
      {"deepseek-v3", "n_shared_experts", &C::shared_expert_intermediate_size,
       kError, 0},
      {"minimax-m2", "shared_intermediate_size",
       &C::shared_expert_intermediate_size, 0, 0},
      {"deepseek-v3", "first_k_dense_replace", &C::num_moe_layers, 61, 61},
      {"deepseek-v3", "moe_layer_freq", &C::num_moe_layers, 58, kError},
      {"deepseek-v3", "kv_lora_rank", &C::kv_lora_rank, kError, kError},
      {"deepseek-v3", "q_lora_rank", &C::q_lora_rank, 0, 0},
      {"deepseek-v3", "qk_nope_head_dim", &C::qk_nope_head_dim, kError, kError},
      {"deepseek-v3", "qk_rope_head_dim", &C::qk_rope_head_dim, kError, kError},
      {"deepseek-v3", "v_head_dim", &C::v_head_dim, kError, kError},
      {"deepseek-v4-flash-defaults", "hc_mult", &C::hyper_connections, 0, 0},
      {"deepseek-v4-flash-defaults", "o_groups", &C::o_groups, kError, kError},
      {"deepseek-v4-flash-defaults", "index_topk", &C::indexer_top_k, kError,
       kError},
      {"qwen4-exp-defaults", "indexer_compress_ratio",
       &C::indexer_compress_ratio, kError, kError},
      {"qwen3-next-80b-a3b", "linear_num_key_heads", &C::gdn_key_heads, kError,
       kError},
      {"nemotron-3-nano-30b-a3b", "num_hidden_layers", &C::num_layers, 52,
       kError},
      {"nemotron-3-nano-30b-a3b", "mamba_num_heads", &C::mamba_heads, kError,
       kError},
      {"nemotron-3-nano-30b-a3b", "n_groups", &C::mamba_groups, kError, kError},
      {"nemotron-3-nano-30b-a3b", "intermediate_size", &C::intermediate_size, 0,
       kError},
  };
  return *kRules;
}

void ExpectRead(const std::string& text, const KeyRule& rule,
                const std::optional<int64_t>& want) {
  const absl::StatusOr<ModelConfig> config = ParseModelConfig(text, "c.json");
  if (want) {
    ASSERT_OK(config);
    EXPECT_EQ((*config).*rule.figure, *want);
  } else {
    EXPECT_THAT(config, StatusIs(kInvalid, AllOf(HasSubstr(rule.key),
                                                 HasSubstr("accepted"))));
  }
}

TEST(ModelConfigCases, B120_NullIsAbsentAndOnlyIntegersAreNumbers) {
  for (const KeyRule& rule : KeyRules()) {
    SCOPED_TRACE(std::string(rule.preset) + " " + rule.key);
    const Json preset = PresetTexts().at(rule.preset);
    ASSERT_OK(Parse(preset));
    ExpectRead(Without(preset, rule.key).dump(), rule, rule.absent);
    ExpectRead(WithRaw(preset, rule.key, "null"), rule, rule.absent);
    ExpectRead(WithRaw(preset, rule.key, "0"), rule, rule.zero);
    for (const char* raw :
         {"-1", "\"8\"", "8.0", "1e3", "9223372036854775808"}) {
      SCOPED_TRACE(raw);
      ExpectRead(WithRaw(preset, rule.key, raw), rule, std::nullopt);
    }
  }
}

// --- B124: expert keys under text_config, and their spellings.

/// The bytes of the slab of routed experts, as the buffer table sees it.
absl::StatusOr<int64_t> SlabBytes(const ModelConfig& config) {
  absl::StatusOr<std::vector<BufferSize>> sizes =
      ComputeBufferSizes(config, {.max_batch_tokens = 64});
  if (!sizes.ok()) return sizes.status();
  for (const BufferSize& size : *sizes) {
    if (size.name == "moe_fp8_scratch") return size.bytes;
  }
  return absl::NotFoundError("moe_fp8_scratch");
}

/// The planted reader: looks for experts at the top alone, and takes a model
/// without them for a dense one.
absl::StatusOr<ModelConfig> ReadExpertsAtTheTop(const Json& json) {
  absl::StatusOr<ModelConfig> config = Parse(json);
  if (!config.ok()) return config;
  bool found = false;
  for (const char* key : kExpertKeys) found = found || json.contains(key);
  if (!found) {
    config->num_experts = 0;
    config->experts_per_token = 0;
    config->moe_intermediate_size = 0;
  }
  return config;
}

/// Whether a reader sees the experts under every key, nested and not.
bool SeesExperts(const Reader& reader, bool nested) {
  for (const char* key : kExpertKeys) {
    const Json figures =
        With(Without(PresetFigures("qwen3-30b-a3b"), "num_experts"), key, 128);
    const absl::StatusOr<ModelConfig> config =
        reader(nested ? Json{{"text_config", figures}} : figures);
    if (!config.ok() || config->num_experts != 128) return false;
    const absl::StatusOr<int64_t> slab_bytes = SlabBytes(*config);
    if (!slab_bytes.ok() || *slab_bytes == 0) return false;
  }
  return true;
}

TEST(ModelConfigCases, B124_ExpertsAreSeenWhereverTheyAreSpelled) {
  EXPECT_TRUE(SeesExperts(Parse, /*nested=*/false));
  EXPECT_TRUE(SeesExperts(Parse, /*nested=*/true));
  EXPECT_TRUE(SeesExperts(ReadExpertsAtTheTop, /*nested=*/false));
  EXPECT_FALSE(SeesExperts(ReadExpertsAtTheTop, /*nested=*/true));
}

TEST(ModelConfigCases, B124_ExpertsBesideTheNestedTextAreNotItsExperts) {
  Json outside = {
      {"num_experts", 128},
      {"text_config", Without(PresetFigures("qwen3-30b-a3b"), "num_experts")}};
  EXPECT_THAT(Parse(outside),
              StatusIs(kInvalid, HasSubstr("'text_config.num_experts': got no "
                                           "such key")));
}

TEST(ModelConfigCases, B124_TwoSpellingsMustAgree) {
  for (bool nested : {false, true}) {
    const auto parse = [nested](const Json& figures) {
      return Parse(nested ? Json{{"text_config", figures}} : figures);
    };
    const Json preset = PresetFigures("qwen3-30b-a3b");
    for (const char* key : {"n_routed_experts", "num_local_experts"}) {
      EXPECT_OK(parse(With(preset, key, 128)));
      EXPECT_THAT(
          parse(With(preset, key, 64)),
          StatusIs(kInvalid, AllOf(HasSubstr("num_experts'"), HasSubstr(key),
                                   HasSubstr("got 128 and 64"))));
    }
  }
}

TEST(ModelConfigCases, B124_NoExpertsIsADenseModelWithoutASlab) {
  const Json dense = PresetFigures("llama-3.1-8b");
  for (const Json& json :
       {dense, With(dense, "num_experts", 0),
        With(Without(PresetFigures("qwen3-30b-a3b"), "num_experts_per_tok"),
             "num_experts", 0),
        PresetFigures("granite-4.0-micro"),
        With(PresetFigures("granite-4.0-micro"), "num_local_experts", 0)}) {
    ASSERT_OK_AND_ASSIGN(const ModelConfig config, Parse(json));
    EXPECT_FALSE(config.is_moe());
    ASSERT_OK_AND_ASSIGN(const int64_t slab_bytes, SlabBytes(config));
    EXPECT_EQ(slab_bytes, 0);
  }
}

// --- B125: a count that is on one object only.

TEST(ModelConfigCases, B125_MissingKvHeadsAreTheHeads) {
  for (const auto& [name, json] : PresetTexts()) {
    ASSERT_OK_AND_ASSIGN(const ModelConfig config,
                         Parse(Without(json, "num_key_value_heads")));
    EXPECT_EQ(config.num_kv_heads, config.num_attention_heads) << name;
  }
}

TEST(ModelConfigCases, B125_MissingTopKWithExpertsIsAnError) {
  for (const auto& [name, json] : PresetTexts()) {
    SCOPED_TRACE(name);
    ASSERT_OK_AND_ASSIGN(const ModelConfig config, Parse(json));
    const Json without =
        Without(Without(json, "num_experts_per_tok"), "experts_per_token");
    if (config.is_moe()) {
      EXPECT_THAT(Parse(without),
                  StatusIs(kInvalid, AllOf(HasSubstr("num_experts_per_tok"),
                                           HasSubstr("experts_per_token"))));
    } else {
      EXPECT_OK(Parse(without));
    }
  }
}

}  // namespace
}  // namespace permafrost
