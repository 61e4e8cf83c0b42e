// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/capture/captured_graph.h"

#include <utility>

#include "absl/strings/str_cat.h"
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

  PERMAFROST_ASSIGN_OR_RETURN(Lease lease, arena.TakeLease(label_));
  lease_.emplace(std::move(lease));
  arena_epoch_ = arena.epoch();
  const ArenaView view = arena.view();
  scope.arena = &view;
  audit_ = AuditGraph(context.driver(), graph_.get(), scope, policy);
  PERMAFROST_RETURN_IF_ERROR(audit_.ToStatus());

  PERMAFROST_ASSIGN_OR_RETURN(
      exec_, GraphExec::Instantiate(lane_.context(), graph_.get()));
  PERMAFROST_RETURN_IF_ERROR(CuStatus(
      context.api().GraphUpload(exec_.get(), lane_.stream()), "cuGraphUpload"));
  PERMAFROST_RETURN_IF_ERROR(lane_.Drain());
  launch_ = context.api().GraphLaunch;
  stream_ = lane_.stream();
  return absl::OkStatus();
}

absl::Status CapturedGraph::Replay() {
  const Lane::Use use(lane_);
  if (launch_ == nullptr) [[unlikely]] {
    return absl::FailedPreconditionError(
        absl::StrCat(label_, ": replay after Destroy"));
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
