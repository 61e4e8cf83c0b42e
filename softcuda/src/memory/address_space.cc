// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "memory/address_space.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "check/current_call.h"
#include "check/options.h"
#include "check/report.h"
#include "check/settings.h"
#include "runtime/executor.h"

namespace softcuda::memory {
namespace {

#if defined(__SANITIZE_THREAD__)
#define SOFTCUDA_HAS_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SOFTCUDA_HAS_TSAN 1
#endif
#endif

// ThreadSanitizer has room for about 1.5 TiB of addresses in all.
#if defined(SOFTCUDA_HAS_TSAN)
constexpr uint64_t kDeviceVaBytes = uint64_t{512} << 30;
constexpr uint64_t kHostVaBytes = uint64_t{64} << 30;
#else
constexpr uint64_t kDeviceVaBytes = uint64_t{2} << 40;
constexpr uint64_t kHostVaBytes = uint64_t{256} << 30;
#endif

constexpr size_t kFreedRangesKept = 1024;

void MakeInaccessible(uint64_t address, uint64_t bytes) {
  void* const start =
      reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
  // A host that refuses leaves the old pages readable to the program; kernels
  // are kept out by the tables.
  (void)mmap(start, bytes, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

}  // namespace

AddressSpace& AddressSpace::Get() {
  static AddressSpace* const space = new AddressSpace;
  return *space;
}

AddressSpace::AddressSpace()
    : device_va_(VaAllocator::Reserve(kDeviceVaBytes)),
      host_va_(VaAllocator::Reserve(kHostVaBytes)) {
  const uint64_t bytes = check::NumberOption(
      "SOFTCUDA_DEVICE_MEMORY", kDefaultDeviceBytes, 0, UINT64_MAX);
  for (int device = 0; device < kMaxDevices; ++device) {
    set_device_bytes(device, bytes);
  }
  // VMM addresses are whole granules; start on one.
  const uint64_t start = (device_va_.base() + kGranularityBytes - 1) /
                         kGranularityBytes * kGranularityBytes;
  if (start != device_va_.base()) {
    (void)device_va_.TakeAt(device_va_.base(), start - device_va_.base());
  }
}

uint64_t AddressSpace::PageBytes() {
  static const uint64_t page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return page;
}

uint64_t AddressSpace::RoundUpToPages(uint64_t bytes) {
  return (bytes + PageBytes() - 1) / PageBytes() * PageBytes();
}

std::shared_ptr<const Snapshot> AddressSpace::snapshot(int device) {
  return SnapshotFor(device);
}

std::shared_ptr<const Snapshot> AddressSpace::copy_snapshot() {
  return SnapshotFor(kCopyEngine);
}

std::shared_ptr<const Snapshot> AddressSpace::call_snapshot() {
  return SnapshotFor(kCall);
}

Access AddressSpace::DeviceAccessTo(const Entry& entry, int device,
                                    const char** reason) const {
  if (entry.is_open_to_all) return entry.access;
  const auto at = static_cast<size_t>(device);
  switch (entry.kind) {
    case RangeKind::kDeviceAlloc:
      if (device == entry.device ||
          peer_access_[at][static_cast<size_t>(entry.device)]) {
        return entry.access;
      }
      *reason = "of another device, without peer access";
      return Access::kNone;
    case RangeKind::kModuleGlobal:
      if (device == entry.device) return entry.access;
      *reason = "of another device's module";
      return Access::kNone;
    case RangeKind::kPinnedHost:
      return entry.access;
    case RangeKind::kVmmMapping:
      *reason = "mapped but no access set (cuMemSetAccess)";
      return entry.granted[at];
    case RangeKind::kPoolAlloc:
      *reason = "of a pool that is closed to this device";
      return entry.pool->access[at];
    case RangeKind::kGraphAlloc:
      *reason = "of a graph, closed to this device";
      return entry.granted[at];
  }
  return Access::kNone;
}

Access AddressSpace::AccessFor(const Entry& entry, int view,
                               const char** reason) const {
  if (view == kCall && !entry.exists_for_calls) {
    *reason = "freed";
    return Access::kNone;
  }
  if (view != kCall && !entry.exists_for_work) {
    *reason = "not allocated yet in stream order";
    return Access::kNone;
  }
  if (view < kMaxDevices) return DeviceAccessTo(entry, view, reason);
  // The copy engine of the device that may do most.
  Access best = Access::kNone;
  for (int device = 0; device < device_count(); ++device) {
    const Access access = DeviceAccessTo(entry, device, reason);
    if (!Allows(best, true) && access != Access::kNone) best = access;
  }
  return best;
}

std::shared_ptr<const Snapshot> AddressSpace::SnapshotFor(int view) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::shared_ptr<const Pieces> pieces = regions_.pieces();
  std::shared_ptr<const Snapshot>& current =
      current_[static_cast<size_t>(view)];
  if (current != nullptr && current->pieces() == pieces) return current;
  Snapshot::Tables tables;
  tables.ranges.reserve(ranges_.size());
  for (const auto& [begin, entry] : ranges_) {
    tables.ranges.push_back(entry);
    Range& range = tables.ranges.back();
    const char* reason = nullptr;
    range.access = AccessFor(entry, view, &reason);
    range.closed_because = range.access == Access::kNone ? reason : nullptr;
  }
  tables.reservations.reserve(reservations_.size());
  for (const auto& [begin, reservation] : reservations_) {
    tables.reservations.push_back(reservation);
  }
  tables.freed.reserve(freed_.size());
  for (const auto& [begin, freed] : freed_) tables.freed.push_back(freed);
  tables.pieces = std::move(pieces);
  current = std::make_shared<const Snapshot>(std::move(tables));
  return current;
}

AddressSpace::Entry* AddressSpace::FindRangeLocked(uint64_t address) {
  auto it = ranges_.upper_bound(address);
  if (it == ranges_.begin()) return nullptr;
  --it;
  return address < it->second.end ? &it->second : nullptr;
}

const Reservation* AddressSpace::FindReservationLocked(uint64_t address) const {
  auto it = reservations_.upper_bound(address);
  if (it == reservations_.begin()) return nullptr;
  --it;
  return address < it->second.end ? &it->second : nullptr;
}

bool AddressSpace::IsHostPinned(const void* address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Range* const range =
      FindRangeLocked(reinterpret_cast<uint64_t>(address));
  return range != nullptr && range->kind == RangeKind::kPinnedHost;
}

PointerInfo AddressSpace::Query(uint64_t address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  PointerInfo info;
  const Entry* const range = FindRangeLocked(address);
  if (range != nullptr && range->exists_for_calls) {
    const char* reason = nullptr;
    info.mapped = true;
    info.kind = range->kind;
    info.device = range->device;
    info.pool = range->pool == nullptr ? nullptr : range->pool->handle;
    info.access = AccessFor(*range, kCall, &reason);
    info.base = info.range_base = range->begin;
    info.bytes = info.range_bytes = range->bytes();
    info.buffer_id = range->buffer_id;
    info.block_id = range->block->id();
    const auto handle = handle_of_block_.find(info.block_id);
    if (handle != handle_of_block_.end()) {
      const CUmemAllocationProp& properties =
          handles_.at(handle->second).properties;
      info.handle_types = properties.requestedHandleTypes;
      info.rdma_capable = properties.allocFlags.gpuDirectRDMACapable != 0;
    }
  }
  if (const Reservation* const reservation = FindReservationLocked(address)) {
    info.in_reservation = true;
    info.range_base = reservation->begin;
    info.range_bytes = reservation->end - reservation->begin;
  }
  return info;
}

uint64_t AddressSpace::live_bytes() const {
  uint64_t bytes = 0;
  for (const DeviceMemory& device : devices_) bytes += device.live_bytes;
  return bytes;
}

uint64_t AddressSpace::free_bytes(int device) const {
  const uint64_t total = device_bytes(device);
  const uint64_t live = devices_[static_cast<size_t>(device)].live_bytes;
  return live < total ? total - live : 0;
}

bool AddressSpace::SetPeerAccess(int from, int to, bool enabled) {
  const std::lock_guard<std::mutex> lock(mutex_);
  bool& now = peer_access_[static_cast<size_t>(from)][static_cast<size_t>(to)];
  if (now == enabled) return false;
  now = enabled;
  ChangedLocked();
  return true;
}

int64_t AddressSpace::live_objects() {
  const std::lock_guard<std::mutex> lock(mutex_);
  int64_t count = static_cast<int64_t>(reservations_.size());
  for (const auto& [begin, range] : ranges_) {
    // A variable comes and goes with its module, which the runtime counts.
    // A graph's address belongs to its node.
    if (range.kind == RangeKind::kModuleGlobal) continue;
    if (range.kind == RangeKind::kGraphAlloc ? range.graph_allocated
                                             : range.exists_for_calls) {
      ++count;
    }
  }
  for (const auto& [value, handle] : handles_) {
    if (handle.references != 0) ++count;
  }
  return count;
}

bool AddressSpace::ChargeLocked(int device, uint64_t bytes) {
  const auto fits = [&] {
    const uint64_t live = live_of(device).load();
    const uint64_t total = total_of(device).load();
    return live <= total && bytes <= total - live;
  };
  if (!fits()) {
    for (const auto& pool : pools_) {
      if (pool->device == device) TrimPoolLocked(*pool, 0);
    }
    if (!fits()) return false;
  }
  live_of(device) += bytes;
  return true;
}

std::shared_ptr<PhysicalBlock> AddressSpace::MakeDeviceBlockLocked(
    int device, uint64_t bytes) {
  if (!ChargeLocked(device, bytes)) return nullptr;
  std::shared_ptr<PhysicalBlock> block = PhysicalBlock::Create(bytes);
  if (block == nullptr) live_of(device) -= bytes;
  return block;
}

uint64_t AddressSpace::AddRangeLocked(VaAllocator& va, Entry range,
                                      uint64_t alignment) {
  const uint64_t bytes = range.block->bytes();
  const uint64_t page_bytes = RoundUpToPages(bytes);
  const std::optional<uint64_t> address =
      va.Take(page_bytes + kGapBytes, std::max(alignment, PageBytes()));
  if (!address) return 0;
  if (!range.block->MapAt(*address, page_bytes)) {
    MakeInaccessible(*address, page_bytes);
    va.Return(*address, page_bytes + kGapBytes);
    return 0;
  }
  range.begin = *address;
  range.end = *address + bytes;
  range.buffer_id = ++last_buffer_id_;
  ForgetFreedLocked(*address, *address + page_bytes + kGapBytes);
  ranges_.emplace(*address, std::move(range));
  ChangedLocked();
  return *address;
}

CUresult AddressSpace::Allocate(uint64_t bytes, uint64_t* address, int device) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  const bool starts_undefined = check::Reporter::Get().initcheck_enabled();
  const std::lock_guard<std::mutex> lock(mutex_);
  Entry range;
  range.kind = RangeKind::kDeviceAlloc;
  range.device = device;
  range.block = MakeDeviceBlockLocked(device, bytes);
  if (range.block == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  if (!starts_undefined || range.block->EnsureShadow(true) != nullptr) {
    if (const uint64_t at = AddRangeLocked(device_va_, range, 1)) {
      *address = at;
      return CUDA_SUCCESS;
    }
  }
  live_of(device) -= bytes;
  return CUDA_ERROR_OUT_OF_MEMORY;
}

void AddressSpace::DetachRangeLocked(RangeMap::iterator it,
                                     std::vector<Retired>* retired) {
  Entry& range = it->second;
  const bool is_host = range.kind == RangeKind::kPinnedHost;
  Retired gone;
  gone.address = range.begin;
  gone.bytes = RoundUpToPages(range.bytes());
  gone.va_bytes = gone.bytes + kGapBytes;
  gone.is_host = is_host;
  gone.block = std::move(range.block);
  retired->push_back(std::move(gone));
  if (!is_host) live_of(range.device) -= range.bytes();
  std::string what = "pinned host memory";
  if (range.kind == RangeKind::kDeviceAlloc) {
    what = "device allocation " + std::to_string(range.buffer_id);
  } else if (range.kind == RangeKind::kModuleGlobal) {
    what = "module variable '" + range.name + "'";
  }
  RememberFreedLocked(
      {range.begin, range.end, std::move(what), check::CurrentCall()});
  ranges_.erase(it);
  ChangedLocked();
}

CUresult AddressSpace::FreeRange(uint64_t address, RangeKind kind) {
  const auto is_it = [&](const RangeMap::iterator& it) {
    return it != ranges_.end() && it->second.kind == kind &&
           !it->second.registered && it->second.exists_for_calls;
  };
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!is_it(ranges_.find(address))) return CUDA_ERROR_INVALID_VALUE;
  }
  runtime::WaitIdle();
  std::vector<Retired> retired;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = ranges_.find(address);
    if (!is_it(it)) return CUDA_ERROR_INVALID_VALUE;
    DetachRangeLocked(it, &retired);
  }
  Reclaim(std::move(retired));
  return CUDA_SUCCESS;
}

