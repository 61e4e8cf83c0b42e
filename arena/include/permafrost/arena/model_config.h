// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_ARENA_MODEL_CONFIG_H_
#define PERMAFROST_ARENA_MODEL_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace permafrost {

/// What one layer of a model does besides its norms.
enum class LayerKind {
  kFullAttention,
  kSlidingAttention,
  kLinearAttention,  ///< gated delta net or lightning attention
  kMamba2,
  kFeedForward,  ///< a layer of its own, dense (nemotron_h '-')
  kExperts,      ///< a layer of its own, routed (nemotron_h 'E')
};

/// How the weights are stored.
enum class Quantization {
  kNone,
  kFp8,
  kMxfp4,
  kGptq,
  kAwq,
  kCompressedTensors,
  kModelOpt,
};

/// The figures of a model that decide how large its buffers are.
///
/// One name for each figure, whatever a config.json calls it. A figure that the
/// model does not have (experts of a dense model, latent ranks of a model
/// without latent attention) is 0; a figure that it has is never 0.
/// Units: counts and widths in elements, never bytes.
/// Threads: a value; const access from any thread.
struct ModelConfig {
  /// The family: `qwen3_moe`, `llama`, ... Outer names of a nested text model
  /// (`llama4`) are given as the text model's (`llama4_text`).
  std::string model_type;
  int64_t hidden_size = 0;
  int64_t num_layers = 0;
  int64_t num_attention_heads = 0;
  /// Equal to `num_attention_heads` where the config has no such key.
  int64_t num_kv_heads = 0;
  /// Width of one query head, as the config states it. Latent attention:
  /// `qk_nope_head_dim + qk_rope_head_dim`.
  int64_t head_dim = 0;
  int64_t vocab_size = 0;
  /// Width of the dense feed-forward layers; 0 in models with experts whose
  /// config has none and that have no such layer. In families whose config has
  /// no expert width of its own (mixtral) it equals `moe_intermediate_size`.
  int64_t intermediate_size = 0;

  /// Routed experts of one MoE layer; 0 says that the model is dense.
  int64_t num_experts = 0;
  /// Experts that one token is routed to (top-k), at most `num_experts`.
  int64_t experts_per_token = 0;
  /// Width of one routed expert.
  int64_t moe_intermediate_size = 0;
  /// Width of all shared experts together; 0 where there is none.
  int64_t shared_expert_intermediate_size = 0;
  /// Router choices that compute nothing and stand behind the routed experts;
  /// 0 where there are none. No family that is read has them.
  int64_t num_zero_experts = 0;
  /// Width of the rows that experts work on, where it is not `hidden_size`
  /// (experts behind a down projection); 0 where it is.
  int64_t moe_latent_size = 0;

  /// Latent attention (MLA), which is used exactly where `kv_lora_rank` is not
  /// 0. `q_lora_rank` is 0 where queries are not compressed. deepseek_v4
  /// compresses its queries and rotates `qk_rope_head_dim` of each head without
  /// latent attention.
  int64_t kv_lora_rank = 0;
  int64_t q_lora_rank = 0;
  int64_t qk_nope_head_dim = 0;
  int64_t qk_rope_head_dim = 0;
  int64_t v_head_dim = 0;

  /// Whether the weights of the chosen experts are scaled to sum to 1.
  ///
  /// No size depends on it. Where `norm_topk_prob` is absent it follows the
  /// family's reference code. Source: the defaults of the config classes of
  /// huggingface/transformers for deepseek_v2 (false), deepseek_v3,
  /// deepseek_v4, glm4_moe, nemotron_h, qwen3_next, qwen4_exp_text (true) and
  /// qwen3_moe (false). Unverified for the others, whose class has no such key
  /// or was not seen: olmoe and llama4_text false, all others true.
  bool normalize_topk = false;
  /// Layers whose feed-forward is routed, at least 1 in a model with experts;
  /// 0 for a dense model.
  int64_t num_moe_layers = 0;

