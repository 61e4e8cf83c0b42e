// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_CAPTURE_ARENA_CHECKSUM_H_
#define PERMAFROST_CAPTURE_ARENA_CHECKSUM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "permafrost/arena/arena.h"
#include "permafrost/capture/lane.h"

namespace permafrost {

/// One hash for each buffer's contents, in the order of the plan.
struct ArenaChecksum {
  struct Entry {
    std::string buffer;
    uint64_t hash = 0;

    friend bool operator==(const Entry&, const Entry&) = default;
  };
  std::vector<Entry> entries;

  friend bool operator==(const ArenaChecksum&, const ArenaChecksum&) = default;

  /// Name of the first buffer whose contents differ; empty when none does.
  std::string FirstDifference(const ArenaChecksum& other) const;
};

/// Hashes the contents of every buffer of the arena. Capture executes nothing,
/// so the checksums before and after it must be equal.
///
/// Capture: not while the lane captures: it copies and waits.
/// Errors: the driver's.
/// Cost: copies the whole arena to the host, through one pinned chunk.
absl::StatusOr<ArenaChecksum> ComputeArenaChecksum(const ArenaView& arena,
                                                   const Lane& lane);

}  // namespace permafrost

#endif  // PERMAFROST_CAPTURE_ARENA_CHECKSUM_H_
