// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_BENCH_MEASURE_H_
#define PERMAFROST_BENCH_MEASURE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "permafrost/arena/arena.h"
#include "permafrost/capture/captured_graph.h"
#include "permafrost/capture/step.h"
#include "report.h"

namespace permafrost::bench {

/// How much to measure.
struct MeasurePlan {
  int64_t samples = 0;
  /// Back-to-back replays behind one device time; 0: no device times, because
  /// the driver's event times would not be a device's.
  int64_t replays = 0;
  /// Rounds in front that are not kept: for the clocks and caches of a GPU.
  int64_t untimed_rounds = 0;

  /// The plan for the options, defaults by the kind of driver filled in.
  static MeasurePlan For(const Options& options, DriverKind kind);
};

/// Times one graph and the same step run eagerly.
///
/// Three quantities, never one number. Host: the clock around the enqueue
/// alone, the stream idle before. End to end: from before the enqueue until the
/// host knows that the replay is done. Device: the time between two events
/// around `replays` replays in a row, divided by their number; replays in front
/// of the first event keep the device busy, so that the host's own launch gap
/// is not in it. Eager and replayed samples take turns. The graph was uploaded
/// when it was made.
///
/// Between two replays the loop reads the clock and stores a number, no more.
/// Errors: the driver's.
absl::StatusOr<BucketFigures> MeasureBucket(CapturedGraph& graph,
                                            const Step& eager,
                                            const ArenaView& arena,
                                            const MeasurePlan& plan);

}  // namespace permafrost::bench

#endif  // PERMAFROST_BENCH_MEASURE_H_
