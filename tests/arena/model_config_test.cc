// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "arena/model_presets.h"
#include "nlohmann/json.hpp"
#include "support/status_matchers.h"

namespace permafrost {
namespace {

using ::permafrost::testing::kInvalid;
using ::permafrost::testing::Parse;
using ::permafrost::testing::StatusIs;
using ::permafrost::testing::With;
using ::permafrost::testing::Without;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

Json Qwen3Moe() {
  return {{"model_type", "qwen3_moe"},   {"hidden_size", 2048},
          {"num_hidden_layers", 48},     {"num_attention_heads", 32},
          {"num_key_value_heads", 4},    {"head_dim", 128},
          {"vocab_size", 151936},        {"intermediate_size", 6144},
          {"num_experts", 128},          {"num_experts_per_tok", 8},
          {"moe_intermediate_size", 768}};
}

Json DeepSeekV3() {
  return {{"model_type", "deepseek_v3"},
          {"hidden_size", 7168},
          {"num_hidden_layers", 61},
          {"num_attention_heads", 128},
          {"vocab_size", 129280},
          {"intermediate_size", 18432},
          {"n_routed_experts", 256},
          {"n_shared_experts", 1},
          {"num_experts_per_tok", 8},
          {"moe_intermediate_size", 2048},
          {"kv_lora_rank", 512},
          {"q_lora_rank", 1536},
          {"qk_nope_head_dim", 128},
          {"qk_rope_head_dim", 64},
          {"v_head_dim", 128}};
}

Json Mixtral() {
  return {{"model_type", "mixtral"},    {"hidden_size", 4096},
          {"num_hidden_layers", 32},    {"num_attention_heads", 32},
          {"num_key_value_heads", 8},   {"vocab_size", 32000},
          {"intermediate_size", 14336}, {"num_local_experts", 8},
          {"num_experts_per_tok", 2}};
}

Json Llama() {
  return {{"model_type", "llama"},     {"hidden_size", 4096},
          {"num_hidden_layers", 32},   {"num_attention_heads", 32},
          {"num_key_value_heads", 8},  {"vocab_size", 128256},
          {"intermediate_size", 14336}};
}

TEST(ModelConfigTest, ReadsQwen3Moe) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, Parse(Qwen3Moe()));
  EXPECT_EQ(config.model_type, "qwen3_moe");
  EXPECT_EQ(config.source, "test.json");
  EXPECT_EQ(config.hidden_size, 2048);
  EXPECT_EQ(config.num_layers, 48);
  EXPECT_EQ(config.num_attention_heads, 32);
  EXPECT_EQ(config.num_kv_heads, 4);
  EXPECT_EQ(config.head_dim, 128) << "64 would be the derived width";
  EXPECT_EQ(config.vocab_size, 151936);
  EXPECT_EQ(config.intermediate_size, 6144);
  EXPECT_EQ(config.num_experts, 128);
  EXPECT_EQ(config.experts_per_token, 8);
  EXPECT_EQ(config.moe_intermediate_size, 768);
  EXPECT_EQ(config.shared_expert_intermediate_size, 0);
  EXPECT_EQ(config.kv_lora_rank, 0);
  EXPECT_FALSE(config.normalize_topk);
}

TEST(ModelConfigTest, ReadsDeepSeekV3) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, Parse(DeepSeekV3()));
  EXPECT_EQ(config.num_experts, 256);
  EXPECT_EQ(config.shared_expert_intermediate_size, 2048);
  EXPECT_EQ(config.head_dim, 192) << "nope 128 + rope 64, not 7168 / 128";
  EXPECT_EQ(config.num_kv_heads, 128) << "absent: as many as query heads";
  EXPECT_EQ(config.kv_lora_rank, 512);
  EXPECT_EQ(config.q_lora_rank, 1536);
  EXPECT_EQ(config.v_head_dim, 128);
  EXPECT_TRUE(config.normalize_topk);
}

