// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

// Stream-ordered memory and its pools.

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "check/report.h"
#include "memory/address_space.h"

namespace softcuda::memory {
namespace {

// The state of memory that was just allocated, whoever had it before.
void ResetShadow(PhysicalBlock& block) {
  const bool undefined = check::Reporter::Get().initcheck_enabled();
  // A host without room for the shadow gives memory that counts as defined.
  InitShadow* const shadow =
      undefined ? block.EnsureShadow(true) : block.shadow();
  if (shadow == nullptr) return;
  if (undefined) {
    shadow->MarkUndefined(0, shadow->bytes());
  } else {
    shadow->MarkDefined(0, shadow->bytes());
  }
}

template <typename T>
void Write(T value, void* out) {
  std::memcpy(out, &value, sizeof value);
}

template <typename T>
T ReadAs(const void* in) {
  T value;
  std::memcpy(&value, in, sizeof value);
  return value;
}

}  // namespace

std::shared_ptr<Pool> AddressSpace::CreatePool(const CUmemPoolProps& props) {
  auto pool = std::make_shared<Pool>();
  pool->device = props.location.id;
  pool->max_bytes = props.maxSize;
  pool->props = props;
  pool->access[static_cast<size_t>(pool->device)] = Access::kReadWrite;
  const std::lock_guard<std::mutex> lock(mutex_);
  pools_.push_back(pool);
  return pool;
}

void AddressSpace::DestroyPool(const std::shared_ptr<Pool>& pool) {
  const std::lock_guard<std::mutex> lock(mutex_);
  pool->destroyed = true;
  TrimPoolLocked(*pool, 0);
  if (pool->used.current == 0) std::erase(pools_, pool);
}

bool AddressSpace::TakeOverChargesLocked(const Pool& pool, uint64_t stream_id,
                                         uint64_t bytes) {
  const uint64_t free = free_bytes(pool.device);
  std::vector<Entry*> pending;
  uint64_t found = free;
  for (auto& [begin, entry] : ranges_) {
    if (found >= bytes) break;
    if (entry.kind == RangeKind::kPoolAlloc && !entry.exists_for_calls &&
        entry.freeing_stream_id == stream_id && entry.device == pool.device &&
        entry.charged_bytes > 0) {
      pending.push_back(&entry);
      found += entry.charged_bytes;
    }
  }
  if (found < bytes) return false;
  for (Entry* entry : pending) {
    entry->pool->reserved.Subtract(entry->charged_bytes);
    live_of(pool.device) -= entry->charged_bytes;
    entry->charged_bytes = 0;
  }
  live_of(pool.device) += bytes;
  return true;
}

bool AddressSpace::TakeCachedLocked(Pool& pool, uint64_t bytes, Chunk* chunk) {
  auto best = pool.cached.end();
  for (auto it = pool.cached.begin(); it != pool.cached.end(); ++it) {
    // A far larger chunk would be wasted on it.
    if (it->bytes < bytes || it->bytes / 4 > bytes) continue;
    if (best == pool.cached.end() || it->bytes < best->bytes) best = it;
  }
  if (best == pool.cached.end()) return false;
  *chunk = std::move(*best);
  pool.cached.erase(best);
  return true;
}

CUresult AddressSpace::AllocateFromPool(const std::shared_ptr<Pool>& pool,
                                        uint64_t bytes, uint64_t stream_id,
                                        uint64_t* address, uint64_t* serial) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > device_va_.bytes()) return CUDA_ERROR_OUT_OF_MEMORY;
  const uint64_t page_bytes = RoundUpToPages(bytes);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (pool->destroyed) return CUDA_ERROR_INVALID_VALUE;
  Entry range;
  range.kind = RangeKind::kPoolAlloc;
  range.device = pool->device;
  range.pool = pool;
  range.exists_for_work = false;
  Chunk chunk;
  if (pool->reuse_allow_opportunistic != 0 &&
      TakeCachedLocked(*pool, page_bytes, &chunk)) {
    range.begin = chunk.address;
    range.end = chunk.address + bytes;
    range.block = std::move(chunk.block);
    range.buffer_id = ++last_buffer_id_;
    range.charged_bytes = chunk.bytes;
    ForgetFreedLocked(range.begin, range.begin + chunk.bytes);
    *address = range.begin;
    ranges_.emplace(*address, std::move(range));
  } else {
    if (pool->max_bytes != 0 &&
        page_bytes > pool->max_bytes -
                         std::min(pool->max_bytes, pool->reserved.current)) {
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!ChargeLocked(pool->device, page_bytes) &&
        !TakeOverChargesLocked(*pool, stream_id, page_bytes)) {
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    range.charged_bytes = page_bytes;
    range.block = PhysicalBlock::Create(page_bytes);
    const uint64_t at =
        range.block == nullptr ? 0 : AddRangeLocked(device_va_, range, 1);
    if (at == 0) {
      live_of(pool->device) -= page_bytes;
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    ranges_.at(at).end = at + bytes;
    pool->reserved.Add(page_bytes);
    *address = at;
  }
  *serial = last_buffer_id_;
  pool->used.Add(bytes);
  ChangedLocked();
  return CUDA_SUCCESS;
}

AddressSpace::RangeMap::iterator AddressSpace::FindSerialLocked(
    uint64_t address, uint64_t serial) {
  const auto it = ranges_.find(address);
  return it != ranges_.end() && it->second.buffer_id == serial ? it
                                                               : ranges_.end();
}

void AddressSpace::StartLife(uint64_t address, uint64_t serial) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = FindSerialLocked(address, serial);
  // cuMemFree may have taken it back already.
  if (it == ranges_.end()) return;
  ResetShadow(*it->second.block);
  if (it->second.kind == RangeKind::kGraphAlloc) {
    StartGraphLifeLocked(it->second);
  }
  it->second.exists_for_work = true;
  ChangedLocked();
}

