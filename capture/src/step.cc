// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/capture/step.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"

namespace permafrost {

BucketLadder::BucketLadder(std::vector<Bucket> buckets)
    : buckets_(std::move(buckets)) {}

absl::StatusOr<BucketLadder> BucketLadder::Create(
    absl::Span<const int64_t> rungs) {
  if (rungs.empty()) {
    return absl::InvalidArgumentError(
        "bucket ladder: got no rung; name at least one batch size");
  }
  std::vector<Bucket> buckets;
  buckets.reserve(rungs.size());
  for (size_t i = 0; i < rungs.size(); ++i) {
    if (rungs[i] < 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "bucket ladder: got a rung of ", rungs[i], " rows, limit 1"));
    }
    if (i > 0 && rungs[i] <= rungs[i - 1]) {
      return absl::InvalidArgumentError(
          absl::StrCat("bucket ladder: rungs must ascend, got ", rungs[i],
                       " rows after ", rungs[i - 1]));
    }
    buckets.push_back(Bucket{rungs[i]});
  }
  return BucketLadder(std::move(buckets));
}

absl::StatusOr<Bucket> BucketLadder::RungFor(int64_t rows) const {
  if (rows < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("bucket ladder: got a batch of ", rows, " rows, limit 0"));
  }
  const auto rung =
      std::lower_bound(buckets_.begin(), buckets_.end(), Bucket{rows});
  if (rung == buckets_.end()) {
    return absl::OutOfRangeError(absl::StrCat(
        "bucket ladder: got a batch of ", rows, " rows, last rung ",
        buckets_.back().rows, "; split the batch or add a larger bucket"));
  }
  return *rung;
}

}  // namespace permafrost
