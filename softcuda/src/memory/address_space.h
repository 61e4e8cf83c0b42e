// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_MEMORY_ADDRESS_SPACE_H_
#define SOFTCUDA_MEMORY_ADDRESS_SPACE_H_

#include <cuda.h>

#include <array>
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
#include "memory/pool.h"
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
  int device = 0;
  CUmemoryPool pool = nullptr;  ///< of stream-ordered memory
  unsigned handle_types = 0;    ///< that the VMM handle may be exported as
  bool rdma_capable = false;
};

/// One device's right to a mapping, as cuMemSetAccess grants it.
struct AccessGrant {
  int device = 0;
  Access access = Access::kNone;
};

/// The memory of the software devices, and the pinned host memory they reach.
///
/// Device addresses are host addresses inside one large reservation that is
/// inaccessible where nothing is allocated; behind every allocation and
/// reservation lies a gap of at least kGapBytes. Pinned host memory lies
/// outside it. Pages are committed when first touched, while the accounting
/// against a device's size is exact in requested bytes.
///
/// Stream-ordered memory has two lives: for API calls it exists from the
/// allocating call to the freeing one, for work from the moment the stream
/// reaches the allocation to the moment it reaches the free. An address is
/// handed out again only when both have ended.
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

  /// How many devices there are; set before the first call of the driver.
  void set_device_count(int count) { device_count_.store(count); }
  int device_count() const { return device_count_.load(); }

  /// What is allocated, mapped and named now, as a kernel on `device` sees it.
  /// Take one for a launch when it starts to run, not when it is enqueued.
  /// Cost: a lock; after a change, also making a new snapshot.
  std::shared_ptr<const Snapshot> snapshot(int device = 0);
  /// The same as a copy engine sees it, which reaches what any device does.
  std::shared_ptr<const Snapshot> copy_snapshot();
  /// The same as API calls see it, with memory that work has not reached yet.
  std::shared_ptr<const Snapshot> call_snapshot();

  /// Whether the address lies in the device's reservation, allocated or not.
  bool InDeviceRange(uint64_t address) const {
    return device_va_.Contains(address);
  }
  /// Whether the address lies in pinned or registered host memory.
  bool IsHostPinned(const void* address);

  PointerInfo Query(uint64_t address);

  // cuMemAlloc family.
  CUresult Allocate(uint64_t bytes, uint64_t* address, int device = 0);
  /// Takes stream-ordered memory too, without waiting.
  CUresult Free(uint64_t address);
  /// Either output may be null.
  CUresult GetAddressRange(uint64_t address, uint64_t* base, uint64_t* bytes);

  // Pinned host memory.
  CUresult AllocateHost(uint64_t bytes, void** address, int device = 0);
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
  CUresult SetAccess(uint64_t address, uint64_t bytes,
                     const std::vector<AccessGrant>& grants);
  CUresult GetAccess(uint64_t address, int device, Access* access);

  /// Lets kernels on `from` reach the allocations on `to`, or no longer.
  /// Neither VMM nor pool memory follows it. False when it was so already.
  bool SetPeerAccess(int from, int to, bool enabled);

  // Stream-ordered memory.
  std::shared_ptr<Pool> CreatePool(const CUmemPoolProps& props);
  /// The pool goes once its last allocation is freed.
  void DestroyPool(const std::shared_ptr<Pool>& pool);
  /// An allocation that exists for API calls; `*serial` tells it from others
  /// that had its address. What the stream's own frees have yet to give back
  /// counts as free.
  CUresult AllocateFromPool(const std::shared_ptr<Pool>& pool, uint64_t bytes,
                            uint64_t stream_id, uint64_t* address,
                            uint64_t* serial);
  /// The stream reached the allocation.
  void StartLife(uint64_t address, uint64_t serial);
  /// The allocation ends for API calls. INVALID_VALUE when there is none at
  /// that address, or it was freed.
  CUresult BeginFree(uint64_t address, uint64_t stream_id, uint64_t* serial);
  /// The stream reached the free.
  void EndLife(uint64_t address, uint64_t serial);
  /// Releases cached memory until the pool has at most `keep_bytes` reserved.
  void TrimPool(Pool& pool, uint64_t keep_bytes);
  /// Releases what pools hold above their thresholds, as a wait does.
  void TrimPools();
  CUresult GetPoolAttribute(Pool& pool, CUmemPool_attribute attribute,
                            void* value);
  CUresult SetPoolAttribute(Pool& pool, CUmemPool_attribute attribute,
                            const void* value);
  CUresult SetPoolAccess(Pool& pool, const std::vector<AccessGrant>& grants);
  Access GetPoolAccess(const Pool& pool, int device);

  // The memory of allocation nodes of graphs.
  /// An address without memory; INVALID_VALUE for no bytes.
  CUresult AddGraphRange(int device, uint64_t bytes,
                         const std::vector<AccessGrant>& grants,
                         uint64_t* address, uint64_t* serial);
  /// The node is gone; the range follows once it is free.
  void DropGraphRange(uint64_t address, uint64_t serial);
  /// Sees that a launch finds memory at the address. OUT_OF_MEMORY when the
  /// device is full.
  CUresult BackGraphRange(uint64_t address, uint64_t serial);
  /// A launch will allocate it, and leave it allocated or not.
  void ScheduleGraphRange(uint64_t address, uint64_t serial,
                          bool stays_allocated);
  /// Whether a launch left it allocated and nothing freed it since.
  bool IsGraphAllocated(uint64_t address, uint64_t serial);
  /// Takes the memory of free ranges that no launch waits for.
  void TrimGraphMemory(int device);
  CUresult GetGraphMemAttribute(int device, CUgraphMem_attribute attribute,
                                uint64_t* value);
  CUresult ResetGraphMemAttribute(int device, CUgraphMem_attribute attribute);

  /// Memory for a `.global` or `.const` variable of a module: zero-filled,
  /// defined, named in reports. 0 when the device is full. `alignment` is a
  /// power of two, at most the host's page. A negative device stands for the
  /// first one's memory, open to all.
  uint64_t AllocateModuleGlobal(uint64_t bytes, uint64_t alignment,
                                std::string name = "", int device = 0);
  /// Does not wait for the executor, whose threads may be the ones that drop a
  /// module: the pages go at the next call that does.
  void FreeModuleGlobal(uint64_t address);

  /// Frees all of a device's allocations and the pinned memory allocated with
  /// its context, as resetting that does. VMM objects and registrations stay.
  void FreeContextMemory(int device = 0);

  /// Makes device bytes undefined. CUDA_ERROR_INVALID_VALUE when some are not
  /// mapped device memory; then nothing is marked.
  CUresult MarkUndefined(uint64_t address, uint64_t bytes);

  RegionTable& regions() { return regions_; }

  uint64_t device_bytes(int device) const { return total_of(device).load(); }
  void set_device_bytes(int device, uint64_t bytes) {
    total_of(device).store(bytes);
  }
  /// Physical device bytes alive, on all devices.
  uint64_t live_bytes() const;
  /// Bytes of a device that could still be allocated.
  uint64_t free_bytes(int device) const;
  /// Allocations, VMM handles, reservations and mappings alive.
  int64_t live_objects();

 private:
  // A range with what only the tables know of it.
  struct Entry : Range {
    DeviceAccess granted = EveryDevice(Access::kNone);
    bool is_open_to_all = false;  // whatever `granted` says
    // Stream-ordered memory's two lives.
    bool exists_for_calls = true;
    bool exists_for_work = true;
    uint64_t freeing_stream_id = 0;
    std::shared_ptr<Pool> pool;
    uint64_t charged_bytes = 0;  // of pool and graph memory, on its device
    // Graph memory.
    bool graph_allocated = false;  // as API calls see it
    bool is_orphan = false;        // its node is gone
    int scheduled_launches = 0;    // that have not reached the allocation
  };
  using RangeMap = std::map<uint64_t, Entry>;

  // Whose eyes a snapshot looks through: a device's, or one of these.
  static constexpr int kCopyEngine = kMaxDevices;
  static constexpr int kCall = kMaxDevices + 1;
  static constexpr int kViews = kMaxDevices + 2;

  struct DeviceMemory {
    std::atomic<uint64_t> total_bytes{kDefaultDeviceBytes};
    std::atomic<uint64_t> live_bytes{0};
  };

  struct Handle {
    std::shared_ptr<PhysicalBlock> block;
    CUmemAllocationProp properties;
    int device = 0;
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

  const std::atomic<uint64_t>& total_of(int device) const {
    return devices_[static_cast<size_t>(device)].total_bytes;
  }
  std::atomic<uint64_t>& total_of(int device) {
    return devices_[static_cast<size_t>(device)].total_bytes;
  }
  std::atomic<uint64_t>& live_of(int device) {
    return devices_[static_cast<size_t>(device)].live_bytes;
  }
  std::shared_ptr<const Snapshot> SnapshotFor(int view);
  // What the viewer may do, with the reason when that is nothing.
  Access AccessFor(const Entry& entry, int view, const char** reason) const;
  Access DeviceAccessTo(const Entry& entry, int device,
                        const char** reason) const;

  Entry* FindRangeLocked(uint64_t address);
  const Reservation* FindReservationLocked(uint64_t address) const;
  // Takes cached pool memory of the device away where that is needed.
  bool ChargeLocked(int device, uint64_t bytes);
  std::shared_ptr<PhysicalBlock> MakeDeviceBlockLocked(int device,
                                                       uint64_t bytes);
  // Maps the range's block at a new address and adds it to the tables.
  // 0 when there is no room.
  uint64_t AddRangeLocked(VaAllocator& va, Entry range, uint64_t alignment);
  // Lets a stream's allocation take over what its frees will give back.
  bool TakeOverChargesLocked(const Pool& pool, uint64_t stream_id,
                             uint64_t bytes);
  bool TakeCachedLocked(Pool& pool, uint64_t bytes, Chunk* chunk);
  void ReleaseChunkLocked(Pool& pool, Chunk chunk);
  void TrimPoolLocked(Pool& pool, uint64_t keep_bytes);
  // Ends both lives of an allocation of a pool.
  void RemovePoolRangeLocked(RangeMap::iterator it);
  RangeMap::iterator FindSerialLocked(uint64_t address, uint64_t serial);
  void UnbackLocked(Entry& entry);
  void RemoveGraphRangeLocked(RangeMap::iterator it);
  void StartGraphLifeLocked(Entry& entry);
  void EndGraphLifeLocked(RangeMap::iterator it);
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
  void ChangedLocked() { current_ = {}; }
  void Reclaim(std::vector<Retired> retired);

  VaAllocator device_va_;
  VaAllocator host_va_;
  std::atomic<int> device_count_{1};
  std::array<DeviceMemory, kMaxDevices> devices_;
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
  std::array<std::shared_ptr<const Snapshot>, kViews> current_;  // null: to do
  std::vector<std::shared_ptr<Pool>> pools_;
  std::array<Watermark, kMaxDevices> graph_used_;
  std::array<Watermark, kMaxDevices> graph_reserved_;
  // [from][to]: kernels on `from` reach the allocations on `to`.
  std::array<std::array<bool, kMaxDevices>, kMaxDevices> peer_access_{};
  uint64_t last_buffer_id_ = 0;
  CUmemGenericAllocationHandle last_handle_ = 0;
};

}  // namespace softcuda::memory

#endif  // SOFTCUDA_MEMORY_ADDRESS_SPACE_H_
