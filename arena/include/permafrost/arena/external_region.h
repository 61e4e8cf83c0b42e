// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_ARENA_EXTERNAL_REGION_H_
#define PERMAFROST_ARENA_EXTERNAL_REGION_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "permafrost/arena/kernel_signature.h"
#include "permafrost/arena/memory_watch.h"
#include "permafrost/driver/device_ptr.h"

namespace permafrost {

/// What the engine says about memory of its own that graphs touch. It tells,
/// and every graph that was audited against the region refuses to replay until
/// it is right again.
///
/// Capture: no driver call. Threads: safe from any thread. What the engine does
///   to the memory it orders itself: `MarkAsleep()` first, then wait for the
///   lanes, then unmap.
class ExternalRegionState {
 public:
  /// Counts how often other memory was put behind the same addresses.
  uint64_t epoch() const { return word_.load() >> 1; }
  bool is_awake() const { return (word_.load() & kAsleepBit) == 0; }

  /// The memory is gone, or about to go. Replays are refused.
  void MarkAsleep() { word_.fetch_or(kAsleepBit); }

  /// Memory with the right contents is back at the same addresses. With
  /// `is_other_memory` the epoch goes up, and graphs stay refused until each
  /// has looked at the addresses again.
  void MarkAwake(bool is_other_memory);

  /// Other memory was put behind the addresses: the epoch goes up.
  void MarkRemapped() { word_.fetch_add(kEpochStep); }

  /// Watches that the region is awake, and in the epoch it is in now.
  static MemoryWatch Watch(
      const std::shared_ptr<const ExternalRegionState>& state,
      absl::string_view name);

 private:
  static constexpr uint64_t kAsleepBit = 1;
  static constexpr uint64_t kEpochStep = 2;

  // The epoch, and in the lowest bit whether it is asleep.
  std::atomic<uint64_t> word_{0};
};

/// Device memory that a captured graph may touch and that is not the arena's:
/// weights, a KV pool, a test's inputs.
///
/// The engine owns it, and promises that it stays where it is for as long as a
/// graph that was audited against it can be replayed.
struct ExternalRegion {
  std::string name;  ///< how findings call it
  DevicePtr base;
  int64_t bytes = 0;
  /// What kernels may do with it.
  Access access = Access::kNone;
  /// Shared with the engine, which keeps it up to date; null for memory that
  /// never sleeps and is never mapped anew.
  std::shared_ptr<const ExternalRegionState> state = nullptr;
};

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_EXTERNAL_REGION_H_
