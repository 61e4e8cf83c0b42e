// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_ARENA_STEP_DAG_H_
#define PERMAFROST_ARENA_STEP_DAG_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "permafrost/arena/kernel_signature.h"

namespace permafrost {

/// Where a DAG came from, which says how far it can be trusted.
enum class DagOrigin {
  kDeclared,  ///< written down beside the buffer table
  kObserved,  ///< read from a captured graph
};

/// What an edge promises about the memory of the two operations.
enum class EdgeKind {
  kFull,  ///< all of the first one's accesses come before the second one's
  /// The second may start while the first runs: orders memory only where the
  /// second waits on its grid dependency.
  kProgrammatic,
  kLaunchOrder,  ///< orders the starts and no memory
};

/// One operation's use of one buffer.
struct BufferAccess {
  std::string buffer = {};
  Access access = Access::kReadWrite;
  /// The write covers all that a later operation reads, so that nothing of the
  /// old content lives on. Meaningful for kWrite alone.
  bool overwrites = true;
};

/// One node of a step: a kernel, a copy, a fill.
struct StepOp {
  std::string name = {};
  std::vector<BufferAccess> accesses = {};
  /// It waits (`griddepcontrol.wait`) before it touches memory, so that a
  /// programmatic edge into it orders memory.
  bool waits_on_grid_dependency = false;
  /// Buffers of one operation that may lie over each other, because it reads
  /// each element before it writes the same place. Pairs of buffer names.
  std::vector<std::pair<std::string, std::string>> in_place = {};
};

/// `from` and `to` index `StepDag::ops`.
struct StepEdge {
  int from = 0;
  int to = 0;
  EdgeKind kind = EdgeKind::kFull;
};

/// What a step does to which buffer, and in what order as far as it is fixed.
///
/// Plain data: capture makes one of a graph, the buffer table's neighbour
/// declares one for each family, engines write their own. The order in which
/// operations are listed promises nothing; only edges do.
struct StepDag {
  std::string name = {};
  DagOrigin origin = DagOrigin::kDeclared;
  std::vector<StepOp> ops = {};
  std::vector<StepEdge> edges = {};
};

absl::string_view DagOriginName(DagOrigin origin);
absl::string_view EdgeKindName(EdgeKind kind);

/// Errors: kInvalidArgument naming the operation for an empty name, an edge to
///   nowhere or onto itself, a cycle, an empty buffer name, an access of kNone.
/// Threads: any. Cost: linear in operations, accesses and edges.
absl::Status ValidateStepDag(const StepDag& dag);

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_STEP_DAG_H_
