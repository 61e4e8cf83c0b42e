// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "model_config_family.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "permafrost/driver/status.h"

namespace permafrost {
namespace {

constexpr Family kFamilies[] = {
    {.model_type = "deepseek_v2",
     .experts = ExpertRule::kRequired,
     .shared = SharedRule::kRequired,
     .placement = MoePlacement::kAfterDense,
     .attention = AttentionRule::kLatent},
    {.model_type = "deepseek_v3",
     .experts = ExpertRule::kRequired,
     .shared = SharedRule::kRequired,
     .placement = MoePlacement::kAfterDense,
     .attention = AttentionRule::kLatent,
     .normalizes_topk = true},
    {.model_type = "deepseek_v4",
     .experts = ExpertRule::kRequired,
     .shared = SharedRule::kRequired,
     .may_lack_dense_width = true,
     .attention = AttentionRule::kLowRankQuery,
     .must_say_head_dim = true,
     .normalizes_topk = true},
    {.model_type = "glm4_moe",
     .experts = ExpertRule::kRequired,
     .shared = SharedRule::kRequired,
     .placement = MoePlacement::kAfterDense,
     .normalizes_topk = true},
    {.model_type = "gpt_oss",
     .experts = ExpertRule::kRequired,
     .expert_width = ExpertWidthRule::kDenseKey,
     .must_say_head_dim = true,
     .layers = LayerRule::kAlternating,
     .normalizes_topk = true},
    {.model_type = "granitemoehybrid",
     .experts = ExpertRule::kOptional,
     .expert_width = ExpertWidthRule::kDenseKey,
     .dense_may_be_shared = true,
     .linear = LinearRule::kMamba2,
     .layers = LayerRule::kListRequired,
     .normalizes_topk = true},
    {.model_type = "kimi_k2",
     .experts = ExpertRule::kRequired,
     .shared = SharedRule::kRequired,
     .placement = MoePlacement::kAfterDense,
     .attention = AttentionRule::kLatent,
     .normalizes_topk = true},
    {.model_type = "llama"},
    {.model_type = "llama4_text",
     .alias = "llama4",
     .experts = ExpertRule::kRequired,
     .expert_width = ExpertWidthRule::kDenseKey,
     .shared = SharedRule::kOneExpert,
     .placement = MoePlacement::kInterleaved,
     .has_mlp_width_key = true},
    {.model_type = "minimax_m1",
     .experts = ExpertRule::kRequired,
     .expert_width = ExpertWidthRule::kDenseKey,
     .must_say_head_dim = true,
     .linear = LinearRule::kLightning,
     .layers = LayerRule::kListRequired,
     .normalizes_topk = true},
    {.model_type = "minimax_m2",
     .experts = ExpertRule::kRequired,
     .expert_width = ExpertWidthRule::kDenseKey,
     .must_say_head_dim = true,
     .normalizes_topk = true},
    {.model_type = "mixtral",
     .experts = ExpertRule::kRequired,
     .expert_width = ExpertWidthRule::kDenseKey,
     .normalizes_topk = true},
    {.model_type = "nemotron_h",
     .experts = ExpertRule::kLayerList,
     .shared = SharedRule::kWidthRequired,
     .placement = MoePlacement::kLayerList,
     .may_lack_dense_width = true,
     .linear = LinearRule::kMamba2,
     .layers = LayerRule::kListRequired,
     .normalizes_topk = true},
    {.model_type = "olmoe",
     .experts = ExpertRule::kRequired,
     .expert_width = ExpertWidthRule::kDenseKey},
    {.model_type = "qwen3"},
    {.model_type = "qwen3_5_moe_text",
     .alias = "qwen3_5_moe",
     .experts = ExpertRule::kRequired,
     .shared = SharedRule::kRequired,
     .may_lack_dense_width = true,
     .must_say_head_dim = true,
     .gated_attention = true,
     .linear = LinearRule::kDeltaNet,
     .layers = LayerRule::kInterval,
     .normalizes_topk = true},
    {.model_type = "qwen3_moe",
     .experts = ExpertRule::kRequired,
     .placement = MoePlacement::kSparseStep},
    {.model_type = "qwen3_next",
     .experts = ExpertRule::kRequired,
     .shared = SharedRule::kRequired,
     .placement = MoePlacement::kSparseStep,
     .must_say_head_dim = true,
     .gated_attention = true,
     .linear = LinearRule::kDeltaNet,
     .layers = LayerRule::kInterval,
     .normalizes_topk = true},
    {.model_type = "qwen4_exp_text",
     .alias = "qwen4_exp",
     .experts = ExpertRule::kRequired,
     .shared = SharedRule::kRequired,
     .may_lack_dense_width = true,
     .must_say_head_dim = true,
     .gated_attention = true,
     .linear = LinearRule::kDeltaNet,
     .layers = LayerRule::kInterval,
     .compressed_indexer = true,
     .normalizes_topk = true},
};

/// Families that are known by name, with what the arena lacks for them.
struct Unsupported {
  const char* model_type;
  const char* reason;
};

constexpr Unsupported kUnsupported[] = {
    {"jamba",
     "whose recurrent layers are Mamba-1: they have no head count, and the "
     "arena has no buffers for them"},
};

}  // namespace

absl::StatusOr<const Family*> FindFamily(const ConfigReader& reader) {
  PERMAFROST_ASSIGN_OR_RETURN(const std::string model_type, reader.ModelType());
  for (const Family& family : kFamilies) {
    if (model_type == family.model_type ||
        (family.alias != nullptr && model_type == family.alias)) {
      return &family;
    }
  }
  std::string got = model_type.empty()
                        ? "none"
                        : absl::StrCat("'", QuoteForeign(model_type), "'");
  for (const Unsupported& unsupported : kUnsupported) {
    if (model_type == unsupported.model_type) {
      absl::StrAppend(&got, ", ", unsupported.reason);
    }
  }
  const std::string known = absl::StrJoin(
      kFamilies, ", ", [](std::string* out, const Family& family) {
        absl::StrAppend(out, family.model_type);
      });
  return reader.Refuse(
      absl::StrCat("'model_type': got ", got, "; accepted: ", known));
}

}  // namespace permafrost
