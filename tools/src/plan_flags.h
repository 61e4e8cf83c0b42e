// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_TOOLS_PLAN_FLAGS_H_
#define PERMAFROST_TOOLS_PLAN_FLAGS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "command_line.h"
#include "permafrost/arena/arena_plan.h"
#include "permafrost/arena/overlay.h"
#include "permafrost/arena/step_dag.h"

namespace permafrost::tool {

/// The flags that a plan is made by: all of `ServingLimits` and `PlanOptions`,
/// and the steps that an overlay is for.
absl::Span<const CommandFlag> PlanFlags();

/// A plan, and what it was made of.
struct PlannedArena {
  /// The flags that were given, as one line.
  std::string made_by = {};
  ArenaPlan plan;
  /// With overlay on; its `plan` is the one above.
  std::optional<OverlaidPlan> overlaid = std::nullopt;
  /// The steps that share the arena; none with overlay off, where any may.
  std::vector<StepDag> steps = {};
  /// What the independent checks object to; empty says that the plan is safe.
  std::vector<std::string> findings = {};
};

/// Reads the model and plans it as the flags say.
/// @param given  the flags that the command line has, for `made_by`.
/// Errors: kInvalidArgument naming the flag, or the model's source and key.
absl::StatusOr<PlannedArena> PlanByFlags(const std::string& config,
                                         absl::Span<const std::string> given);

}  // namespace permafrost::tool

#endif  // PERMAFROST_TOOLS_PLAN_FLAGS_H_