CUresult AddressSpace::Free(uint64_t address) {
  if (address == 0) return CUDA_SUCCESS;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = ranges_.find(address);
    if (it != ranges_.end() && it->second.kind == RangeKind::kPoolAlloc) {
      if (!it->second.exists_for_calls) return CUDA_ERROR_INVALID_VALUE;
      RemovePoolRangeLocked(it);
      return CUDA_SUCCESS;
    }
    if (it != ranges_.end() && it->second.kind == RangeKind::kGraphAlloc) {
      if (!it->second.graph_allocated) return CUDA_ERROR_INVALID_VALUE;
      it->second.graph_allocated = false;
      EndGraphLifeLocked(it);
      return CUDA_SUCCESS;
    }
  }
  return FreeRange(address, RangeKind::kDeviceAlloc);
}

CUresult AddressSpace::GetAddressRange(uint64_t address, uint64_t* base,
                                       uint64_t* bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Entry* const range = FindRangeLocked(address);
  if (range == nullptr || !range->exists_for_calls) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = range->begin;
  if (bytes != nullptr) *bytes = range->bytes();
  return CUDA_SUCCESS;
}

uint64_t AddressSpace::AllocateModuleGlobal(uint64_t bytes, uint64_t alignment,
                                            std::string name, int device) {
  if (bytes == 0) return 0;
  const std::lock_guard<std::mutex> lock(mutex_);
  Entry range;
  range.kind = RangeKind::kModuleGlobal;
  range.name = std::move(name);
  range.is_open_to_all = device < 0;
  range.device = std::max(device, 0);
  range.block = MakeDeviceBlockLocked(range.device, bytes);
  if (range.block == nullptr) return 0;
  // A module's variables are zero even where fresh memory is poisoned.
  if (check::Settings::Get().poison() >= 0) (void)range.block->FillWith(0);
  const uint64_t address = AddRangeLocked(device_va_, range, alignment);
  if (address == 0) live_of(range.device) -= bytes;
  // The driver writes it without a further check.
  const bool committed =
      address == 0 || range.block->commits()->Commit(0, bytes);
  if (committed) return address;
  DetachRangeLocked(ranges_.find(address), &retired_later_);
  return 0;
}