CUresult AddressSpace::BeginFree(uint64_t address, uint64_t stream_id,
                                 uint64_t* serial) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = ranges_.find(address);
  if (it != ranges_.end() && it->second.kind == RangeKind::kGraphAlloc) {
    if (!it->second.graph_allocated) return CUDA_ERROR_INVALID_VALUE;
    it->second.graph_allocated = false;
    *serial = it->second.buffer_id;
    return CUDA_SUCCESS;
  }
  if (it == ranges_.end() || !it->second.exists_for_calls ||
      (it->second.kind != RangeKind::kPoolAlloc &&
       it->second.kind != RangeKind::kDeviceAlloc)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  it->second.exists_for_calls = false;
  it->second.freeing_stream_id = stream_id;
  *serial = it->second.buffer_id;
  ChangedLocked();
  return CUDA_SUCCESS;
}

void AddressSpace::EndLife(uint64_t address, uint64_t serial) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto it = FindSerialLocked(address, serial);
  if (it == ranges_.end()) return;
  if (it->second.kind == RangeKind::kPoolAlloc) {
    RemovePoolRangeLocked(it);
  } else if (it->second.kind == RangeKind::kGraphAlloc) {
    EndGraphLifeLocked(it);
  } else {
    DetachRangeLocked(it, &retired_later_);
  }
}

void AddressSpace::RemovePoolRangeLocked(RangeMap::iterator it) {
  Entry& entry = it->second;
  const std::shared_ptr<Pool> pool = entry.pool;
  pool->used.Subtract(entry.bytes());
  RememberFreedLocked({entry.begin, entry.end,
                       "pool allocation " + std::to_string(entry.buffer_id)});
  Chunk chunk = {entry.begin, RoundUpToPages(entry.block->bytes()),
                 std::move(entry.block)};
  const bool charged = entry.charged_bytes > 0;
  ranges_.erase(it);
  ChangedLocked();
  if (charged && !pool->destroyed) {
    pool->cached.push_back(std::move(chunk));
    return;
  }
  if (charged) {
    ReleaseChunkLocked(*pool, std::move(chunk));
  } else {
    // Another allocation has its place on the device.
    chunk.block->GiveBackPages();
    retired_later_.push_back({chunk.address, chunk.bytes,
                              chunk.bytes + kGapBytes, false, chunk.block});
  }
  if (pool->destroyed && pool->used.current == 0) std::erase(pools_, pool);
}

