// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_BENCH_PLAN_ROWS_H_
#define PERMAFROST_BENCH_PLAN_ROWS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace permafrost::bench {

/// How good an overlaid plan is, for one model and one size of step.
///
/// Bytes count each buffer with what rounding to 256 adds, and leave out the
/// rounding of segments, which is the device's and not the planner's.
struct PlanRow {
  std::string model = {};
  int64_t max_batch_tokens = 0;
  int64_t streams = 0;
  std::string dag = {};  ///< where the step came from: "declared"
  int64_t bytes_off = 0;
  int64_t bytes_on = 0;
  int64_t pinned_bytes = 0;
  int64_t bound_bytes = 0;
  /// The quickest of seven plans.
  int64_t plan_ns = 0;
  /// Pairs of buffers that the independent verifier finds at fault.
  int64_t unsafe_pairs = 0;
};

/// Plans every preset for 256, 2048 and 8192 tokens, on one stream and forked.
/// A plan covers the decode and the prefill step of the model, which one lane
/// runs.
///
/// Errors: the library's; a preset and its limits are in the message.
absl::StatusOr<std::vector<PlanRow>> MeasurePlans();

/// What the rows promise and do not keep; empty: they keep it all.
///
/// @param judge_time  false where the program was built without optimisation,
///   so that its times say nothing.
std::vector<std::string> FaultsOf(absl::Span<const PlanRow> rows,
                                  bool judge_time);

}  // namespace permafrost::bench

#endif  // PERMAFROST_BENCH_PLAN_ROWS_H_
