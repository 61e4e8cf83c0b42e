// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_KERNELS_MOE_LAYER_H_
#define PERMAFROST_KERNELS_MOE_LAYER_H_

#include <cuda.h>

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "permafrost/arena/arena.h"
#include "permafrost/arena/model_config.h"
#include "permafrost/arena/moe_fp8_layout.h"
#include "permafrost/arena/moe_routing_layout.h"
#include "permafrost/driver/device_ptr.h"
#include "permafrost/kernels/moe_kernels.h"

namespace permafrost::kernels {

/// The arena's buffers that one MoE layer works in.
struct MoeLayerBuffers {
  BufferRef moe_routing;
  BufferRef moe_fp8_scratch;
  BufferRef expert_gate_out;
  BufferRef expert_up_out;
  BufferRef expert_down_out;

  /// Looks the five up by these names.
  /// Errors: kNotFound naming the buffer; kFailedPrecondition with the reason
  ///   when the model has none.
  static absl::StatusOr<MoeLayerBuffers> Find(const ArenaView& arena);
};

/// The weights of one MoE layer, in device memory that outlives every replay.
struct MoeLayerWeights {
  DevicePtr gate;        ///< e4m3 [distinct][expert_width][hidden]
  DevicePtr up;          ///< e4m3 [distinct][expert_width][hidden]
  DevicePtr down;        ///< e4m3 [distinct][hidden][expert_width]
  DevicePtr gate_scale;  ///< f32, one for each 128 x 128 block
  DevicePtr up_scale;
  DevicePtr down_scale;
};

/// The shape of a model's MoE layers, every expert with weights of its own.
MoeLayerShape ShapeOf(const ModelConfig& config);

/// Enqueues one MoE layer: routing, two grouped FP8 GEMMs, and the sum.
///
/// Nine kernel launches on one stream: moe_topk, moe_build_worklist (for the
/// expert width), quantize_bf16, moe_gemm_gate_up, moe_swiglu, quantize_f32,
/// moe_build_worklist (for the hidden size), moe_gemm_down, moe_combine. The
/// slab's activation region first holds the quantised rows and then the
/// quantised gated activations, and both lists share one place: stream order
/// keeps them apart, and each launch stores all that the next one reads.
///
/// @param layout  of the slab; one layout for the whole graph.
/// @param rows  rows of the step, at most those of either layout.
/// @param router_logits  f32 [rows][experts]; a row of -inf is a padding row,
///   which is routed nowhere and comes out equal to layer_in.
/// @param layer_in  bf16 [rows][hidden].
/// @param layer_out  bf16 [rows][hidden] = layer_in + weighted expert outputs.
///   May be layer_in.
/// Capture: safe. Threads: any, one at a time for a stream.
/// Errors: kInvalidArgument naming the field, kResourceExhausted naming the
///   buffer that is too small, both before anything is enqueued.
/// Cost: 9 launches.
absl::Status EnqueueMoeLayer(const MoeKernels& kernels, CUstream stream,
                             const MoeLayerBuffers& buffers,
                             const MoeLayerShape& shape,
                             const MoeLayerWeights& weights,
                             const MoeFp8Layout& layout,
                             const MoeRoutingLayout& routing_layout,
                             int64_t rows, DevicePtr router_logits,
                             DevicePtr layer_in, DevicePtr layer_out);

}  // namespace permafrost::kernels

#endif  // PERMAFROST_KERNELS_MOE_LAYER_H_
