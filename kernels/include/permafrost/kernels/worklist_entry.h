// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_KERNELS_WORKLIST_ENTRY_H_
#define PERMAFROST_KERNELS_WORKLIST_ENTRY_H_

/// @file
/// The 8-byte word that the worklist builder writes and a grouped GEMM reads.
/// It is the whole contract between the two, so an engine that brings its own
/// GEMM needs only this header (no CUDA header, no Abseil, host and device).
///
/// | bits   | field     | meaning                                          |
/// |--------|-----------|--------------------------------------------------|
/// | 63..56 | rows - 1  | rows of the tile, 1 to 128                       |
/// | 55..32 | row_start | first row, counted in expert-sorted positions    |
/// | 31..16 | expert    | routed expert                                    |
/// | 15..0  | n_tile    | columns [64 * n_tile, 64 * n_tile + 64)          |

#include <cstdint>

#if defined(__CUDACC__)
#define PERMAFROST_HOST_DEVICE __host__ __device__
#else
#define PERMAFROST_HOST_DEVICE
#endif

namespace permafrost::kernels {

/// Rows of a full tile.
inline constexpr int kTileRows = 128;
/// Columns of a tile.
inline constexpr int kTileColumns = 64;

/// First value that `row_start` cannot hold.
inline constexpr int64_t kEntryRowLimit = int64_t{1} << 24;
/// First value that `expert` cannot hold.
inline constexpr int64_t kEntryExpertLimit = int64_t{1} << 16;
/// First value that `n_tile` cannot hold.
inline constexpr int64_t kEntryColumnTileLimit = int64_t{1} << 16;

/// Packs a tile. The caller keeps each field within its limit (launchers check
/// the shapes on the host); nothing is masked here.
PERMAFROST_HOST_DEVICE constexpr uint64_t PackTileEntry(uint32_t rows,
                                                        uint32_t row_start,
                                                        uint32_t expert,
                                                        uint32_t n_tile) {
  return static_cast<uint64_t>(((rows - 1U) << 24U) | row_start) << 32U |
         static_cast<uint64_t>((expert << 16U) | n_tile);
}

/// Rows of the tile, 1 to 128.
PERMAFROST_HOST_DEVICE constexpr uint32_t TileEntryRows(uint64_t entry) {
  return static_cast<uint32_t>(entry >> 56U) + 1U;
}

/// First row of the tile, in expert-sorted positions.
PERMAFROST_HOST_DEVICE constexpr uint32_t TileEntryRowStart(uint64_t entry) {
  return static_cast<uint32_t>(entry >> 32U) & 0xffffffU;
}

/// Expert whose weights the tile uses.
PERMAFROST_HOST_DEVICE constexpr uint32_t TileEntryExpert(uint64_t entry) {
  return static_cast<uint32_t>(entry) >> 16U;
}

/// Column tile.
PERMAFROST_HOST_DEVICE constexpr uint32_t TileEntryColumnTile(uint64_t entry) {
  return static_cast<uint32_t>(entry) & 0xffffU;
}

}  // namespace permafrost::kernels

#endif  // PERMAFROST_KERNELS_WORKLIST_ENTRY_H_