  /// The query projection carries an output gate, which doubles it.
  bool gated_attention = false;

  /// Gated delta net; all 0 where no layer is one. Lightning attention, the
  /// other linear attention, uses the heads of the softmax layers and has no
  /// figures of its own.
  int64_t gdn_key_heads = 0;
  int64_t gdn_value_heads = 0;
  int64_t gdn_key_head_dim = 0;
  int64_t gdn_value_head_dim = 0;
  int64_t gdn_conv_kernel = 0;

  /// Mamba-2; all 0 where no layer is one, whatever keys the config has. The
  /// inner width is heads * head_dim.
  int64_t mamba_heads = 0;
  int64_t mamba_head_dim = 0;
  int64_t mamba_state = 0;
  int64_t mamba_groups = 0;

  /// Parallel residual streams of hyper-connections; 0 where there are none.
  int64_t hyper_connections = 0;
  int64_t hyper_connection_rank = 0;

  /// Grouped low-rank output projection; 0 where there is none.
  int64_t o_groups = 0;
  int64_t o_lora_rank = 0;

  /// Sparse attention indexer; 0 where there is none. The ratio is 0 where it
  /// does not work on compressed blocks (deepseek_v4).
  int64_t indexer_heads = 0;
  int64_t indexer_head_dim = 0;
  int64_t indexer_top_k = 0;
  int64_t indexer_compress_ratio = 0;

  /// One entry a layer, in order. Only in nemotron_h is a feed-forward a layer
  /// of its own; in all others each layer has one, and `num_moe_layers` says
  /// how many of them are routed.
  std::vector<LayerKind> layers = {};

  /// From `quantization_config`, in the nested text or beside it.
  Quantization quantization = Quantization::kNone;

  /// Where the figures came from: a preset's name or a path.
  std::string source;

  bool is_moe() const { return num_experts > 0; }
};

/// Reads the text of a config.json.
///
/// Families: `deepseek_v2`, `deepseek_v3`, `deepseek_v4`, `glm4_moe`,
/// `gpt_oss`, `granitemoehybrid`, `kimi_k2`, `llama`, `llama4_text`,
/// `minimax_m1`, `minimax_m2`, `mixtral`, `nemotron_h`, `olmoe`, `qwen3`,
/// `qwen3_5_moe_text`, `qwen3_moe`, `qwen3_next`, `qwen4_exp_text`. `jamba` is
/// refused by name. docs/models.md has the rules of each. Where the figures are
/// nested in `text_config`, they are read from there and from nowhere else.
/// `head_dim` is taken as it stands when the key is present and derived only
/// when it is not, only where the division is exact and only in families that
/// use the derived width.
/// @param source  named in every error: a path or a preset's name.
/// Errors: kInvalidArgument for text that is no JSON (with line and column), an
///   unknown family (with the known ones), a key that is absent, null, not an
///   integer, negative, zero where the model needs the figure, or above 2^31,
///   two spellings that disagree (with both), a layer list that is not one
///   entry a layer or names a layer that the family has not, figures that
///   contradict each other, rows wider than 2^31 elements, and a quantisation
///   that is not known. Each names the key, what was found and what is
///   accepted.
/// Threads: any. Capture: no driver call. Cost: one pass over the text.
absl::StatusOr<ModelConfig> ParseModelConfig(absl::string_view json,
                                             absl::string_view source);

/// Reads a built-in preset by its name, or a config.json by its path.
///
/// A text without '/' and without a ".json" ending that is a preset's name
/// means the preset; everything else is a path.
/// Errors: kInvalidArgument when there is no such preset or file (the message
///   lists the presets), when the path is a folder, cannot be read or holds
///   more than 4 MiB, and everything that `ParseModelConfig` refuses.
/// Threads: any. Capture: no driver call.
absl::StatusOr<ModelConfig> LoadModelConfig(absl::string_view preset_or_path);

/// The names of the built-in presets, sorted. They are part of the library: no
/// file is read.
std::vector<std::string> ModelPresets();

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_MODEL_CONFIG_H_
