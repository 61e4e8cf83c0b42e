// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/capture/capture_all.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "permafrost/capture/arena_checksum.h"
#include "permafrost/driver/status.h"

namespace permafrost {
namespace {

// The buckets to capture, ascending, each warmed.
absl::StatusOr<std::vector<Bucket>> ChooseBuckets(
    const WarmSet& warm_set, const std::vector<Bucket>& asked) {
  if (asked.empty()) return warm_set.buckets();
  std::vector<Bucket> buckets = asked;
  std::sort(buckets.begin(), buckets.end());
  for (const Bucket bucket : buckets) {
    if (!warm_set.Contains(bucket)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "capture: the bucket of ", bucket.rows,
          " rows was not warmed; name it in WarmUp before the freeze"));
    }
  }
  return buckets;
}

absl::Status CheckSameArena(const FrozenArena& arena, const WarmSet& warm_set,
                            const Lane& lane) {
  const ArenaView view = arena.view();
  if (view.base() != warm_set.arena_base()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "capture: the step was warmed on the arena at ",
        warm_set.arena_base().ToString(), ", and this one is at ",
        view.base().ToString(), "; warm up on the arena that is frozen"));
  }
  if (view.context()->get() != lane.context()->get()) {
    return absl::FailedPreconditionError(
        absl::StrCat("capture: lane '", lane.name(),
                     "' is of another context than the "
                     "arena; make both from one"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CapturedGraph*> GraphSet::Find(int64_t rows) const {
  PERMAFROST_ASSIGN_OR_RETURN(const Bucket rung, ladder_.RungFor(rows));
  const auto found =
      std::find_if(graphs_.begin(), graphs_.end(),
                   [&](const auto& graph) { return graph->bucket() == rung; });
  return found->get();
}

std::vector<CapturedGraph*> GraphSet::graphs() const {
  std::vector<CapturedGraph*> graphs;
  graphs.reserve(graphs_.size());
  for (const auto& graph : graphs_) graphs.push_back(graph.get());
  return graphs;
}

CaptureCounters GraphSet::counters() const {
  CaptureCounters counters;
  counters.captures = captures_;
  for (const auto& graph : graphs_) counters.replays += graph->replays();
  return counters;
}

absl::Status GraphSet::Destroy() {
  absl::Status first;
  for (const auto& graph : graphs_) {
    const absl::Status status = graph->Destroy();
    if (first.ok()) first = status;
  }
  return first;
}

absl::StatusOr<GraphSet> CaptureAll(const FrozenArena& arena,
                                    const WarmSet& warm_set, const Lane& lane,
                                    const CaptureOptions& options) {
  const Lane::Use use(lane);
  PERMAFROST_RETURN_IF_ERROR(CheckSameArena(arena, warm_set, lane));
  PERMAFROST_ASSIGN_OR_RETURN(const std::vector<Bucket> buckets,
                              ChooseBuckets(warm_set, options.buckets));
  std::vector<int64_t> rungs;
  for (const Bucket bucket : buckets) rungs.push_back(bucket.rows);
  PERMAFROST_ASSIGN_OR_RETURN(BucketLadder ladder, BucketLadder::Create(rungs));

  const ArenaView view = arena.view();
  std::optional<ArenaChecksum> before;
  if (options.verify_capture_ran_nothing) {
    PERMAFROST_ASSIGN_OR_RETURN(before, ComputeArenaChecksum(view, lane));
  }

  GraphSet set(std::move(ladder));
  AuditScope scope;
  scope.externals = options.externals;
  scope.signatures = options.signatures;
  for (const Bucket bucket : buckets) {
    absl::StatusOr<Graph> graph = CaptureStep(lane, options.mode, [&] {
      return warm_set.step()(StepContext{view, lane.stream(), bucket});
    });
    if (!graph.ok()) {
      return Annotate(graph.status(),
                      absl::StrCat("bucket of ", bucket.rows, " rows"));
    }
    ++set.captures_;
    const auto observed = options.observed.find(bucket.rows);
    scope.observed =
        observed == options.observed.end() ? nullptr : &observed->second;
    PERMAFROST_ASSIGN_OR_RETURN(
        std::unique_ptr<CapturedGraph> captured,
        CapturedGraph::Adopt(arena, lane, bucket, *std::move(graph), scope,
                             options.policy));
    set.graphs_.push_back(std::move(captured));
  }

  if (before.has_value()) {
    PERMAFROST_ASSIGN_OR_RETURN(const ArenaChecksum after,
                                ComputeArenaChecksum(view, lane));
    const std::string changed = before->FirstDifference(after);
    if (!changed.empty()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "capture: buffer '", changed,
          "' changed while capturing, so something ran instead of being "
          "recorded; enqueue all work on the stream in the step's context"));
    }
  }
  return set;
}

}  // namespace permafrost
