// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_EXEC_RACE_SHADOW_H_
#define SOFTCUDA_EXEC_RACE_SHADOW_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>

#include "check/access_log.h"

namespace softcuda::exec {

/// Who accessed a byte, and when by the clock of its warp.
struct Stamp {
  uint32_t block = 0;
  uint32_t clock = 0;
  uint32_t inst = 0;  ///< index of the instruction + 1; 0: nobody did
  uint8_t warp = 0;
  uint8_t lane = 0;
  check::AccessClass access = check::AccessClass::kRead;

  bool exists() const { return inst != 0; }
};

/// The accesses to some bytes that a later one may race with: the last write,
/// and two of the reads since, of different warps where there are such.
struct ShadowCell {
  Stamp write;
  std::array<Stamp, 2> reads;
};

/// Cells for the bytes of one memory: one for each word of four bytes, or four
/// where parts of a word were accessed.
///
/// Threads: one at a time.
/// Cost: about 70 bytes for each word of each 1 KiB page touched.
class RaceShadow {
 public:
  /// Calls `visit(cell, bytes)` for the cells of [address, address + bytes).
  template <class Visit>
  void ForEachCell(uint64_t address, uint64_t bytes, const Visit& visit) {
    while (bytes != 0) {
      const uint64_t in_word = address % kWordBytes;
      const uint64_t here =
          bytes < kWordBytes - in_word ? bytes : kWordBytes - in_word;
      Word& word = WordOf(address);
      if (here == kWordBytes && word.split == 0) {
        visit(word.whole, address, here);
      } else {
        std::array<ShadowCell, kWordBytes>& parts = Split(word);
        for (uint64_t k = 0; k < here; ++k) {
          visit(parts[in_word + k], address + k, uint64_t{1});
        }
      }
      address += here;
      bytes -= here;
    }
  }

  void Clear() {
    pages_.clear();
    parts_.clear();
    last_ = nullptr;
    last_number_ = ~uint64_t{0};
  }

 private:
  static constexpr uint64_t kWordBytes = 4;
  static constexpr uint64_t kPageBytes = 1024;
  struct Word {
    ShadowCell whole;
    uint32_t split = 0;  // index into parts_, plus 1
  };
  using Page = std::array<Word, kPageBytes / kWordBytes>;

  Word& WordOf(uint64_t address) {
    const uint64_t number = address / kPageBytes;
    if (number != last_number_) {
      std::unique_ptr<Page>& page = pages_[number];
      if (page == nullptr) page = std::make_unique<Page>();
      last_ = page.get();
      last_number_ = number;
    }
    return (*last_)[address % kPageBytes / kWordBytes];
  }

  std::array<ShadowCell, kWordBytes>& Split(Word& word) {
    if (word.split == 0) {
      parts_.emplace_back();
      parts_.back().fill(word.whole);
      word.split = static_cast<uint32_t>(parts_.size());
    }
    return parts_[word.split - 1];
  }

  std::unordered_map<uint64_t, std::unique_ptr<Page>> pages_;
  std::deque<std::array<ShadowCell, kWordBytes>> parts_;
  uint64_t last_number_ = ~uint64_t{0};
  Page* last_ = nullptr;
};

}  // namespace softcuda::exec

#endif  // SOFTCUDA_EXEC_RACE_SHADOW_H_
