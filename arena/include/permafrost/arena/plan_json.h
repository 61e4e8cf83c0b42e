// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_ARENA_PLAN_JSON_H_
#define PERMAFROST_ARENA_PLAN_JSON_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "permafrost/arena/arena_plan.h"

namespace permafrost {

/// The version of a plan as a file.
inline constexpr char kPlanSchema[] = "permafrost.plan/1";

/// The plan as JSON of `kPlanSchema`: options, total, segments, buffers in the
/// order of the table. The same plan gives the same text on every machine, and
/// `PlanFromJson` gives the same plan back.
/// Threads: any. Capture: no driver call.
std::string PlanToJson(const ArenaPlan& plan);

/// Reads a plan, and validates it as `ValidatePlan` does: a file in which two
/// ranges were made to overlap is no plan.
///
/// Every key must be there and no other may be, so that a file of a later
/// version is refused and not half understood.
/// @param source  named in every error: a path.
/// Errors: kInvalidArgument for more than 16 MiB, text that is no JSON, another
///   schema, a key that is missing, unknown or of the wrong type, a word that
///   no enumerator has, a number below 0, and all that `ValidatePlan` refuses;
///   each names the key, what was found and what is accepted.
/// Threads: any. Capture: no driver call.
absl::StatusOr<ArenaPlan> PlanFromJson(absl::string_view text,
                                       absl::string_view source);

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_PLAN_JSON_H_
