// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_TOOLS_PLAN_FILE_H_
#define PERMAFROST_TOOLS_PLAN_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "permafrost/arena/arena_plan.h"

namespace permafrost::tool {

/// Reads a plan that `permafrost plan --json` wrote.
/// Errors: kInvalidArgument for a file that cannot be read, and everything that
///   `PlanFromJson` refuses.
absl::StatusOr<ArenaPlan> ReadPlanFile(const std::string& path);

}  // namespace permafrost::tool

#endif  // PERMAFROST_TOOLS_PLAN_FILE_H_
