// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_KERNELS_SRC_DEVICE_QUANTIZE_CUH_
#define PERMAFROST_KERNELS_SRC_DEVICE_QUANTIZE_CUH_

#include <cfloat>
#include <cstdint>

#include "device/fault_policy.cuh"
#include "device/fp8.cuh"
#include "permafrost/kernels/moe_limits.h"

namespace permafrost::kernels::device {

__device__ __forceinline__ void LoadRow16(const __nv_bfloat16* from,
                                          float (&values)[16]) {
  const uint4* words = reinterpret_cast<const uint4*>(from);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const uint4 word = words[half];
    values[half * 8 + 0] = LowBf16(word.x);
    values[half * 8 + 1] = HighBf16(word.x);
    values[half * 8 + 2] = LowBf16(word.y);
    values[half * 8 + 3] = HighBf16(word.y);
    values[half * 8 + 4] = LowBf16(word.z);
    values[half * 8 + 5] = HighBf16(word.z);
    values[half * 8 + 6] = LowBf16(word.w);
    values[half * 8 + 7] = HighBf16(word.w);
  }
}

__device__ __forceinline__ void LoadRow16(const float* from,
                                          float (&values)[16]) {
  const float4* words = reinterpret_cast<const float4*>(from);
#pragma unroll
  for (int quarter = 0; quarter < 4; ++quarter) {
    const float4 word = words[quarter];
    values[quarter * 4 + 0] = word.x;
    values[quarter * 4 + 1] = word.y;
    values[quarter * 4 + 2] = word.z;
    values[quarter * 4 + 3] = word.w;
  }
}

// quantize_bf16, quantize_f32: rows to e4m3 with one f32 scale for each 128
// consecutive elements of a row.
//
// Grid and block: blocks of 128 threads, one warp for each 512 elements of a
//         row, rows * ceil(columns / 512) warps. The f32 form launches for the
//         capacity and a warp whose row is not live leaves at once.
// Reads:  input [rows][columns]; the f32 form reads *live_rows first, and only
//         rows below it.
// Writes: output e4m3 [rows][columns] and scales f32 [rows][groups], groups =
//         ceil(columns / 128), of the live rows; every one on every call.
// Values: amax = max |x| of the group, at least 1e-10 and at most FLT_MAX;
//         scale = amax / 448; byte = e4m3(x * (448 / amax)), to nearest even,
//         saturated. So a group of zeros has bytes 0 (0x80 where x is -0) and
//         scale 1e-10 / 448; an infinity becomes +-448 and counts as FLT_MAX;
//         a NaN becomes 0x7f, stays NaN in the product and moves no scale.
//         The last group of a row may be shorter.
// Replay: carries nothing; there is nothing to re-initialise.
// Alignment: 16 bytes for input and output; columns a multiple of 16.
//
// Eight lanes share a group and each keeps its 16 elements in registers.
template <class Element>
__device__ __forceinline__ void Quantize(const Element* input, uint8_t* output,
                                         float* scales, int rows, int columns,
                                         int groups) {
  const int lane = static_cast<int>(threadIdx.x) & 31;
  const int warp =
      static_cast<int>(blockIdx.x * (blockDim.x / 32U) + threadIdx.x / 32U);
  const int row_warps =
      (columns + kQuantizeWarpColumns - 1) / kQuantizeWarpColumns;
  const int row = warp / row_warps;
  if (row >= rows) return;
  const int column =
      (warp - row * row_warps) * kQuantizeWarpColumns + lane * 16;
  const int64_t at = static_cast<int64_t>(row) * columns + column;
  const bool is_inside = column < columns;

  float values[16] = {};
  if (is_inside) LoadRow16(input + at, values);
  float amax = 0.0F;
#pragma unroll
  for (float value : values) amax = fmaxf(amax, fabsf(value));
#pragma unroll
  for (int offset = 1; offset < 8; offset *= 2) {
    amax = fmaxf(amax, __shfl_xor_sync(kFullWarp, amax, offset));
  }
  amax = fminf(fmaxf(amax, kQuantAmaxFloor), FLT_MAX);
  const float inverse_scale = kE4m3Max / amax;
  if (!is_inside) return;
  const uint4 packed = make_uint4(QuantizeWord(values, inverse_scale),
                                  QuantizeWord(values + 4, inverse_scale),
                                  QuantizeWord(values + 8, inverse_scale),
                                  QuantizeWord(values + 12, inverse_scale));
  *reinterpret_cast<uint4*>(output + at) = packed;
  if ((lane & 7) == 0) {
    scales[static_cast<int64_t>(row) * groups + column / kQuantGroup] =
        amax / kE4m3Max;
  }
}

}  // namespace permafrost::kernels::device

#endif  // PERMAFROST_KERNELS_SRC_DEVICE_QUANTIZE_CUH_
