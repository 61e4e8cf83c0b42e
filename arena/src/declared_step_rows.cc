// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "declared_step_rows.h"

namespace permafrost::internal {
namespace {

using Config = const ModelConfig&;
using Limits = const ServingLimits&;

bool HasStreams(Config config, Limits) { return config.hyper_connections > 0; }
bool HasResidual(Config config, Limits) {
  return config.hyper_connections == 0;
}
bool IsGated(Config config, Limits) { return config.gated_attention; }
bool CompressesQueries(Config config, Limits) { return config.q_lora_rank > 0; }
bool HasFullQueries(Config config, Limits) { return config.q_lora_rank == 0; }
bool GroupsOutput(Config config, Limits) {
  return config.o_groups > 0 && config.o_lora_rank > 0;
}
bool HasPlainOutput(Config config, Limits limits) {
  return !GroupsOutput(config, limits);
}
bool HasShared(Config config, Limits) {
  return config.shared_expert_intermediate_size > 0;
}
bool HasNoShared(Config config, Limits limits) {
  return !HasShared(config, limits);
}
bool HasLatentExperts(Config config, Limits) {
  return config.moe_latent_size > 0;
}
bool HasPlainExperts(Config config, Limits limits) {
  return !HasLatentExperts(config, limits);
}
bool HasAdapters(Config, Limits limits) { return limits.lora_rank > 0; }
bool HasAdaptedShared(Config config, Limits limits) {
  return HasShared(config, limits) && HasAdapters(config, limits);
}
bool HasDrafts(Config, Limits limits) { return limits.draft_tokens > 0; }

constexpr StepRow kEmbedding[] = {
    {.name = "embed", .reads = "token_ids", .writes = "hidden_states"},
    {.name = "residual_start",
     .reads = "hidden_states",
     .writes = "residual",
     .when = HasResidual},
    {.name = "streams_start",
     .reads = "hidden_states",
     .writes = "hc_streams",
     .when = HasStreams},
};

// The streams collapse into one input, whose weights are kept for the way back.
#define PERMAFROST_COLLAPSE_ROWS                                     \
  {.name = "hc_lowrank",                                             \
   .reads = "hc_streams",                                            \
   .writes = "hc_lowrank_scratch",                                   \
   .when = HasStreams},                                              \
  {                                                                  \
    .name = "hc_collapse", .reads = "hc_streams hc_lowrank_scratch", \
    .writes = "hc_post hc_comb hidden_states", .when = HasStreams    \
  }

constexpr StepRow kNorm[] = {
    PERMAFROST_COLLAPSE_ROWS,
    {.name = "norm",
     .reads = "hidden_states norm_unit_w",
     .writes = "norm_output",
     .when = HasStreams},
    {.name = "add_norm",
     .reads = "hidden_states norm_unit_w",
     .writes = "norm_output",
     .updates = "residual",
     .when = HasResidual},
};

constexpr StepRow kRouterNorm[] = {
    PERMAFROST_COLLAPSE_ROWS,
    {.name = "norm",
     .reads = "hidden_states norm_unit_w",
     .writes = "norm_output moe_router_in_f32",
     .when = HasStreams},
    {.name = "add_norm",
     .reads = "hidden_states norm_unit_w",
     .writes = "norm_output moe_router_in_f32",
     .updates = "residual",
     .when = HasResidual},
};

#undef PERMAFROST_COLLAPSE_ROWS

constexpr StepRow kMix[] = {
    {.name = "hc_mix",
     .reads = "hidden_states hc_post hc_comb",
     .updates = "hc_streams",
     .when = HasStreams},
};

constexpr StepRow kGroupedAttention[] = {
    {.name = "qkv_proj",
     .kind = RowKind::kProjection,
     .reads = "norm_output",
     .writes = "qkv_output"},
    {.name = "index",
     .reads = "norm_output qkv_output decode_meta scratch",
     .writes = "qsa_select_scratch"},
    {.name = "rope_store",
     .reads = "decode_meta",
     .updates = "qkv_output",
     .phase = RowPhase::kDecode},
    {.name = "split_heads",
     .reads = "qkv_output",
     .writes = "ssm_deinterleaved",
     .phase = RowPhase::kDecode,
     .when = IsGated},
    {.name = "attention",
     .reads = "qkv_output ssm_deinterleaved qsa_select_scratch decode_meta",
     .writes = "splitk_workspace",
     .phase = RowPhase::kDecode,
     .when = IsGated},
    {.name = "attention",
     .reads = "qkv_output qsa_select_scratch decode_meta",
     .writes = "splitk_workspace",
     .phase = RowPhase::kDecode,
     .when = [](Config config, Limits) { return !config.gated_attention; }},
    {.name = "attention_combine",
     .reads = "splitk_workspace decode_meta",
     .writes = "attn_output",
     .phase = RowPhase::kDecode},
    {.name = "rope_split",
     .reads = "qkv_output scratch",
     .writes = "ssm_deinterleaved ssm_qkvz",
     .phase = RowPhase::kPrefill},
    {.name = "attention",
     .reads = "ssm_deinterleaved ssm_qkvz qsa_select_scratch scratch",
     .writes = "attn_output",
     .phase = RowPhase::kPrefill},
    {.name = "output_gate",
     .reads = "qkv_output",
     .updates = "attn_output",
     .when = IsGated},
    {.name = "o_latent_proj",
     .kind = RowKind::kProjection,
     .reads = "attn_output",
     .writes = "o_latent",
     .when = GroupsOutput},
    {.name = "o_proj",
     .kind = RowKind::kProjection,
     .reads = "o_latent",
     .writes = "hidden_states",
     .when = GroupsOutput},
    {.name = "o_proj",
     .kind = RowKind::kProjection,
     .reads = "attn_output",
     .writes = "hidden_states",
     .when = HasPlainOutput},
};

constexpr StepRow kLatentAttention[] = {
    {.name = "qkv_a_proj",
     .kind = RowKind::kProjection,
     .reads = "norm_output",
     .writes = "ssm_ba qkv_output",
     .when = CompressesQueries},
    {.name = "qkv_a_proj",
     .kind = RowKind::kProjection,
     .reads = "norm_output",
     .writes = "qkv_output",
     .when = HasFullQueries},
    {.name = "k_rope",
     .reads = "qkv_output decode_meta scratch",
     .writes = "ssm_ba",
     .on_side = true,
     .when = HasFullQueries},
    {.name = "kv_norm_store",
     .reads = "ssm_ba decode_meta scratch",
     .updates = "qkv_output",
     .on_side = true,
     .when = HasFullQueries},
    {.name = "kv_norm_store",
     .reads = "decode_meta scratch",
     .updates = "qkv_output",
     .on_side = true,
     .when = CompressesQueries},
    {.name = "q_norm", .updates = "ssm_ba", .when = CompressesQueries},
    {.name = "q_b_proj",
     .kind = RowKind::kProjection,
     .reads = "ssm_ba",
     .fills = "qkv_output",
     .when = CompressesQueries},
    {.name = "index",
     .reads = "norm_output ssm_ba decode_meta scratch",
     .writes = "qsa_select_scratch"},
    // Decode attends to latents with queries brought into their space; prefill
    // brings keys and values out of it.
    {.name = "q_rope",
     .reads = "qkv_output decode_meta",
     .writes = "ssm_conv_out_f32",
     .phase = RowPhase::kDecode},
    {.name = "q_absorb",
     .reads = "qkv_output ssm_conv_out_f32",
     .writes = "ssm_deinterleaved",
     .phase = RowPhase::kDecode},
    {.name = "attention",
     .reads = "ssm_deinterleaved qsa_select_scratch decode_meta",
     .writes = "splitk_workspace",
     .joins_side = true,
     .phase = RowPhase::kDecode},
    {.name = "attention_combine",
     .reads = "splitk_workspace decode_meta",
     .writes = "attn_output",
     .phase = RowPhase::kDecode},
    {.name = "v_up",
     .reads = "attn_output",
     .writes = "qkv_output",
     .phase = RowPhase::kDecode},
    {.name = "o_proj",
     .kind = RowKind::kProjection,
     .reads = "qkv_output",
     .writes = "hidden_states",
     .phase = RowPhase::kDecode},
    {.name = "q_rope",
     .reads = "scratch",
     .updates = "qkv_output",
     .phase = RowPhase::kPrefill},
    {.name = "kv_up",
     .reads = "qkv_output",
     .writes = "ssm_qkvz",
     .joins_side = true,
     .phase = RowPhase::kPrefill},
    {.name = "attention",
     .reads = "qkv_output ssm_qkvz qsa_select_scratch scratch",
     .writes = "attn_output",
     .phase = RowPhase::kPrefill},
    {.name = "o_proj",
     .kind = RowKind::kProjection,
     .reads = "attn_output",
     .writes = "hidden_states",
     .phase = RowPhase::kPrefill},
};

constexpr StepRow kDeltaNet[] = {
    {.name = "in_quantize", .kind = RowKind::kQuantize, .reads = "norm_output"},
    {.name = "in_proj_ba",
     .kind = RowKind::kReadyProjection,
     .reads = "norm_output",
     .writes = "ssm_ba",
     .on_side = true},
    {.name = "gates",
     .reads = "ssm_ba",
     .writes = "ssm_gates",
     .on_side = true},
    {.name = "in_proj_qkvz",
     .kind = RowKind::kReadyProjection,
     .reads = "norm_output",
     .writes = "ssm_qkvz"},
    {.name = "reorder", .reads = "ssm_qkvz", .writes = "ssm_deinterleaved"},
    {.name = "conv",
     .reads = "ssm_deinterleaved decode_meta scratch",
     .writes = "ssm_conv_out_f32"},
    {.name = "delta_rule",
     .reads = "ssm_conv_out_f32 ssm_gates decode_meta",
     .writes = "attn_output",
     .joins_side = true,
     .phase = RowPhase::kDecode},
    {.name = "chunk_states",
     .reads = "ssm_conv_out_f32 ssm_gates scratch",
     .writes = "gdn_fla_scratch",
     .joins_side = true,
     .phase = RowPhase::kPrefill},
    {.name = "chunk_output",
     .reads = "ssm_conv_out_f32 ssm_gates gdn_fla_scratch scratch",
     .writes = "attn_output",
     .phase = RowPhase::kPrefill},
    {.name = "gated_norm",
     .reads = "ssm_deinterleaved",
     .updates = "attn_output"},
    {.name = "out_proj",
     .kind = RowKind::kProjection,
     .reads = "attn_output",
     .writes = "hidden_states"},
};

constexpr StepRow kLightning[] = {
    {.name = "qkv_proj",
     .kind = RowKind::kProjection,
     .reads = "norm_output",
     .writes = "qkv_output"},
    {.name = "gate_proj",
     .kind = RowKind::kProjection,
     .reads = "norm_output",
     .writes = "ssm_deinterleaved"},
    {.name = "linear_attention",
     .reads = "qkv_output decode_meta scratch",
     .writes = "attn_output"},
    {.name = "gated_norm",
     .reads = "ssm_deinterleaved",
     .updates = "attn_output"},
    {.name = "out_proj",
     .kind = RowKind::kProjection,
     .reads = "attn_output",
     .writes = "hidden_states"},
};

constexpr StepRow kMamba2[] = {
    {.name = "in_proj",
     .kind = RowKind::kProjection,
     .reads = "norm_output",
     .writes = "ssm_qkvz"},
    {.name = "conv",
     .reads = "ssm_qkvz decode_meta scratch",
     .writes = "ssm_deinterleaved"},
    {.name = "state_update",
     .reads = "ssm_qkvz ssm_deinterleaved decode_meta",
     .writes = "attn_output",
     .phase = RowPhase::kDecode},
    {.name = "chunk_scan",
     .reads = "ssm_qkvz ssm_deinterleaved scratch",
     .writes = "ssd_scratch",
     .phase = RowPhase::kPrefill},
    {.name = "chunk_output",
     .reads = "ssm_deinterleaved ssd_scratch scratch",
     .writes = "attn_output",
     .phase = RowPhase::kPrefill},
    {.name = "gated_norm",
     .reads = "attn_output ssm_qkvz",
     .writes = "norm_output"},
    {.name = "out_proj",
     .kind = RowKind::kProjection,
     .reads = "norm_output",
     .writes = "hidden_states"},
};

constexpr StepRow kDense[] = {
    // A small batch takes the fused GEMM, a larger one two.
    {.name = "gate_up_proj",
     .kind = RowKind::kDenseProjection,
     .reads = "norm_output",
     .writes = "expert_gate_out expert_up_out ffn_gate_up_fused",
     .phase = RowPhase::kDecode},
    {.name = "gate_up_proj",
     .kind = RowKind::kDenseProjection,
     .reads = "norm_output",
     .writes = "expert_gate_out expert_up_out",
     .phase = RowPhase::kPrefill},
    {.name = "swiglu",
     .reads = "expert_up_out ffn_gate_up_fused",
     .updates = "expert_gate_out",
     .phase = RowPhase::kDecode},
    {.name = "swiglu",
     .reads = "expert_up_out",
     .updates = "expert_gate_out",
     .phase = RowPhase::kPrefill},
    {.name = "adapter_input",
     .reads = "expert_gate_out",
     .writes = "lora_hact",
     .when = HasAdapters},
    {.name = "down_proj",
     .kind = RowKind::kDenseProjection,
     .reads = "expert_gate_out lora_hact",
     .writes = "expert_down_out"},
    {.name = "combine", .reads = "expert_down_out", .writes = "moe_output"},
    {.name = "layer_out", .reads = "moe_output", .writes = "hidden_states"},
};

constexpr StepRow kRouted[] = {
    // The shared expert's input lies where the routed rows' is to come, so it
    // runs beside the router and is joined before that is written.
    {.name = "shared_input",
     .reads = "norm_output",
     .writes = "moe_fp8_scratch",
     .on_side = true,
     .when = HasShared},
    {.name = "shared_gate_up_silu",
     .kind = RowKind::kSlabProjection,
     .reads = "norm_output",
     .writes = "ssm_qkvz",
     .on_side = true,
     .when = HasShared},
    {.name = "shared_adapter_input",
     .reads = "ssm_qkvz",
     .writes = "lora_hact",
     .on_side = true,
     .when = HasAdaptedShared},
    {.name = "shared_down_input",
     .reads = "ssm_qkvz",
     .writes = "moe_fp8_scratch",
     .on_side = true,
     .when = HasShared},
    {.name = "shared_down",
     .kind = RowKind::kSlabProjection,
     .reads = "ssm_qkvz lora_hact",
     .writes = "hidden_states",
     .on_side = true,
     .when = HasShared},
    {.name = "router",
     .reads = "norm_output moe_router_in_f32",
     .writes = "gate_logits gate_logits_f32"},
    {.name = "topk",
     .reads = "gate_logits gate_logits_f32 token_ids",
     .writes = "moe_routing"},
    {.name = "latent_in",
     .reads = "norm_output",
     .writes = "ssm_ba",
     .when = HasLatentExperts},
    {.name = "expert_input",
     .reads = "ssm_ba moe_routing",
     .writes = "moe_fp8_scratch",
     .joins_side = true,
     .when = HasLatentExperts},
    {.name = "expert_input",
     .reads = "norm_output moe_routing",
     .writes = "moe_fp8_scratch",
     .joins_side = true,
     .when = HasPlainExperts},
    {.name = "worklist", .reads = "moe_routing", .fills = "moe_fp8_scratch"},
    {.name = "expert_gate_up_expand",
     .reads = "norm_output",
     .writes = "q2_act_q8 q2_dequant_scratch"},
    {.name = "expert_gate_up",
     .reads = "moe_fp8_scratch moe_routing q2_act_q8 q2_dequant_scratch",
     .writes = "expert_gate_out expert_up_out"},
    {.name = "expert_swiglu",
     .reads = "expert_up_out moe_routing",
     .updates = "expert_gate_out moe_fp8_scratch"},
    {.name = "expert_down_expand",
     .reads = "expert_gate_out",
     .writes = "q2_act_q8 q2_dequant_scratch"},
    {.name = "expert_down",
     .reads = "expert_gate_out moe_fp8_scratch moe_routing q2_act_q8 "
              "q2_dequant_scratch",
     .writes = "expert_down_out"},
    {.name = "combine",
     .reads = "expert_down_out moe_routing",
     .writes = "moe_output"},
    {.name = "layer_out",
     .reads = "moe_output",
     .updates = "hidden_states",
     .when = HasShared},
    {.name = "layer_out",
     .reads = "moe_output",
     .writes = "hidden_states",
     .when = HasNoShared},
};

constexpr StepRow kHead[] = {
    {.name = "collapse_out",
     .reads = "hc_streams",
     .writes = "hidden_states",
     .when = HasStreams},
    {.name = "final_norm",
     .reads = "hidden_states norm_unit_w",
     .writes = "norm_output",
     .when = HasStreams},
    {.name = "final_norm",
     .reads = "hidden_states residual norm_unit_w",
     .writes = "norm_output",
     .when = HasResidual},
    {.name = "lm_head",
     .reads = "norm_output decode_meta scratch",
     .writes = "logits"},
    {.name = "draft_rows",
     .reads = "hidden_states decode_meta",
     .writes = "ssm_gates",
     .phase = RowPhase::kDecode,
     .when = HasDrafts},
    {.name = "draft_concat",
     .reads = "ssm_gates token_ids",
     .writes = "ssm_ba",
     .phase = RowPhase::kDecode,
     .when = HasDrafts},
    {.name = "draft_proj",
     .kind = RowKind::kProjection,
     .reads = "ssm_ba",
     .writes = "hidden_states",
     .phase = RowPhase::kDecode,
     .when = HasDrafts},
};

}  // namespace

absl::Span<const StepRow> EmbeddingRows() { return kEmbedding; }
absl::Span<const StepRow> NormRows() { return kNorm; }
absl::Span<const StepRow> RouterNormRows() { return kRouterNorm; }
absl::Span<const StepRow> GroupedAttentionRows() { return kGroupedAttention; }
absl::Span<const StepRow> LatentAttentionRows() { return kLatentAttention; }
absl::Span<const StepRow> DeltaNetRows() { return kDeltaNet; }
absl::Span<const StepRow> LightningRows() { return kLightning; }
absl::Span<const StepRow> Mamba2Rows() { return kMamba2; }
absl::Span<const StepRow> DenseRows() { return kDense; }
absl::Span<const StepRow> RoutedRows() { return kRouted; }
absl::Span<const StepRow> MixRows() { return kMix; }
absl::Span<const StepRow> HeadRows() { return kHead; }

std::vector<StepRow> AllStepRows() {
  std::vector<StepRow> all;
  for (const absl::Span<const StepRow> rows :
       {EmbeddingRows(), NormRows(), RouterNormRows(), GroupedAttentionRows(),
        LatentAttentionRows(), DeltaNetRows(), LightningRows(), Mamba2Rows(),
        DenseRows(), RoutedRows(), MixRows(), HeadRows()}) {
    all.insert(all.end(), rows.begin(), rows.end());
  }
  return all;
}

}  // namespace permafrost::internal
