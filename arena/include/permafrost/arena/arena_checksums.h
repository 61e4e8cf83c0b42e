// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_ARENA_ARENA_CHECKSUMS_H_
#define PERMAFROST_ARENA_ARENA_CHECKSUMS_H_

#include <cuda.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "permafrost/arena/arena.h"

namespace permafrost {

/// What one buffer held at one moment, in a number.
struct BufferChecksum {
  std::string buffer;
  int64_t bytes = 0;
  /// A 64-bit hash in the manner of FNV-1a, over words of 8 bytes; a last
  /// partial word is filled with zeros. Two contents of one length share it by
  /// chance only; it is no defence against who means to deceive.
  uint64_t checksum = 0;

  friend bool operator==(const BufferChecksum&,
                         const BufferChecksum&) = default;
};

/// Reads buffers back and hashes what they hold: for debugging, and to prove
/// that something kept them as they were.
///
/// What was enqueued on `stream` before is done when they are read; work on
/// other streams is the caller's to wait for.
/// @param buffers  which ones, in this order; empty: every present one, in the
///   order of the plan.
/// Errors: those of `ArenaView::Find` for a name in `buffers`;
/// kResourceExhausted
///   where there is no pinned memory to copy through; the driver's.
/// Capture: not while a stream captures: it allocates, copies and waits.
/// Threads: safe from any thread that may use `stream`.
/// Cost: one copy of the buffers over the bus, through 4 MiB of pinned memory.
absl::StatusOr<std::vector<BufferChecksum>> ChecksumBuffers(
    const ArenaView& arena, CUstream stream,
    absl::Span<const std::string> buffers = {});

/// The name of the first buffer that differs, or that only one of them has;
/// empty when they are equal.
std::string FirstDifference(absl::Span<const BufferChecksum> before,
                            absl::Span<const BufferChecksum> after);

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_ARENA_CHECKSUMS_H_
