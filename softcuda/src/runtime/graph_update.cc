// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

// Updates of whole executable graphs: pairing nodes, and what may change.

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/answers.h"
#include "runtime/copy.h"
#include "runtime/graph_exec.h"
#include "runtime/graph_flatten.h"
#include "runtime/graph_memory.h"
#include "runtime/state.h"

namespace softcuda::runtime {
namespace {

using Info = CUgraphExecUpdateResultInfo;

Info Reason(CUgraphExecUpdateResult result, CUgraphNode node = nullptr,
            CUgraphNode from = nullptr) {
  return {result, node, from};
}

bool IsSameEdge(const CUgraphEdgeData& a, const CUgraphEdgeData& b) {
  return a.from_port == b.from_port && a.to_port == b.to_port &&
         a.type == b.type;
}

CUgraphExecUpdateResult CompareKernels(const KernelOp& old_kernel,
                                       const KernelOp& kernel,
                                       cuuint64_t flags) {
  if (old_kernel.device != kernel.device) {
    return CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
  }
  const bool fixed_priority =
      (flags & CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY) != 0;
  if (old_kernel.cooperative != kernel.cooperative ||
      (fixed_priority && old_kernel.priority != kernel.priority)) {
    return CU_GRAPH_EXEC_UPDATE_ERROR_ATTRIBUTES_CHANGED;
  }
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

bool IsSameKindOfCopy(const CopyOp& a, const CopyOp& b) {
  return IsLinear(a) && IsLinear(b) && SourceIsHost(a) == SourceIsHost(b) &&
         TargetIsHost(a) == TargetIsHost(b);
}

bool IsSameCopy(const CopyOp& a, const CopyOp& b) {
  const auto same_side = [](const CopySide& x, const CopySide& y) {
    return x.address == y.address && x.row_pitch == y.row_pitch &&
           x.slice_pitch == y.slice_pitch;
  };
  return same_side(a.source, b.source) && same_side(a.target, b.target) &&
         a.width_bytes == b.width_bytes && a.rows == b.rows &&
         a.slices == b.slices;
}

bool MayReplace(const MemsetOp& a, const MemsetOp& b) {
  if (a.rows == 1 && b.rows == 1) return true;
  // A memset of several rows keeps its shape.
  return a.rows == b.rows && a.width_elements == b.width_elements &&
         a.element_bytes == b.element_bytes && a.row_pitch == b.row_pitch;
}

// Compares two graphs element by element; fills `replacements` with (item of
// the executable graph, item of the new one).
Info Compare(const Exec& exec, const Shape& old_shape, const Shape& shape,
             const std::vector<std::shared_ptr<const Operation>>& operations,
             std::vector<std::pair<uint32_t, uint32_t>>* replacements) {
  if (old_shape.elements.size() != shape.elements.size()) {
    return Reason(static_cast<CUgraphExecUpdateResult>(
        AnswerTo(Answer::kCountMismatchReason)));
  }
  for (size_t i = 0; i < shape.elements.size(); ++i) {
    const Shape::Element& was = old_shape.elements[i];
    const Shape::Element& is = shape.elements[i];
    if (was.type != is.type) {
      return Reason(CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, is.node);
    }
    if (was.in.size() != is.in.size()) {
      return Reason(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, is.node);
    }
    for (size_t edge = 0; edge < is.in.size(); ++edge) {
      if (was.in[edge].from != is.in[edge].from ||
          !IsSameEdge(was.in[edge].data, is.in[edge].data)) {
        return Reason(CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, is.node,
                      shape.elements[is.in[edge].from].node);
      }
    }
    const CUgraphExecUpdateResult result = CompareOperations(
        *exec.program->operations[was.item], *operations[is.item], exec.flags);
    if (result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return Reason(result, is.node);
    replacements->emplace_back(was.item, is.item);
    if (is.child != nullptr) {
      const Info info =
          Compare(exec, *was.child, *is.child, operations, replacements);
      if (info.result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return info;
    }
  }
  return Reason(CU_GRAPH_EXEC_UPDATE_SUCCESS);
}

Info Update(Exec& exec, const Shape& old_shape, const Graph& graph) {
  if (HasMemoryNodes(graph) || HasConditionalNodes(graph)) {
    return Reason(CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED);
  }
  Flattener flattener;
  InstantiateFailure failure;
  if (!flattener.AddGraph(graph, &failure)) {
    return Reason(CU_GRAPH_EXEC_UPDATE_ERROR, failure.node);
  }
  std::vector<std::pair<uint32_t, uint32_t>> replacements;
  const Info info = Compare(exec, old_shape, *flattener.shape(),
                            flattener.operations(), &replacements);
  if (info.result != CU_GRAPH_EXEC_UPDATE_SUCCESS) return info;
  auto program = std::make_shared<Program>(*exec.program);
  for (const auto& [old_item, item] : replacements) {
    program->operations[old_item] = flattener.operations()[item];
  }
  exec.program = std::move(program);
  RefreshModules(exec);
  return info;
}

// The element of a node, wherever in the shape it is.
const Shape::Element* FindElement(const Shape& shape, CUgraphNode node) {
  for (const Shape::Element& element : shape.elements) {
    if (element.node == node) return &element;
    if (element.child == nullptr) continue;
    const Shape::Element* const found = FindElement(*element.child, node);
    if (found != nullptr) return found;
  }
  return nullptr;
}

}  // namespace

CUgraphExecUpdateResult CompareOperations(const Operation& old_operation,
                                          const Operation& operation,
                                          cuuint64_t exec_flags) {
  if (const auto* kernel = std::get_if<KernelOp>(&operation)) {
    return CompareKernels(std::get<KernelOp>(old_operation), *kernel,
                          exec_flags);
  }
  if (const auto* copy = std::get_if<CopyOp>(&operation)) {
    const auto& old_copy = std::get<CopyOp>(old_operation);
    return IsSameKindOfCopy(old_copy, *copy) || IsSameCopy(old_copy, *copy)
               ? CU_GRAPH_EXEC_UPDATE_SUCCESS
               : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
  }
  if (const auto* memset = std::get_if<MemsetOp>(&operation)) {
    return MayReplace(std::get<MemsetOp>(old_operation), *memset)
               ? CU_GRAPH_EXEC_UPDATE_SUCCESS
               : CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
  }
  return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

Info UpdateExec(Exec& exec, const Graph& graph) {
  return Update(exec, *exec.shape, graph);
}

Info UpdateChild(Exec& exec, CUgraphNode node, const Graph& child) {
  const Shape::Element* const element = FindElement(*exec.shape, node);
  if (element == nullptr || element->child == nullptr) {
    return Reason(CU_GRAPH_EXEC_UPDATE_ERROR, node);
  }
  return Update(exec, *element->child, child);
}

}  // namespace softcuda::runtime
