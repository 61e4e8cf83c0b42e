// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

// The entry points that a planted image replaces. A .cu file includes this once
// after it has defined `PERMAFROST_FAULTS`, the policy to instantiate with, so
// both images have the same names, parameters and code.

#include <cstdint>

#include "device/build_worklist.cuh"
#include "device/grouped_gemm.cuh"
#include "permafrost/kernels/moe_limits.h"

namespace permafrost::kernels::device {

// Some parameters only say how large a region is: with them, the extent of
// every address follows from the parameters of the graph's node itself.

extern "C" __global__ void __launch_bounds__(kBuildMaxThreads)
    moe_build_worklist(const int32_t* topk_ids, int32_t* offsets,
                       int32_t* sorted, int32_t* inverse, uint64_t* worklist,
                       int32_t* total_tiles, uint64_t* small_worklist,
                       int32_t* small_total_tiles, int rows, int topk,
                       int experts, int width, int small_rows,
                       int capacity_tiles, int small_capacity_tiles) {
  BuildWorklist<PERMAFROST_FAULTS>(
      topk_ids, offsets, sorted, inverse, worklist, total_tiles, small_worklist,
      small_total_tiles, rows, topk, experts, width, small_rows);
}

extern "C" __global__ void __launch_bounds__(kGateUpThreads, 1)
    moe_gemm_gate_up(const uint64_t* worklist, const int32_t* total_tiles,
                     const uint64_t* small_worklist,
                     const int32_t* small_total_tiles, const int32_t* sorted,
                     const uint8_t* activation, const float* activation_scale,
                     const uint8_t* gate, const float* gate_scale,
                     const uint8_t* up, const float* up_scale, float* gate_out,
                     float* up_out, int capacity_tiles,
                     int small_capacity_tiles, int rows, int topk, int hidden,
                     int width, int distinct_experts, int hidden_groups,
                     int width_groups) {
  const GateUpParams params = {activation,    activation_scale,
                               sorted,        gate,
                               gate_scale,    up,
                               up_scale,      gate_out,
                               up_out,        rows,
                               topk,          hidden,
                               width,         distinct_experts,
                               hidden_groups, width_groups};
  ForEachTile<PERMAFROST_FAULTS>(
      worklist, total_tiles, capacity_tiles, small_worklist, small_total_tiles,
      small_capacity_tiles,
      [&params](uint64_t entry) { GateUpTile(params, entry); });
}

extern "C" __global__ void __launch_bounds__(kDownThreads, 1)
    moe_gemm_down(const uint64_t* worklist, const int32_t* total_tiles,
                  const uint64_t* small_worklist,
                  const int32_t* small_total_tiles, const uint8_t* activation,
                  const float* activation_scale, const uint8_t* down,
                  const float* down_scale, __nv_bfloat16* down_out,
                  int capacity_tiles, int small_capacity_tiles, int rows,
                  int topk, int hidden, int width, int distinct_experts,
                  int hidden_groups, int width_groups) {
  const DownParams params = {activation,    activation_scale,
                             down,          down_scale,
                             down_out,      rows,
                             topk,          hidden,
                             width,         distinct_experts,
                             hidden_groups, width_groups};
  ForEachTile<PERMAFROST_FAULTS>(
      worklist, total_tiles, capacity_tiles, small_worklist, small_total_tiles,
      small_capacity_tiles,
      [&params](uint64_t entry) { DownTile(params, entry); });
}

}  // namespace permafrost::kernels::device
