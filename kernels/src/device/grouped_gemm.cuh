// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_KERNELS_SRC_DEVICE_GROUPED_GEMM_CUH_
#define PERMAFROST_KERNELS_SRC_DEVICE_GROUPED_GEMM_CUH_

#include <cstdint>

#include "device/fault_policy.cuh"
#include "device/fp8.cuh"
#include "permafrost/kernels/moe_limits.h"
#include "permafrost/kernels/worklist_entry.h"

namespace permafrost::kernels::device {

// Both GEMMs give a warp 16 weight rows ("vectors"), each K long, in two sets
// of eight: eight columns of gate and the same eight of up, or 16 columns of
// down. Lanes split K, 16 elements each; a vector is loaded and converted once
// and multiplied with up to four activation rows. That shape streams the
// weights once in decode, where a tile has one or two rows, and it is the
// cheapest one in instructions for each multiply.
inline constexpr int kVectors = 16;
inline constexpr int kSetVectors = 8;
inline constexpr int kWarpSpan = 32 * 16;

struct WeightSet {
  const uint8_t* rows;  // e4m3, row v at v * K
  const float* scales;  // f32, one for each 128 of K
};

// Keeps half of a lane's 2 * kHalf values, sends the others to the lane that
// keeps those, and goes on with half as many.
template <int kHalf>
__device__ __forceinline__ void HalveVectors(float (&sums)[kVectors],
                                             int lane) {
  if constexpr (kHalf > 0) {
    const bool is_upper = (lane & kHalf) != 0;
#pragma unroll
    for (int v = 0; v < kHalf; ++v) {
      const float sent = is_upper ? sums[v] : sums[v + kHalf];
      const float kept = is_upper ? sums[v + kHalf] : sums[v];
      sums[v] = kept + __shfl_xor_sync(kFullWarp, sent, kHalf);
    }
    HalveVectors<kHalf / 2>(sums, lane);
  }
}

// Sums 16 values over the 32 lanes with 16 shuffles where 16 butterflies would
// take 80; lane l returns the sum of sums[l % 16].
__device__ __forceinline__ float ReduceVectors(float (&sums)[kVectors],
                                               int lane) {
  HalveVectors<kVectors / 2>(sums, lane);
  return sums[0] + __shfl_xor_sync(kFullWarp, sums[0], 16);
}

// sums[r][v] = this lane's part of activation row r times weight vector v.
// `Sets` is 2 when the two sets have different scales.
template <int kRows, int kSets>
__device__ __forceinline__ void MultiplyRows(
    const uint8_t* const (&activation)[kRows],
    const float* const (&activation_scale)[kRows],
    const WeightSet (&weights)[kSets], int depth, int lane,
    float (&sums)[kRows][kVectors]) {
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) sums[r][v] = 0.0F;
  }
  for (int base = 0; base < depth; base += kWarpSpan) {
    // A lane past the end repeats the first elements with scale 0: no branch
    // splits the warp, and what it adds is 0 (or the NaN that the sum has
    // anyway, since the elements belong to the same rows).
    const bool is_inside = base + lane * 16 < depth;
    const int k = is_inside ? base + lane * 16 : 0;
    const int group = k / kQuantGroup;
    float a[kRows][16];
    float scale[kRows][kSets];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      Dequantize16(__ldg(reinterpret_cast<const uint4*>(activation[r] + k)),
                   a[r]);
      const float row_scale = is_inside ? activation_scale[r][group] : 0.0F;
#pragma unroll
      for (int s = 0; s < kSets; ++s) {
        scale[r][s] = row_scale * __ldg(weights[s].scales + group);
      }
    }
#pragma unroll
    for (int s = 0; s < kSets; ++s) {
      const uint8_t* row = weights[s].rows + k;
#pragma unroll
      for (int v = 0; v < kVectors / kSets; ++v) {
        float w[16];
        Dequantize16(__ldg(reinterpret_cast<const uint4*>(row)), w);
        row += depth;
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
          float product = a[r][0] * w[0];
#pragma unroll
          for (int i = 1; i < 16; ++i) product = fmaf(a[r][i], w[i], product);
          float& sum = sums[r][s * (kVectors / kSets) + v];
          sum = fmaf(product, scale[r][s], sum);
        }
      }
    }
  }
}

