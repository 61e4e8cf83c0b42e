// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

// The memory of allocation nodes: an address for the life of the node, and
// memory behind it from a launch on until it is trimmed.

#include <string>
#include <utility>

#include "memory/address_space.h"

namespace softcuda::memory {

CUresult AddressSpace::AddGraphRange(int device, uint64_t bytes,
                                     const std::vector<AccessGrant>& grants,
                                     uint64_t* address, uint64_t* serial) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > device_va_.bytes()) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::lock_guard<std::mutex> lock(mutex_);
  // No launch could ever have it.
  if (bytes > total_of(device).load()) return CUDA_ERROR_OUT_OF_MEMORY;
  Entry range;
  range.kind = RangeKind::kGraphAlloc;
  range.device = device;
  range.exists_for_work = false;
  range.granted[static_cast<size_t>(device)] = Access::kReadWrite;
  for (const AccessGrant& grant : grants) {
    range.granted[static_cast<size_t>(grant.device)] = grant.access;
  }
  const uint64_t page_bytes = RoundUpToPages(bytes);
  range.block = PhysicalBlock::Create(page_bytes);
  const uint64_t at =
      range.block == nullptr ? 0 : AddRangeLocked(device_va_, range, 1);
  if (at == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  ranges_.at(at).end = at + bytes;
  *address = at;
  *serial = last_buffer_id_;
  return CUDA_SUCCESS;
}

void AddressSpace::UnbackLocked(Entry& entry) {
  if (entry.charged_bytes == 0) return;
  live_of(entry.device) -= entry.charged_bytes;
  graph_reserved_[static_cast<size_t>(entry.device)].Subtract(
      entry.charged_bytes);
  entry.charged_bytes = 0;
  entry.block->GiveBackPages();
}

void AddressSpace::RemoveGraphRangeLocked(RangeMap::iterator it) {
  Entry& entry = it->second;
  UnbackLocked(entry);
  RememberFreedLocked({entry.begin, entry.end,
                       "graph allocation " + std::to_string(entry.buffer_id)});
  const uint64_t page_bytes = RoundUpToPages(entry.block->bytes());
  retired_later_.push_back({entry.begin, page_bytes, page_bytes + kGapBytes,
                            false, std::move(entry.block)});
  ranges_.erase(it);
  ChangedLocked();
}

void AddressSpace::DropGraphRange(uint64_t address, uint64_t serial) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = FindSerialLocked(address, serial);
  if (it == ranges_.end()) return;
  it->second.is_orphan = true;
  if (!it->second.graph_allocated && !it->second.exists_for_work) {
    RemoveGraphRangeLocked(it);
  }
}

CUresult AddressSpace::BackGraphRange(uint64_t address, uint64_t serial) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = FindSerialLocked(address, serial);
  if (it == ranges_.end()) return CUDA_ERROR_INVALID_VALUE;
  Entry& entry = it->second;
  if (entry.charged_bytes == 0) {
    const uint64_t bytes = entry.block->bytes();
    if (!ChargeLocked(entry.device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    entry.charged_bytes = bytes;
    graph_reserved_[static_cast<size_t>(entry.device)].Add(bytes);
  }
  return CUDA_SUCCESS;
}

void AddressSpace::ScheduleGraphRange(uint64_t address, uint64_t serial,
                                      bool stays_allocated) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = FindSerialLocked(address, serial);
  if (it == ranges_.end()) return;
  ++it->second.scheduled_launches;
  it->second.graph_allocated = stays_allocated;
}

bool AddressSpace::IsGraphAllocated(uint64_t address, uint64_t serial) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = FindSerialLocked(address, serial);
  return it != ranges_.end() && it->second.graph_allocated;
}

void AddressSpace::StartGraphLifeLocked(Entry& entry) {
  if (entry.scheduled_launches > 0) --entry.scheduled_launches;
  if (entry.exists_for_work) return;
  graph_used_[static_cast<size_t>(entry.device)].Add(entry.block->bytes());
}

void AddressSpace::EndGraphLifeLocked(RangeMap::iterator it) {
  Entry& entry = it->second;
  if (entry.exists_for_work) {
    graph_used_[static_cast<size_t>(entry.device)].Subtract(
        entry.block->bytes());
  }
  entry.exists_for_work = false;
  ChangedLocked();
  if (entry.is_orphan && !entry.graph_allocated) RemoveGraphRangeLocked(it);
}

void AddressSpace::TrimGraphMemory(int device) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto& [begin, entry] : ranges_) {
    if (entry.kind == RangeKind::kGraphAlloc && entry.device == device &&
        !entry.exists_for_work && entry.scheduled_launches == 0) {
      UnbackLocked(entry);
    }
  }
}

CUresult AddressSpace::GetGraphMemAttribute(int device,
                                            CUgraphMem_attribute attribute,
                                            uint64_t* value) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const Watermark& used = graph_used_[static_cast<size_t>(device)];
  const Watermark& reserved = graph_reserved_[static_cast<size_t>(device)];
  switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
      *value = used.current;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
      *value = used.high;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
      *value = reserved.current;
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
      *value = reserved.high;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult AddressSpace::ResetGraphMemAttribute(int device,
                                              CUgraphMem_attribute attribute) {
  const std::lock_guard<std::mutex> lock(mutex_);
  switch (attribute) {
    case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
      graph_used_[static_cast<size_t>(device)].Reset();
      return CUDA_SUCCESS;
    case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
      graph_reserved_[static_cast<size_t>(device)].Reset();
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // namespace softcuda::memory
