// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// What both planners, with and without overlay, do with their arguments.
#ifndef PERMAFROST_ARENA_SRC_PLAN_INPUTS_H_
#define PERMAFROST_ARENA_SRC_PLAN_INPUTS_H_

#include <vector>

#include "absl/status/status.h"
#include "permafrost/arena/arena_plan.h"
#include "permafrost/arena/buffer_table.h"

namespace permafrost {

/// Errors: kInvalidArgument as `PlanArena` says; overlay is not looked at.
absl::Status CheckPlanOptions(const PlanOptions& options);

/// Errors: kInvalidArgument as `PlanArena` says of sizes.
absl::Status CheckPlanSizes(const std::vector<BufferSize>& sizes);

/// The buffer without a place.
PlannedBuffer PlannedFrom(BufferSize size);

/// One segment without a place for each pair of tag and sleep policy that has a
/// present buffer, in order of first appearance.
std::vector<PlannedSegment> SegmentsInOrder(
    const std::vector<PlannedBuffer>& buffers);

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_SRC_PLAN_INPUTS_H_
