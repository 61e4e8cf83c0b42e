// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_EXEC_MEMORY_CHECK_H_
#define SOFTCUDA_EXEC_MEMORY_CHECK_H_

#include <cstddef>
#include <cstdint>

#include "exec/warp.h"

namespace softcuda::exec {

enum class AccessKind : uint8_t {
  kRead,
  kWrite,
  kAtomic,
  kWriteLater,  ///< a copy is issued that will write
};

/// Checks the lanes of `mask` one by one: alignment, bounds, access, undefined
/// bytes. False after a fault. For the accesses that no fast path covers.
bool CheckGlobalLanes(Warp& warp, const Inst& inst, uint32_t mask,
                      const uint64_t* addresses, uint64_t bytes,
                      AccessKind kind);

/// The same in shared memory, whose addresses start at 0.
bool CheckSharedLanes(Warp& warp, const Inst& inst, uint32_t mask,
                      const uint32_t* addresses, uint64_t bytes,
                      AccessKind kind);

/// The host address behind one lane's generic address (device memory or a
/// window), checked. Null after a fault.
std::byte* GenericPointer(Warp& warp, const Inst& inst, uint32_t lane,
                          uint64_t address, uint64_t bytes, AccessKind kind);

/// The same for an address in shared memory.
std::byte* SharedPointer(Warp& warp, const Inst& inst, uint32_t lane,
                         uint64_t address, uint64_t bytes, AccessKind kind);

}  // namespace softcuda::exec

#endif  // SOFTCUDA_EXEC_MEMORY_CHECK_H_
