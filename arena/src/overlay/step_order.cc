// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "overlay/step_order.h"

namespace permafrost {
namespace {

bool OrdersMemory(const StepEdge& edge, const StepDag& step) {
  switch (edge.kind) {
    case EdgeKind::kFull:
      return true;
    case EdgeKind::kProgrammatic:
      return step.ops[static_cast<size_t>(edge.to)].waits_on_grid_dependency;
    case EdgeKind::kLaunchOrder:
      return false;
  }
  return false;
}

}  // namespace

StepOrder::StepOrder(const StepDag& step)
    : before_(step.ops.size(), OpSet(step.ops.size())) {
  std::vector<std::vector<int>> next(step.ops.size());
  std::vector<int> waiting_for(step.ops.size(), 0);
  for (const StepEdge& edge : step.edges) {
    if (!OrdersMemory(edge, step)) continue;
    next[static_cast<size_t>(edge.from)].push_back(edge.to);
    ++waiting_for[static_cast<size_t>(edge.to)];
  }
  topological_.reserve(step.ops.size());
  for (size_t op = 0; op < step.ops.size(); ++op) {
    if (waiting_for[op] == 0) topological_.push_back(static_cast<int>(op));
  }
  for (size_t done = 0; done < topological_.size(); ++done) {
    const int op = topological_[done];
    for (const int to : next[static_cast<size_t>(op)]) {
      OpSet& before_to = before_[static_cast<size_t>(to)];
      before_to.AddAll(before_[static_cast<size_t>(op)]);
      before_to.Add(op);
      if (--waiting_for[static_cast<size_t>(to)] == 0) {
        topological_.push_back(to);
      }
    }
  }
}

}  // namespace permafrost
