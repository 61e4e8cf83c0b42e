// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/model_config.h"

#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "model_config_reader.h"
#include "permafrost/driver/status.h"

namespace permafrost {
namespace {

/// What a family's config.json has to say. Keys that a family must carry are
/// required even where its reference code has a default: a width that is
/// guessed wrong sizes a buffer too small without any fault.
struct Family {
  const char* model_type;
  bool has_experts;
  /// The expert width has a key of its own; else `intermediate_size` is it.
  bool has_expert_width_key;
  bool must_say_shared_experts;
  bool has_latent_attention;
  /// What the family's reference code does when `norm_topk_prob` is absent.
  bool normalizes_topk;
};

constexpr Family kFamilies[] = {
    {.model_type = "deepseek_v3",
     .has_experts = true,
     .has_expert_width_key = true,
     .must_say_shared_experts = true,
     .has_latent_attention = true,
     .normalizes_topk = true},
    {.model_type = "llama",
     .has_experts = false,
     .has_expert_width_key = false,
     .must_say_shared_experts = false,
     .has_latent_attention = false,
     .normalizes_topk = false},
    {.model_type = "mixtral",
     .has_experts = true,
     .has_expert_width_key = false,
     .must_say_shared_experts = false,
     .has_latent_attention = false,
     .normalizes_topk = true},
    {.model_type = "qwen3_moe",
     .has_experts = true,
     .has_expert_width_key = true,
     .must_say_shared_experts = false,
     .has_latent_attention = false,
     .normalizes_topk = false},
};

constexpr const char* kHidden[] = {"hidden_size"};
constexpr const char* kLayers[] = {"num_hidden_layers"};
constexpr const char* kHeads[] = {"num_attention_heads"};
constexpr const char* kKvHeads[] = {"num_key_value_heads"};
constexpr const char* kHeadDim[] = {"head_dim"};
constexpr const char* kVocab[] = {"vocab_size"};
constexpr const char* kDenseWidth[] = {"intermediate_size"};
constexpr const char* kExperts[] = {"num_experts", "n_routed_experts",
                                    "num_local_experts"};
constexpr const char* kTopK[] = {"num_experts_per_tok", "experts_per_token"};
constexpr const char* kExpertWidth[] = {"moe_intermediate_size"};
constexpr const char* kSharedWidth[] = {"shared_expert_intermediate_size",
                                        "moe_shared_expert_intermediate_size",
                                        "shared_intermediate_size"};
constexpr const char* kSharedExperts[] = {"n_shared_experts"};
constexpr const char* kKvLora[] = {"kv_lora_rank"};
constexpr const char* kQLora[] = {"q_lora_rank"};
constexpr const char* kNopeDim[] = {"qk_nope_head_dim"};
constexpr const char* kRopeDim[] = {"qk_rope_head_dim"};
constexpr const char* kValueDim[] = {"v_head_dim"};

absl::StatusOr<const Family*> FindFamily(const ConfigReader& reader) {
  PERMAFROST_ASSIGN_OR_RETURN(const std::string model_type, reader.ModelType());
  for (const Family& family : kFamilies) {
    if (model_type == family.model_type) return &family;
  }
  const std::string known = absl::StrJoin(
      kFamilies, ", ", [](std::string* out, const Family& family) {
        absl::StrAppend(out, family.model_type);
      });
  return reader.Refuse(absl::StrCat(
      "'model_type': got ",
      model_type.empty() ? "none"
                         : absl::StrCat("'", QuoteForeign(model_type), "'"),
      "; accepted: ", known));
}

absl::Status ReadLatentAttention(const ConfigReader& reader,
                                 ModelConfig& config) {
  PERMAFROST_ASSIGN_OR_RETURN(config.kv_lora_rank,
                              reader.Required({.keys = kKvLora}));
  PERMAFROST_ASSIGN_OR_RETURN(const std::optional<int64_t> q_lora,
                              reader.Optional({.keys = kQLora, .least = 0}));
  config.q_lora_rank = q_lora.value_or(0);
  PERMAFROST_ASSIGN_OR_RETURN(config.qk_nope_head_dim,
                              reader.Required({.keys = kNopeDim}));
  PERMAFROST_ASSIGN_OR_RETURN(config.qk_rope_head_dim,
                              reader.Required({.keys = kRopeDim}));
  PERMAFROST_ASSIGN_OR_RETURN(config.v_head_dim,
                              reader.Required({.keys = kValueDim}));
  return absl::OkStatus();
}

absl::Status ReadHeadDim(const ConfigReader& reader, const Family& family,
                         ModelConfig& config) {
  PERMAFROST_ASSIGN_OR_RETURN(const std::optional<int64_t> head_dim,
                              reader.Optional({.keys = kHeadDim}));
  if (family.has_latent_attention) {
    config.head_dim = config.qk_nope_head_dim + config.qk_rope_head_dim;
    // transformers saves the rotary part of these models under this key.
    if (head_dim && *head_dim != config.head_dim &&
        *head_dim != config.qk_rope_head_dim) {
      return reader.Refuse(absl::StrCat(
          "'", reader.Path(kHeadDim[0]), "': got ", *head_dim,
          "; accepted: qk_nope_head_dim + qk_rope_head_dim = ", config.head_dim,
          ", qk_rope_head_dim = ", config.qk_rope_head_dim, ", or no key"));
    }
    return absl::OkStatus();
  }
  if (head_dim) {
    config.head_dim = *head_dim;
    return absl::OkStatus();
  }
  if (config.hidden_size % config.num_attention_heads != 0) {
    return reader.Refuse(absl::StrCat(
        "'", reader.Path(kHeadDim[0]),
        "': got no such key, and hidden_size = ", config.hidden_size,
        " is no multiple of num_attention_heads = ", config.num_attention_heads,
        "; accepted: an integer under ", kHeadDim[0]));
  }
  config.head_dim = config.hidden_size / config.num_attention_heads;
  return absl::OkStatus();
}

absl::Status ReadAttention(const ConfigReader& reader, const Family& family,
                           ModelConfig& config) {
  PERMAFROST_ASSIGN_OR_RETURN(config.num_attention_heads,
                              reader.Required({.keys = kHeads}));
  PERMAFROST_ASSIGN_OR_RETURN(const std::optional<int64_t> kv_heads,
                              reader.Optional({.keys = kKvHeads}));
  config.num_kv_heads = kv_heads.value_or(config.num_attention_heads);
  if (config.num_attention_heads % config.num_kv_heads != 0) {
    return reader.Refuse(absl::StrCat(
        "'", reader.Path(kKvHeads[0]), "': got ", config.num_kv_heads,
        "; accepted: a divisor of num_attention_heads = ",
        config.num_attention_heads, ", or no key"));
  }
  if (family.has_latent_attention) {
    PERMAFROST_RETURN_IF_ERROR(ReadLatentAttention(reader, config));
  }
  return ReadHeadDim(reader, family, config);
}

absl::Status ReadExpertWidth(const ConfigReader& reader, const Family& family,
                             ModelConfig& config) {
  if (family.has_expert_width_key) {
    PERMAFROST_ASSIGN_OR_RETURN(config.moe_intermediate_size,
                                reader.Required({.keys = kExpertWidth}));
    return absl::OkStatus();
  }
  PERMAFROST_ASSIGN_OR_RETURN(const std::optional<int64_t> width,
                              reader.Optional({.keys = kExpertWidth}));
  config.moe_intermediate_size = config.intermediate_size;
  if (width && *width != config.intermediate_size) {
    return reader.Refuse(absl::StrCat(
        "'", reader.Path(kExpertWidth[0]), "' and '",
        reader.Path(kDenseWidth[0]), "' disagree: got ", *width, " and ",
        config.intermediate_size, "; accepted: ", kDenseWidth[0],
        " alone, which is the expert width of ", family.model_type));
  }
  return absl::OkStatus();
}

absl::Status ReadSharedWidth(const ConfigReader& reader, const Family& family,
                             ModelConfig& config) {
  // Where a config has both, the width already counts all shared experts.
  PERMAFROST_ASSIGN_OR_RETURN(
      const std::optional<int64_t> width,
      reader.Optional({.keys = kSharedWidth, .least = 0}));
  PERMAFROST_ASSIGN_OR_RETURN(
      const std::optional<int64_t> count,
      reader.Optional({.keys = kSharedExperts, .least = 0}));
  if (width) {
    config.shared_expert_intermediate_size = *width;
  } else if (count) {
    // Both are at most 2^31.
    config.shared_expert_intermediate_size =
        *count * config.moe_intermediate_size;
  } else if (family.must_say_shared_experts) {
    return reader.Refuse(absl::StrCat(
        "'", reader.Path(kSharedExperts[0]),
        "': got no such key or null; accepted: an integer from 0 under ",
        kSharedExperts[0], ", or the width under ",
        absl::StrJoin(kSharedWidth, " or ")));
  }
  return absl::OkStatus();
}

absl::Status ReadExperts(const ConfigReader& reader, const Family& family,
                         ModelConfig& config) {
  const ConfigFigure experts = {.keys = kExperts, .least = 0};
  if (!family.has_experts) {
    PERMAFROST_ASSIGN_OR_RETURN(const std::optional<int64_t> count,
                                reader.Optional(experts));
    if (count.value_or(0) > 0) {
      return reader.Refuse(
          absl::StrCat("'", reader.KeyOf(experts), "': got ", *count,
                       "; accepted: 0 or no key, since ", family.model_type,
                       " has no expert layers"));
    }
    return absl::OkStatus();
  }
  PERMAFROST_ASSIGN_OR_RETURN(config.num_experts, reader.Required(experts));
  const bool is_dense = config.num_experts == 0;
  const ConfigFigure top_k = {.keys = kTopK, .least = is_dense ? 0 : 1};
  PERMAFROST_ASSIGN_OR_RETURN(const std::optional<int64_t> k,
                              reader.Optional(top_k));
  if (!k && !is_dense) return reader.Required(top_k).status();
  if (k.value_or(0) > config.num_experts) {
    return reader.Refuse(absl::StrCat(
        "'", reader.KeyOf(top_k), "': got ", *k, "; accepted: at most '",
        reader.KeyOf(experts), "', which is ", config.num_experts));
  }
  if (is_dense) return absl::OkStatus();
  config.experts_per_token = *k;
  PERMAFROST_RETURN_IF_ERROR(ReadExpertWidth(reader, family, config));
  PERMAFROST_RETURN_IF_ERROR(ReadSharedWidth(reader, family, config));
  PERMAFROST_ASSIGN_OR_RETURN(
      config.normalize_topk,
      reader.Bool("norm_topk_prob", family.normalizes_topk));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelConfig> ParseModelConfig(absl::string_view json,
                                             absl::string_view source) {
  PERMAFROST_ASSIGN_OR_RETURN(const ConfigReader reader,
                              ConfigReader::Parse(json, source));
  PERMAFROST_ASSIGN_OR_RETURN(const Family* const family, FindFamily(reader));
  ModelConfig config;
  config.source = std::string(source);
  config.model_type = family->model_type;
  PERMAFROST_ASSIGN_OR_RETURN(config.hidden_size,
                              reader.Required({.keys = kHidden}));
  PERMAFROST_ASSIGN_OR_RETURN(config.num_layers,
                              reader.Required({.keys = kLayers}));
  PERMAFROST_ASSIGN_OR_RETURN(config.vocab_size,
                              reader.Required({.keys = kVocab}));
  PERMAFROST_ASSIGN_OR_RETURN(config.intermediate_size,
                              reader.Required({.keys = kDenseWidth}));
  PERMAFROST_RETURN_IF_ERROR(ReadAttention(reader, *family, config));
  PERMAFROST_RETURN_IF_ERROR(ReadExperts(reader, *family, config));
  return config;
}

}  // namespace permafrost