TEST(ModelConfigTest, ReadsMixtralWhoseExpertsHaveTheDenseWidth) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, Parse(Mixtral()));
  EXPECT_EQ(config.moe_intermediate_size, 14336);
  EXPECT_EQ(config.intermediate_size, 14336);
  EXPECT_EQ(config.head_dim, 128);
  EXPECT_TRUE(config.normalize_topk);
}

TEST(ModelConfigTest, ReadsLlamaAsDense) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, Parse(Llama()));
  EXPECT_FALSE(config.is_moe());
  EXPECT_EQ(config.experts_per_token, 0);
  EXPECT_EQ(config.moe_intermediate_size, 0);
  EXPECT_EQ(config.head_dim, 128);
}

TEST(ModelConfigTest, ReadsNestedTextAndNothingBesideIt) {
  const Json nested = {{"model_type", "a_vision_model"},
                       {"hidden_size", 1},
                       {"vision_config", {{"hidden_size", 2}}},
                       {"text_config", Qwen3Moe()}};
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, Parse(nested));
  EXPECT_EQ(config.model_type, "qwen3_moe");
  EXPECT_EQ(config.hidden_size, 2048);

  Json missing = nested;
  missing["text_config"].erase("hidden_size");
  EXPECT_THAT(Parse(missing),
              StatusIs(kInvalid, HasSubstr("'text_config.hidden_size'")));
}

TEST(ModelConfigTest, TakesTheOuterFamilyWhereTheNestedTextHasNone) {
  Json nested = {{"model_type", "qwen3_moe"},
                 {"text_config", Without(Qwen3Moe(), "model_type")}};
  EXPECT_OK(Parse(nested));
  nested["text_config"] = 3;
  EXPECT_THAT(Parse(nested),
              StatusIs(kInvalid, HasSubstr("'text_config': got 3")));
  EXPECT_OK(Parse(With(Qwen3Moe(), "text_config", nullptr)));
}

TEST(ModelConfigTest, EverySpellingOfAFigureIsRead) {
  for (const char* key :
       {"num_experts", "n_routed_experts", "num_local_experts"}) {
    ASSERT_OK_AND_ASSIGN(
        const ModelConfig config,
        Parse(With(Without(Qwen3Moe(), "num_experts"), key, 64)));
    EXPECT_EQ(config.num_experts, 64) << key;
  }
  for (const char* key : {"num_experts_per_tok", "experts_per_token"}) {
    ASSERT_OK_AND_ASSIGN(
        const ModelConfig config,
        Parse(With(Without(Qwen3Moe(), "num_experts_per_tok"), key, 4)));
    EXPECT_EQ(config.experts_per_token, 4) << key;
  }
  for (const char* key :
       {"shared_expert_intermediate_size",
        "moe_shared_expert_intermediate_size", "shared_intermediate_size"}) {
    ASSERT_OK_AND_ASSIGN(const ModelConfig config,
                         Parse(With(Qwen3Moe(), key, 512)));
    EXPECT_EQ(config.shared_expert_intermediate_size, 512) << key;
  }
}

TEST(ModelConfigTest, SpellingsThatDisagreeAreBothPrinted) {
  EXPECT_OK(Parse(With(Qwen3Moe(), "num_local_experts", 128)));
  EXPECT_THAT(Parse(With(Qwen3Moe(), "num_local_experts", 64)),
              StatusIs(kInvalid, AllOf(HasSubstr("'num_experts'"),
                                       HasSubstr("'num_local_experts'"),
                                       HasSubstr("got 128 and 64"),
                                       HasSubstr("test.json"))));
  EXPECT_THAT(Parse(With(Qwen3Moe(), "experts_per_token", 4)),
              StatusIs(kInvalid, HasSubstr("got 8 and 4")));
  EXPECT_THAT(Parse(With(Mixtral(), "moe_intermediate_size", 768)),
              StatusIs(kInvalid, AllOf(HasSubstr("'moe_intermediate_size'"),
                                       HasSubstr("'intermediate_size'"))));
  EXPECT_OK(Parse(With(Mixtral(), "moe_intermediate_size", 14336)));
}

