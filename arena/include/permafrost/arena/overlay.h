// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Buffers that share bytes: which may, by the order that a step's edges fix,
// where they lie, and a second opinion on the result.
#ifndef PERMAFROST_ARENA_OVERLAY_H_
#define PERMAFROST_ARENA_OVERLAY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "permafrost/arena/arena_plan.h"
#include "permafrost/arena/buffer_table.h"
#include "permafrost/arena/step_dag.h"

namespace permafrost {

/// One value of a buffer: the operation that overwrites it first, and all that
/// use it before the next one overwrites it. Indices into `StepDag::ops`, the
/// write first, the rest ascending.
struct LiveRange {
  std::vector<int> ops = {};

  friend bool operator==(const LiveRange&, const LiveRange&) = default;
};

/// What a step does with one buffer.
struct BufferLife {
  std::string buffer = {};
  /// In the order of the step's edges, each wholly before the next. Empty for a
  /// buffer that is kept.
  std::vector<LiveRange> ranges = {};
  /// Why the buffer's bytes must be its own, as far as the step tells: a value
  /// of an earlier replay is read, or two operations race for it. Empty: they
  /// need not.
  std::string kept_because = {};
};

/// The live ranges of every buffer that the step accesses, sorted by name.
///
/// An operation comes before another where a path of edges that order memory
/// leads there: `kFull` ones, and `kProgrammatic` ones into an operation that
/// waits on its grid dependency. Issue order orders nothing.
/// A buffer whose first access is a read or a write that covers only part of it
/// holds something from an earlier replay, and so is kept. One that is
/// overwritten without order against another use of it is kept as well.
///
/// Errors: those of `ValidateStepDag`.
/// Threads: any. Capture: no driver call. Cost: operations times edges over 64.
absl::StatusOr<std::vector<BufferLife>> FindLives(const StepDag& step);

/// A place that a buffer must have. Its bytes are then its own.
struct FixedPlace {
  std::string buffer = {};
  /// From the start of the segment of the buffer, so that it means the
  /// same whatever the other segments hold. A multiple of 256.
  int64_t offset_in_segment_bytes = 0;
};

/// What a caller knows that neither sizes nor steps say.
struct OverlayOptions {
  std::vector<FixedPlace> fixed = {};
  /// Buffers that get bytes of their own although the rules would let them
  /// share.
  std::vector<std::string> keep_apart = {};
  /// Names that steps may access and that are no buffers of the arena: weights,
  /// KV pools. Any other unknown name is an error, because a misspelt access
  /// would make a live range too short.
  std::vector<std::string> outside = {};
  /// Placements tried at most for one segment. The search ends by this count
  /// and never by a clock, so that every rank and run finds the same plan.
  int max_placements = 400;
};

/// One buffer that shares no bytes, and why.
struct KeptApart {
  std::string buffer = {};
  std::string reason = {};
};

/// A plan in which buffers may share bytes, and how good it is.
///
/// Units: bytes. The four sums count each buffer with its guard, rounded up to
/// 256, and leave out the rounding of segments to the granularity.
struct OverlaidPlan {
  ArenaPlan plan;
  /// Every buffer by itself.
  int64_t bytes_off = 0;
  /// This plan: the ends of its segments' last buffers.
  int64_t bytes_on = 0;
  /// The buffers of `kept_apart`, in both sums above.
  int64_t pinned_bytes = 0;
  /// No plan with one address a name can be smaller than this: the pinned
  /// bytes, and for each segment a set of buffers every two of which conflict.
  /// The set is the heaviest of one moment of one step (live ranges no two of
  /// which are ordered: with an address for each range this is exactly what is
  /// needed at least), or where the placement stays above that, a heavier one
  /// of buffers that conflict at different moments or in different steps.
  int64_t bound_bytes = 0;
  std::vector<KeptApart> kept_apart = {};  ///< in the order of the sizes
  int64_t placements_tried = 0;
};

/// Places buffers so that two may lie over each other where every live range of
/// one is wholly before or wholly after every live range of the other, in each
/// of the steps. Reads count like writes.
///
/// Two buffers of one operation never share, unless it declares them in place:
/// then they may start on the same byte, or lie apart.
/// Never shared: what the host touches, constants, state, slabs, what is
/// initialised once or registered outside, what `FindLives` keeps, what no step
/// accesses, and what `overlay_options` says. Buffers share within a segment.
///
/// The steps are the graphs of one lane: they run one after another, each to
/// its end. A step's accesses to absent buffers are left out.
///
/// A pure function of its arguments: the same offsets on every machine.
/// Errors: those of `PlanArena` and `ValidateStepDag`; kInvalidArgument for no
///   steps, for a step that accesses a name which is neither a buffer nor in
///   `outside`, and for options that name an unknown or absent buffer, an
///   offset off the 256-byte grid, or places that overlap.
/// Threads: any. Capture: no driver call.
/// Cost: `max_placements` times the square of the buffers.
absl::StatusOr<OverlaidPlan> PlanArenaWithOverlay(
    std::vector<BufferSize> sizes, const PlanOptions& options,
    absl::Span<const StepDag> steps,
    const OverlayOptions& overlay_options = {});

/// Two buffers with bytes in common that a step does not keep apart in time.
struct OverlayFinding {
  std::string step = {};
  std::string first_buffer = {};
  std::string second_buffer = {};
  /// The operations at fault; empty where the fault is no operation's.
  std::string first_op = {};
  std::string second_op = {};
  std::string message = {};
};

/// Checks every two buffers of the plan with bytes in common against one step.
///
/// Shares no code with the planner, not even the reachability: each access of
/// one must be ordered against each of the other, and no access of one may lie
/// between the write and the last use of a value of the other.
/// A buffer that this step does not access cannot be harmed by it; whether any
/// step does is for `VerifyOverlayOfLane`. Accesses to names that the plan does
/// not have are none of its business.
///
/// @return at most one finding for each pair of buffers; empty: the overlay is
///   safe in this step.
/// Errors: those of `ValidateStepDag`.
/// Threads: any. Capture: no driver call. Cost: operations times edges, and the
///   product of accesses for each two buffers that share.
absl::StatusOr<std::vector<OverlayFinding>> VerifyOverlay(const ArenaPlan& plan,
                                                          const StepDag& step);

/// `VerifyOverlay` for all steps of a lane, and a finding for each buffer that
/// shares bytes and must not: no step accesses it, the host touches it, or its
/// content outlives the step.
absl::StatusOr<std::vector<OverlayFinding>> VerifyOverlayOfLane(
    const ArenaPlan& plan, absl::Span<const StepDag> steps);

/// Bytes that tools see as one: a buffer by itself, or buffers that overlap,
/// directly or through others.
struct ArenaRegion {
  /// The buffers' names in order of offset, with '|' between them.
  std::string name = {};
  int64_t offset_bytes = 0;
  int64_t bytes = 0;  ///< without the guard behind it
};

/// The regions of a plan in order of offset. Between two of them lies at least
/// a whole guard. Threads: any.
std::vector<ArenaRegion> RegionsOf(const ArenaPlan& plan);

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_OVERLAY_H_