void AddressSpace::FreeModuleGlobal(uint64_t address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = ranges_.find(address);
  if (it == ranges_.end() || it->second.kind != RangeKind::kModuleGlobal) {
    return;
  }
  DetachRangeLocked(it, &retired_later_);
}

void AddressSpace::FreeContextMemory(int device) {
  runtime::WaitIdle();
  std::vector<Retired> retired;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto it = ranges_.begin(); it != ranges_.end();) {
      const auto here = it++;
      const Entry& range = here->second;
      if (range.device != device) continue;
      if (range.kind == RangeKind::kDeviceAlloc ||
          (range.kind == RangeKind::kPinnedHost && !range.registered)) {
        DetachRangeLocked(here, &retired);
      } else if (range.kind == RangeKind::kPoolAlloc) {
        RemovePoolRangeLocked(here);
      } else if (range.kind == RangeKind::kGraphAlloc) {
        here->second.graph_allocated = false;
        UnbackLocked(here->second);
        EndGraphLifeLocked(here);
      }
    }
    for (const auto& pool : pools_) {
      if (pool->device == device) TrimPoolLocked(*pool, 0);
    }
    for (size_t other = 0; other < kMaxDevices; ++other) {
      peer_access_[static_cast<size_t>(device)][other] = false;
    }
  }
  Reclaim(std::move(retired));
}

