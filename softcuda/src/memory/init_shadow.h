// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_MEMORY_INIT_SHADOW_H_
#define SOFTCUDA_MEMORY_INIT_SHADOW_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace softcuda::memory {

/// Remembers, one bit a byte, which bytes of a physical block hold no value
/// that anyone wrote.
///
/// It belongs to the block, so every mapping of the block sees the same bits.
/// A block without a shadow has no undefined bytes and costs nothing. Storage
/// is committed only where a bit differs from the state at creation.
///
/// Units: bytes; offsets count from the start of the block.
/// Threads: any; concurrent calls on disjoint bytes are exact even when their
///   bits share a word. Relaxed order: whoever needs to see a mark needs the
///   same ordering as for the data itself.
/// Errors: a range that leaves the block is cut at its end.
class InitShadow {
 public:
  static constexpr uint64_t npos = ~uint64_t{0};

  /// Makes the shadow of a block of `bytes`, all undefined or all defined.
  /// Returns null when the address space for it cannot be had.
  static std::unique_ptr<InitShadow> Create(uint64_t bytes,
                                            bool starts_undefined);
  ~InitShadow();
  InitShadow(const InitShadow&) = delete;
  InitShadow& operator=(const InitShadow&) = delete;

  uint64_t bytes() const { return bytes_; }

  void MarkUndefined(uint64_t offset, uint64_t count) {
    Set(offset, count, /*undefined=*/true);
  }
  void MarkDefined(uint64_t offset, uint64_t count) {
    Set(offset, count, /*undefined=*/false);
  }

  /// The offset of the first undefined byte in [offset, offset + count), or
  /// npos when all are defined.
  uint64_t AnyUndefined(uint64_t offset, uint64_t count) const {
    const uint64_t bit = offset % 64;
    if (count != 0 && bit + count <= 64 && offset < bytes_ &&
        count <= bytes_ - offset) {
      const uint64_t found = UndefinedBits(offset / 64) & Mask(bit, count);
      if (found == 0) return npos;
      return offset - bit + static_cast<uint64_t>(__builtin_ctzll(found));
    }
    return FindUndefined(offset, count);
  }

  /// Gives `count` bytes from `to_offset` the state that `from` has at
  /// `from_offset`; a null `from` is all defined. Both may be one block, and
  /// the ranges may overlap. For device-to-device copies, which move undefined
  /// bytes without using them.
  void CopyFrom(const InitShadow* from, uint64_t from_offset,
                uint64_t to_offset, uint64_t count);

 private:
  InitShadow(std::atomic<uint64_t>* words, uint64_t bytes, uint64_t flip);

  static uint64_t Mask(uint64_t bit, uint64_t count) {
    return (~uint64_t{0} >> (64 - count)) << bit;
  }
  uint64_t UndefinedBits(uint64_t word) const {
    return words_[word].load(std::memory_order_relaxed) ^ flip_;
  }
  void SetWord(uint64_t word, uint64_t mask, bool undefined) {
    const bool stored_one = undefined == (flip_ == 0);
    const uint64_t now = words_[word].load(std::memory_order_relaxed);
    if (stored_one) {
      if ((now & mask) != mask) {
        words_[word].fetch_or(mask, std::memory_order_relaxed);
      }
    } else if ((now & mask) != 0) {
      words_[word].fetch_and(~mask, std::memory_order_relaxed);
    }
  }
  void Set(uint64_t offset, uint64_t count, bool undefined) {
    const uint64_t bit = offset % 64;
    if (count != 0 && bit + count <= 64 && offset < bytes_ &&
        count <= bytes_ - offset) {
      SetWord(offset / 64, Mask(bit, count), undefined);
      return;
    }
    SetMany(offset, count, undefined);
  }
  void SetMany(uint64_t offset, uint64_t count, bool undefined);
  uint64_t FindUndefined(uint64_t offset, uint64_t count) const;
  // The bits of 1 to 64 bytes from `offset`, first byte lowest.
  uint64_t BitsAt(uint64_t offset, uint64_t count) const;

  std::atomic<uint64_t>* words_;
  uint64_t bytes_;
  // Stored bits are xor-ed with this, so that the state at creation is all
  // zero words, which the kernel hands out without committing them.
  uint64_t flip_;
};

}  // namespace softcuda::memory

#endif  // SOFTCUDA_MEMORY_INIT_SHADOW_H_
