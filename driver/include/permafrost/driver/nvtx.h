// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_DRIVER_NVTX_H_
#define PERMAFROST_DRIVER_NVTX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "permafrost/driver/device_ptr.h"
#include "permafrost/driver/driver.h"

namespace permafrost {

/// A range of device memory with a name. Units: bytes.
struct NamedRange {
  std::string name;
  DevicePtr base;
  int64_t bytes = 0;
};

/// Tells a memory checker that one allocation is carved into named parts.
///
/// Without it a checker sees one large allocation, and a write past the end of
/// one buffer into the next is no error to it. The heap is registered as a
/// sub-allocator: only its named regions may be touched.
///
/// A checker is whatever listens to NVTX: a tool named by
/// NVTX_INJECTION64_PATH (compute-sanitizer sets it), else the loaded driver
/// when it exports the listener's entry points, as softcuda does. NVTX looks
/// once in a process, at the first registration, so the driver loaded by then
/// decides. Where nothing listens the object is inactive and costs nothing.
///
/// Neighbouring regions need a gap to be told apart by every tool: see
/// `guard_bytes` of the arena's plan.
///
/// Capture: no driver call. Threads: externally synchronised.
class NvtxHeap {
 public:
  /// Registers [base, base + bytes) as a heap. `driver` proves that one is
  /// loaded: an NVTX call before that would fix "nothing listens".
  static NvtxHeap Register(const Driver& driver, absl::string_view name,
                           DevicePtr base, int64_t bytes);

  NvtxHeap() = default;
  NvtxHeap(NvtxHeap&& other) noexcept;
  NvtxHeap& operator=(NvtxHeap&& other) noexcept;
  ~NvtxHeap();

  /// Whether a tool listens and took the heap.
  bool active() const { return heap_ != nullptr; }

  /// Registers and names the regions, in one batch. Empty ranges are left out.
  void AddRegions(absl::Span<const NamedRange> ranges);

  /// Unregisters the regions that begin at these addresses; the heap stays.
  /// Call it before their memory is unmapped.
  void RemoveRegions(absl::Span<const DevicePtr> bases);

  /// Unregisters the regions, then the heap. Does nothing when inactive. Call
  /// it before the memory is unmapped.
  void Unregister();

 private:
  void* heap_ = nullptr;
  std::vector<DevicePtr> regions_;
};

}  // namespace permafrost

#endif  // PERMAFROST_DRIVER_NVTX_H_
