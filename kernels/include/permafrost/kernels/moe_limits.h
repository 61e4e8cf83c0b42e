// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_KERNELS_MOE_LIMITS_H_
#define PERMAFROST_KERNELS_MOE_LIMITS_H_

/// @file
/// Limits and numeric constants that the MoE kernels, their launchers and their
/// oracles share. Host and device, no CUDA header, no Abseil.

#include <cstdint>

namespace permafrost::kernels {

/// Most experts a router may have.
inline constexpr int kMaxExperts = 1024;
/// Most experts a row may be routed to.
inline constexpr int kMaxTopK = 10;
/// Most rows of one layer call.
inline constexpr int kMaxRows = 16384;
/// Largest matrix dimension (hidden size or expert width).
inline constexpr int kMaxWidth = 1 << 20;
/// Hidden size and expert width are multiples of this: one 16-byte load of
/// e4m3 values, and the columns that one warp owns.
inline constexpr int kWidthMultiple = 16;

/// Elements of a row that share one activation scale, and the edge of the
/// square block that shares one weight scale.
inline constexpr int kQuantGroup = 128;
/// Largest finite e4m3 value.
inline constexpr float kE4m3Max = 448.0F;
/// Smallest group maximum that the quantiser divides by. It gives a group of
/// zeros the scale kQuantAmaxFloor / 448, which is a normal number.
inline constexpr float kQuantAmaxFloor = 1e-10F;

/// An expert with at most this many rows goes to the small list by default.
inline constexpr int kDefaultSmallRows = 16;

/// Threads of the blocks of each kernel.
inline constexpr int kTopKThreads = 128;
inline constexpr int kBuildThreads = 256;
inline constexpr int kBuildMaxThreads = 1024;
inline constexpr int kQuantizeThreads = 128;
inline constexpr int kGateUpThreads = 256;
inline constexpr int kDownThreads = 128;
inline constexpr int kSwiGluThreads = 256;
inline constexpr int kCombineThreads = 256;

/// Row elements that one warp of the quantiser covers.
inline constexpr int kQuantizeWarpColumns = 512;
/// Row elements that one block of the combine kernel covers.
inline constexpr int kCombineBlockColumns = kCombineThreads * 8;

/// Bytes of dynamic shared memory of the worklist builder: one 64-bit sum a
/// warp slot, three arrays of experts + 1, and one histogram a warp.
constexpr int64_t BuildSharedBytes(int64_t threads, int64_t experts) {
  return 32 * 8 + 3 * 4 * (experts + 1) + threads / 32 * experts * 4;
}

}  // namespace permafrost::kernels

#endif  // PERMAFROST_KERNELS_MOE_LIMITS_H_
