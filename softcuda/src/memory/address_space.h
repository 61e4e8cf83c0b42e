// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_MEMORY_ADDRESS_SPACE_H_
#define SOFTCUDA_MEMORY_ADDRESS_SPACE_H_

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "memory/access.h"
#include "memory/physical_block.h"
#include "memory/regions.h"
#include "memory/snapshot.h"
#include "memory/va_allocator.h"

namespace softcuda::memory {

/// What is known about one address, for pointer attributes.
struct PointerInfo {
  bool in_reservation = false;  ///< of cuMemAddressReserve
  bool mapped = false;          ///< memory is there
  RangeKind kind = RangeKind::kDeviceAlloc;
  Access access = Access::kNone;
  uint64_t base = 0;  ///< of the allocation or mapping
  uint64_t bytes = 0;
  uint64_t range_base = 0;  ///< of the reservation; else as `base`
  uint64_t range_bytes = 0;
  uint64_t buffer_id = 0;
  uint64_t block_id = 0;
  unsigned handle_types = 0;  ///< that the VMM handle may be exported as
  bool rdma_capable = false;
};

/// The memory of the software device, and the pinned host memory it can reach.
///
/// Device addresses are host addresses inside one large reservation that is
/// inaccessible where nothing is allocated; behind every allocation and
/// reservation lies a gap of at least kGapBytes. Pinned host memory lies
/// outside it. Pages are committed when first touched, while the accounting
/// against the device's size is exact in requested bytes.
///
/// Functions with a CUresult follow the driver call of that name and leave
/// their outputs alone on errors. Those that take memory away first wait until
/// the executor is idle, so they must not be called on its threads; they wait
/// again after the memory has left the tables, so that no kernel still runs
/// with an older snapshot when it goes.
///
/// Threads: any.
class AddressSpace {
 public:
  static constexpr uint64_t kGranularityBytes = uint64_t{2} << 20;
  static constexpr uint64_t kGapBytes = uint64_t{2} << 20;
  static constexpr uint64_t kDefaultDeviceBytes = uint64_t{80} << 30;

  /// The process's address space. Never destroyed.
  static AddressSpace& Get();

  /// What is allocated, mapped and named now. Take one for a launch when it
  /// starts to run, not when it is enqueued.
  /// Cost: a lock; after a change, also making a new snapshot.
  std::shared_ptr<const Snapshot> snapshot();

  /// Whether the address lies in the device's reservation, allocated or not.
  bool InDeviceRange(uint64_t address) const {
    return device_va_.Contains(address);
  }
  /// Whether the address lies in pinned or registered host memory.
  bool IsHostPinned(const void* address);

  PointerInfo Query(uint64_t address);

  // cuMemAlloc family.
  CUresult Allocate(uint64_t bytes, uint64_t* address);
  CUresult Free(uint64_t address);
  /// Either output may be null.
  CUresult GetAddressRange(uint64_t address, uint64_t* base, uint64_t* bytes);

  // Pinned host memory.
  CUresult AllocateHost(uint64_t bytes, void** address);
  CUresult FreeHost(void* address);
  CUresult RegisterHost(void* address, uint64_t bytes, unsigned flags);
  CUresult UnregisterHost(void* address);

  // Virtual memory management.
  /// What cuMemCreate says to these properties.
  static CUresult CheckProperties(const CUmemAllocationProp& properties);
  CUresult Reserve(uint64_t bytes, uint64_t alignment, uint64_t hint,
                   uint64_t* address);
  CUresult FreeReservation(uint64_t address, uint64_t bytes);
  CUresult CreateHandle(uint64_t bytes, const CUmemAllocationProp& properties,
                        CUmemGenericAllocationHandle* handle);
  CUresult ReleaseHandle(CUmemGenericAllocationHandle handle);
  CUresult RetainHandle(uint64_t address, CUmemGenericAllocationHandle* handle);
  CUresult HandleProperties(CUmemGenericAllocationHandle handle,
                            CUmemAllocationProp* properties);
  CUresult Map(uint64_t address, uint64_t bytes,
               CUmemGenericAllocationHandle handle);
  CUresult Unmap(uint64_t address, uint64_t bytes);
  CUresult SetAccess(uint64_t address, uint64_t bytes, Access access);
  CUresult GetAccess(uint64_t address, Access* access);

