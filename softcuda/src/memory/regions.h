// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_MEMORY_REGIONS_H_
#define SOFTCUDA_MEMORY_REGIONS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "memory/access.h"

namespace softcuda::memory {

/// A stretch of a heap that the program told us about: a named region, or the
/// bytes of a sub-allocator's heap that belong to no region.
struct Piece {
  uint64_t begin = 0;
  uint64_t end = 0;
  Access access = Access::kReadWrite;
  bool is_gap = false;
  std::string name;  ///< of the region; of the heap for a gap
};

/// Disjoint pieces in address order.
using Pieces = std::vector<Piece>;

/// The heaps and named regions of the NVTX memory extension.
///
/// A heap of a sub-allocator that has regions is accessible to kernels in its
/// regions only; without regions, and outside a layout heap's regions, memory
/// stays as accessible as it is without the heap. Heaps do not overlap, nor do
/// regions of a heap, nor process-wide regions and heaps: whoever asks for it
/// gets false and a misuse report.
///
/// Threads: any.
class RegionTable {
 public:
  enum class Usage { kSubAllocator, kLayout };
  /// Names the heap whose regions may lie anywhere outside the others.
  static constexpr uint64_t kProcessWide = 0;

  RegionTable();

  /// Makes a heap. Its id is its base address.
  std::optional<uint64_t> RegisterHeap(std::string name, uint64_t base,
                                       uint64_t bytes, Usage usage);
  /// Forgets a heap and its regions. False for an unknown heap.
  bool UnregisterHeap(uint64_t heap);
  /// Forgets the regions of a heap. False for an unknown heap.
  bool ResetHeap(uint64_t heap);

  /// Adds a region; its id is its base address.
  bool AddRegion(uint64_t heap, uint64_t base, uint64_t bytes);
  /// Changes the size of the region that starts at `base`.
  bool ResizeRegion(uint64_t base, uint64_t bytes);
  bool RemoveRegion(uint64_t base);
  bool NameRegion(uint64_t base, std::string name);
  /// Sets what kernels may do; nullopt restores the default, read and write.
  bool SetRegionAccess(uint64_t base, std::optional<Access> access);

  /// The table as it is now. Later changes make new tables.
  std::shared_ptr<const Pieces> pieces() const;

  int64_t heap_count() const;

 private:
  struct Region {
    uint64_t bytes = 0;
    Access access = Access::kReadWrite;
    std::string name;
  };
  struct Heap {
    std::string name;
    uint64_t bytes = 0;
    Usage usage = Usage::kSubAllocator;
    std::map<uint64_t, Region> regions;  // by base
  };

  Heap* FindHeapLocked(uint64_t heap);
  Heap* HeapOfRegionLocked(uint64_t base);
  std::optional<std::string> ObjectionLocked(const Heap& heap, uint64_t heap_id,
                                             uint64_t base,
                                             uint64_t bytes) const;

  mutable std::mutex mutex_;
  std::map<uint64_t, Heap> heaps_;  // by base
  Heap process_wide_;
  // Made when asked for: regions arrive one by one.
  mutable std::shared_ptr<const Pieces> pieces_;
  mutable bool stale_ = false;
};

}  // namespace softcuda::memory

#endif  // SOFTCUDA_MEMORY_REGIONS_H_
