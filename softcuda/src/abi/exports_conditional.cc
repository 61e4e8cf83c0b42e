// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Conditional handles and nodes.
#include <memory>
#include <utility>

#include "abi/add_node.h"
#include "runtime/conditional.h"

using softcuda::runtime::Api;
using softcuda::runtime::Call;
using softcuda::runtime::Condition;
using softcuda::runtime::ConditionalOp;
using softcuda::runtime::FindCondition;
using softcuda::runtime::GraphOwner;
using softcuda::runtime::NewCondition;
using softcuda::runtime::NewGraph;
using softcuda::runtime::Node;
using softcuda::runtime::Operation;

namespace softcuda::abi {
namespace {

bool IsSizeValid(CUgraphConditionalNodeType type, unsigned int size) {
  // A switch has no limit of its own; what is larger is a wild number.
  constexpr unsigned int kMostBodies = 1u << 16;
  switch (type) {
    case CU_GRAPH_COND_TYPE_IF:
      return size == 1 || size == 2;
    case CU_GRAPH_COND_TYPE_WHILE:
      return size == 1;
    case CU_GRAPH_COND_TYPE_SWITCH:
      return size >= 1 && size <= kMostBodies;
    default:
      return false;
  }
}

}  // namespace

CUresult AddConditional(Call& call, const Place& place,
                        CUDA_CONDITIONAL_NODE_PARAMS* params) {
  std::shared_ptr<Condition> condition;
  std::shared_ptr<Node> node;
  const CUresult result = Add(
      call, place, CU_GRAPH_NODE_TYPE_CONDITIONAL,
      [&](Operation* operation) {
        condition = FindCondition(call.runtime(), params->handle);
        if (condition == nullptr || condition->has_node ||
            !IsSizeValid(params->type, params->size)) {
          return CUDA_ERROR_INVALID_VALUE;
        }
        const auto* const device = call.FindDevice(params->ctx);
        if (device == nullptr) return call.result();
        if (device->ordinal != condition->device) {
          return CUDA_ERROR_INVALID_VALUE;
        }
        *operation = ConditionalOp{condition, params->type, {}};
        return CUDA_SUCCESS;
      },
      &node);
  if (result != CUDA_SUCCESS) return result;
  condition->has_node = true;
  for (unsigned int i = 0; i < params->size; ++i) {
    node->bodies.push_back(NewGraph(call.runtime(), GraphOwner::kNode));
    node->body_handles.push_back(node->bodies.back()->handle);
  }
  params->phGraph_out = node->body_handles.data();
  return CUDA_SUCCESS;
}

}  // namespace softcuda::abi

extern "C" {

CUresult CUDAAPI cuGraphConditionalHandleCreate(
    CUgraphConditionalHandle* handle, CUgraph graph_handle, CUcontext context,
    unsigned int default_value, unsigned int flags) {
  Call call(Api::kGraphConditionalHandleCreate);
  if (!call.ok()) return call.result();
  const auto graph = call.Find(graph_handle);
  if (graph == nullptr) return call.Fail();
  if (handle == nullptr ||
      (flags != 0 && flags != CU_GRAPH_COND_ASSIGN_DEFAULT)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto* const device = call.FindDevice(context);
  if (device == nullptr) return call.result();
  const auto condition =
      NewCondition(call.runtime(), *graph, device->ordinal, default_value,
                   flags == CU_GRAPH_COND_ASSIGN_DEFAULT);
  if (condition == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *handle = condition->handle;
  return CUDA_SUCCESS;
}

}  // extern "C"
