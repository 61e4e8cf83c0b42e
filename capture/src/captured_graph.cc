// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/capture/captured_graph.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "memory_scope.h"
#include "permafrost/arena/overlay.h"
#include "permafrost/capture/observed_step.h"
#include "permafrost/driver/status.h"

namespace permafrost {

CapturedGraph::CapturedGraph(Lane lane, Bucket bucket, Graph graph)
    : lane_(std::move(lane)),
      bucket_(bucket),
      label_(absl::StrCat("graph of ", bucket.rows, " rows on lane '",
                          lane_.name(), "'")),
      graph_(std::move(graph)) {}

CapturedGraph::~CapturedGraph() {
  // A second try finishes what a single failing call left.
  if (!Destroy().ok()) Destroy().IgnoreError();
}

absl::StatusOr<std::unique_ptr<CapturedGraph>> CapturedGraph::Adopt(
    const FrozenArena& arena, const Lane& lane, Bucket bucket, Graph graph,
    AuditScope scope, const AuditPolicy& policy) {
  // From here on every way out destroys the graph.
  std::unique_ptr<CapturedGraph> captured(
      new CapturedGraph(lane, bucket, std::move(graph)));
  const absl::Status status = captured->Prepare(arena, scope, policy);
  if (!status.ok()) return Annotate(status, captured->label());
  return captured;
}

absl::Status CapturedGraph::Prepare(const FrozenArena& arena, AuditScope scope,
                                    const AuditPolicy& policy) {
  if (!graph_) {
    return absl::InvalidArgumentError("got no graph to audit");
  }
  const Lane::Use use(lane_);
  const Context& context = *lane_.context();
  const Context::Scope current = context.MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(current.status());

  PERMAFROST_ASSIGN_OR_RETURN(
      Lease lease,
      arena.TakeLease(label_,
                      LeaseWork{absl::StrCat("lane '", lane_.name(), "'"),
                                lane_.stream()}));
  lease_.emplace(std::move(lease));
  const ArenaView view = arena.view();
  scope.arena = &view;
  audit_ = AuditGraph(context.driver(), graph_.get(), scope, policy);
  PERMAFROST_RETURN_IF_ERROR(audit_.ToStatus());
  PERMAFROST_RETURN_IF_ERROR(CheckOverlay(scope));

  // What the audit could not classify and was told to allow may be any address.
  const bool may_touch_all = !audit_.findings.empty();
  std::vector<std::string> names;
  for (const NodeAddress& address : audit_.addresses) {
    names.push_back(address.buffer);
  }
  if (may_touch_all) {
    for (const PlannedBuffer& buffer : view.plan().buffers()) {
      names.push_back(buffer.name);
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  arena_watches_ = view.Watch(names);
  for (const ExternalRegion& region : scope.externals) {
    const bool is_named =
        may_touch_all ||
        std::binary_search(names.begin(), names.end(), region.name);
    if (region.state != nullptr && is_named) {
      externals_.emplace_back(region.name, region.state);
    }
  }
  WatchExternals();

  PERMAFROST_ASSIGN_OR_RETURN(
      exec_, GraphExec::Instantiate(lane_.context(), graph_.get()));
  PERMAFROST_RETURN_IF_ERROR(CuStatus(
      context.api().GraphUpload(exec_.get(), lane_.stream()), "cuGraphUpload"));
  PERMAFROST_RETURN_IF_ERROR(lane_.Drain());
  launch_ = context.api().GraphLaunch;
  stream_ = lane_.stream();
  return absl::OkStatus();
}

absl::Status CapturedGraph::CheckOverlay(const AuditScope& scope) const {
  const ArenaPlan& plan = scope.arena->plan();
  if (plan.options().overlay == Overlay::kOff) return absl::OkStatus();
  if (scope.observed == nullptr) {
    return absl::FailedPreconditionError(
        "buffers of the arena share bytes, and got no observed step that says "
        "whether this graph bears it; record the step on an arena without "
        "overlay, and give what ObserveStep makes of it");
  }
  PERMAFROST_RETURN_IF_ERROR(CheckObserved(
      lane_.context()->driver(), graph_.get(), scope, audit_, *scope.observed));
  PERMAFROST_ASSIGN_OR_RETURN(const std::vector<OverlayFinding> findings,
                              VerifyOverlay(plan, *scope.observed));
  if (findings.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the overlay is not safe in this graph: ", findings.front().message,
      "; findings in all: ", findings.size(),
      "; plan the arena from its own steps"));
}

void CapturedGraph::WatchExternals() {
  external_watches_.clear();
  for (const auto& [name, state] : externals_) {
    external_watches_.push_back(ExternalRegionState::Watch(state, name));
  }
}

absl::Status CapturedGraph::Replay() {
  const Lane::Use use(lane_);
  if (launch_ == nullptr) [[unlikely]] {
    return absl::FailedPreconditionError(
        absl::StrCat(label_, ": replay after Destroy"));
  }
  for (const MemoryWatch& watch : arena_watches_) {
    if (watch.holds()) [[likely]]
      continue;
    return absl::FailedPreconditionError(
        absl::StrCat(label_, ": replay refused: ", watch.what(),
                     " is asleep; call FrozenArena::Wake() first"));
  }
  for (const MemoryWatch& watch : external_watches_) {
    if (watch.holds()) [[likely]]
      continue;
    return absl::FailedPreconditionError(absl::StrCat(
        label_, ": replay refused: ", watch.what(),
        " is asleep, or was mapped anew since the audit; wake it, and call "
        "CapturedGraph::Revalidate()"));
  }
  const CUresult result = launch_(exec_.get(), stream_);
  if (result != CUDA_SUCCESS) [[unlikely]] {
    return CuStatus(result, "cuGraphLaunch", label_);
  }
  ++replays_;
  return absl::OkStatus();
}

absl::Status CapturedGraph::VerifyNodes(int64_t* compared_nodes) const {
  if (!graph_) {
    return absl::FailedPreconditionError(
        absl::StrCat(label_, ": nodes verified after Destroy"));
  }
  const Lane::Use use(lane_);
  const Context::Scope current = lane_.context()->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(current.status());
  return Annotate(CompareWithRecord(lane_.context()->driver(), graph_.get(),
                                    *audit_.record, compared_nodes),
                  label_);
}

absl::Status CapturedGraph::Revalidate() {
  PERMAFROST_RETURN_IF_ERROR(VerifyNodes());
  for (const auto& [name, state] : externals_) {
    if (state->is_awake()) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        label_, ": external region '", name, "' is asleep; wake it first"));
  }
  const Lane::Use use(lane_);
  const Context::Scope current = lane_.context()->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(current.status());
  for (const NodeAddress& address : audit_.addresses) {
    if (address.buffer.empty()) continue;
    PERMAFROST_ASSIGN_OR_RETURN(
        const bool is_mapped,
        IsMapped(lane_.context()->driver(), address.address));
    if (is_mapped) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        label_, ": node ", address.node_index, " (", address.node,
        "): the driver has no memory at ", address.address.ToString(), " in '",
        address.buffer, "'; map it again first"));
  }
  WatchExternals();
  return absl::OkStatus();
}

absl::Status CapturedGraph::Destroy() {
  if (!graph_ && !exec_) return absl::OkStatus();
  const Lane::Use use(lane_);
  launch_ = nullptr;
  // While a replay may run, its memory stays leased. An executable graph that
  // was never made has nothing in flight.
  if (exec_) PERMAFROST_RETURN_IF_ERROR(lane_.Drain());
  const absl::Status exec_status = exec_.Destroy();
  const absl::Status graph_status = graph_.Destroy();
  PERMAFROST_RETURN_IF_ERROR(exec_status);
  PERMAFROST_RETURN_IF_ERROR(graph_status);
  lease_.reset();
  return absl::OkStatus();
}

}  // namespace permafrost
