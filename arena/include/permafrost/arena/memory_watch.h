// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_ARENA_MEMORY_WATCH_H_
#define PERMAFROST_ARENA_MEMORY_WATCH_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace permafrost {

/// Tells, with one load, whether memory is still what it was when the watch was
/// made: awake, and for an external region in the same epoch.
///
/// Copies are cheap to keep and own nothing of the memory.
///
/// Capture: no driver call. Threads: safe from any thread. Cost: one load.
class MemoryWatch {
 public:
  /// @param what  for messages: "arena segment 'kv' (keep)".
  MemoryWatch(std::shared_ptr<const std::atomic<uint64_t>> word,
              uint64_t expected, std::string what)
      : word_(std::move(word)), expected_(expected), what_(std::move(what)) {}

  bool holds() const noexcept {
    return word_->load(std::memory_order_acquire) == expected_;
  }

  /// What it watches.
  const std::string& what() const { return what_; }

 private:
  std::shared_ptr<const std::atomic<uint64_t>> word_;
  uint64_t expected_;
  std::string what_;
};

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_MEMORY_WATCH_H_