CUresult AddressSpace::MarkUndefined(uint64_t address, uint64_t bytes) {
  const std::shared_ptr<const Snapshot> now = call_snapshot();
  // Two rounds: all bytes are looked at before any is marked.
  for (const bool mark : {false, true}) {
    uint64_t at = address;
    uint64_t left = bytes;
    while (left != 0) {
      const Range* const range = now->FindRange(at);
      if (range == nullptr || range->kind == RangeKind::kPinnedHost) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      InitShadow* const shadow = range->block->EnsureShadow(false);
      if (shadow == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
      const uint64_t here = std::min(left, range->end - at);
      if (mark) shadow->MarkUndefined(at - range->begin, here);
      at += here;
      left -= here;
    }
  }
  return CUDA_SUCCESS;
}

void AddressSpace::RememberFreedLocked(const FreedRange& freed) {
  ForgetFreedLocked(freed.begin, freed.end);
  freed_.emplace(freed.begin, freed);
  freed_order_.push_back(freed.begin);
  while (freed_order_.size() > kFreedRangesKept) {
    freed_.erase(freed_order_.front());
    freed_order_.pop_front();
  }
}

void AddressSpace::ForgetFreedLocked(uint64_t begin, uint64_t end) {
  auto it = freed_.upper_bound(begin);
  if (it != freed_.begin() && std::prev(it)->second.end > begin) --it;
  while (it != freed_.end() && it->first < end) {
    const auto order =
        std::find(freed_order_.begin(), freed_order_.end(), it->first);
    freed_order_.erase(order);
    it = freed_.erase(it);
  }
}

void AddressSpace::Reclaim(std::vector<Retired> retired) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    retired.insert(retired.end(),
                   std::make_move_iterator(retired_later_.begin()),
                   std::make_move_iterator(retired_later_.end()));
    retired_later_.clear();
  }
  // A kernel may have taken a snapshot before the memory left the tables.
  runtime::WaitIdle();
  const std::lock_guard<std::mutex> lock(mutex_);
  for (Retired& gone : retired) {
    // Another thread may have mapped something there meanwhile.
    auto it = ranges_.lower_bound(gone.address + gone.bytes);
    const bool is_taken =
        it != ranges_.begin() && std::prev(it)->second.end > gone.address;
    if (!is_taken) MakeInaccessible(gone.address, gone.bytes);
    if (gone.block != nullptr) gone.block->GiveBackPages();
    if (gone.va_bytes != 0) {
      (gone.is_host ? host_va_ : device_va_)
          .Return(gone.address, gone.va_bytes);
    }
  }
}

}  // namespace softcuda::memory
