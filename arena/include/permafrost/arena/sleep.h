// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_ARENA_SLEEP_H_
#define PERMAFROST_ARENA_SLEEP_H_

#include <cuda.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "permafrost/arena/buffer_table.h"
#include "permafrost/driver/device_ptr.h"

// How a frozen arena gives its memory back for a while and keeps its addresses.
// See docs/sleep.md for the states and for what a failing call leaves.

namespace permafrost {

/// A buffer's place. Units: bytes.
struct BufferRef {
  std::string name;
  DevicePtr base;
  int64_t bytes = 0;
};

/// What Sleep does when a lane or a declared stream has work in flight.
enum class BusyPolicy {
  kWait,    ///< waits until it is done
  kRefuse,  ///< kFailedPrecondition, naming the lane or the stream
};

struct SleepRequest {
  /// Tags of the plan, or of registered outside buffers; empty: everything.
  std::vector<std::string> tags = {};
  BusyPolicy busy = BusyPolicy::kWait;
};

struct WakeRequest {
  /// As in `SleepRequest`; empty: everything that is asleep.
  std::vector<std::string> tags = {};
};

/// Where somebody may have work in flight that uses the arena: what Sleep waits
/// for. The stream outlives the lease that names it.
struct LeaseWork {
  std::string name = {};      ///< for messages: "lane 'decode'"
  CUstream stream = nullptr;  ///< null: the holder never has any
};

/// Writes a buffer of sleep policy restore anew, as Wake maps it: at once, or
/// on `stream`, which Wake waits for. Runs inside Wake, and calls nothing of
/// the arena.
using RestoreHook =
    std::function<absl::Status(const BufferRef& buffer, CUstream stream)>;

/// A buffer that the engine allocated itself and that sleeps with the arena.
/// One that is not registered stays as it is when the arena sleeps.
///
/// Hooks run inside Sleep and Wake, after all work was waited for, and call
/// nothing of the arena. Each is called again as the undo of the other when
/// a later step fails.
struct OutsideBuffer {
  std::string name = {};
  std::string tag = {};
  std::function<absl::Status()> on_sleep = nullptr;
  std::function<absl::Status()> on_wake = nullptr;
};

/// One segment of an arena, now.
struct SegmentStatus {
  std::string tag = {};
  SleepPolicy sleep = SleepPolicy::kDiscard;
  int64_t bytes = 0;
  bool is_asleep = false;
  /// Device memory that it holds. Of a sleeping segment it is 0, unless the
  /// driver refused to take memory back.
  int64_t live_bytes = 0;
  /// Counts how often other memory was put behind its addresses, from 1.
  uint64_t epoch = 1;
};

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_SLEEP_H_
