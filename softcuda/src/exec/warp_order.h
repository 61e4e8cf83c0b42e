// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_EXEC_WARP_ORDER_H_
#define SOFTCUDA_EXEC_WARP_ORDER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <vector>

#include "exec/race_shadow.h"

namespace softcuda::exec {

inline constexpr uint32_t kMaxWarps = 32;

/// How far into each warp of a block something is known to be done.
using BlockClock = std::array<uint32_t, kMaxWarps>;

/// What a warp knows of other blocks: of the variables through which it learned
/// something, how many of the releases there it has seen.
using Learned = std::map<uint32_t, uint32_t>;

/// A point in the execution of a warp that others can be behind.
struct Knowledge {
  BlockClock clock{};
  Learned learned;

  void Join(const Knowledge& other);
};

/// What a warp knows now, and what its next release hands out.
struct WarpOrder {
  Knowledge now;
  /// As of its last fence: for other blocks, and for its own.
  Knowledge fenced;
  Knowledge fenced_in_block;
  bool has_fence = false;
  bool has_block_fence = false;
};

/// The releases and acquires of one launch: a fence followed by an atomic or a
/// strong store to a variable releases what came before the fence; an atomic or
/// strong load of that variable acquires it.
///
/// An acquire needs no fence behind it here, though PTX asks for one: the usual
/// last-block-done reduction goes without. A strong store does not hide the
/// releases before it.
/// Threads: one at a time.
class SyncOrder {
 public:
  /// `variable` is the address of the access, made unique among memories.
  void Release(uint64_t variable, uint32_t block, const WarpOrder& warp);
  void Acquire(uint64_t variable, WarpOrder* warp) const;

  /// Whether the stamped access of another warp is known to be done. `block`
  /// is the one of the warp that asks.
  bool IsBehind(const Knowledge& knowledge, uint32_t block,
                const Stamp& stamp) const;

 private:
  struct Entry {
    uint32_t block = 0;
    bool block_only = false;  // the fence did not reach beyond the block
    BlockClock clock{};
    Learned learned;
  };
  struct Log {
    std::vector<Entry> entries;
    std::unordered_map<uint32_t, std::vector<uint32_t>> of_block;
    std::vector<uint32_t> with_learned;
  };

  void Append(uint64_t variable, Entry entry);
  bool Search(uint32_t log_index, uint32_t seen, uint32_t block,
              const Stamp& stamp, Learned* visited) const;

  std::unordered_map<uint64_t, uint32_t> log_of_variable_;
  std::vector<Log> logs_;
};

}  // namespace softcuda::exec

#endif  // SOFTCUDA_EXEC_WARP_ORDER_H_