// Calls `tile(entry)` for this block's share of both lists. It reads a list's
// counter first and no entry at or past it; the counter is bounded by the
// capacity, so that no counter can lead outside the list.
template <class Faults, class Tile>
__device__ __forceinline__ void ForEachTile(
    const uint64_t* worklist, const int32_t* total_tiles, int capacity_tiles,
    const uint64_t* small_worklist, const int32_t* small_total_tiles,
    int small_capacity_tiles, Tile&& tile) {
#pragma unroll 1
  for (int list_index = 0; list_index < 2; ++list_index) {
    const uint64_t* list = list_index == 0 ? worklist : small_worklist;
    if (list == nullptr) continue;
    const int capacity =
        list_index == 0 ? capacity_tiles : small_capacity_tiles;
    const int total =
        min(list_index == 0 ? *total_tiles : *small_total_tiles, capacity);
    int at = static_cast<int>(blockIdx.x);
    if constexpr (Faults::kConsumerReadsPastTotal) {
      // The classic slip: the next entry is fetched before it is known to be
      // one. Volatile, or the compiler would repair it.
      const volatile uint64_t* early = list;
      static_cast<void>(early[min(max(total, at), capacity - 1)]);
    }
#pragma unroll 1
    for (; at < total; at += static_cast<int>(gridDim.x)) tile(list[at]);
  }
}

// moe_gemm_gate_up: gate and up projections of the routed rows.
//
// Grid and block: any number of blocks of 256 threads; each strides over the
//         lists. A warp owns 8 of the 64 columns of a tile.
// Reads:  total_tiles, then only entries below it; the same for the small list
//         where there is one (small_worklist not null); sorted[position] of the
//         tiles' rows; activation e4m3 [rows][hidden] and its scales f32
//         [rows][ceil(hidden / 128)] of row sorted[position] / topk; weights
//         e4m3 [distinct][width][hidden] and their 128 x 128 block scales of
//         matrix expert % distinct.
// Writes: gate_out and up_out f32 [position][width], live positions only.
// Replay: carries nothing; there is nothing to re-initialise. No atomics, and
//         each sum has one fixed order, so results do not depend on the grid.
// Alignment: 16 bytes for activation and weights, 8 for the lists, 4 for the
//         rest; hidden and width multiples of 16.
struct GateUpParams {
  const uint8_t* activation;
  const float* activation_scale;
  const int32_t* sorted;
  const uint8_t* gate;
  const float* gate_scale;
  const uint8_t* up;
  const float* up_scale;
  float* gate_out;
  float* up_out;
  int rows;
  int topk;
  int hidden;
  int width;
  int distinct_experts;
  int hidden_groups;
  int width_groups;
};

template <int kRows>
__device__ __forceinline__ void GateUpRows(const GateUpParams& p,
                                           const WeightSet (&weights)[2],
                                           int position, int column, int lane) {
  const uint8_t* activation[kRows];
  const float* activation_scale[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const uint32_t row = static_cast<uint32_t>(p.sorted[position + r]) /
                         static_cast<uint32_t>(p.topk);
    activation[r] = p.activation + static_cast<int64_t>(row) * p.hidden;
    activation_scale[r] =
        p.activation_scale + static_cast<int64_t>(row) * p.hidden_groups;
  }
  float sums[kRows][kVectors];
  MultiplyRows<kRows, 2>(activation, activation_scale, weights, p.hidden, lane,
                         sums);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const float sum = ReduceVectors(sums[r], lane);
    if (lane < kVectors) {
      float* out = lane < kSetVectors ? p.gate_out : p.up_out;
      out[static_cast<int64_t>(position + r) * p.width + column +
          lane % kSetVectors] = sum;
    }
  }
}