TEST(ModelConfigTest, ExplicitSharedWidthWinsOverTheCount) {
  ASSERT_OK_AND_ASSIGN(
      const ModelConfig config,
      Parse(With(With(DeepSeekV3(), "n_shared_experts", 2),
                 "moe_shared_expert_intermediate_size", 3712)));
  EXPECT_EQ(config.shared_expert_intermediate_size, 3712);
  ASSERT_OK_AND_ASSIGN(const ModelConfig two,
                       Parse(With(DeepSeekV3(), "n_shared_experts", 2)));
  EXPECT_EQ(two.shared_expert_intermediate_size, 4096);
}

TEST(ModelConfigTest, AbsentKeyListsEverySpelling) {
  EXPECT_THAT(Parse(Without(Qwen3Moe(), "num_experts")),
              StatusIs(kInvalid, AllOf(HasSubstr("num_experts"),
                                       HasSubstr("n_routed_experts"),
                                       HasSubstr("num_local_experts"),
                                       HasSubstr("no such key"))));
  EXPECT_THAT(Parse(Without(Qwen3Moe(), "num_experts_per_tok")),
              StatusIs(kInvalid, AllOf(HasSubstr("num_experts_per_tok"),
                                       HasSubstr("experts_per_token"))));
  EXPECT_THAT(Parse(Without(DeepSeekV3(), "n_shared_experts")),
              StatusIs(kInvalid, AllOf(HasSubstr("'n_shared_experts'"),
                                       HasSubstr("shared_intermediate_size"))));
}

TEST(ModelConfigTest, MissingExpertWidthIsAnErrorNeverZero) {
  for (Json bad : {Without(Qwen3Moe(), "moe_intermediate_size"),
                   With(Qwen3Moe(), "moe_intermediate_size", nullptr),
                   With(Qwen3Moe(), "moe_intermediate_size", 0)}) {
    EXPECT_THAT(Parse(bad),
                StatusIs(kInvalid, HasSubstr("'moe_intermediate_size'")));
  }
}

TEST(ModelConfigTest, DenseWidthOfAMixedModelIsNotGuessed) {
  // Without it the expert buffers would be sized by the experts alone, which
  // are narrower than this model's dense layers.
  EXPECT_THAT(Parse(Without(DeepSeekV3(), "intermediate_size")),
              StatusIs(kInvalid, HasSubstr("'intermediate_size'")));
}

TEST(ModelConfigTest, TopKAboveTheExpertsNamesBothKeys) {
  EXPECT_OK(Parse(With(DeepSeekV3(), "num_experts_per_tok", 256)));
  EXPECT_THAT(
      Parse(With(DeepSeekV3(), "num_experts_per_tok", 257)),
      StatusIs(kInvalid, AllOf(HasSubstr("'num_experts_per_tok': got 257"),
                               HasSubstr("'n_routed_experts', which is 256"))));
  EXPECT_THAT(Parse(With(DeepSeekV3(), "num_experts_per_tok", 0)),
              StatusIs(kInvalid, HasSubstr("'num_experts_per_tok': got 0")));
}

TEST(ModelConfigTest, NoExpertsIsADenseModelWithoutTopK) {
  const Json dense = With(Qwen3Moe(), "num_experts", 0);
  EXPECT_THAT(Parse(dense), StatusIs(kInvalid, HasSubstr("'num_experts'")));
  ASSERT_OK_AND_ASSIGN(const ModelConfig config,
                       Parse(Without(dense, "num_experts_per_tok")));
  EXPECT_FALSE(config.is_moe());
}

