// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_MEMORY_POOL_H_
#define SOFTCUDA_MEMORY_POOL_H_

#include <cuda.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "memory/access.h"
#include "memory/physical_block.h"

namespace softcuda::memory {

/// An amount that goes up and down, and its highest value since a reset.
/// Units: bytes.
struct Watermark {
  uint64_t current = 0;
  uint64_t high = 0;

  void Add(uint64_t bytes) {
    current += bytes;
    high = std::max(high, current);
  }
  void Subtract(uint64_t bytes) { current -= bytes; }
  void Reset() { high = current; }
};

/// Addresses with memory behind them that no allocation uses.
struct Chunk {
  uint64_t address = 0;
  uint64_t bytes = 0;  // in whole host pages
  std::shared_ptr<PhysicalBlock> block;
};

/// A pool of stream-ordered memory.
///
/// What its allocations gave back stays in `cached` until it is trimmed.
/// Threads: the address space's lock guards all of it but `device`, `max_bytes`
///   and `props`, which never change.
struct Pool {
  CUmemoryPool handle = nullptr;
  int device = 0;
  uint64_t max_bytes = 0;  // 0: no limit but the device's
  CUmemPoolProps props = {};
  bool destroyed = false;

  int reuse_follow_event_dependencies = 1;
  int reuse_allow_opportunistic = 1;
  int reuse_allow_internal_dependencies = 1;
  uint64_t release_threshold_bytes = 0;

  Watermark reserved;
  Watermark used;
  DeviceAccess access = EveryDevice(Access::kNone);
  std::vector<Chunk> cached;
};

}  // namespace softcuda::memory

#endif  // SOFTCUDA_MEMORY_POOL_H_