__device__ __forceinline__ void GateUpTile(const GateUpParams& p,
                                           uint64_t entry) {
  const int lane = static_cast<int>(threadIdx.x) & 31;
  const int warp = static_cast<int>(threadIdx.x) >> 5;
  const int column =
      static_cast<int>(TileEntryColumnTile(entry)) * kTileColumns +
      warp * kSetVectors;
  if (column >= p.width) return;
  const int64_t matrix = static_cast<int64_t>(
      TileEntryExpert(entry) % static_cast<uint32_t>(p.distinct_experts));
  const int64_t weight_at = (matrix * p.width + column) * p.hidden;
  const int64_t scale_at =
      (matrix * p.width_groups + column / kQuantGroup) * p.hidden_groups;
  const WeightSet weights[2] = {{p.gate + weight_at, p.gate_scale + scale_at},
                                {p.up + weight_at, p.up_scale + scale_at}};
  int position = static_cast<int>(TileEntryRowStart(entry));
  int rows = static_cast<int>(TileEntryRows(entry));
  for (; rows >= 4; rows -= 4, position += 4) {
    GateUpRows<4>(p, weights, position, column, lane);
  }
  if (rows >= 2) {
    GateUpRows<2>(p, weights, position, column, lane);
    rows -= 2;
    position += 2;
  }
  if (rows == 1) GateUpRows<1>(p, weights, position, column, lane);
}

// moe_gemm_down: down projection of the routed rows.
//
// Grid and block: any number of blocks of 128 threads; each strides over the
//         lists. A warp owns 16 of the 64 columns of a tile.
// Reads:  the lists as moe_gemm_gate_up does; activation e4m3 [position][width]
//         and its scales f32 [position][ceil(width / 128)]; weights e4m3
//         [distinct][hidden][width] and their block scales.
// Writes: down_out bf16 [position][hidden], live positions only, rounded to
//         nearest even.
// Replay, alignment: as moe_gemm_gate_up.
struct DownParams {
  const uint8_t* activation;
  const float* activation_scale;
  const uint8_t* down;
  const float* down_scale;
  __nv_bfloat16* down_out;
  int rows;
  int topk;
  int hidden;
  int width;
  int distinct_experts;
  int hidden_groups;
  int width_groups;
};

template <int kRows>
__device__ __forceinline__ void DownRows(const DownParams& p,
                                         const WeightSet (&weights)[1],
                                         int position, int column, int lane) {
  const uint8_t* activation[kRows];
  const float* activation_scale[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    activation[r] = p.activation + static_cast<int64_t>(position + r) * p.width;
    activation_scale[r] = p.activation_scale +
                          static_cast<int64_t>(position + r) * p.width_groups;
  }
  float sums[kRows][kVectors];
  MultiplyRows<kRows, 1>(activation, activation_scale, weights, p.width, lane,
                         sums);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const float sum = ReduceVectors(sums[r], lane);
    if (lane < kVectors) {
      p.down_out[static_cast<int64_t>(position + r) * p.hidden + column +
                 lane] = __float2bfloat16_rn(sum);
    }
  }
}

__device__ __forceinline__ void DownTile(const DownParams& p, uint64_t entry) {
  const int lane = static_cast<int>(threadIdx.x) & 31;
  const int warp = static_cast<int>(threadIdx.x) >> 5;
  const int column =
      static_cast<int>(TileEntryColumnTile(entry)) * kTileColumns +
      warp * kVectors;
  if (column >= p.hidden) return;
  const int64_t matrix = static_cast<int64_t>(
      TileEntryExpert(entry) % static_cast<uint32_t>(p.distinct_experts));
  const WeightSet weights[1] = {
      {p.down + (matrix * p.hidden + column) * p.width,
       p.down_scale +
           (matrix * p.hidden_groups + column / kQuantGroup) * p.width_groups}};
  int position = static_cast<int>(TileEntryRowStart(entry));
  int rows = static_cast<int>(TileEntryRows(entry));
  for (; rows >= 4; rows -= 4, position += 4) {
    DownRows<4>(p, weights, position, column, lane);
  }
  if (rows >= 2) {
    DownRows<2>(p, weights, position, column, lane);
    rows -= 2;
    position += 2;
  }
  if (rows == 1) DownRows<1>(p, weights, position, column, lane);
}

}  // namespace permafrost::kernels::device

#endif  // PERMAFROST_KERNELS_SRC_DEVICE_GROUPED_GEMM_CUH_
