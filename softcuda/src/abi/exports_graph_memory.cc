// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Allocation and free nodes, and the memory that graphs keep.
#include <cstring>
#include <memory>
#include <utility>

#include "abi/add_node.h"
#include "abi/node_params.h"
#include "memory/address_space.h"
#include "runtime/graph_memory.h"

using softcuda::abi::AddMemAlloc;
using softcuda::abi::AddMemFree;
using softcuda::abi::FindNodeOfType;
using softcuda::memory::AddressSpace;
using softcuda::runtime::Api;
using softcuda::runtime::Call;
using softcuda::runtime::FindDevice;
using softcuda::runtime::Graph;
using softcuda::runtime::MakeGraphAllocation;
using softcuda::runtime::MakeGraphFree;
using softcuda::runtime::MemAllocOp;
using softcuda::runtime::MemFreeOp;
using softcuda::runtime::Operation;

namespace softcuda::abi {

CUresult AddMemAlloc(Call& call, const Place& place,
                     CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  return AddInto(call, place, CU_GRAPH_NODE_TYPE_MEM_ALLOC,
                 [&](const Graph& graph, Operation* operation) {
                   MemAllocOp alloc;
                   const CUresult result = MakeGraphAllocation(
                       call.runtime(), graph, params, &alloc);
                   if (result == CUDA_SUCCESS) *operation = std::move(alloc);
                   return result;
                 });
}

CUresult AddMemFree(Call& call, const Place& place, CUdeviceptr address) {
  return AddInto(call, place, CU_GRAPH_NODE_TYPE_MEM_FREE,
                 [&](const Graph& graph, Operation* operation) {
                   MemFreeOp free;
                   const CUresult result =
                       MakeGraphFree(call.runtime(), graph, address, &free);
                   if (result == CUDA_SUCCESS) *operation = std::move(free);
                   return result;
                 });
}

}  // namespace softcuda::abi

extern "C" {

CUresult CUDAAPI cuGraphAddMemAllocNode(CUgraphNode* node, CUgraph graph,
                                        const CUgraphNode* dependencies,
                                        size_t count,
                                        CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  Call call(Api::kGraphAddMemAllocNode);
  if (!call.ok()) return call.result();
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return AddMemAlloc(call, {node, graph, dependencies, nullptr, count}, params);
}

CUresult CUDAAPI cuGraphMemAllocNodeGetParams(
    CUgraphNode handle, CUDA_MEM_ALLOC_NODE_PARAMS* params) {
  Call call(Api::kGraphMemAllocNodeGetParams);
  if (!call.ok()) return call.result();
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto node = FindNodeOfType(call, handle, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
  if (node == nullptr) return call.Fail();
  *params = std::get<MemAllocOp>(*node->operation).graph->params;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphAddMemFreeNode(CUgraphNode* node, CUgraph graph,
                                       const CUgraphNode* dependencies,
                                       size_t count, CUdeviceptr address) {
  Call call(Api::kGraphAddMemFreeNode);
  return AddMemFree(call, {node, graph, dependencies, nullptr, count}, address);
}

CUresult CUDAAPI cuGraphMemFreeNodeGetParams(CUgraphNode handle,
                                             CUdeviceptr* address) {
  Call call(Api::kGraphMemFreeNodeGetParams);
  if (!call.ok()) return call.result();
  if (address == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto node = FindNodeOfType(call, handle, CU_GRAPH_NODE_TYPE_MEM_FREE);
  if (node == nullptr) return call.Fail();
  *address = std::get<MemFreeOp>(*node->operation).address;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGraphMemTrim(CUdevice device) {
  Call call(Api::kDeviceGraphMemTrim);
  if (!call.ok()) return call.result();
  if (FindDevice(call.runtime(), device) == nullptr) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  AddressSpace::Get().TrimGraphMemory(device);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetGraphMemAttribute(CUdevice device,
                                              CUgraphMem_attribute attribute,
                                              void* value) {
  Call call(Api::kDeviceGetGraphMemAttribute);
  if (!call.ok()) return call.result();
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (FindDevice(call.runtime(), device) == nullptr) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  uint64_t bytes = 0;
  const CUresult result =
      AddressSpace::Get().GetGraphMemAttribute(device, attribute, &bytes);
  if (result == CUDA_SUCCESS) std::memcpy(value, &bytes, sizeof bytes);
  return result;
}

CUresult CUDAAPI cuDeviceSetGraphMemAttribute(CUdevice device,
                                              CUgraphMem_attribute attribute,
                                              void* value) {
  Call call(Api::kDeviceSetGraphMemAttribute);
  if (!call.ok()) return call.result();
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (FindDevice(call.runtime(), device) == nullptr) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  uint64_t bytes = 0;
  std::memcpy(&bytes, value, sizeof bytes);
  if (bytes != 0) return CUDA_ERROR_INVALID_VALUE;
  return AddressSpace::Get().ResetGraphMemAttribute(device, attribute);
}

}  // extern "C"