void AddressSpace::ReleaseChunkLocked(Pool& pool, Chunk chunk) {
  pool.reserved.Subtract(chunk.bytes);
  live_of(pool.device) -= chunk.bytes;
  // Work may still look at the addresses, wrongly: they stay mapped until
  // nothing runs.
  chunk.block->GiveBackPages();
  retired_later_.push_back({chunk.address, chunk.bytes, chunk.bytes + kGapBytes,
                            false, std::move(chunk.block)});
}

void AddressSpace::TrimPoolLocked(Pool& pool, uint64_t keep_bytes) {
  while (pool.reserved.current > keep_bytes && !pool.cached.empty()) {
    Chunk chunk = std::move(pool.cached.back());
    pool.cached.pop_back();
    ReleaseChunkLocked(pool, std::move(chunk));
  }
}

void AddressSpace::TrimPool(Pool& pool, uint64_t keep_bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  TrimPoolLocked(pool, keep_bytes);
}

void AddressSpace::TrimPools() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& pool : pools_) {
    TrimPoolLocked(*pool, pool->release_threshold_bytes);
  }
}

CUresult AddressSpace::GetPoolAttribute(Pool& pool,
                                        CUmemPool_attribute attribute,
                                        void* value) {
  const std::lock_guard<std::mutex> lock(mutex_);
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      Write(pool.reuse_follow_event_dependencies, value);
      break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      Write(pool.reuse_allow_opportunistic, value);
      break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      Write(pool.reuse_allow_internal_dependencies, value);
      break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      Write(cuuint64_t{pool.release_threshold_bytes}, value);
      break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      Write(cuuint64_t{pool.reserved.current}, value);
      break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      Write(cuuint64_t{pool.reserved.high}, value);
      break;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      Write(cuuint64_t{pool.used.current}, value);
      break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      Write(cuuint64_t{pool.used.high}, value);
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult AddressSpace::SetPoolAttribute(Pool& pool,
                                        CUmemPool_attribute attribute,
                                        const void* value) {
  const std::lock_guard<std::mutex> lock(mutex_);
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      pool.reuse_follow_event_dependencies = ReadAs<int>(value) != 0 ? 1 : 0;
      break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      pool.reuse_allow_opportunistic = ReadAs<int>(value) != 0 ? 1 : 0;
      break;
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      pool.reuse_allow_internal_dependencies = ReadAs<int>(value) != 0 ? 1 : 0;
      break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      pool.release_threshold_bytes = ReadAs<cuuint64_t>(value);
      break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      if (ReadAs<cuuint64_t>(value) != 0) return CUDA_ERROR_INVALID_VALUE;
      pool.reserved.Reset();
      break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      if (ReadAs<cuuint64_t>(value) != 0) return CUDA_ERROR_INVALID_VALUE;
      pool.used.Reset();
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult AddressSpace::SetPoolAccess(Pool& pool,
                                     const std::vector<AccessGrant>& grants) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const AccessGrant& grant : grants) {
    // The pool's own device keeps what it has.
    if (grant.device == pool.device && grant.access != Access::kReadWrite) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  for (const AccessGrant& grant : grants) {
    pool.access[static_cast<size_t>(grant.device)] = grant.access;
  }
  ChangedLocked();
  return CUDA_SUCCESS;
}

Access AddressSpace::GetPoolAccess(const Pool& pool, int device) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return pool.access[static_cast<size_t>(device)];
}

}  // namespace softcuda::memory
