// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_ARENA_LINE_PACKING_H_
#define PERMAFROST_ARENA_LINE_PACKING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace permafrost {

/// A buffer of a step on one stream, where time is a line.
struct LineBuffer {
  std::string name = {};
  int64_t lower = 0;  ///< the first moment at which it is needed
  int64_t upper = 0;  ///< the first one at which it no longer is
  int64_t bytes = 0;
};

struct LinePackingOptions {
  /// The height that a packing must not exceed. Units: bytes.
  int64_t capacity_bytes = 0;
  /// Nodes of the search tree to visit before giving up. The only limit: the
  /// same arguments end in the same way on every machine.
  int64_t max_nodes = 1'000'000;
};

enum class PackingVerdict {
  kPacked,      ///< a packing within the capacity was found
  kImpossible,  ///< there is none: the whole tree was searched
  kGaveUp,      ///< `max_nodes` were not enough to tell
};

struct LinePacking {
  PackingVerdict verdict = PackingVerdict::kGaveUp;
  /// By buffer; empty unless packed. Units: bytes.
  std::vector<int64_t> offsets = {};
  int64_t height_bytes = 0;  ///< 0 unless packed
  /// The most bytes needed at one moment: no packing is lower.
  int64_t bound_bytes = 0;
  int64_t nodes = 0;
};

/// Looks for a packing into the capacity by branch and bound.
///
/// Exact, where `PlanArenaWithOverlay` is not: given nodes enough it finds a
/// packing or proves that there is none. It knows time as a line only, so it
/// serves to tell how good a plan for one stream can be.
/// Errors: kInvalidArgument for no buffers, a life that is empty, bytes or a
///   capacity below 1, more than 1,000 buffers, or a sum beyond 2^63-1, naming
///   the buffer.
/// Threads: any. Capture: no driver call. Cost: a node costs buffers times
///   moments at most, and each buffer placed takes 1 KiB of stack or so.
absl::StatusOr<LinePacking> PackLine(absl::Span<const LineBuffer> buffers,
                                     const LinePackingOptions& options);

/// Reads buffers from CSV text with a header line of `id`, `lower`, `upper` and
/// `size` in any order, one buffer a line.
///
/// Source: the format of the benchmark instances of google/minimalloc.
/// Errors: kInvalidArgument naming `source`, the line and what was found.
absl::StatusOr<std::vector<LineBuffer>> ParseLineBuffers(
    absl::string_view csv, absl::string_view source);

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_LINE_PACKING_H_
