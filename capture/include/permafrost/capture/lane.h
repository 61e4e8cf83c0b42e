// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_CAPTURE_LANE_H_
#define PERMAFROST_CAPTURE_LANE_H_

#include <cuda.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "permafrost/driver/context.h"

namespace permafrost {

/// One non-blocking stream, and the graphs that replay on it.
///
/// Graphs of one arena share scratch memory, so two of them must never overlap.
/// They belong to one lane, and the order of its stream keeps them apart. The
/// legacy stream neither waits for a lane nor makes it wait: whatever writes to
/// a graph's memory does so on the lane's stream, or drains first.
///
/// A `Lane` is a handle. Copies name the same lane; the stream is drained and
/// destroyed with the last copy, graphs included.
///
/// Threads: one at a time. Checked builds (PERMAFROST_CHECKED) abort when two
///   threads are inside calls on one lane at the same moment.
class Lane {
 public:
  /// Creates the stream. `name` appears in every message about this lane.
  ///
  /// Errors: InvalidArgument for an empty name; the driver's error otherwise.
  static absl::StatusOr<Lane> Create(ContextRef context,
                                     absl::string_view name);

  Lane(const Lane&) = default;
  Lane& operator=(const Lane&) = default;
  Lane(Lane&&) noexcept = default;
  Lane& operator=(Lane&&) noexcept = default;
  ~Lane() = default;

  CUstream stream() const;
  const std::string& name() const;
  const ContextRef& context() const;

  /// Waits until everything enqueued on the lane has run.
  ///
  /// Capture: refused by the driver (and fatal to the capture) while the lane
  ///   captures.
  /// Errors: the driver's, of any work that failed since the last drain.
  absl::Status Drain() const;

  /// `Drain` for who lets go of host memory next that copies on the lane use: a
  /// wait that fails by itself leaves the copies running, so it is tried again.
  ///
  /// Errors: those of the first wait, also when the second one succeeds.
  absl::Status Settle() const;

  bool operator==(const Lane& other) const { return state_ == other.state_; }

  /// Marks the calling thread as inside a call on the lane, for as long as the
  /// object lives. A thread may nest these. Does nothing in unchecked builds.
  class Use {
   public:
    explicit Use(const Lane& lane);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    const Lane& lane_;
  };

 private:
  struct State;
  explicit Lane(std::shared_ptr<State> state);

  std::shared_ptr<State> state_;
};

}  // namespace permafrost

#endif  // PERMAFROST_CAPTURE_LANE_H_
