// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_MEMORY_VA_ALLOCATOR_H_
#define SOFTCUDA_MEMORY_VA_ALLOCATOR_H_

#include <cstdint>
#include <map>
#include <optional>

namespace softcuda::memory {

/// Hands out stretches of one reserved range of addresses. It goes round: a
/// freed stretch is handed out again only after all that lies behind the last
/// one given, so that a stale address keeps pointing at nothing for long. The
/// setting address_reuse makes that never, or as soon as possible.
///
/// Units: bytes; sizes and addresses in whole host pages.
/// Threads: externally synchronised.
class VaAllocator {
 public:
  /// Reserves inaccessible addresses: `most_bytes`, or half of it and so on,
  /// as the host allows. An empty allocator when it allows nothing.
  static VaAllocator Reserve(uint64_t most_bytes);

  /// Manages [base, base + bytes) without reserving it.
  VaAllocator(uint64_t base, uint64_t bytes);

  uint64_t base() const { return base_; }
  uint64_t bytes() const { return bytes_; }
  bool Contains(uint64_t address) const {
    return address >= base_ && address - base_ < bytes_;
  }

  /// Takes `bytes` bytes at a multiple of `alignment` (a power of two).
  /// Nothing when no free stretch is large enough.
  std::optional<uint64_t> Take(uint64_t bytes, uint64_t alignment);

  /// Takes [address, address + bytes) if it is free.
  bool TakeAt(uint64_t address, uint64_t bytes);

  /// Gives back what Take or TakeAt gave.
  void Return(uint64_t address, uint64_t bytes);

 private:
  using FreeMap = std::map<uint64_t, uint64_t>;  // begin -> end
  void Cut(FreeMap::iterator it, uint64_t begin, uint64_t end);

  uint64_t base_;
  uint64_t bytes_;
  uint64_t cursor_;
  FreeMap free_;
};

}  // namespace softcuda::memory

#endif  // SOFTCUDA_MEMORY_VA_ALLOCATOR_H_
