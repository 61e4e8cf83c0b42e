// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_ARENA_PLAN_DIFF_H_
#define PERMAFROST_ARENA_PLAN_DIFF_H_

#include <string>
#include <vector>

#include "permafrost/arena/arena_plan.h"

namespace permafrost {

/// One thing that two plans have differently.
struct PlanChange {
  enum class Kind { kAdded, kRemoved, kChanged };
  Kind kind = Kind::kChanged;
  /// "buffer 'logits'", "segment 'step' (discard)", "options", "plan".
  std::string what = {};
  /// The field as the JSON names it; empty for what was added or removed.
  std::string field = {};
  std::string before = {};
  std::string after = {};

  friend bool operator==(const PlanChange&, const PlanChange&) = default;
};

/// What one has to do to `before` to get `after`: options and total first, then
/// segments, then buffers in the order of `before`, added ones last. Buffers
/// are paired by name and segments by tag and sleep policy; a buffer that only
/// moved is a change of its offset. Empty exactly where the JSON of both is the
/// same but for the order of segments and buffers. Threads: any. Capture: no
/// driver call.
std::vector<PlanChange> DiffPlans(const ArenaPlan& before,
                                  const ArenaPlan& after);

/// One line a change, for people; "the plans are equal\n" for none.
std::string DiffToText(const std::vector<PlanChange>& changes);

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_PLAN_DIFF_H_
