// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/largest_fitting.h"

#include <utility>
#include <vector>

#include "permafrost/driver/status.h"

namespace permafrost {

absl::StatusOr<int64_t> LargestFittingBatchTokens(
    const ModelConfig& config, const ServingLimits& limits,
    const PlanOptions& options, int64_t free_bytes,
    absl::Span<const BufferRow> table) {
  const auto total_bytes = [&](int64_t rows) -> absl::StatusOr<int64_t> {
    ServingLimits smaller = limits;
    smaller.max_batch_tokens = rows;
    PERMAFROST_ASSIGN_OR_RETURN(std::vector<BufferSize> sizes,
                                ComputeBufferSizes(config, smaller, table));
    PERMAFROST_ASSIGN_OR_RETURN(const ArenaPlan plan,
                                PlanArena(std::move(sizes), options));
    return plan.total_bytes();
  };
  PERMAFROST_RETURN_IF_ERROR(CheckLimits(limits));
  PERMAFROST_ASSIGN_OR_RETURN(const int64_t least_bytes, total_bytes(1));
  if (least_bytes > free_bytes) return 0;
  int64_t fits = 1;
  int64_t above = limits.max_batch_tokens + 1;
  while (above - fits > 1) {
    const int64_t middle = fits + (above - fits) / 2;
    const absl::StatusOr<int64_t> bytes = total_bytes(middle);
    (bytes.ok() && *bytes <= free_bytes ? fits : above) = middle;
  }
  return fits;
}

}  // namespace permafrost
