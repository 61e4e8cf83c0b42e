// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_KERNELS_SRC_DEVICE_BUILD_WORKLIST_CUH_
#define PERMAFROST_KERNELS_SRC_DEVICE_BUILD_WORKLIST_CUH_

#include <cstdint>

#include "device/fault_policy.cuh"
#include "permafrost/kernels/moe_limits.h"
#include "permafrost/kernels/worklist_entry.h"

namespace permafrost::kernels::device {

// What one expert adds to the three running sums, in one word so that a single
// scan carries them: rows in bits 63..32, big row tiles in 31..12, small tiles
// in 11..0. The largest sums are 163,840 rows, 2,304 big and 1,024 small.
__device__ __forceinline__ uint64_t ExpertSums(int count, int small_rows) {
  const bool is_small = count > 0 && count <= small_rows;
  const uint32_t big_tiles =
      is_small ? 0U : static_cast<uint32_t>(count + kTileRows - 1) / kTileRows;
  return static_cast<uint64_t>(static_cast<uint32_t>(count)) << 32U |
         (big_tiles << 12U) | (is_small ? 1U : 0U);
}

__device__ __forceinline__ int SumRows(uint64_t sums) {
  return static_cast<int>(sums >> 32U);
}

__device__ __forceinline__ int SumBigTiles(uint64_t sums) {
  return static_cast<int>(static_cast<uint32_t>(sums) >> 12U);
}

__device__ __forceinline__ int SumSmallTiles(uint64_t sums) {
  return static_cast<int>(static_cast<uint32_t>(sums) & 0xfffU);
}

// Stores every entry of one list. `first[e]` is the number of row tiles before
// expert e; first[experts] is the number of all. Each warp owns one contiguous
// slice and its lanes walk it 32 entries at a time: one binary search a slice,
// then the expert only moves forward.
__device__ __forceinline__ void ExpandTiles(uint64_t* list, const int* first,
                                            const int* row_start, int experts,
                                            int column_tiles) {
  const int lane = static_cast<int>(threadIdx.x) & 31;
  const int warp = static_cast<int>(threadIdx.x) >> 5;
  const int warps = static_cast<int>(blockDim.x) >> 5;
  const int total = first[experts] * column_tiles;
  const int slice = ((total + warps - 1) / warps + 31) / 32 * 32;
  const int end = min((warp + 1) * slice, total);
  int at = warp * slice + lane;
  if (at >= end) return;

  int expert = 0;
  for (int above = experts; above - expert > 1;) {
    const int middle = (expert + above) / 2;
    if (first[middle] * column_tiles <= at) {
      expert = middle;
    } else {
      above = middle;
    }
  }
  for (; at < end; at += 32) {
    while (first[expert + 1] * column_tiles <= at) ++expert;
    const int row_tiles = first[expert + 1] - first[expert];
    const int within = at - first[expert] * column_tiles;
    // One row tile an expert is the rule in decode; it needs no division.
    const int column_tile = row_tiles == 1 ? within : within / row_tiles;
    const int start =
        row_start[expert] + (within - column_tile * row_tiles) * kTileRows;
    const int rows = min(kTileRows, row_start[expert + 1] - start);
    list[at] = PackTileEntry(
        static_cast<uint32_t>(rows), static_cast<uint32_t>(start),
        static_cast<uint32_t>(expert), static_cast<uint32_t>(column_tile));
  }
}

// moe_build_worklist: sorts the routed rows by expert and writes the list of
// GEMM tiles, in one launch of one block.
//
// Grid and block: one block; 256 threads, or up to 1024 that loop. Any multiple
//         of 32 gives the same bytes. Dynamic shared memory:
//         BuildSharedBytes(threads, experts).
// Reads:  topk_ids i32 [rows][topk]; an id outside [0, experts) is dropped.
//         Nothing that this kernel or an earlier replay wrote.
// Writes: offsets i32 [experts + 1]; sorted[position] = expanded index, for the
//         live positions only; inverse[expanded index] = position or -1, all;
//         the live entries of the big and of the small list; total_tiles and,
//         where there is a small list, small_total_tiles. Both counters are
//         stored on every call, zero included. Entries at or past a counter are
//         neither read nor written.
// Replay: every shared word is initialised here; nothing global is carried,
//         accumulated or reset, and no atomic touches global memory.
// Order:  entries by expert, then column tile, then row tile; positions by
//         expert, then expanded index. Both depend on the ids alone.
// Alignment: 8 bytes for the lists, 4 for the rest.
//
// An expert with 0 < rows <= small_rows becomes one row tile of the small list;
// any other becomes ceil(rows / 128) row tiles of the big one. The capacities
// are proved on the host: at most floor(ids / 128) + min(experts, ids) row
// tiles are big and at most min(experts, ids) are small.
template <class Faults>
__device__ __forceinline__ void BuildWorklist(
    const int32_t* topk_ids, int32_t* offsets, int32_t* sorted,
    int32_t* inverse, uint64_t* worklist, int32_t* total_tiles,
    uint64_t* small_worklist, int32_t* small_total_tiles, int rows, int topk,
    int experts, int width, int small_rows) {
  extern __shared__ __align__(16) unsigned char shared[];
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread & 31;
  const int warp = thread >> 5;
  const int warps = static_cast<int>(blockDim.x) >> 5;
  const uint32_t lanes_below = (1U << lane) - 1U;

  auto* warp_sums = reinterpret_cast<uint64_t*>(shared);
  auto* row_start = reinterpret_cast<int*>(warp_sums + 32);
  int* big_first = row_start + experts + 1;
  int* small_first = big_first + experts + 1;
  int* histograms = small_first + experts + 1;
  int* my_histogram = histograms + warp * experts;

  const int ids = rows * topk;
  const int chunk = ((ids + warps - 1) / warps + 31) / 32 * 32;
  const int chunk_begin = min(warp * chunk, ids);
  const int chunk_end = min(chunk_begin + chunk, ids);

  for (int e = lane; e < experts; e += 32) my_histogram[e] = 0;
  __syncwarp();
  for (int base = chunk_begin; base < chunk_end; base += 32) {
    const int at = base + lane;
    const int id = at < chunk_end ? topk_ids[at] : -1;
    const bool is_live =
        static_cast<uint32_t>(id) < static_cast<uint32_t>(experts);
    const uint32_t peers = __match_any_sync(kFullWarp, is_live ? id : -1);
    if (is_live && (peers & lanes_below) == 0) {
      my_histogram[id] += __popc(peers);
    }
    __syncwarp();
  }
  __syncthreads();

  const int experts_per_thread = (experts + static_cast<int>(blockDim.x) - 1) /
                                 static_cast<int>(blockDim.x);
  const int first_expert = min(thread * experts_per_thread, experts);
  const int last_expert = min(first_expert + experts_per_thread, experts);
  uint64_t my_sums = 0;
  for (int e = first_expert; e < last_expert; ++e) {
    int count = 0;
    for (int w = 0; w < warps; ++w) {
      const int of_warp = histograms[w * experts + e];
      histograms[w * experts + e] = count;
      count += of_warp;
    }
    row_start[e] = count;
    my_sums += ExpertSums(count, small_rows);
  }
  uint64_t scan = my_sums;
  for (int offset = 1; offset < 32; offset *= 2) {
    const uint64_t below = __shfl_up_sync(kFullWarp, scan, offset);
    if (lane >= offset) scan += below;
  }
  if (lane == 31) warp_sums[warp] = scan;
  __syncthreads();
  uint64_t before = lane < warp ? warp_sums[lane] : 0;
  for (int offset = 16; offset > 0; offset /= 2) {
    before += __shfl_xor_sync(kFullWarp, before, offset);
  }
  before += scan - my_sums;
  for (int e = first_expert; e < last_expert; ++e) {
    const int count = row_start[e];
    row_start[e] = SumRows(before);
    big_first[e] = SumBigTiles(before);
    small_first[e] = SumSmallTiles(before);
    offsets[e] = SumRows(before);
    before += ExpertSums(count, small_rows);
  }
  const int column_tiles = (width + kTileColumns - 1) / kTileColumns;
  if (thread == static_cast<int>(blockDim.x) - 1) {
    row_start[experts] = SumRows(before);
    big_first[experts] = SumBigTiles(before);
    small_first[experts] = SumSmallTiles(before);
    offsets[experts] = SumRows(before);
    const int total = SumBigTiles(before) * column_tiles;
    const int small_total = SumSmallTiles(before) * column_tiles;
    if (!Faults::kBuilderSkipsEmptyTotal || total != 0) *total_tiles = total;
    if (small_total_tiles != nullptr &&
        (!Faults::kBuilderSkipsEmptyTotal || small_total != 0)) {
      *small_total_tiles = small_total;
    }
    if constexpr (Faults::kBuilderWritesPastBuffer) {
      // The slab ends with a counter, and this is the byte behind it.
      int32_t* last =
          small_total_tiles != nullptr ? small_total_tiles : total_tiles;
      *reinterpret_cast<unsigned char*>(last + 1) = 0x5a;
    }
  }
  __syncthreads();

  for (int base = chunk_begin; base < chunk_end; base += 32) {
    const int at = base + lane;
    const bool is_mine = at < chunk_end;
    const int id = is_mine ? topk_ids[at] : -1;
    const bool is_live =
        static_cast<uint32_t>(id) < static_cast<uint32_t>(experts);
    const uint32_t peers = __match_any_sync(kFullWarp, is_live ? id : -1);
    int position = -1;
    if (is_live) {
      position = row_start[id] + my_histogram[id] + __popc(peers & lanes_below);
      sorted[position] = at;
    }
    if (is_mine) inverse[at] = position;
    // Every lane has read the base before the first of its expert moves it.
    __syncwarp();
    if (is_live && (peers & lanes_below) == 0) {
      my_histogram[id] += __popc(peers);
    }
    __syncwarp();
  }

  ExpandTiles(worklist, big_first, row_start, experts, column_tiles);
  if (small_worklist != nullptr) {
    ExpandTiles(small_worklist, small_first, row_start, experts, column_tiles);
  }
}

}  // namespace permafrost::kernels::device

#endif  // PERMAFROST_KERNELS_SRC_DEVICE_BUILD_WORKLIST_CUH_
