// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace permafrost::bench {
namespace {

// The smallest sample that `percent` of all samples do not exceed.
std::optional<int64_t> NearestRank(const std::vector<int64_t>& sorted,
                                   size_t percent, size_t least_samples) {
  if (sorted.size() < least_samples) return std::nullopt;
  const size_t rank = (sorted.size() * percent + 99) / 100;
  return sorted[rank - 1];
}

}  // namespace

Percentiles Summarize(std::vector<int64_t> samples) {
  std::sort(samples.begin(), samples.end());
  return {.p50 = NearestRank(samples, 50, 1),
          .p90 = NearestRank(samples, 90, 10),
          .p99 = NearestRank(samples, 99, 100)};
}

int64_t RunReport::audit_error_count() const {
  int64_t count = 0;
  for (const AuditReport& audit : audits) count += audit.error_count();
  return count;
}

}  // namespace permafrost::bench
