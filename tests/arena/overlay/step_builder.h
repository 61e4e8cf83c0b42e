// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_TESTS_ARENA_OVERLAY_STEP_BUILDER_H_
#define PERMAFROST_TESTS_ARENA_OVERLAY_STEP_BUILDER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "permafrost/arena/buffer_table.h"
#include "permafrost/arena/step_dag.h"

namespace permafrost::testing {

inline StepOp Op(std::string name, const std::vector<std::string>& reads,
                 const std::vector<std::string>& writes) {
  StepOp op = {.name = std::move(name)};
  for (const std::string& buffer : reads) {
    op.accesses.push_back({.buffer = buffer, .access = Access::kRead});
  }
  for (const std::string& buffer : writes) {
    op.accesses.push_back({.buffer = buffer, .access = Access::kWrite});
  }
  return op;
}

inline StepDag Step(std::vector<StepOp> ops, std::vector<StepEdge> edges) {
  return {.name = "step", .ops = std::move(ops), .edges = std::move(edges)};
}

/// The operations one after the other: what issue order looks like when it is
/// taken for an order of memory.
inline StepDag AsLine(StepDag step) {
  step.edges.clear();
  for (int i = 1; i < static_cast<int>(step.ops.size()); ++i) {
    step.edges.push_back({.from = i - 1, .to = i});
  }
  return step;
}

inline StepDag Line(std::vector<StepOp> ops) {
  return AsLine(Step(std::move(ops), {}));
}

inline BufferSize Size(std::string name, int64_t bytes,
                       std::string tag = "step") {
  return {.name = std::move(name), .bytes = bytes, .tag = std::move(tag)};
}

}  // namespace permafrost::testing

#endif  // PERMAFROST_TESTS_ARENA_OVERLAY_STEP_BUILDER_H_