TEST(ModelConfigTest, ExpertsInADenseFamilyAreRefused) {
  EXPECT_OK(Parse(With(Llama(), "num_local_experts", 0)));
  EXPECT_THAT(Parse(With(Llama(), "num_local_experts", 8)),
              StatusIs(kInvalid, AllOf(HasSubstr("'num_local_experts': got 8"),
                                       HasSubstr("llama"))));
}

TEST(ModelConfigTest, HeadDimIsDerivedOnlyWhereItIsExact) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig derived,
                       Parse(With(Mixtral(), "head_dim", nullptr)));
  EXPECT_EQ(derived.head_dim, 128);
  ASSERT_OK_AND_ASSIGN(const ModelConfig given,
                       Parse(With(Mixtral(), "head_dim", 96)));
  EXPECT_EQ(given.head_dim, 96);
  EXPECT_THAT(Parse(With(With(Mixtral(), "num_attention_heads", 96),
                         "num_key_value_heads", 8)),
              StatusIs(kInvalid, AllOf(HasSubstr("'head_dim'"),
                                       HasSubstr("hidden_size = 4096"),
                                       HasSubstr("= 96"))));
}

TEST(ModelConfigTest, HeadDimOfLatentAttentionMustFitItsParts) {
  for (int64_t accepted : {192, 64}) {
    ASSERT_OK_AND_ASSIGN(const ModelConfig config,
                         Parse(With(DeepSeekV3(), "head_dim", accepted)));
    EXPECT_EQ(config.head_dim, 192);
  }
  EXPECT_THAT(Parse(With(DeepSeekV3(), "head_dim", 56)),
              StatusIs(kInvalid, AllOf(HasSubstr("'head_dim': got 56"),
                                       HasSubstr("192"))));
}

TEST(ModelConfigTest, QueriesWithoutCompressionHaveRankZero) {
  for (const Json& json : {With(DeepSeekV3(), "q_lora_rank", nullptr),
                           Without(DeepSeekV3(), "q_lora_rank")}) {
    ASSERT_OK_AND_ASSIGN(const ModelConfig config, Parse(json));
    EXPECT_EQ(config.q_lora_rank, 0);
  }
}

TEST(ModelConfigTest, KvHeadsMustDivideTheHeads) {
  EXPECT_THAT(Parse(With(Llama(), "num_key_value_heads", 5)),
              StatusIs(kInvalid, HasSubstr("'num_key_value_heads': got 5")));
  EXPECT_THAT(Parse(With(Llama(), "num_key_value_heads", 64)),
              StatusIs(kInvalid, HasSubstr("'num_key_value_heads': got 64")));
}

TEST(ModelConfigTest, WrongTypesAreNamed) {
  const auto expect = [](const Json& value, const char* found) {
    EXPECT_THAT(Parse(With(Llama(), "hidden_size", value)),
                StatusIs(kInvalid, AllOf(HasSubstr("'hidden_size': got"),
                                         HasSubstr(found),
                                         HasSubstr("an integer from 1 to"))));
  };
  expect(nullptr, "null");
  expect(true, "true (a boolean)");
  expect(4096.0, "4096.0 (not an integer)");
  expect("4096", "\"4096\" (a string)");
  expect(Json::array({4096}), "a list");
  expect(Json::object(), "an object");
  expect(-1, "got -1");
  expect(0, "got 0");
  expect((int64_t{1} << 31) + 1, "got 2147483649");
  expect(UINT64_MAX, "got 18446744073709551615");
  EXPECT_OK(Parse(With(Llama(), "vocab_size", int64_t{1} << 31)));
}

TEST(ModelConfigTest, NormalisationIsReadOrTheFamilysOwn) {
  ASSERT_OK_AND_ASSIGN(const ModelConfig on,
                       Parse(With(Qwen3Moe(), "norm_topk_prob", true)));
  EXPECT_TRUE(on.normalize_topk);
  ASSERT_OK_AND_ASSIGN(const ModelConfig off,
                       Parse(With(DeepSeekV3(), "norm_topk_prob", false)));
  EXPECT_FALSE(off.normalize_topk);
  EXPECT_THAT(Parse(With(Qwen3Moe(), "norm_topk_prob", 1)),
              StatusIs(kInvalid, HasSubstr("'norm_topk_prob': got 1")));
}

