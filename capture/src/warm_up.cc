// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/capture/warm_up.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "permafrost/driver/guarded_call.h"
#include "permafrost/driver/status.h"

namespace permafrost {
namespace {

absl::Status CheckBuckets(absl::Span<const Bucket> buckets) {
  if (buckets.empty()) {
    return absl::InvalidArgumentError("warm-up: got no bucket to warm");
  }
  std::vector<Bucket> sorted(buckets.begin(), buckets.end());
  std::sort(sorted.begin(), sorted.end());
  if (sorted.front().rows < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "warm-up: got a bucket of ", sorted.front().rows, " rows, limit 1"));
  }
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "warm-up: the bucket of ", twice->rows, " rows is named twice"));
  }
  return absl::OkStatus();
}

// The contents of the buffers of lifetime state, kept on the host.
class StateCopy {
 public:
  static absl::StatusOr<StateCopy> Take(const ArenaView& arena,
                                        const Lane& lane) {
    StateCopy copy;
    for (const PlannedBuffer& planned : arena.plan().buffers()) {
      if (planned.lifetime != Lifetime::kState || !planned.is_present()) {
        continue;
      }
      PERMAFROST_ASSIGN_OR_RETURN(BufferRef buffer, arena.Find(planned.name));
      copy.saved_.emplace_back(
          std::move(buffer),
          std::vector<std::byte>(static_cast<size_t>(planned.bytes)));
    }
    PERMAFROST_RETURN_IF_ERROR(copy.ForEach(
        lane, "cuMemcpyDtoHAsync", "saving before warm-up",
        [&](const BufferRef& buffer, std::vector<std::byte>& host) {
          return lane.context()->api().MemcpyDtoHAsync(
              host.data(), buffer.base.value(), host.size(), lane.stream());
        }));
    return copy;
  }

  absl::Status Restore(const Lane& lane) {
    return ForEach(lane, "cuMemcpyHtoDAsync", "restoring after warm-up",
                   [&](const BufferRef& buffer, std::vector<std::byte>& host) {
                     return lane.context()->api().MemcpyHtoDAsync(
                         buffer.base.value(), host.data(), host.size(),
                         lane.stream());
                   });
  }

 private:
  // Copies every buffer, and settles whatever happens: the driver may touch the
  // host memory until then.
  template <typename Copy>
  absl::Status ForEach(const Lane& lane, absl::string_view call,
                       absl::string_view what, Copy&& copy) {
    if (saved_.empty()) return absl::OkStatus();
    absl::Status status;
    for (auto& [buffer, host] : saved_) {
      status = CuStatus(copy(buffer, host), call,
                        absl::StrCat(what, ": '", buffer.name, "'"));
      if (!status.ok()) break;
    }
    const absl::Status settled = lane.Settle();
    return status.ok() ? settled : status;
  }

  std::vector<std::pair<BufferRef, std::vector<std::byte>>> saved_;
};

absl::Status RunOnce(const ArenaView& arena, const Lane& lane, const Step& step,
                     Bucket bucket) {
  absl::Status status = GuardedCall("the step", [&] {
    return step(StepContext{arena, lane.stream(), bucket});
  });
  // Drained also after an error: what the step did enqueue is over before the
  // state is copied back.
  const absl::Status drained = lane.Drain();
  if (status.ok()) status = drained;
  if (status.ok()) return status;
  return Annotate(status, absl::StrCat("warm-up of the bucket of ", bucket.rows,
                                       " rows on lane '", lane.name(), "'"));
}

}  // namespace

bool WarmSet::Contains(Bucket bucket) const {
  return std::binary_search(buckets_.begin(), buckets_.end(), bucket);
}

absl::StatusOr<WarmSet> WarmUp(const Arena& arena, const Lane& lane,
                               const Step& step,
                               absl::Span<const Bucket> buckets) {
  if (step == nullptr) {
    return absl::InvalidArgumentError("warm-up: got no step to run");
  }
  PERMAFROST_RETURN_IF_ERROR(CheckBuckets(buckets));
  const Lane::Use use(lane);
  const ArenaView view = arena.view();
  const Context::Scope scope = lane.context()->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());

  PERMAFROST_ASSIGN_OR_RETURN(StateCopy state, StateCopy::Take(view, lane));
  absl::Status status;
  for (const Bucket bucket : buckets) {
    status = RunOnce(view, lane, step, bucket);
    if (!status.ok()) break;
  }
  const absl::Status restored = state.Restore(lane);
  if (status.ok()) status = restored;
  PERMAFROST_RETURN_IF_ERROR(status);

  WarmSet warm_set;
  warm_set.step_ = step;
  warm_set.buckets_.assign(buckets.begin(), buckets.end());
  std::sort(warm_set.buckets_.begin(), warm_set.buckets_.end());
  warm_set.arena_base_ = view.base();
  return warm_set;
}

}  // namespace permafrost
