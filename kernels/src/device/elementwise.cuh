// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_KERNELS_SRC_DEVICE_ELEMENTWISE_CUH_
#define PERMAFROST_KERNELS_SRC_DEVICE_ELEMENTWISE_CUH_

#include <cstdint>

#include "device/fault_policy.cuh"
#include "device/fp8.cuh"
#include "permafrost/kernels/moe_limits.h"

namespace permafrost::kernels::device {

__device__ __forceinline__ float SwiGluValue(float gate, float up) {
  return gate / (1.0F + expf(-gate)) * up;
}

// moe_swiglu: gate = silu(gate) * up, in place.
//
// Grid and block: any number of blocks of 256 threads, chosen by capacity; each
//         thread strides over groups of four elements.
// Reads:  *live_rows first; gate and up f32 [position][width] below it.
// Writes: gate, the live positions only.
// Replay: the producer of gate runs before it in every replay; nothing is
//         carried. Applied twice without one it would be wrong.
// Alignment: 16 bytes; width a multiple of 16.
__device__ __forceinline__ void SwiGlu(float* gate, const float* up,
                                       const int32_t* live_rows, int rows,
                                       int topk, int width) {
  const int capacity_rows = rows * topk;
  const int live = min(*live_rows, capacity_rows);
  const int64_t quads = static_cast<int64_t>(live) * width / 4;
  auto* gate_quads = reinterpret_cast<float4*>(gate);
  const auto* up_quads = reinterpret_cast<const float4*>(up);
  const int64_t first =
      static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (int64_t at = first; at < quads;
       at += static_cast<int64_t>(gridDim.x) * blockDim.x) {
    const float4 g = gate_quads[at];
    const float4 u = up_quads[at];
    gate_quads[at] = make_float4(SwiGluValue(g.x, u.x), SwiGluValue(g.y, u.y),
                                 SwiGluValue(g.z, u.z), SwiGluValue(g.w, u.w));
  }
}

// moe_combine: out = residual + sum over the row's experts of weight * down.
//
// Grid and block: (ceil(hidden / 2048), rows) blocks of 256 threads; a thread
//         owns eight consecutive elements.
// Reads:  residual bf16 [rows][hidden]; inverse i32 and weights f32
//         [rows][topk]; down bf16 [position][hidden] of the positions in
//         inverse. A pair whose inverse is -1 is skipped: neither its weight
//         nor any row of down is read.
// Writes: out bf16 [rows][hidden], every element on every call. out may be
//         residual.
// Order:  residual first, then the pairs in routing order, in f32; one rounding
//         to nearest even at the end.
// Replay: carries nothing; there is nothing to re-initialise.
// Alignment: 16 bytes for the bf16 arrays, 4 for the others.
__device__ __forceinline__ void Combine(const __nv_bfloat16* residual,
                                        const __nv_bfloat16* down,
                                        const int32_t* inverse,
                                        const float* weights,
                                        __nv_bfloat16* out, int rows, int topk,
                                        int hidden) {
  const int row = static_cast<int>(blockIdx.y);
  const int column =
      static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x) * 8;
  if (row >= rows || column >= hidden) return;
  const int64_t at = static_cast<int64_t>(row) * hidden + column;
  const uint4 base = *reinterpret_cast<const uint4*>(residual + at);
  float sums[8] = {LowBf16(base.x),  HighBf16(base.x), LowBf16(base.y),
                   HighBf16(base.y), LowBf16(base.z),  HighBf16(base.z),
                   LowBf16(base.w),  HighBf16(base.w)};
  for (int j = 0; j < topk; ++j) {
    const int64_t pair = static_cast<int64_t>(row) * topk + j;
    const int position = inverse[pair];
    if (position < 0) continue;
    const float weight = weights[pair];
    const uint4 term = *reinterpret_cast<const uint4*>(
        down + static_cast<int64_t>(position) * hidden + column);
    sums[0] = fmaf(weight, LowBf16(term.x), sums[0]);
    sums[1] = fmaf(weight, HighBf16(term.x), sums[1]);
    sums[2] = fmaf(weight, LowBf16(term.y), sums[2]);
    sums[3] = fmaf(weight, HighBf16(term.y), sums[3]);
    sums[4] = fmaf(weight, LowBf16(term.z), sums[4]);
    sums[5] = fmaf(weight, HighBf16(term.z), sums[5]);
    sums[6] = fmaf(weight, LowBf16(term.w), sums[6]);
    sums[7] = fmaf(weight, HighBf16(term.w), sums[7]);
  }
  *reinterpret_cast<uint4*>(out + at) =
      make_uint4(PackBf16(sums[0], sums[1]), PackBf16(sums[2], sums[3]),
                 PackBf16(sums[4], sums[5]), PackBf16(sums[6], sums[7]));
}

}  // namespace permafrost::kernels::device

#endif  // PERMAFROST_KERNELS_SRC_DEVICE_ELEMENTWISE_CUH_
