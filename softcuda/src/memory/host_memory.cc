// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

// Pinned host memory: device and host address are the same.

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "memory/address_space.h"
#include "runtime/executor.h"

namespace softcuda::memory {
namespace {

// Whether the program has all these pages, as far as the host can tell.
bool IsMappedByProgram(uint64_t first_page, uint64_t bytes,
                       uint64_t page_bytes) {
  constexpr uint64_t kPagesAtOnce = 4096;
  unsigned char resident[kPagesAtOnce];
  while (bytes != 0) {
    const uint64_t here = std::min(bytes, kPagesAtOnce * page_bytes);
    void* const at = reinterpret_cast<void*>(
        first_page);  // NOLINT(performance-no-int-to-ptr)
    if (mincore(at, here, resident) != 0) return false;
    first_page += here;
    bytes -= here;
  }
  return true;
}

}  // namespace

CUresult AddressSpace::AllocateHost(uint64_t bytes, void** address,
                                    int device) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > host_va_.bytes()) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::lock_guard<std::mutex> lock(mutex_);
  Entry range;
  range.kind = RangeKind::kPinnedHost;
  range.device = device;
  range.block = PhysicalBlock::Create(bytes, /*is_device=*/false);
  if (range.block == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  const uint64_t at = AddRangeLocked(host_va_, std::move(range), 1);
  if (at == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = reinterpret_cast<void*>(at);  // NOLINT(performance-no-int-to-ptr)
  return CUDA_SUCCESS;
}

CUresult AddressSpace::FreeHost(void* address) {
  return FreeRange(reinterpret_cast<uint64_t>(address), RangeKind::kPinnedHost);
}

CUresult AddressSpace::RegisterHost(void* address, uint64_t bytes,
                                    unsigned flags) {
  constexpr unsigned kKnownFlags =
      CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
      CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
  const uint64_t begin = reinterpret_cast<uint64_t>(address);
  if (begin == 0 || bytes == 0 || (flags & ~kKnownFlags) != 0 ||
      bytes > ~uint64_t{0} - begin - PageBytes()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if ((flags & CU_MEMHOSTREGISTER_IOMEMORY) != 0) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  const uint64_t end = begin + bytes;
  const auto touches = [&](const VaAllocator& va) {
    return begin < va.base() + va.bytes() && va.base() < end;
  };
  if (touches(device_va_)) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t first_page = begin / PageBytes() * PageBytes();
  if (!IsMappedByProgram(first_page, RoundUpToPages(end) - first_page,
                         PageBytes())) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto next = ranges_.lower_bound(begin);
  if ((next != ranges_.end() && next->first < end) ||
      FindRangeLocked(begin) != nullptr) {
    return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  }
  if (touches(host_va_)) return CUDA_ERROR_INVALID_VALUE;
  Entry range;
  range.begin = begin;
  range.end = end;
  range.kind = RangeKind::kPinnedHost;
  range.access = (flags & CU_MEMHOSTREGISTER_READ_ONLY) != 0
                     ? Access::kRead
                     : Access::kReadWrite;
  range.block = PhysicalBlock::CreateForForeignMemory(bytes);
  range.buffer_id = ++last_buffer_id_;
  range.registered = true;
  ranges_.emplace(begin, std::move(range));
  ChangedLocked();
  return CUDA_SUCCESS;
}

CUresult AddressSpace::UnregisterHost(void* address) {
  if (address == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t begin = reinterpret_cast<uint64_t>(address);
  const auto is_it = [&](const RangeMap::iterator& it) {
    return it != ranges_.end() && it->second.registered;
  };
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!is_it(ranges_.find(begin))) {
      return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    }
  }
  runtime::WaitIdle();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = ranges_.find(begin);
    if (!is_it(it)) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    ranges_.erase(it);
    ChangedLocked();
  }
  // The caller may free the memory next: let go of it first.
  runtime::WaitIdle();
  return CUDA_SUCCESS;
}

}  // namespace softcuda::memory
