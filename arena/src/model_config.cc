// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/model_config.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "checked_size.h"
#include "model_config_family.h"
#include "model_config_layers.h"
#include "model_config_quantization.h"
#include "model_config_reader.h"
#include "permafrost/driver/status.h"

namespace permafrost {
namespace {

constexpr const char* kHidden[] = {"hidden_size"};
/// What older families call the hidden width; they are another architecture.
constexpr const char* kOldHidden[] = {"n_embd", "d_model"};
constexpr const char* kHeads[] = {"num_attention_heads"};
constexpr const char* kKvHeads[] = {"num_key_value_heads"};
constexpr const char* kHeadDim[] = {"head_dim"};
constexpr const char* kVocab[] = {"vocab_size"};
constexpr const char* kDenseWidth[] = {"intermediate_size"};
constexpr const char* kMlpWidth[] = {"intermediate_size_mlp"};
constexpr const char* kExperts[] = {"num_experts", "n_routed_experts",
                                    "num_local_experts"};
constexpr const char* kTopK[] = {"num_experts_per_tok", "experts_per_token"};
constexpr const char* kExpertWidth[] = {"moe_intermediate_size"};
constexpr const char* kSharedWidth[] = {"shared_expert_intermediate_size",
                                        "moe_shared_expert_intermediate_size",
                                        "shared_intermediate_size"};
constexpr const char* kSharedExperts[] = {"n_shared_experts"};
constexpr const char* kMoeLatent[] = {"moe_latent_size"};
constexpr const char* kKvLora[] = {"kv_lora_rank"};
constexpr const char* kQLora[] = {"q_lora_rank"};
constexpr const char* kNopeDim[] = {"qk_nope_head_dim"};
constexpr const char* kRopeDim[] = {"qk_rope_head_dim"};
constexpr const char* kValueDim[] = {"v_head_dim"};
constexpr const char* kMambaHeads[] = {"mamba_num_heads", "mamba_n_heads"};
constexpr const char* kMambaHeadDim[] = {"mamba_head_dim", "mamba_d_head"};
constexpr const char* kMambaState[] = {"ssm_state_size", "mamba_d_state",
                                       "mamba_state_dim"};
constexpr const char* kMambaGroups[] = {"n_groups", "mamba_n_groups",
                                        "mamba_num_groups"};
constexpr const char* kMambaExpand[] = {"mamba_expand", "expand"};
constexpr const char* kGdnKeyHeads[] = {"linear_num_key_heads"};
constexpr const char* kGdnValueHeads[] = {"linear_num_value_heads"};
constexpr const char* kGdnKeyDim[] = {"linear_key_head_dim"};
constexpr const char* kGdnValueDim[] = {"linear_value_head_dim"};
constexpr const char* kGdnConv[] = {"linear_conv_kernel_dim"};
constexpr const char* kHyperConnections[] = {"hc_mult", "hc_count"};
constexpr const char* kHyperRank[] = {"hc_lowrank"};
constexpr const char* kOGroups[] = {"o_groups"};
constexpr const char* kOLora[] = {"o_lora_rank"};
constexpr const char* kIndexerHeads[] = {"index_n_heads", "indexer_n_heads"};
constexpr const char* kIndexerDim[] = {"index_head_dim", "indexer_head_dim"};
constexpr const char* kIndexerTopK[] = {"index_topk", "indexer_budget"};
constexpr const char* kIndexerRatio[] = {"indexer_compress_ratio"};
constexpr const char* kIndexerKvHeads[] = {"indexer_kv_heads"};

/// A figure and where it goes.
struct Target {
  ConfigFigure figure;
  int64_t* value;
};

/// Reads figures of which all have to be there.
absl::Status ReadAll(const ConfigReader& reader,
                     absl::Span<const Target> targets) {
  for (const Target& target : targets) {
    PERMAFROST_ASSIGN_OR_RETURN(*target.value, reader.Required(target.figure));
  }
  return absl::OkStatus();
}

/// Reads figures that come together or not at all; true when they are there.
absl::StatusOr<bool> ReadAllOrNone(const ConfigReader& reader,
                                   absl::Span<const Target> targets) {
  const Target* present = nullptr;
  const Target* missing = nullptr;
  for (const Target& target : targets) {
    PERMAFROST_ASSIGN_OR_RETURN(const std::optional<int64_t> found,
                                reader.Optional(target.figure));
    *target.value = found.value_or(0);
    const Target*& slot = found ? present : missing;
    if (slot == nullptr) slot = &target;
  }
  if (present != nullptr && missing != nullptr) {
    return reader.Refuse(absl::StrCat(
        "'", reader.KeyOf(missing->figure),
        "': got no such key or null beside '", reader.KeyOf(present->figure),
        "'; accepted: an integer under ",
        absl::StrJoin(missing->figure.keys, " or "),
        ", or none of the keys that belong together"));
  }
  return present != nullptr;
}

/// Reads a figure whose absence means 0.
absl::Status ReadOrZero(const ConfigReader& reader,
                        absl::Span<const char* const> keys, int64_t* value) {
  PERMAFROST_ASSIGN_OR_RETURN(const std::optional<int64_t> found,
                              reader.Optional({.keys = keys, .least = 0}));
  *value = found.value_or(0);
  return absl::OkStatus();
}

bool HasLayer(const ModelConfig& config, LayerKind kind) {
  return std::count(config.layers.begin(), config.layers.end(), kind) > 0;
}

absl::Status ReadHidden(const ConfigReader& reader, ModelConfig& config) {
  for (const char* old : kOldHidden) {
    if (reader.Find(kHidden[0]) == nullptr && reader.Find(old) != nullptr) {
      return reader.Refuse(
          absl::StrCat("'", reader.Path(old),
                       "': got the hidden width under a key of older "
                       "families; accepted: an integer under ",
                       kHidden[0], ", in a config of a family that is known"));
    }
  }
  return ReadAll(reader, {{{.keys = kHidden}, &config.hidden_size},
                          {{.keys = kVocab}, &config.vocab_size}});
}

absl::Status ReadLatentAttention(const ConfigReader& reader,
                                 ModelConfig& config) {
  PERMAFROST_RETURN_IF_ERROR(ReadOrZero(reader, kQLora, &config.q_lora_rank));
  return ReadAll(reader, {{{.keys = kKvLora}, &config.kv_lora_rank},
                          {{.keys = kNopeDim}, &config.qk_nope_head_dim},
                          {{.keys = kRopeDim}, &config.qk_rope_head_dim},
                          {{.keys = kValueDim}, &config.v_head_dim}});
}

absl::Status ReadHeadDim(const ConfigReader& reader, const Family& family,
                         ModelConfig& config) {
  PERMAFROST_ASSIGN_OR_RETURN(const std::optional<int64_t> head_dim,
                              reader.Optional({.keys = kHeadDim}));
  if (family.attention == AttentionRule::kLatent) {
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
  if (family.must_say_head_dim) {
    return reader.Required({.keys = kHeadDim}).status();
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
  switch (family.attention) {
    case AttentionRule::kGrouped:
      break;
    case AttentionRule::kLatent:
      PERMAFROST_RETURN_IF_ERROR(ReadLatentAttention(reader, config));
      break;
    case AttentionRule::kLowRankQuery:
      PERMAFROST_RETURN_IF_ERROR(
          ReadOrZero(reader, kQLora, &config.q_lora_rank));
      PERMAFROST_RETURN_IF_ERROR(
          ReadOrZero(reader, kRopeDim, &config.qk_rope_head_dim));
      break;
  }
  PERMAFROST_ASSIGN_OR_RETURN(
      config.gated_attention,
      reader.Bool("attn_output_gate", family.gated_attention));
  return ReadHeadDim(reader, family, config);
}

absl::Status ReadDeltaNet(const ConfigReader& reader, ModelConfig& config) {
  ModelConfig read;
  const Target targets[] = {{{.keys = kGdnKeyHeads}, &read.gdn_key_heads},
                            {{.keys = kGdnValueHeads}, &read.gdn_value_heads},
                            {{.keys = kGdnKeyDim}, &read.gdn_key_head_dim},
                            {{.keys = kGdnValueDim}, &read.gdn_value_head_dim},
                            {{.keys = kGdnConv}, &read.gdn_conv_kernel}};
  PERMAFROST_ASSIGN_OR_RETURN(const bool present,
                              ReadAllOrNone(reader, targets));
  if (!HasLayer(config, LayerKind::kLinearAttention)) return absl::OkStatus();
  if (!present) return ReadAll(reader, targets);
  config.gdn_key_heads = read.gdn_key_heads;
  config.gdn_value_heads = read.gdn_value_heads;
  config.gdn_key_head_dim = read.gdn_key_head_dim;
  config.gdn_value_head_dim = read.gdn_value_head_dim;
  config.gdn_conv_kernel = read.gdn_conv_kernel;
  return absl::OkStatus();
}

absl::Status ReadMamba(const ConfigReader& reader, ModelConfig& config) {
  // Dense members of these families carry the keys without having the layers.
  if (!HasLayer(config, LayerKind::kMamba2)) return absl::OkStatus();
  PERMAFROST_RETURN_IF_ERROR(
      ReadAll(reader, {{{.keys = kMambaHeads}, &config.mamba_heads},
                       {{.keys = kMambaState}, &config.mamba_state},
                       {{.keys = kMambaGroups}, &config.mamba_groups}}));
  PERMAFROST_ASSIGN_OR_RETURN(const std::optional<int64_t> expand,
                              reader.Optional({.keys = kMambaExpand}));
  // Only the word "auto" ties the inner width to the hidden one.
  ConfigFigure head_dim = {.keys = kMambaHeadDim};
  const int64_t inner = expand.value_or(0) * config.hidden_size;
  if (inner > 0 && inner % config.mamba_heads == 0) {
    head_dim.automatic = inner / config.mamba_heads;
  }
  PERMAFROST_ASSIGN_OR_RETURN(config.mamba_head_dim, reader.Required(head_dim));
  return absl::OkStatus();
}

absl::Status ReadLinearLayers(const ConfigReader& reader, const Family& family,
                              ModelConfig& config) {
  switch (family.linear) {
    case LinearRule::kNone:
    case LinearRule::kLightning:  // uses the heads of the softmax layers
      break;
    case LinearRule::kDeltaNet:
      return ReadDeltaNet(reader, config);
    case LinearRule::kMamba2:
      return ReadMamba(reader, config);
  }
  return absl::OkStatus();
}

absl::Status ReadHyperConnections(const ConfigReader& reader,
                                  ModelConfig& config) {
  PERMAFROST_RETURN_IF_ERROR(
      ReadOrZero(reader, kHyperConnections, &config.hyper_connections));
  PERMAFROST_RETURN_IF_ERROR(
      ReadOrZero(reader, kHyperRank, &config.hyper_connection_rank));
  if (config.hyper_connections == 0 && config.hyper_connection_rank > 0) {
    return reader.Refuse(absl::StrCat("'", reader.Path(kHyperRank[0]),
                                      "': got ", config.hyper_connection_rank,
                                      " without ",
                                      absl::StrJoin(kHyperConnections, " or "),
                                      "; accepted: both, or neither"));
  }
  return absl::OkStatus();
}

absl::Status ReadOutputProjection(const ConfigReader& reader,
                                  ModelConfig& config) {
  PERMAFROST_RETURN_IF_ERROR(ReadOrZero(reader, kOGroups, &config.o_groups));
  PERMAFROST_RETURN_IF_ERROR(ReadOrZero(reader, kOLora, &config.o_lora_rank));
  if ((config.o_groups == 0) != (config.o_lora_rank == 0)) {
    return reader.Refuse(absl::StrCat(
        "'", reader.Path(kOGroups[0]), "' and '", reader.Path(kOLora[0]),
        "': got ", config.o_groups, " and ", config.o_lora_rank,
        "; accepted: both above 0, or neither"));
  }
  return absl::OkStatus();
}

absl::Status ReadIndexer(const ConfigReader& reader, const Family& family,
                         ModelConfig& config) {
  int64_t kv_heads = 0;
  const Target plain[] = {{{.keys = kIndexerHeads}, &config.indexer_heads},
                          {{.keys = kIndexerDim}, &config.indexer_head_dim},
                          {{.keys = kIndexerTopK}, &config.indexer_top_k}};
  if (!family.compressed_indexer) {
    return ReadAllOrNone(reader, plain).status();
  }
  const Target compressed[] = {
      plain[0],
      plain[1],
      plain[2],
      {{.keys = kIndexerRatio}, &config.indexer_compress_ratio},
      {{.keys = kIndexerKvHeads}, &kv_heads}};
  PERMAFROST_ASSIGN_OR_RETURN(const bool present,
                              ReadAllOrNone(reader, compressed));
  if (!present) return absl::OkStatus();
  if (kv_heads != 1) {
    return reader.Refuse(absl::StrCat("'", reader.Path(kIndexerKvHeads[0]),
                                      "': got ", kv_heads, "; accepted: 1"));
  }
  if (config.indexer_top_k % config.indexer_compress_ratio != 0) {
    return reader.Refuse(
        absl::StrCat("'", reader.KeyOf({.keys = kIndexerTopK}), "': got ",
                     config.indexer_top_k, "; accepted: a multiple of ",
                     kIndexerRatio[0], " = ", config.indexer_compress_ratio));
  }
  return absl::OkStatus();
}

/// The dense width, which a config may leave out only where no layer uses it.
absl::Status ReadDenseWidth(const ConfigReader& reader, const Family& family,
                            ModelConfig& config) {
  const bool lists_dense = HasLayer(config, LayerKind::kFeedForward);
  const bool some_dense = family.placement == MoePlacement::kLayerList
                              ? lists_dense
                              : config.num_moe_layers < config.num_layers;
  PERMAFROST_ASSIGN_OR_RETURN(const std::optional<int64_t> width,
                              reader.Optional({.keys = kDenseWidth}));
  if (!width &&
      !(family.may_lack_dense_width && config.is_moe() && !some_dense)) {
    return reader.Refuse(absl::StrCat(
        "'", reader.Path(kDenseWidth[0]), "': got no such key or null for ",
        config.is_moe() ? "the dense layers that the family may have"
                        : "a dense model",
        "; accepted: an integer from 1 to ", kMostOfAFigure, " under ",
        kDenseWidth[0]));
  }
  config.intermediate_size = width.value_or(0);
  if (family.has_mlp_width_key) {
    PERMAFROST_ASSIGN_OR_RETURN(const std::optional<int64_t> mlp_width,
                                reader.Optional({.keys = kMlpWidth}));
    config.intermediate_size = mlp_width.value_or(config.intermediate_size);
  }
  if (family.dense_may_be_shared && !config.is_moe()) {
    PERMAFROST_ASSIGN_OR_RETURN(
        const std::optional<int64_t> shared,
        reader.Optional(
            {.keys = kSharedWidth, .least = 0, .may_be_list = true}));
    config.intermediate_size =
        std::max(config.intermediate_size, shared.value_or(0));
  }
  return absl::OkStatus();
}

absl::Status ReadExpertWidth(const ConfigReader& reader, const Family& family,
                             ModelConfig& config) {
  if (family.expert_width == ExpertWidthRule::kOwnKey) {
    PERMAFROST_ASSIGN_OR_RETURN(config.moe_intermediate_size,
                                reader.Required({.keys = kExpertWidth}));
    return absl::OkStatus();
  }
  PERMAFROST_ASSIGN_OR_RETURN(config.moe_intermediate_size,
                              reader.Required({.keys = kDenseWidth}));
  PERMAFROST_ASSIGN_OR_RETURN(const std::optional<int64_t> width,
                              reader.Optional({.keys = kExpertWidth}));
  if (width && *width != config.moe_intermediate_size) {
    return reader.Refuse(absl::StrCat(
        "'", reader.Path(kExpertWidth[0]), "' and '",
        reader.Path(kDenseWidth[0]), "' disagree: got ", *width, " and ",
        config.moe_intermediate_size, "; accepted: ", kDenseWidth[0],
        " alone, which is the expert width of ", family.model_type));
  }
  return absl::OkStatus();
}

absl::Status ReadSharedWidth(const ConfigReader& reader, const Family& family,
                             ModelConfig& config) {
  // Where a config has both, the width already counts all shared experts.
  PERMAFROST_ASSIGN_OR_RETURN(
      const std::optional<int64_t> width,
      reader.Optional({.keys = kSharedWidth, .least = 0, .may_be_list = true}));
  PERMAFROST_ASSIGN_OR_RETURN(
      std::optional<int64_t> count,
      reader.Optional({.keys = kSharedExperts, .least = 0}));
  if (width) {
    config.shared_expert_intermediate_size = *width;
    return absl::OkStatus();
  }
  if (family.shared == SharedRule::kWidthRequired) {
    return reader.Required({.keys = kSharedWidth, .least = 0}).status();
  }
  if (!count && family.shared == SharedRule::kRequired) {
    return reader.Refuse(absl::StrCat(
        "'", reader.Path(kSharedExperts[0]),
        "': got no such key or null; accepted: an integer from 0 under ",
        kSharedExperts[0], ", or the width under ",
        absl::StrJoin(kSharedWidth, " or ")));
  }
  if (!count && family.shared == SharedRule::kOneExpert) count = 1;
  // Both are at most 2^31.
  const int64_t total = count.value_or(0) * config.moe_intermediate_size;
  if (total > kMostOfAFigure) {
    return reader.Refuse(
        absl::StrCat("'", reader.Path(kSharedExperts[0]), "': got ", *count,
                     " experts of width ", config.moe_intermediate_size,
                     "; accepted: a product of at most ", kMostOfAFigure));
  }
  config.shared_expert_intermediate_size = total;
  return absl::OkStatus();
}

/// The number of routed experts, 0 for a dense model.
absl::StatusOr<int64_t> ReadExpertCount(const ConfigReader& reader,
                                        const Family& family,
                                        const ModelConfig& config) {
  const ConfigFigure experts = {.keys = kExperts, .least = 0};
  PERMAFROST_ASSIGN_OR_RETURN(const std::optional<int64_t> count,
                              reader.Optional(experts));
  switch (family.experts) {
    case ExpertRule::kRequired:
      return reader.Required(experts);
    case ExpertRule::kOptional:
      break;
    case ExpertRule::kNone:
      if (count.value_or(0) == 0) break;
      return reader.Refuse(
          absl::StrCat("'", reader.KeyOf(experts), "': got ", *count,
                       "; accepted: 0 or no key, since ", family.model_type,
                       " has no expert layers"));
    case ExpertRule::kLayerList:
      if (!HasLayer(config, LayerKind::kExperts)) return 0;
      return reader.Required({.keys = kExperts});
  }
  return count.value_or(0);
}

/// Experts per token: at least 1 with experts, and none without.
absl::StatusOr<int64_t> ReadTopK(const ConfigReader& reader,
                                 const Family& family,
                                 const ModelConfig& config) {
  const bool is_dense = config.num_experts == 0;
  const ConfigFigure top_k = {.keys = kTopK, .least = is_dense ? 0 : 1};
  if (!is_dense) PERMAFROST_RETURN_IF_ERROR(reader.Required(top_k).status());
  PERMAFROST_ASSIGN_OR_RETURN(const std::optional<int64_t> k,
                              reader.Optional(top_k));
  // Without expert layers in the list the keys are only saved defaults.
  if (is_dense && family.experts == ExpertRule::kLayerList) return 0;
  if (k.value_or(0) > config.num_experts) {
    return reader.Refuse(absl::StrCat(
        "'", reader.KeyOf(top_k), "': got ", *k, "; accepted: at most '",
        reader.KeyOf({.keys = kExperts}), "', which is ", config.num_experts));
  }
  return k.value_or(0);
}

absl::Status ReadExperts(const ConfigReader& reader, const Family& family,
                         ModelConfig& config) {
  PERMAFROST_ASSIGN_OR_RETURN(config.num_experts,
                              ReadExpertCount(reader, family, config));
  if (family.experts == ExpertRule::kNone) return absl::OkStatus();
  PERMAFROST_ASSIGN_OR_RETURN(config.experts_per_token,
                              ReadTopK(reader, family, config));
  if (!config.is_moe()) return absl::OkStatus();
  PERMAFROST_RETURN_IF_ERROR(
      ReadOrZero(reader, kMoeLatent, &config.moe_latent_size));
  PERMAFROST_RETURN_IF_ERROR(ReadExpertWidth(reader, family, config));
  PERMAFROST_RETURN_IF_ERROR(ReadSharedWidth(reader, family, config));
  PERMAFROST_ASSIGN_OR_RETURN(
      config.normalize_topk,
      reader.Bool("norm_topk_prob", family.normalizes_topk));
  return ReadMoePlacement(reader, family, config);
}

/// No row of any buffer is wider than a figure may be.
absl::Status CheckRowWidths(const ConfigReader& reader,
                            const ModelConfig& config) {
  struct Row {
    ConfigFigure count;
    ConfigFigure width;
    CheckedSize elements;
  };
  const Row rows[] = {
      {{.keys = kHeads},
       {.keys = kHeadDim},
       CheckedSize(config.num_attention_heads) * config.head_dim},
      {{.keys = kHeads},
       {.keys = kKvLora},
       CheckedSize(config.num_attention_heads) *
           (CheckedSize(config.kv_lora_rank) + config.qk_rope_head_dim)},
      {{.keys = kTopK},
       {.keys = kExpertWidth},
       CheckedSize(config.experts_per_token) * config.moe_intermediate_size},
      {{.keys = kTopK},
       {.keys = kHidden},
       CheckedSize(config.experts_per_token) * config.hidden_size},
      {{.keys = kTopK},
       {.keys = kMoeLatent},
       CheckedSize(config.experts_per_token) * config.moe_latent_size},
      {{.keys = kGdnKeyHeads},
       {.keys = kGdnKeyDim},
       CheckedSize(config.gdn_key_heads) * config.gdn_key_head_dim},
      {{.keys = kGdnValueHeads},
       {.keys = kGdnValueDim},
       CheckedSize(config.gdn_value_heads) * config.gdn_value_head_dim},
      {{.keys = kMambaHeads},
       {.keys = kMambaHeadDim},
       CheckedSize(config.mamba_heads) * config.mamba_head_dim},
      {{.keys = kMambaGroups},
       {.keys = kMambaState},
       CheckedSize(config.mamba_groups) * config.mamba_state},
      {{.keys = kHyperConnections},
       {.keys = kHidden},
       CheckedSize(config.hyper_connections) * config.hidden_size},
      {{.keys = kOGroups},
       {.keys = kOLora},
       CheckedSize(config.o_groups) * config.o_lora_rank},
      {{.keys = kIndexerHeads},
       {.keys = kIndexerDim},
       CheckedSize(config.indexer_heads) * config.indexer_head_dim},
  };
  for (const Row& row : rows) {
    const std::optional<int64_t> elements = row.elements.value();
    if (elements && *elements <= kMostOfAFigure) continue;
    return reader.Refuse(absl::StrCat(
        "'", reader.KeyOf(row.count), "' x '", reader.KeyOf(row.width),
        "': got ", elements ? absl::StrCat(*elements) : "more than 2^63-1",
        " elements a row; accepted: a product of at most ", kMostOfAFigure));
  }
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
  PERMAFROST_RETURN_IF_ERROR(ReadHidden(reader, config));
  PERMAFROST_RETURN_IF_ERROR(ReadLayers(reader, *family, config));
  PERMAFROST_RETURN_IF_ERROR(ReadAttention(reader, *family, config));
  PERMAFROST_RETURN_IF_ERROR(ReadExperts(reader, *family, config));
  PERMAFROST_RETURN_IF_ERROR(ReadDenseWidth(reader, *family, config));
  PERMAFROST_RETURN_IF_ERROR(ReadLinearLayers(reader, *family, config));
  PERMAFROST_RETURN_IF_ERROR(ReadHyperConnections(reader, config));
  PERMAFROST_RETURN_IF_ERROR(ReadOutputProjection(reader, config));
  PERMAFROST_RETURN_IF_ERROR(ReadIndexer(reader, *family, config));
  PERMAFROST_ASSIGN_OR_RETURN(config.quantization, ReadQuantization(reader));
  PERMAFROST_RETURN_IF_ERROR(CheckRowWidths(reader, config));
  return config;
}

}  // namespace permafrost
