// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_MEMORY_ACCESS_H_
#define SOFTCUDA_MEMORY_ACCESS_H_

#include <array>
#include <cstdint>

namespace softcuda::memory {

/// Most devices that one process can be given.
inline constexpr int kMaxDevices = 16;

/// What a kernel may do with bytes. The values are those of CUmemAccess_flags.
enum class Access : uint8_t { kNone = 0, kRead = 1, kReadWrite = 3 };

/// What both allow.
constexpr Access Both(Access a, Access b) {
  return static_cast<Access>(static_cast<uint8_t>(a) & static_cast<uint8_t>(b));
}

constexpr bool Allows(Access access, bool write) {
  return write ? access == Access::kReadWrite : access != Access::kNone;
}

/// What each device may do.
using DeviceAccess = std::array<Access, kMaxDevices>;

constexpr DeviceAccess EveryDevice(Access access) {
  DeviceAccess all{};
  for (Access& one : all) one = access;
  return all;
}

/// How a range of addresses came to be.
enum class RangeKind : uint8_t {
  kDeviceAlloc,
  kVmmMapping,
  kPinnedHost,  ///< allocated pinned, or registered by the program
  kModuleGlobal,
  kPoolAlloc,   ///< stream-ordered, from a pool
  kGraphAlloc,  ///< of an allocation node of a graph
};

}  // namespace softcuda::memory

#endif  // SOFTCUDA_MEMORY_ACCESS_H_
