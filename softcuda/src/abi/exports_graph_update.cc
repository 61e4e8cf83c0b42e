// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Updates of executable graphs as a whole, and node parameters in their common
// form.
#include <memory>
#include <utility>

#include "abi/cuda_abi.h"
#include "abi/node_params.h"
#include "runtime/call.h"
#include "runtime/graph_exec.h"

using softcuda::abi::MakeAnyNode;
using softcuda::runtime::Api;
using softcuda::runtime::Call;
using softcuda::runtime::CompareOperations;
using softcuda::runtime::KernelOp;
using softcuda::runtime::Operation;
using softcuda::runtime::UpdateChild;
using softcuda::runtime::UpdateExec;

namespace {

CUresult Update(CUgraphExec exec_handle, CUgraph graph_handle,
                CUgraphExecUpdateResultInfo* info) {
  Call call(Api::kGraphExecUpdate);
  if (!call.ok()) return call.result();
  const auto exec = call.Find(exec_handle);
  if (exec == nullptr) return call.Fail();
  const auto graph = call.Find(graph_handle);
  if (graph == nullptr || graph->capturing) return CUDA_ERROR_INVALID_VALUE;
  *info = UpdateExec(*exec, *graph);
  return info->result == CU_GRAPH_EXEC_UPDATE_SUCCESS
             ? CUDA_SUCCESS
             : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
}

CUresult SetChild(Call& call, CUgraphExec exec_handle, CUgraphNode node_handle,
                  CUgraph child_handle) {
  const auto exec = call.Find(exec_handle);
  if (exec == nullptr) return call.Fail();
  const auto node = softcuda::abi::FindNodeOfType(call, node_handle,
                                                  CU_GRAPH_NODE_TYPE_GRAPH);
  if (node == nullptr) return call.Fail();
  const auto child = call.Find(child_handle);
  if (child == nullptr || child->capturing) return CUDA_ERROR_INVALID_VALUE;
  return UpdateChild(*exec, node_handle, *child).result ==
                 CU_GRAPH_EXEC_UPDATE_SUCCESS
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}

// What an operation keeps of the one it replaces.
void KeepPriority(const Operation& old_operation, Operation* operation) {
  auto* const kernel = std::get_if<KernelOp>(operation);
  if (kernel == nullptr) return;
  const auto& old_kernel = std::get<KernelOp>(old_operation);
  kernel->priority = old_kernel.priority;
  kernel->cooperative = old_kernel.cooperative;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuGraphExecUpdate(CUgraphExec exec, CUgraph graph,
                                   CUgraphNode* error_node,
                                   CUgraphExecUpdateResult* result_out) {
  CUgraphExecUpdateResultInfo info = {};
  info.result = CU_GRAPH_EXEC_UPDATE_ERROR;
  const CUresult result = Update(exec, graph, &info);
  if (error_node != nullptr) *error_node = info.errorNode;
  if (result_out != nullptr) *result_out = info.result;
  return result;
}

CUresult CUDAAPI cuGraphExecUpdate_v2(CUgraphExec exec, CUgraph graph,
                                      CUgraphExecUpdateResultInfo* info_out) {
  CUgraphExecUpdateResultInfo info = {};
  info.result = CU_GRAPH_EXEC_UPDATE_ERROR;
  const CUresult result = Update(exec, graph, &info);
  if (info_out != nullptr) *info_out = info;
  return result;
}

CUresult CUDAAPI cuGraphExecChildGraphNodeSetParams(CUgraphExec exec,
                                                    CUgraphNode node,
                                                    CUgraph child) {
  Call call(Api::kGraphExecChildGraphNodeSetParams);
  return call.ok() ? SetChild(call, exec, node, child) : call.result();
}

CUresult CUDAAPI cuGraphNodeSetParams(CUgraphNode handle,
                                      CUgraphNodeParams* params) {
  Call call(Api::kGraphNodeSetParams);
  if (!call.ok()) return call.result();
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto node = softcuda::abi::FindNodeOfType(call, handle, params->type);
  if (node == nullptr) return call.Fail();
  Operation operation;
  const CUresult result = MakeAnyNode(call, *params, &operation);
  if (result != CUDA_SUCCESS) return result;
  KeepPriority(*node->operation, &operation);
  node->operation = std::make_shared<const Operation>(std::move(operation));
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphExecNodeSetParams(CUgraphExec exec_handle,
                                          CUgraphNode handle,
                                          CUgraphNodeParams* params) {
  Call call(Api::kGraphExecNodeSetParams);
  if (!call.ok()) return call.result();
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (params->type == CU_GRAPH_NODE_TYPE_GRAPH) {
    return SetChild(call, exec_handle, handle, params->graph.graph);
  }
  const auto exec = call.Find(exec_handle);
  if (exec == nullptr) return call.Fail();
  const auto node = softcuda::abi::FindNodeOfType(call, handle, params->type);
  if (node == nullptr) return call.Fail();
  const auto& items = exec->topology->item_of_node;
  const auto item = items.find(softcuda::runtime::HandleBits(handle));
  if (item == items.end()) return CUDA_ERROR_INVALID_VALUE;
  Operation operation;
  const CUresult result = MakeAnyNode(call, *params, &operation);
  if (result != CUDA_SUCCESS) return result;
  const Operation& old_operation = *exec->program->operations[item->second];
  KeepPriority(old_operation, &operation);
  if (CompareOperations(old_operation, operation, exec->flags) !=
      CU_GRAPH_EXEC_UPDATE_SUCCESS) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  ReplaceOperation(*exec, item->second,
                   std::make_shared<const Operation>(std::move(operation)));
  return CUDA_SUCCESS;
}

}  // extern "C"
