// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/step_dag.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace permafrost {
namespace {

absl::Status CheckOp(const StepDag& dag, const StepOp& op, size_t index) {
  if (op.name.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("step '", dag.name, "': operation ", index,
                     " has an empty name; name it, so that messages can"));
  }
  for (const BufferAccess& access : op.accesses) {
    if (access.buffer.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("step '", dag.name, "': operation '", op.name,
                       "' accesses a buffer without a name"));
    }
    if (access.access == Access::kNone) {
      return absl::InvalidArgumentError(absl::StrCat(
          "step '", dag.name, "': operation '", op.name, "' lists buffer '",
          access.buffer, "' with no access; leave it out"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::string_view DagOriginName(DagOrigin origin) {
  switch (origin) {
    case DagOrigin::kDeclared:
      return "declared";
    case DagOrigin::kObserved:
      return "observed";
  }
  return "?";
}

absl::string_view EdgeKindName(EdgeKind kind) {
  switch (kind) {
    case EdgeKind::kFull:
      return "full";
    case EdgeKind::kProgrammatic:
      return "programmatic";
    case EdgeKind::kLaunchOrder:
      return "launch order";
  }
  return "?";
}

absl::Status ValidateStepDag(const StepDag& dag) {
  for (size_t i = 0; i < dag.ops.size(); ++i) {
    const absl::Status status = CheckOp(dag, dag.ops[i], i);
    if (!status.ok()) return status;
  }
  const int count = static_cast<int>(dag.ops.size());
  std::vector<std::vector<int>> next(dag.ops.size());
  std::vector<int> waiting_for(dag.ops.size(), 0);
  for (const StepEdge& edge : dag.edges) {
    if (edge.from < 0 || edge.from >= count || edge.to < 0 ||
        edge.to >= count || edge.from == edge.to) {
      return absl::InvalidArgumentError(absl::StrCat(
          "step '", dag.name, "': edge from ", edge.from, " to ", edge.to,
          ", limit two different operations of 0 to ", count - 1));
    }
    next[static_cast<size_t>(edge.from)].push_back(edge.to);
    ++waiting_for[static_cast<size_t>(edge.to)];
  }
  std::vector<int> ready;
  for (int i = 0; i < count; ++i) {
    if (waiting_for[static_cast<size_t>(i)] == 0) ready.push_back(i);
  }
  for (size_t done = 0; done < ready.size(); ++done) {
    for (const int to : next[static_cast<size_t>(ready[done])]) {
      if (--waiting_for[static_cast<size_t>(to)] == 0) ready.push_back(to);
    }
  }
  if (ready.size() == dag.ops.size()) return absl::OkStatus();
  size_t stuck = 0;
  while (waiting_for[stuck] == 0) ++stuck;
  return absl::InvalidArgumentError(
      absl::StrCat("step '", dag.name, "': operation '", dag.ops[stuck].name,
                   "' is in or behind a cycle of edges; a step is acyclic"));
}

}  // namespace permafrost
