// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_EXEC_DEVICE_LIMITS_H_
#define SOFTCUDA_EXEC_DEVICE_LIMITS_H_

#include <cstdint>

// The limits that the software device reports and that launches are held to:
// those of compute capability 9.0.
namespace softcuda {

inline constexpr int kMultiprocessors = 132;
inline constexpr uint32_t kMaxThreadsPerBlock = 1024;
inline constexpr uint32_t kMaxBlockDimXy = 1024;
inline constexpr uint32_t kMaxBlockDimZ = 64;
inline constexpr uint32_t kMaxGridDimX = 0x7FFFFFFF;
inline constexpr uint32_t kMaxGridDimYz = 65535;
inline constexpr int kMaxThreadsPerMultiprocessor = 2048;
inline constexpr int kMaxBlocksPerMultiprocessor = 32;
inline constexpr int kRegistersPerMultiprocessor = 65536;
inline constexpr uint32_t kDefaultSharedBytes = 48 << 10;
inline constexpr uint32_t kMaxSharedBytes = 227 << 10;  // with opt-in
inline constexpr uint32_t kSharedBytesPerMultiprocessor = 228 << 10;
inline constexpr uint32_t kReservedSharedBytes = 1 << 10;

}  // namespace softcuda

#endif  // SOFTCUDA_EXEC_DEVICE_LIMITS_H_
