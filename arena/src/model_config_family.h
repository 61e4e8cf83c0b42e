// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_ARENA_SRC_MODEL_CONFIG_FAMILY_H_
#define PERMAFROST_ARENA_SRC_MODEL_CONFIG_FAMILY_H_

#include "absl/status/statusor.h"
#include "model_config_reader.h"
#include "permafrost/arena/model_config.h"

namespace permafrost {

/// How a family's configs speak about their experts.
enum class ExpertRule {
  kNone,       ///< a dense family; experts are refused
  kRequired,   ///< the count must be there; 0 says that the model is dense
  kOptional,   ///< no count says that the model is dense
  kLayerList,  ///< the count is required where the layer list has experts, and
               ///< without meaning where it has none
};

/// Which key holds the width of a routed expert.
enum class ExpertWidthRule {
  kOwnKey,    ///< moe_intermediate_size
  kDenseKey,  ///< intermediate_size
};

/// What no key for shared experts means.
enum class SharedRule {
  kNone,           ///< there are none
  kRequired,       ///< the file is incomplete
  kWidthRequired,  ///< as is a count alone: the width is no multiple of it
  kOneExpert,      ///< one, as wide as a routed expert
};

enum class AttentionRule {
  kGrouped,
  kLatent,        ///< MLA: keys and values from one latent row
  kLowRankQuery,  ///< grouped, with queries from a latent row
};

/// What the family's linear layers are, whichever word the list uses.
enum class LinearRule { kNone, kDeltaNet, kLightning, kMamba2 };

/// The layers of a config that lists none.
enum class LayerRule {
  kFull,         ///< full attention everywhere
  kAlternating,  ///< sliding and full in turn, sliding first
  kInterval,     ///< full where full_attention_interval (4) divides i + 1
  kListRequired,
};

/// Which layers have routed experts.
enum class MoePlacement {
  kEveryLayer,
  kAfterDense,   ///< first_k_dense_replace, moe_layer_freq
  kSparseStep,   ///< decoder_sparse_step, mlp_only_layers
  kInterleaved,  ///< moe_layers, or interleave_moe_layer_step
  kLayerList,    ///< the layer list says it
};

/// What a family's config.json has to say. Keys that a family must carry are
/// required even where its reference code has a default: a width that is
/// guessed wrong sizes a buffer too small without any fault.
struct Family {
  const char* model_type;
  /// A second name that files use; null where there is none.
  const char* alias = nullptr;
  ExpertRule experts = ExpertRule::kNone;
  ExpertWidthRule expert_width = ExpertWidthRule::kOwnKey;
  SharedRule shared = SharedRule::kNone;
  MoePlacement placement = MoePlacement::kEveryLayer;
  /// The dense width may be absent as long as no layer is dense.
  bool may_lack_dense_width = false;
  /// Dense layers have a key of their own, `intermediate_size_mlp`.
  bool has_mlp_width_key = false;
  /// A dense model's feed-forward is the shared one in some implementations.
  bool dense_may_be_shared = false;
  AttentionRule attention = AttentionRule::kGrouped;
  /// hidden_size / num_attention_heads is not the width that the family uses.
  bool must_say_head_dim = false;
  /// Absent `attn_output_gate` means that there is one.
  bool gated_attention = false;
  LinearRule linear = LinearRule::kNone;
  LayerRule layers = LayerRule::kFull;
  /// The sparse indexer works on compressed blocks and needs their ratio.
  bool compressed_indexer = false;
  /// Absent `norm_topk_prob` means that weights are scaled to sum to 1.
  bool normalizes_topk = false;
};

/// The family that the config names.
/// Errors: kInvalidArgument for none, an unknown one (with the known ones) and
///   one that is known and not supported (with the reason).
absl::StatusOr<const Family*> FindFamily(const ConfigReader& reader);

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_SRC_MODEL_CONFIG_FAMILY_H_
