// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// The operations of every family's step as data. What they use is named as in
// the buffer table, which also decides by its gates what of it there is.
#ifndef PERMAFROST_ARENA_SRC_DECLARED_STEP_ROWS_H_
#define PERMAFROST_ARENA_SRC_DECLARED_STEP_ROWS_H_

#include <vector>

#include "absl/types/span.h"
#include "permafrost/arena/model_config.h"
#include "permafrost/arena/serving_limits.h"

namespace permafrost::internal {

enum class RowKind {
  kOp,
  /// A GEMM with what the weights' format and adapters put around it; its input
  /// is quantised into the mixer's buffers.
  kProjection,
  /// The same with the buffers of the dense feed-forward.
  kDenseProjection,
  /// The same with an input that an operation before it has quantised.
  kReadyProjection,
  /// The same with an input that is in the experts' slab.
  kSlabProjection,
  /// Quantises an input that several projections read.
  kQuantize,
};

/// Where projections quantise their inputs to: those of mixers, those of the
/// dense feed-forward, those of the experts' slab. Buffer names are separated
/// by spaces, here and below.
inline constexpr const char* kMixerInput =
    "fp8_act fp8_act_scale fp8_act_scale_kmajor";
inline constexpr const char* kDenseInput =
    "ffn_act_q8 ffn_act_a ffn_act_scale ffn_act_scale_kmajor";
inline constexpr const char* kSlabInput = "moe_fp8_scratch";
/// What two-bit weights and their inputs are expanded into.
inline constexpr const char* kTwoBitScratch = "q2_act_q8 q2_dequant_scratch";
/// What an adapter reads beside the projection's input, and its two results.
inline constexpr const char* kAdapterSlots = "lora_seq_slot decode_meta";
inline constexpr const char* kAdapterShrunk = "lora_xa";
inline constexpr const char* kAdapterDelta = "lora_delta";

enum class RowPhase { kBoth, kDecode, kPrefill };

/// One operation.
struct StepRow {
  const char* name;
  RowKind kind = RowKind::kOp;
  const char* reads = "";
  /// Overwritten: what later operations read of them comes from here.
  const char* writes = "";
  /// Read and written.
  const char* updates = "";
  /// Written in part, beside what is there.
  const char* fills = "";
  bool on_side = false;     ///< on the side stream where there is one
  bool joins_side = false;  ///< waits for the side stream
  RowPhase phase = RowPhase::kBoth;
  /// Null: for every model.
  bool (*when)(const ModelConfig&, const ServingLimits&) = nullptr;
};

absl::Span<const StepRow> EmbeddingRows();
/// Before a mixer or a dense feed-forward, and before routed experts.
absl::Span<const StepRow> NormRows();
absl::Span<const StepRow> RouterNormRows();
absl::Span<const StepRow> GroupedAttentionRows();
absl::Span<const StepRow> LatentAttentionRows();
absl::Span<const StepRow> DeltaNetRows();
absl::Span<const StepRow> LightningRows();
absl::Span<const StepRow> Mamba2Rows();
absl::Span<const StepRow> DenseRows();
absl::Span<const StepRow> RoutedRows();
/// After a mixer or a feed-forward.
absl::Span<const StepRow> MixRows();
absl::Span<const StepRow> HeadRows();

/// All of the above one after the other.
std::vector<StepRow> AllStepRows();

}  // namespace permafrost::internal

#endif  // PERMAFROST_ARENA_SRC_DECLARED_STEP_ROWS_H_
