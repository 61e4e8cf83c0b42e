// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "memory/init_shadow.h"

#include <sys/mman.h>

#include <algorithm>

namespace softcuda::memory {
namespace {

size_t StorageBytes(uint64_t bytes) { return (bytes / 64 + 1) * 8; }

}  // namespace

std::unique_ptr<InitShadow> InitShadow::Create(uint64_t bytes,
                                               bool starts_undefined) {
  void* storage = mmap(nullptr, StorageBytes(bytes), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (storage == MAP_FAILED) return nullptr;
  static_assert(sizeof(std::atomic<uint64_t>) == 8);
  static_assert(std::atomic<uint64_t>::is_always_lock_free);
  return std::unique_ptr<InitShadow>(
      new InitShadow(static_cast<std::atomic<uint64_t>*>(storage), bytes,
                     starts_undefined ? ~uint64_t{0} : 0));
}

InitShadow::InitShadow(std::atomic<uint64_t>* words, uint64_t bytes,
                       uint64_t flip)
    : words_(words), bytes_(bytes), flip_(flip) {}

InitShadow::~InitShadow() { munmap(words_, StorageBytes(bytes_)); }

void InitShadow::SetMany(uint64_t offset, uint64_t count, bool undefined) {
  if (offset >= bytes_) return;
  count = std::min(count, bytes_ - offset);
  while (count != 0) {
    const uint64_t bit = offset % 64;
    const uint64_t here = std::min(count, 64 - bit);
    SetWord(offset / 64, Mask(bit, here), undefined);
    offset += here;
    count -= here;
  }
}

uint64_t InitShadow::FindUndefined(uint64_t offset, uint64_t count) const {
  if (offset >= bytes_) return npos;
  count = std::min(count, bytes_ - offset);
  while (count != 0) {
    const uint64_t bit = offset % 64;
    const uint64_t here = std::min(count, 64 - bit);
    const uint64_t found = UndefinedBits(offset / 64) & Mask(bit, here);
    if (found != 0) {
      return offset - bit + static_cast<uint64_t>(__builtin_ctzll(found));
    }
    offset += here;
    count -= here;
  }
  return npos;
}

uint64_t InitShadow::BitsAt(uint64_t offset, uint64_t count) const {
  const uint64_t word = offset / 64;
  const uint64_t bit = offset % 64;
  uint64_t bits = UndefinedBits(word) >> bit;
  if (bit + count > 64) bits |= UndefinedBits(word + 1) << (64 - bit);
  return bits & Mask(0, count);
}

void InitShadow::CopyFrom(const InitShadow* from, uint64_t from_offset,
                          uint64_t to_offset, uint64_t count) {
  if (to_offset >= bytes_) return;
  count = std::min(count, bytes_ - to_offset);
  if (from == nullptr) {
    MarkDefined(to_offset, count);
    return;
  }
  if (from_offset >= from->bytes_) return;
  count = std::min(count, from->bytes_ - from_offset);
  // As memmove: bits are read before a chunk that overlaps them is written.
  const bool backwards = from == this && from_offset < to_offset;
  uint64_t done = 0;
  while (done < count) {
    const uint64_t left = count - done;
    uint64_t here;
    uint64_t at;
    if (backwards) {
      const uint64_t end_bit = (to_offset + left) % 64;
      here = std::min(left, end_bit == 0 ? 64 : end_bit);
      at = left - here;
    } else {
      here = std::min(left, 64 - (to_offset + done) % 64);
      at = done;
    }
    const uint64_t bits = from->BitsAt(from_offset + at, here);
    const uint64_t bit = (to_offset + at) % 64;
    const uint64_t word = (to_offset + at) / 64;
    const uint64_t mask = Mask(bit, here);
    const uint64_t undefined = bits << bit;
    SetWord(word, mask & undefined, /*undefined=*/true);
    SetWord(word, mask & ~undefined, /*undefined=*/false);
    done += here;
  }
}

}  // namespace softcuda::memory
