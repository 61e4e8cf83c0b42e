// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_CAPTURE_CAPTURED_GRAPH_H_
#define PERMAFROST_CAPTURE_CAPTURED_GRAPH_H_

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "permafrost/arena/arena.h"
#include "permafrost/arena/external_region.h"
#include "permafrost/arena/memory_watch.h"
#include "permafrost/capture/address_audit.h"
#include "permafrost/capture/lane.h"
#include "permafrost/capture/step.h"
#include "permafrost/driver/driver_api.h"
#include "permafrost/driver/handles.h"

namespace permafrost {

/// A graph that passed its audit, instantiated, uploaded, and holding a lease
/// on the arena it names.
///
/// | state | reached by | Replay | VerifyNodes | Destroy |
/// |---|---|---|---|---|
/// | ready | `Adopt`, `CaptureAll` | yes | yes | drains, -> destroyed |
/// | asleep | the arena's `Sleep`, a region's | FailedPrecondition | yes |
/// drains, -> destroyed |
/// | destroyed | `Destroy` | FailedPrecondition | FailedPrecondition | OK,
/// nothing to do |
///
/// A `Destroy` that fails part of the way keeps what it could not destroy, and
/// a second call finishes. The destructor destroys.
///
/// Threads: as the lane, one at a time.
class CapturedGraph {
 public:
  /// Audits `graph`, then instantiates and uploads it.
  ///
  /// @param scope  its arena is replaced by `arena`'s own view.
  /// Errors: FailedPrecondition listing the findings that `policy` calls
  ///   errors, when the arena is not frozen any more, and for an arena whose
  ///   buffers share bytes when `scope.observed` is null, is not what the graph
  ///   does, or finds the overlay unsafe, naming both buffers; the driver's
  ///   otherwise.
  /// Cost: instantiate and upload; waits for the upload.
  static absl::StatusOr<std::unique_ptr<CapturedGraph>> Adopt(
      const FrozenArena& arena, const Lane& lane, Bucket bucket, Graph graph,
      AuditScope scope, const AuditPolicy& policy = {});

  ~CapturedGraph();
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;

  /// Enqueues one replay on the lane's stream. Takes no pointers: new inputs
  /// are written into the buffers that the graph names, on the lane's stream.
  ///
  /// Capture: refused by the driver on a stream that captures.
  /// Threads: one at a time; the lane's context must be current on the caller.
  /// Errors: FailedPrecondition naming what the graph touches and is asleep, or
  ///   the external region that has been mapped anew since the audit; the
  ///   driver's. Never falls back to anything else.
  /// Cost: exactly one driver call; no heap allocation and no lock on success,
  ///   and one load for each segment and external region that it touches.
  absl::Status Replay();

  /// Takes over the epochs that the external regions are in now, after looking
  /// again: every node as it was audited, memory behind every address. What it
  /// holds is the engine's promise.
  ///
  /// Capture: not while anything captures. Threads: as the lane.
  /// Errors: FailedPrecondition after Destroy, for a node that changed, an
  ///   address without memory, or a region that is asleep, each named.
  absl::Status Revalidate();

  /// Reads every node's parameters from the driver's graph again and compares
  /// them with what was audited. See `CompareWithRecord`.
  absl::Status VerifyNodes(int64_t* compared_nodes = nullptr) const;

  /// Drains the lane, destroys the executable graph and the graph, and returns
  /// the lease. The first error is returned.
  absl::Status Destroy();

  Bucket bucket() const { return bucket_; }
  Lane& lane() { return lane_; }
  const Lane& lane() const { return lane_; }
  const AuditReport& audit() const { return audit_; }
  int64_t node_count() const { return audit_.coverage.nodes; }
  CUgraph graph() const { return graph_.get(); }
  CUgraphExec exec() const { return exec_.get(); }

  /// Replays that the driver accepted.
  int64_t replays() const { return replays_; }

  /// "graph of 8 rows on lane 'decode'", as its lease names it.
  const std::string& label() const { return label_; }

 private:
  CapturedGraph(Lane lane, Bucket bucket, Graph graph);
  absl::Status Prepare(const FrozenArena& arena, AuditScope scope,
                       const AuditPolicy& policy);
  // Whether buffers that share bytes are safe in this graph.
  absl::Status CheckOverlay(const AuditScope& scope) const;
  void WatchExternals();

  Lane lane_;
  Bucket bucket_;
  std::string label_;
  AuditReport audit_;
  std::optional<Lease> lease_;
  // Of the arena and of `externals_`, all that the graph may touch.
  std::vector<MemoryWatch> arena_watches_;
  std::vector<MemoryWatch> external_watches_;
  // (name, state) of the external regions that have one.
  std::vector<
      std::pair<std::string, std::shared_ptr<const ExternalRegionState>>>
      externals_;
  Graph graph_;
  GraphExec exec_;
  decltype(DriverApi::GraphLaunch) launch_ = nullptr;
  CUstream stream_ = nullptr;
  int64_t replays_ = 0;
};

}  // namespace permafrost

#endif  // PERMAFROST_CAPTURE_CAPTURED_GRAPH_H_