TEST(ModelConfigTest, UnknownFamilyListsTheKnown) {
  for (const Json& json :
       {With(Llama(), "model_type", "jamba"), Without(Llama(), "model_type")}) {
    EXPECT_THAT(
        Parse(json),
        StatusIs(kInvalid, AllOf(HasSubstr("'model_type'"), HasSubstr("llama"),
                                 HasSubstr("qwen3_moe"), HasSubstr("mixtral"),
                                 HasSubstr("deepseek_v3"))));
  }
  EXPECT_THAT(Parse(With(Llama(), "model_type", "jamba")),
              StatusIs(kInvalid, HasSubstr("'jamba'")));
  EXPECT_THAT(Parse(With(Llama(), "model_type", 7)),
              StatusIs(kInvalid, HasSubstr("'model_type': got 7")));
}

TEST(ModelConfigTest, TextThatIsNoJsonGivesFileAndPosition) {
  EXPECT_THAT(
      ParseModelConfig("{\n  \"hidden_size\": 5,\n  oops\n}", "dir/c.json"),
      StatusIs(kInvalid, AllOf(HasSubstr("'dir/c.json'"), HasSubstr("line 3"),
                               HasSubstr("column 3"))));
  EXPECT_THAT(ParseModelConfig("", "c.json"),
              StatusIs(kInvalid, HasSubstr("line 1")));
  EXPECT_THAT(ParseModelConfig("[1, 2]", "c.json"),
              StatusIs(kInvalid, HasSubstr("an object")));
  EXPECT_THAT(ParseModelConfig("{\"hidden_size\": 1e999}", "c.json"),
              StatusIs(kInvalid, HasSubstr("c.json")));
}

TEST(ModelConfigTest, KeyGivenTwiceIsRefused) {
  EXPECT_THAT(
      ParseModelConfig("{\"hidden_size\": 1, \"hidden_size\": 2}", "c.json"),
      StatusIs(kInvalid, HasSubstr("'hidden_size' is there twice")));
  // The same key in two objects is no repetition.
  Json json = Llama();
  json["vision_config"] = {{"hidden_size", 1}};
  EXPECT_OK(Parse(json));
}

TEST(ModelConfigTest, HostileTextIsRefusedInAFewWords) {
  const std::string deep(1 << 20, '[');
  EXPECT_THAT(ParseModelConfig(deep, "c.json"), StatusIs(kInvalid));
  std::string closed =
      "{\"a\": " + std::string(100000, '[') + std::string(100000, ']') + "}";
  EXPECT_THAT(ParseModelConfig(closed, "c.json"),
              StatusIs(kInvalid, HasSubstr("levels")));
  const std::string long_token = "{\"" + std::string(1 << 20, 'x');
  const absl::StatusOr<ModelConfig> parsed =
      ParseModelConfig(long_token, "c.json");
  ASSERT_THAT(parsed, StatusIs(kInvalid));
  EXPECT_LT(parsed.status().message().size(), 1000u);
  const absl::StatusOr<ModelConfig> raw =
      ParseModelConfig("{\"model_type\": \"\x1b[31m\xff\"}", "c.json");
  ASSERT_THAT(raw, StatusIs(kInvalid));
  for (char c : raw.status().message()) {
    EXPECT_TRUE(c >= 0x20 && c < 0x7f) << static_cast<int>(c);
  }
  EXPECT_THAT(ParseModelConfig(
                  With(Llama(), "model_type", std::string(1 << 20, 'y')).dump(),
                  "c.json"),
              StatusIs(kInvalid, HasSubstr("qwen3_moe")));
}

}  // namespace
}  // namespace permafrost
