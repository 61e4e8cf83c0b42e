// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

// Virtual memory management: the cuMemAddressReserve family.

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "check/report.h"
#include "memory/address_space.h"
#include "runtime/executor.h"

namespace softcuda::memory {
namespace {

// Handles are numbers far from addresses and from other handles' types, so
// that a mix-up is refused.
constexpr CUmemGenericAllocationHandle kHandleTag = 0x5AFE000000000000u;

bool IsWhole(uint64_t value, uint64_t unit) { return value % unit == 0; }

}  // namespace

CUresult AddressSpace::CheckProperties(const CUmemAllocationProp& properties) {
  if (properties.type != CU_MEM_ALLOCATION_TYPE_PINNED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  switch (properties.location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      if (properties.location.id < 0 ||
          properties.location.id >= Get().device_count()) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      break;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  if (properties.win32HandleMetaData != nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  switch (properties.requestedHandleTypes) {
    case CU_MEM_HANDLE_TYPE_NONE:
    case CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR:
      return CUDA_SUCCESS;
    case CU_MEM_HANDLE_TYPE_WIN32:
    case CU_MEM_HANDLE_TYPE_WIN32_KMT:
    case CU_MEM_HANDLE_TYPE_FABRIC:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult AddressSpace::Reserve(uint64_t bytes, uint64_t alignment,
                               uint64_t hint, uint64_t* address) {
  if (bytes == 0 || !IsWhole(bytes, PageBytes()) ||
      !IsWhole(hint, PageBytes()) || (alignment & (alignment - 1)) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (bytes > device_va_.bytes()) return CUDA_ERROR_OUT_OF_MEMORY;
  alignment = std::max(alignment, kGranularityBytes);
  const std::lock_guard<std::mutex> lock(mutex_);
  const uint64_t va_bytes = bytes + kGapBytes;
  std::optional<uint64_t> at;
  if (hint != 0 && IsWhole(hint, alignment) &&
      device_va_.TakeAt(hint, va_bytes)) {
    at = hint;
  } else {
    at = device_va_.Take(va_bytes, alignment);
  }
  if (!at) return CUDA_ERROR_OUT_OF_MEMORY;
  ForgetFreedLocked(*at, *at + va_bytes);
  reservations_[*at] = {*at, *at + bytes};
  ChangedLocked();
  *address = *at;
  return CUDA_SUCCESS;
}

CUresult AddressSpace::FreeReservation(uint64_t address, uint64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = reservations_.find(address);
  if (it == reservations_.end() || it->second.end - address != bytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto range = ranges_.lower_bound(address);
  if (range != ranges_.end() && range->first < it->second.end) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  RememberFreedLocked({address, address + bytes, "reservation"});
  reservations_.erase(it);
  ChangedLocked();
  device_va_.Return(address, bytes + kGapBytes);
  return CUDA_SUCCESS;
}

CUresult AddressSpace::CreateHandle(uint64_t bytes,
                                    const CUmemAllocationProp& properties,
                                    CUmemGenericAllocationHandle* handle) {
  if (bytes == 0 || !IsWhole(bytes, kGranularityBytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (const CUresult result = CheckProperties(properties)) return result;
  const bool starts_undefined = check::Reporter::Get().initcheck_enabled();
  const std::lock_guard<std::mutex> lock(mutex_);
  Handle made;
  made.device = properties.location.id;
  made.block = MakeDeviceBlockLocked(made.device, bytes);
  if (made.block == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  if (starts_undefined && made.block->EnsureShadow(true) == nullptr) {
    live_of(made.device) -= bytes;
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  made.properties = properties;
  made.references = 1;
  const CUmemGenericAllocationHandle value = kHandleTag | ++last_handle_;
  handle_of_block_[made.block->id()] = value;
  handles_[value] = std::move(made);
  *handle = value;
  return CUDA_SUCCESS;
}

std::shared_ptr<PhysicalBlock> AddressSpace::DropHandleIfUnusedLocked(
    HandleMap::iterator it) {
  Handle& handle = it->second;
  if (handle.references != 0 || handle.mappings != 0) return nullptr;
  std::shared_ptr<PhysicalBlock> block = std::move(handle.block);
  live_of(handle.device) -= block->bytes();
  handle_of_block_.erase(block->id());
  handles_.erase(it);
  return block;
}

CUresult AddressSpace::ReleaseHandle(CUmemGenericAllocationHandle handle) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = handles_.find(handle);
  if (it == handles_.end() || it->second.references == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  --it->second.references;
  if (const auto block = DropHandleIfUnusedLocked(it)) block->GiveBackPages();
  return CUDA_SUCCESS;
}

CUresult AddressSpace::RetainHandle(uint64_t address,
                                    CUmemGenericAllocationHandle* handle) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Range* const range = FindRangeLocked(address);
  if (range == nullptr || range->kind != RangeKind::kVmmMapping) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const CUmemGenericAllocationHandle value =
      handle_of_block_.at(range->block->id());
  ++handles_.at(value).references;
  *handle = value;
  return CUDA_SUCCESS;
}

CUresult AddressSpace::HandleProperties(CUmemGenericAllocationHandle handle,
                                        CUmemAllocationProp* properties) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = handles_.find(handle);
  if (it == handles_.end() || it->second.references == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *properties = it->second.properties;
  return CUDA_SUCCESS;
}

CUresult AddressSpace::Map(uint64_t address, uint64_t bytes,
                           CUmemGenericAllocationHandle handle) {
  if (bytes == 0 || !IsWhole(address, kGranularityBytes) ||
      !IsWhole(bytes, kGranularityBytes)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = handles_.find(handle);
  if (it == handles_.end() || it->second.references == 0 ||
      bytes > it->second.block->bytes()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const Reservation* const reservation = FindReservationLocked(address);
  if (reservation == nullptr || bytes > reservation->end - address) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto next = ranges_.lower_bound(address);
  if ((next != ranges_.end() && next->first - address < bytes) ||
      FindRangeLocked(address) != nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!it->second.block->MapAt(address, bytes)) {
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  ++it->second.mappings;
  Entry range;
  range.begin = address;
  range.end = address + bytes;
  range.kind = RangeKind::kVmmMapping;
  range.access = Access::kNone;
  range.device = it->second.device;
  range.block = it->second.block;
  range.buffer_id = ++last_buffer_id_;
  ranges_.emplace(address, std::move(range));
  ChangedLocked();
  return CUDA_SUCCESS;
}

bool AddressSpace::CollectMappingsLocked(
    uint64_t address, uint64_t bytes, std::vector<RangeMap::iterator>* found) {
  found->clear();
  if (bytes == 0 || bytes > ~uint64_t{0} - address) return false;
  uint64_t at = address;
  auto it = ranges_.find(address);
  while (at < address + bytes) {
    if (it == ranges_.end() || it->first != at ||
        it->second.kind != RangeKind::kVmmMapping) {
      return false;
    }
    found->push_back(it);
    at = it->second.end;
    ++it;
  }
  return at == address + bytes;
}

CUresult AddressSpace::Unmap(uint64_t address, uint64_t bytes) {
  std::vector<RangeMap::iterator> mappings;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!CollectMappingsLocked(address, bytes, &mappings)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  runtime::WaitIdle();
  std::vector<Retired> retired;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!CollectMappingsLocked(address, bytes, &mappings)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    for (const RangeMap::iterator it : mappings) {
      const uint64_t block_id = it->second.block->id();
      Retired gone;
      gone.address = it->second.begin;
      gone.bytes = it->second.bytes();
      ranges_.erase(it);
      const auto handle = handles_.find(handle_of_block_.at(block_id));
      --handle->second.mappings;
      gone.block = DropHandleIfUnusedLocked(handle);
      retired.push_back(std::move(gone));
    }
    ChangedLocked();
  }
  Reclaim(std::move(retired));
  return CUDA_SUCCESS;
}

CUresult AddressSpace::SetAccess(uint64_t address, uint64_t bytes,
                                 const std::vector<AccessGrant>& grants) {
  std::vector<RangeMap::iterator> mappings;
  bool takes_away = false;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!CollectMappingsLocked(address, bytes, &mappings)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    for (const RangeMap::iterator it : mappings) {
      for (const AccessGrant& grant : grants) {
        const Access now =
            it->second.granted[static_cast<size_t>(grant.device)];
        takes_away |= Both(now, grant.access) != now;
      }
    }
  }
  // Work enqueued before may still need what is taken away.
  if (takes_away) runtime::WaitIdle();
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!CollectMappingsLocked(address, bytes, &mappings)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (const RangeMap::iterator it : mappings) {
    for (const AccessGrant& grant : grants) {
      it->second.granted[static_cast<size_t>(grant.device)] = grant.access;
    }
  }
  ChangedLocked();
  return CUDA_SUCCESS;
}

CUresult AddressSpace::GetAccess(uint64_t address, int device, Access* access) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Entry* const range = FindRangeLocked(address);
  if (range == nullptr || range->kind != RangeKind::kVmmMapping) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *access = range->granted[static_cast<size_t>(device)];
  return CUDA_SUCCESS;
}

}  // namespace softcuda::memory
