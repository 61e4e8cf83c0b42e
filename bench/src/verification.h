// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_BENCH_VERIFICATION_H_
#define PERMAFROST_BENCH_VERIFICATION_H_

#include "absl/status/statusor.h"
#include "moe_step.h"
#include "permafrost/arena/arena.h"
#include "permafrost/capture/capture_all.h"
#include "permafrost/capture/replay_verifier.h"
#include "permafrost/capture/step.h"
#include "plant.h"

namespace permafrost::bench {

/// Replays every graph with every kind of routing and compares what the last
/// layer left (its rows, the routing tables and the worklist's counters) with
/// the CPU oracle and with an eager run. Every buffer of the arena is poisoned
/// before each replay.
///
/// @param plant  kSkippedReplay leaves one launch out; the other faults are
///   already in the step, the graphs or the arena.
/// Errors: InvalidArgument for options that cannot work; what is found is in
///   the report.
absl::StatusOr<VerifyReport> VerifyReplays(const FrozenArena& arena,
                                           const GraphSet& graphs,
                                           const StepParts& parts,
                                           const Step& step, Plant plant);

}  // namespace permafrost::bench

#endif  // PERMAFROST_BENCH_VERIFICATION_H_
