// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include "permafrost/kernels/moe_layer.h"

#include "absl/strings/str_cat.h"
#include "launch_checks.h"
#include "permafrost/driver/status.h"

namespace permafrost::kernels {
namespace {

absl::Status CheckBuffer(const BufferRef& buffer, int64_t needed_bytes) {
  if (needed_bytes <= buffer.bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("MoE layer: buffer '", buffer.name, "' needs ", needed_bytes,
                   " bytes, it has ", buffer.bytes,
                   "; plan the arena with a larger max_batch_tokens"));
}

}  // namespace

absl::StatusOr<MoeLayerBuffers> MoeLayerBuffers::Find(const ArenaView& arena) {
  MoeLayerBuffers buffers;
  PERMAFROST_ASSIGN_OR_RETURN(buffers.moe_routing, arena.Find("moe_routing"));
  PERMAFROST_ASSIGN_OR_RETURN(buffers.moe_fp8_scratch,
                              arena.Find("moe_fp8_scratch"));
  PERMAFROST_ASSIGN_OR_RETURN(buffers.expert_gate_out,
                              arena.Find("expert_gate_out"));
  PERMAFROST_ASSIGN_OR_RETURN(buffers.expert_up_out,
                              arena.Find("expert_up_out"));
  PERMAFROST_ASSIGN_OR_RETURN(buffers.expert_down_out,
                              arena.Find("expert_down_out"));
  return buffers;
}

MoeLayerShape ShapeOf(const ModelConfig& config) {
  return {.hidden = config.hidden_size,
          .expert_width = config.moe_intermediate_size,
          .experts = config.num_experts,
          .topk = config.experts_per_token,
          .distinct_experts = config.num_experts,
          .normalize_topk = config.normalize_topk};
}

absl::Status EnqueueMoeLayer(const MoeKernels& kernels, CUstream stream,
                             const MoeLayerBuffers& buffers,
                             const MoeLayerShape& shape,
                             const MoeLayerWeights& weights,
                             const MoeFp8Layout& layout,
                             const MoeRoutingLayout& routing_layout,
                             int64_t rows, DevicePtr router_logits,
                             DevicePtr layer_in, DevicePtr layer_out) {
  const DevicePtr slab = buffers.moe_fp8_scratch.base;
  const DevicePtr routing = buffers.moe_routing.base;
  const TopKArgs topk = {.logits = router_logits,
                         .topk_ids = routing + routing_layout.topk_ids,
                         .topk_weights = routing + routing_layout.topk_weights,
                         .rows = rows,
                         .experts = shape.experts,
                         .topk = shape.topk,
                         .normalize = shape.normalize_topk};
  // First, since it bounds rows, experts and topk for the arithmetic below.
  PERMAFROST_RETURN_IF_ERROR(CheckTopK(topk));
  const DevicePtr live_rows =
      routing + routing_layout.offsets + shape.experts * 4;
  const WorklistArgs gate_up_list = {.layout = layout,
                                     .slab = slab,
                                     .routing_layout = routing_layout,
                                     .routing = routing,
                                     .rows = rows,
                                     .experts = shape.experts,
                                     .topk = shape.topk,
                                     .width = shape.expert_width};
  const QuantizeArgs quantize_in = {.input = layer_in,
                                    .output = slab + layout.activation,
                                    .scales = slab + layout.scale,
                                    .live_rows = DevicePtr(),
                                    .rows = rows,
                                    .columns = shape.hidden};
  const GateUpArgs gate_up = {.layout = layout,
                              .slab = slab,
                              .routing_layout = routing_layout,
                              .routing = routing,
                              .worklist = DescribeWorklist(gate_up_list),
                              .shape = shape,
                              .rows = rows,
                              .gate = weights.gate,
                              .gate_scale = weights.gate_scale,
                              .up = weights.up,
                              .up_scale = weights.up_scale,
                              .gate_out = buffers.expert_gate_out.base,
                              .up_out = buffers.expert_up_out.base};
  const SwiGluArgs swiglu = {.gate = buffers.expert_gate_out.base,
                             .up = buffers.expert_up_out.base,
                             .live_rows = live_rows,
                             .rows = rows,
                             .topk = shape.topk,
                             .width = shape.expert_width};
  const QuantizeArgs quantize_gated = {.input = buffers.expert_gate_out.base,
                                       .output = slab + layout.activation,
                                       .scales = slab + layout.scale,
                                       .live_rows = live_rows,
                                       .rows = rows * shape.topk,
                                       .columns = shape.expert_width};
  WorklistArgs down_list = gate_up_list;
  down_list.width = shape.hidden;
  const DownArgs down = {.layout = layout,
                         .slab = slab,
                         .worklist = DescribeWorklist(down_list),
                         .shape = shape,
                         .rows = rows,
                         .down = weights.down,
                         .down_scale = weights.down_scale,
                         .down_out = buffers.expert_down_out.base};
  const CombineArgs combine = {.residual = layer_in,
                               .down = buffers.expert_down_out.base,
                               .inverse = routing + routing_layout.inverse,
                               .weights = routing + routing_layout.topk_weights,
                               .out = layer_out,
                               .rows = rows,
                               .topk = shape.topk,
                               .hidden = shape.hidden};

  // All of it before the first launch, so that a refusal leaves no half layer
  // in the stream. The GEMMs' checks cover what the quantisers write.
  PERMAFROST_RETURN_IF_ERROR(CheckBuildWorklist(gate_up_list));
  PERMAFROST_RETURN_IF_ERROR(
      CheckQuantize("quantize_bf16", quantize_in, /*has_live_rows=*/false));
  PERMAFROST_RETURN_IF_ERROR(CheckGateUp(gate_up));
  PERMAFROST_RETURN_IF_ERROR(CheckSwiGlu(swiglu));
  PERMAFROST_RETURN_IF_ERROR(
      CheckQuantize("quantize_f32", quantize_gated, /*has_live_rows=*/true));
  PERMAFROST_RETURN_IF_ERROR(CheckBuildWorklist(down_list));
  PERMAFROST_RETURN_IF_ERROR(CheckDown(down));
  PERMAFROST_RETURN_IF_ERROR(CheckCombine(combine));
  const int64_t pairs = rows * shape.topk;
  PERMAFROST_RETURN_IF_ERROR(
      CheckBuffer(buffers.moe_routing, routing_layout.bytes));
  PERMAFROST_RETURN_IF_ERROR(
      CheckBuffer(buffers.moe_fp8_scratch, layout.bytes));
  PERMAFROST_RETURN_IF_ERROR(
      CheckBuffer(buffers.expert_gate_out, pairs * shape.expert_width * 4));
  PERMAFROST_RETURN_IF_ERROR(
      CheckBuffer(buffers.expert_up_out, pairs * shape.expert_width * 4));
  PERMAFROST_RETURN_IF_ERROR(
      CheckBuffer(buffers.expert_down_out, pairs * shape.hidden * 2));

  PERMAFROST_RETURN_IF_ERROR(kernels.TopK(stream, topk));
  PERMAFROST_RETURN_IF_ERROR(kernels.BuildWorklist(stream, gate_up_list));
  PERMAFROST_RETURN_IF_ERROR(kernels.QuantizeBf16(stream, quantize_in));
  PERMAFROST_RETURN_IF_ERROR(kernels.GroupedGemmGateUp(stream, gate_up));
  PERMAFROST_RETURN_IF_ERROR(kernels.SwiGlu(stream, swiglu));
  PERMAFROST_RETURN_IF_ERROR(kernels.QuantizeF32(stream, quantize_gated));
  PERMAFROST_RETURN_IF_ERROR(kernels.BuildWorklist(stream, down_list));
  PERMAFROST_RETURN_IF_ERROR(kernels.GroupedGemmDown(stream, down));
  return kernels.Combine(stream, combine);
}

}  // namespace permafrost::kernels
