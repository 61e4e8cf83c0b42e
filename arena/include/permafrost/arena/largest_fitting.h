// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#ifndef PERMAFROST_ARENA_LARGEST_FITTING_H_
#define PERMAFROST_ARENA_LARGEST_FITTING_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "permafrost/arena/arena_plan.h"
#include "permafrost/arena/buffer_table.h"
#include "permafrost/arena/model_config.h"
#include "permafrost/arena/serving_limits.h"

namespace permafrost {

/// The largest max_batch_tokens, up to that of `limits`, whose arena takes at
/// most `free_bytes`, all other limits and options as given; 0 when not even
/// one row fits.
///
/// Sizes never shrink when rows are added, so a binary search finds it. Give it
/// to `ArenaOptions::largest_fitting`, and a Create that does not fit says it.
///
/// Errors: those of `CheckLimits`, and of `ComputeBufferSizes` and `PlanArena`
///   for one row; a plan that fails above that, by its size, counts as one that
///   does not fit.
/// Cost: a plan for each bit of max_batch_tokens. Threads: any.
/// Capture: no driver call.
absl::StatusOr<int64_t> LargestFittingBatchTokens(
    const ModelConfig& config, const ServingLimits& limits,
    const PlanOptions& options, int64_t free_bytes,
    absl::Span<const BufferRow> table = BufferTable());

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_LARGEST_FITTING_H_
