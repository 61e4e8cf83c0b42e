// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_CAPTURE_STEP_H_
#define PERMAFROST_CAPTURE_STEP_H_

#include <cuda.h>

#include <compare>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "permafrost/arena/arena.h"

namespace permafrost {

/// The shape a graph is captured for: the number of rows of its batch. A
/// smaller batch runs in the same graph with padding rows that are valid and
/// inert.
struct Bucket {
  int64_t rows = 0;

  friend auto operator<=>(const Bucket&, const Bucket&) = default;
};

/// What a step may use. The arena comes as a view, which an `Arena` (warm-up)
/// and a `FrozenArena` (capture) both give, so that the very same callable is
/// warmed, captured and run eagerly.
struct StepContext {
  const ArenaView& arena;
  CUstream stream;
  Bucket bucket;
};

/// Enqueues one forward step of `bucket.rows` rows on `stream`.
///
/// Capture: while the step is captured nothing it enqueues runs, and it may
///   call nothing that allocates, synchronises or queries.
/// Errors: any Status is passed on, with the bucket and the lane named. A step
///   that passes on the Status of a driver call (`CuStatus`) lets capture name
///   that call. An exception is turned into Internal and goes no further.
using Step = std::function<absl::Status(const StepContext&)>;

/// The rungs that batches are rounded up to, in ascending order.
class BucketLadder {
 public:
  /// Errors: InvalidArgument when there is no rung, a rung is below 1, or the
  ///   rungs do not ascend strictly; the message names the rung.
  static absl::StatusOr<BucketLadder> Create(absl::Span<const int64_t> rungs);

  /// The smallest rung that holds `rows` rows.
  ///
  /// Errors: InvalidArgument below 0 rows; OutOfRange above the last rung,
  ///   naming both.
  /// Cost: one binary search.
  absl::StatusOr<Bucket> RungFor(int64_t rows) const;

  const std::vector<Bucket>& buckets() const { return buckets_; }

 private:
  explicit BucketLadder(std::vector<Bucket> buckets);

  std::vector<Bucket> buckets_;
};

}  // namespace permafrost

#endif  // PERMAFROST_CAPTURE_STEP_H_
