// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "memory/va_allocator.h"

#include <sys/mman.h>

#include <iterator>

#include "check/settings.h"

namespace softcuda::memory {

VaAllocator VaAllocator::Reserve(uint64_t most_bytes) {
  constexpr uint64_t kLeastBytes = uint64_t{1} << 30;
  for (uint64_t bytes = most_bytes; bytes >= kLeastBytes; bytes /= 2) {
    void* const base = mmap(nullptr, bytes, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) continue;
    // A core file need not list a terabyte of nothing.
    (void)madvise(base, bytes, MADV_DONTDUMP);
    return VaAllocator(reinterpret_cast<uint64_t>(base), bytes);
  }
  return VaAllocator(0, 0);
}

VaAllocator::VaAllocator(uint64_t base, uint64_t bytes)
    : base_(base), bytes_(bytes), cursor_(base) {
  if (bytes != 0) free_.emplace(base, base + bytes);
}

std::optional<uint64_t> VaAllocator::Take(uint64_t bytes, uint64_t alignment) {
  if (check::Settings::Get().address_reuse() == check::AddressReuse::kAlways) {
    cursor_ = base_;
  }
  if (free_.empty() || bytes == 0 || bytes > bytes_) return std::nullopt;
  const auto fits = [&](uint64_t from, uint64_t end) -> uint64_t {
    if (from > ~uint64_t{0} - (alignment - 1)) return 0;
    const uint64_t begin = (from + alignment - 1) & ~(alignment - 1);
    return begin < end && end - begin >= bytes ? begin : 0;
  };
  // From the cursor to the top, then all from the bottom.
  auto first = free_.upper_bound(cursor_);
  if (first != free_.begin()) --first;
  for (auto it = first; it != free_.end(); ++it) {
    const uint64_t from = it->first < cursor_ ? cursor_ : it->first;
    if (const uint64_t begin = fits(from, it->second); begin != 0) {
      Cut(it, begin, begin + bytes);
      return begin;
    }
  }
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (const uint64_t begin = fits(it->first, it->second); begin != 0) {
      Cut(it, begin, begin + bytes);
      return begin;
    }
  }
  return std::nullopt;
}

bool VaAllocator::TakeAt(uint64_t address, uint64_t bytes) {
  auto it = free_.upper_bound(address);
  if (bytes == 0 || it == free_.begin()) return false;
  --it;
  if (address >= it->second || bytes > it->second - address) return false;
  const uint64_t cursor = cursor_;
  Cut(it, address, address + bytes);
  cursor_ = cursor;
  return true;
}

void VaAllocator::Cut(FreeMap::iterator it, uint64_t begin, uint64_t end) {
  const uint64_t old_begin = it->first;
  const uint64_t old_end = it->second;
  free_.erase(it);
  if (old_begin < begin) free_.emplace(old_begin, begin);
  if (end < old_end) free_.emplace(end, old_end);
  cursor_ = end;
}

void VaAllocator::Return(uint64_t address, uint64_t bytes) {
  if (check::Settings::Get().address_reuse() == check::AddressReuse::kNever) {
    return;
  }
  uint64_t begin = address;
  uint64_t end = address + bytes;
  auto next = free_.lower_bound(begin);
  if (next != free_.end() && next->first == end) {
    end = next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->second == begin) {
      begin = before->first;
      free_.erase(before);
    }
  }
  free_.emplace(begin, end);
}

}  // namespace softcuda::memory
