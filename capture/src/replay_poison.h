// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_CAPTURE_SRC_REPLAY_POISON_H_
#define PERMAFROST_CAPTURE_SRC_REPLAY_POISON_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "permafrost/arena/arena.h"
#include "permafrost/capture/lane.h"
#include "permafrost/capture/replay_verifier.h"
#include "permafrost/driver/device_ptr.h"

namespace permafrost {

/// What outputs hold before a replay and before an eager run: quiet NaNs, read
/// as f32 or as bf16, with payloads that no arithmetic makes. They differ, so
/// that bytes neither run wrote differ too.
inline constexpr uint16_t kReplayPoison = 0x7FC5;
inline constexpr uint16_t kEagerPoison = 0x7FCA;

/// The two bytes that a pattern repeats; kLeavePrevious has none.
uint16_t ScratchFill(PoisonPattern pattern);

/// Enqueues a fill of device memory with a repeated two-byte value; `base` is
/// even. Does nothing for 0 bytes.
absl::Status FillPattern(const Lane& lane, DevicePtr base, int64_t bytes,
                         uint16_t pattern);

/// Whether the bytes from `begin` to `end` are what FillPattern left.
bool HoldsPattern(absl::Span<const std::byte> data, size_t begin, size_t end,
                  uint16_t pattern);

/// The bytes between buffers that a plan with guards keeps free.
class GuardGaps {
 public:
  struct Damage {
    std::string buffer;  ///< The buffer before the gap.
    int64_t bytes_past_end = 0;
    uint8_t value = 0;
  };

  /// All gaps of an arena; none when its plan has no guards.
  static absl::StatusOr<GuardGaps> Find(const ArenaView& arena);

  /// Enqueues a fill of every gap with the canary.
  absl::Status Fill(const Lane& lane) const;

  /// Reads the gaps back, drained, and gives the first bad byte of each.
  absl::StatusOr<std::vector<Damage>> Check(const Lane& lane);

  int64_t total_bytes() const;

 private:
  struct Gap {
    std::string buffer;
    DevicePtr base;
    std::vector<std::byte> host;
  };
  std::vector<Gap> gaps_;
};

}  // namespace permafrost

#endif  // PERMAFROST_CAPTURE_SRC_REPLAY_POISON_H_