  /// Memory for a `.global` or `.const` variable of a module: zero-filled,
  /// defined, named in reports. 0 when the device is full. `alignment` is a
  /// power of two, at most the host's page.
  uint64_t AllocateModuleGlobal(uint64_t bytes, uint64_t alignment,
                                std::string name = "");
  /// Does not wait for the executor, whose threads may be the ones that drop a
  /// module: the pages go at the next call that does.
  void FreeModuleGlobal(uint64_t address);

  /// Frees all device allocations and allocated pinned memory, as resetting a
  /// context does. VMM objects and registrations stay.
  void FreeContextMemory();

  /// Makes device bytes undefined. CUDA_ERROR_INVALID_VALUE when some are not
  /// mapped device memory; then nothing is marked.
  CUresult MarkUndefined(uint64_t address, uint64_t bytes);

  RegionTable& regions() { return regions_; }

  uint64_t device_bytes() const { return device_bytes_.load(); }
  void set_device_bytes(uint64_t bytes) { device_bytes_.store(bytes); }
  /// Physical device bytes alive.
  uint64_t live_bytes() const { return live_bytes_.load(); }
  /// Device bytes that could still be allocated.
  uint64_t free_bytes() const;
  /// Allocations, VMM handles, reservations and mappings alive.
  int64_t live_objects();

 private:
  using RangeMap = std::map<uint64_t, Range>;

  struct Handle {
    std::shared_ptr<PhysicalBlock> block;
    CUmemAllocationProp properties;
    int64_t references = 0;
    int64_t mappings = 0;
  };
  using HandleMap = std::map<CUmemGenericAllocationHandle, Handle>;

  // Memory that left the tables, until nothing can run on it any more.
  struct Retired {
    uint64_t address = 0;
    uint64_t bytes = 0;     // of the mapping, in whole pages
    uint64_t va_bytes = 0;  // to give back, gap included; 0: stays reserved
    bool is_host = false;
    std::shared_ptr<PhysicalBlock> block;  // null: pages stay
  };

  AddressSpace();

  static uint64_t PageBytes();
  static uint64_t RoundUpToPages(uint64_t bytes);

  Range* FindRangeLocked(uint64_t address);
  const Reservation* FindReservationLocked(uint64_t address) const;
  bool ChargeLocked(uint64_t bytes);
  std::shared_ptr<PhysicalBlock> MakeDeviceBlockLocked(uint64_t bytes);
  // Maps the range's block at a new address and adds it to the tables.
  // 0 when there is no room.
  uint64_t AddRangeLocked(VaAllocator& va, Range range, uint64_t alignment);
  CUresult FreeRange(uint64_t address, RangeKind kind);
  void DetachRangeLocked(RangeMap::iterator it, std::vector<Retired>* retired);
  // The mappings that [address, address + bytes) consists of. False unless it
  // is whole mappings without a hole.
  bool CollectMappingsLocked(uint64_t address, uint64_t bytes,
                             std::vector<RangeMap::iterator>* found);
  // Forgets a handle without references and mappings and returns its block,
  // whose pages are the caller's to give back; else null.
  std::shared_ptr<PhysicalBlock> DropHandleIfUnusedLocked(
      HandleMap::iterator it);
  void RememberFreedLocked(const FreedRange& freed);
  void ForgetFreedLocked(uint64_t begin, uint64_t end);
  void ChangedLocked() { current_.reset(); }
  void Reclaim(std::vector<Retired> retired);

  VaAllocator device_va_;
  VaAllocator host_va_;
  std::atomic<uint64_t> device_bytes_{kDefaultDeviceBytes};
  std::atomic<uint64_t> live_bytes_{0};
  RegionTable regions_;

  std::mutex mutex_;
  RangeMap ranges_;                               // by begin
  std::map<uint64_t, Reservation> reservations_;  // by begin
  HandleMap handles_;
  // Handles by block id, for RetainHandle.
  std::map<uint64_t, CUmemGenericAllocationHandle> handle_of_block_;
  std::map<uint64_t, FreedRange> freed_;  // by begin
  std::deque<uint64_t> freed_order_;      // begins, oldest first
  std::vector<Retired> retired_later_;
  std::shared_ptr<const Snapshot> current_;  // null: to be made
  uint64_t last_buffer_id_ = 0;
  CUmemGenericAllocationHandle last_handle_ = 0;
};

}  // namespace softcuda::memory

#endif  // SOFTCUDA_MEMORY_ADDRESS_SPACE_H_
