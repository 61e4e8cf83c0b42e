// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_CAPTURE_WARM_UP_H_
#define PERMAFROST_CAPTURE_WARM_UP_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "permafrost/arena/arena.h"
#include "permafrost/capture/lane.h"
#include "permafrost/capture/step.h"
#include "permafrost/driver/device_ptr.h"

namespace permafrost {

/// Proof that a step has run eagerly for some buckets, on memory of one arena.
/// Only `WarmUp` makes one, and `CaptureAll` takes nothing else.
class WarmSet {
 public:
  const Step& step() const { return step_; }

  /// The warmed buckets, in ascending order.
  const std::vector<Bucket>& buckets() const { return buckets_; }

  bool Contains(Bucket bucket) const;

  /// Base address of the arena that the step ran on.
  DevicePtr arena_base() const { return arena_base_; }

 private:
  friend absl::StatusOr<WarmSet> WarmUp(const Arena& arena, const Lane& lane,
                                        const Step& step,
                                        absl::Span<const Bucket> buckets);
  WarmSet() = default;

  Step step_;
  std::vector<Bucket> buckets_;
  DevicePtr arena_base_;
};

/// Runs `step` once for each bucket, in the order given, and waits for it.
///
/// This is where lazy work belongs: modules load, functions are resolved,
/// attributes are set. Every buffer of lifetime state is copied out before the
/// first run and copied back after the last, also when a run fails.
///
/// Capture: must not run while the lane captures.
/// Errors: InvalidArgument for no step, no bucket, a bucket below 1 row or one
///   named twice; else the first error of a run, with its bucket named.
/// Cost: one eager step a bucket, and host memory for the state buffers.
absl::StatusOr<WarmSet> WarmUp(const Arena& arena, const Lane& lane,
                               const Step& step,
                               absl::Span<const Bucket> buckets);

}  // namespace permafrost

#endif  // PERMAFROST_CAPTURE_WARM_UP_H_
