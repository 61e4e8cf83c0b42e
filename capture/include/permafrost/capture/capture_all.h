// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_CAPTURE_CAPTURE_ALL_H_
#define PERMAFROST_CAPTURE_CAPTURE_ALL_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "permafrost/arena/arena.h"
#include "permafrost/arena/external_region.h"
#include "permafrost/arena/kernel_signature.h"
#include "permafrost/arena/step_dag.h"
#include "permafrost/capture/address_audit.h"
#include "permafrost/capture/capture_session.h"
#include "permafrost/capture/captured_graph.h"
#include "permafrost/capture/lane.h"
#include "permafrost/capture/step.h"
#include "permafrost/capture/warm_up.h"

namespace permafrost {

struct CaptureOptions {
  CaptureMode mode = CaptureMode::kThreadLocal;
  /// Memory outside the arena that the graphs may name.
  std::vector<ExternalRegion> externals;
  /// Must live as long as the call only.
  const SignatureSet* signatures = nullptr;
  AuditPolicy policy;
  /// By rows of the bucket: what its step does, from `ObserveStep` on an arena
  /// without overlay. Needed where buffers of this arena share bytes.
  std::map<int64_t, StepDag> observed;
  /// Which buckets to capture; empty means all that were warmed.
  std::vector<Bucket> buckets;
  /// Hashes the arena before and after the captures and fails when they differ:
  /// then something ran during capture instead of being recorded, for example a
  /// launch on another stream, and its result would stay frozen for ever. Work
  /// of another stream that is still in flight by then may be missed.
  bool verify_capture_ran_nothing = false;
};

/// What happened since capture, for every report.
struct CaptureCounters {
  int64_t captures = 0;
  int64_t replays = 0;
  int64_t fallbacks = 0;   ///< Steps run eagerly instead of replayed.
  int64_t recaptures = 0;  ///< Buckets captured again.
};

/// One graph a bucket, in ascending order of rows, on one lane.
///
/// Threads: as the lane.
class GraphSet {
 public:
  GraphSet(GraphSet&&) noexcept = default;
  GraphSet& operator=(GraphSet&&) noexcept = default;

  /// The graph of the smallest bucket that holds `rows` rows.
  ///
  /// Errors: InvalidArgument below 0 rows; OutOfRange above the last rung,
  ///   naming both.
  absl::StatusOr<CapturedGraph*> Find(int64_t rows) const;

  size_t size() const { return graphs_.size(); }
  CapturedGraph& operator[](size_t index) const { return *graphs_[index]; }

  /// All graphs, for the replay verifier.
  std::vector<CapturedGraph*> graphs() const;

  const BucketLadder& ladder() const { return ladder_; }
  CaptureCounters counters() const;

  /// Destroys every graph and returns their leases. The first error is
  /// returned; a second call finishes.
  absl::Status Destroy();

 private:
  friend absl::StatusOr<GraphSet> CaptureAll(const FrozenArena& arena,
                                             const WarmSet& warm_set,
                                             const Lane& lane,
                                             const CaptureOptions& options);
  explicit GraphSet(BucketLadder ladder) : ladder_(std::move(ladder)) {}

  BucketLadder ladder_;
  std::vector<std::unique_ptr<CapturedGraph>> graphs_;
  int64_t captures_ = 0;
};

/// Captures, audits, instantiates and uploads the warmed step once a bucket.
///
/// All or nothing: when one bucket fails the graphs made before it are
/// destroyed.
///
/// Errors: FailedPrecondition for a bucket that was not warmed (named), a warm
///   set of another arena, findings of the audit (listed), an overlay that is
///   not safe in the graph (both buffers named) or has no observed step, or
///   work that ran during capture (the changed buffer named); else what
///   `CaptureStep` and `CapturedGraph::Adopt` return, with the bucket named.
absl::StatusOr<GraphSet> CaptureAll(const FrozenArena& arena,
                                    const WarmSet& warm_set, const Lane& lane,
                                    const CaptureOptions& options = {});

}  // namespace permafrost

#endif  // PERMAFROST_CAPTURE_CAPTURE_ALL_H_
