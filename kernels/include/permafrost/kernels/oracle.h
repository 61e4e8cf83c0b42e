// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_KERNELS_ORACLE_H_
#define PERMAFROST_KERNELS_ORACLE_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "permafrost/kernels/moe_kernels.h"

namespace permafrost::kernels {

/// @file
/// What each MoE kernel must produce, computed on the CPU: independent code,
/// plain loops, double precision. Integers, bytes and quantisation scales are
/// exact; everything else comes with a bound.
///
/// Threads: pure functions. Capture: no driver call. Errors: none; sizes that
/// do not fit their shape abort.

/// The value of an e4m3 byte; 0x7f and 0xff are NaN.
float E4m3ToFloat(uint8_t byte);
/// To nearest even, saturated to +-448; NaN becomes 0x7f.
uint8_t FloatToE4m3(float value);
float Bf16ToFloat(uint16_t bits);
/// To nearest even; NaN becomes 0x7fff.
uint16_t FloatToBf16(float value);

/// What moe_topk writes, [rows][topk].
struct TopKResult {
  std::vector<int32_t> ids;
  std::vector<double> weights;
};
TopKResult TopKOracle(absl::Span<const float> logits, int64_t rows,
                      int64_t experts, int64_t topk, bool normalize);

/// What moe_build_worklist writes. `total_tiles` is `worklist.size()`, and
/// `small_total_tiles` is `small_worklist.size()`.
struct WorklistResult {
  std::vector<int32_t> offsets;
  std::vector<int32_t> sorted;   ///< live positions only
  std::vector<int32_t> inverse;  ///< one for each id, -1 where it is dropped
  std::vector<uint64_t> worklist;
  std::vector<uint64_t> small_worklist;
};
WorklistResult BuildWorklistOracle(absl::Span<const int32_t> topk_ids,
                                   int64_t experts, int64_t width,
                                   int64_t small_rows);

/// What the quantisers write: equal to theirs bit for bit.
struct QuantizedRows {
  std::vector<uint8_t> bytes;  ///< e4m3 [rows][columns]
  std::vector<float> scales;   ///< [rows][ceil(columns / 128)]
};
QuantizedRows QuantizeOracle(absl::Span<const float> input, int64_t columns);

/// One routed row of a grouped GEMM.
struct GemmRow {
  int64_t activation_row = 0;
  int64_t matrix = 0;
};

/// A grouped GEMM's result and how far a float32 kernel may be from it.
struct GemmResult {
  std::vector<double> values;  ///< [rows.size()][columns]
  /// Largest rounding error of a sum in float32 in the kernels' order: each
  /// term passes at most 24 + depth / 512 roundings of 2^-24 (a lane's 16
  /// products, two scales, one addition for each 512 of depth, the warp's
  /// reduction), and the terms' magnitudes sum to at most |row| * |column|
  /// (Cauchy-Schwarz).
  std::vector<double> bounds;
};

/// Both GEMMs: rows times weights e4m3 [matrices][columns][depth] with one
/// scale for each 128 x 128 block.
GemmResult GroupedGemmOracle(const QuantizedRows& activation,
                             absl::Span<const GemmRow> rows,
                             absl::Span<const uint8_t> weights,
                             absl::Span<const float> weight_scales,
                             int64_t columns, int64_t depth);

/// silu(gate) * up.
double SwiGluOracle(double gate, double up);

/// Weights of one layer in host memory, in the order of `MoeLayerWeights`.
struct MoeLayerHostWeights {
  std::vector<uint8_t> gate;
  std::vector<uint8_t> up;
  std::vector<uint8_t> down;
  std::vector<float> gate_scale;
  std::vector<float> up_scale;
  std::vector<float> down_scale;
};

/// What a whole layer must produce.
struct MoeLayerResult {
  /// layer_out [rows][hidden], rounded to bf16.
  std::vector<float> out;
  /// For each element, the largest |got - out| that rounding can explain: 0, or
  /// a few bf16 neighbours.
  std::vector<float> tolerance;
  /// The largest of `tolerance`.
  float max_tolerance = 0;
};

/// The layer that `EnqueueMoeLayer` enqueues, for finite input.
///
/// It takes every rounding step that the kernels take: the bit-exact quantiser
/// on the layer's input, double sums, quantisation of the gated activations,
/// bf16 of the down projection and of the result. Errors of float32 arithmetic
/// are carried along as a bound, and at each rounding step the bound becomes
/// what that step can make of it: nothing, where no rounding boundary lies
/// within reach, else the distance to the neighbour. So a tolerance is 0 or a
/// few neighbours wide and has no constant chosen by hand beyond the counts of
/// roundings.
/// @param router_logits  [rows][experts]; no two experts of a row at the edge
///   of the top-k may be nearer than float32 tells apart (the choice is exact).
/// @param layer_in  bf16 [rows][hidden].
/// Cost: about a nanosecond for each multiply-add of the routed rows.
MoeLayerResult RunMoeLayerOracle(const MoeLayerShape& shape,
                                 const MoeLayerHostWeights& weights,
                                 absl::Span<const float> router_logits,
                                 absl::Span<const uint16_t> layer_in,
                                 int64_t rows);

}  // namespace permafrost::kernels

#endif  // PERMAFROST_KERNELS_ORACLE_H_
