// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// The kinds of graph nodes.
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "abi/add_node.h"
#include "abi/node_params.h"
#include "runtime/call.h"
#include "runtime/graph.h"
#include "runtime/graph_memory.h"
#include "runtime/launch.h"

using softcuda::abi::Add;
using softcuda::abi::AddConditional;
using softcuda::abi::AddMemAlloc;
using softcuda::abi::AddMemFree;
using softcuda::abi::DescribeKernelNode;
using softcuda::abi::DescribeMemsetNode;
using softcuda::abi::FindNodeOfType;
using softcuda::abi::FromV1;
using softcuda::abi::FromV2;
using softcuda::abi::FromV3;
using softcuda::abi::KernelNodeParams;
using softcuda::abi::MakeHostNode;
using softcuda::abi::MakeKernelNode;
using softcuda::abi::MakeMemcpyNode;
using softcuda::abi::MakeMemsetNode;
using softcuda::abi::Place;
using softcuda::runtime::Api;
using softcuda::runtime::Call;
using softcuda::runtime::CopyOp;
using softcuda::runtime::EmptyOp;
using softcuda::runtime::EventRecordOp;
using softcuda::runtime::EventWaitOp;
using softcuda::runtime::Graph;
using softcuda::runtime::GraphOwner;
using softcuda::runtime::HostOp;
using softcuda::runtime::KernelOp;
using softcuda::runtime::Node;
using softcuda::runtime::Operation;

namespace {

CUresult AddKernel(Call& call, const Place& place,
                   const KernelNodeParams& params) {
  return Add(call, place, CU_GRAPH_NODE_TYPE_KERNEL, [&](Operation* operation) {
    return MakeKernelNode(call, params, operation);
  });
}

CUresult AddMemcpy(Call& call, const Place& place, const CUDA_MEMCPY3D& params,
                   CUcontext context) {
  return Add(call, place, CU_GRAPH_NODE_TYPE_MEMCPY, [&](Operation* operation) {
    return MakeMemcpyNode(call, params, context, operation);
  });
}

CUresult AddMemset(Call& call, const Place& place,
                   const CUDA_MEMSET_NODE_PARAMS_v1& params,
                   CUcontext context) {
  return Add(call, place, CU_GRAPH_NODE_TYPE_MEMSET, [&](Operation* operation) {
    return MakeMemsetNode(call, params, context, operation);
  });
}

CUresult AddHost(Call& call, const Place& place, CUhostFn function,
                 void* user_data) {
  return Add(call, place, CU_GRAPH_NODE_TYPE_HOST, [&](Operation* operation) {
    return MakeHostNode(function, user_data, operation);
  });
}

CUresult AddEmpty(Call& call, const Place& place) {
  return Add(call, place, CU_GRAPH_NODE_TYPE_EMPTY, [](Operation* operation) {
    *operation = EmptyOp{};
    return CUDA_SUCCESS;
  });
}

CUresult AddEventRecord(Call& call, const Place& place, CUevent handle) {
  return Add(call, place, CU_GRAPH_NODE_TYPE_EVENT_RECORD,
             [&](Operation* operation) {
               auto event = call.Find(handle);
               if (event == nullptr) return CUDA_ERROR_INVALID_VALUE;
               *operation = EventRecordOp{std::move(event)};
               return CUDA_SUCCESS;
             });
}

CUresult AddEventWait(Call& call, const Place& place, CUevent handle) {
  return Add(call, place, CU_GRAPH_NODE_TYPE_WAIT_EVENT,
             [&](Operation* operation) {
               auto event = call.Find(handle);
               if (event == nullptr) return CUDA_ERROR_INVALID_VALUE;
               *operation = EventWaitOp{std::move(event)};
               return CUDA_SUCCESS;
             });
}

CUresult AddChild(Call& call, const Place& place, CUgraph child_handle,
                  CUgraphChildGraphNodeOwnership ownership) {
  std::shared_ptr<Graph> child;
  std::shared_ptr<Node> node;
  const CUresult result = Add(
      call, place, CU_GRAPH_NODE_TYPE_GRAPH,
      [&](Operation* operation) {
        child = call.Find(child_handle);
        if (child == nullptr || child->capturing ||
            child->handle == place.graph) {
          return CUDA_ERROR_INVALID_VALUE;
        }
        if (HasConditionalNodes(*child)) return CUDA_ERROR_NOT_SUPPORTED;
        switch (ownership) {
          case CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE:
            if (HasMemoryNodes(*child)) return CUDA_ERROR_NOT_SUPPORTED;
            child = CloneGraph(call.runtime(), *child, GraphOwner::kNode);
            break;
          case CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE:
            if (child->owner != GraphOwner::kUser) {
              return CUDA_ERROR_INVALID_VALUE;
            }
            child->owner = GraphOwner::kNode;
            break;
          default:
            return CUDA_ERROR_INVALID_VALUE;
        }
        *operation = EmptyOp{};
        return CUDA_SUCCESS;
      },
      &node);
  if (result == CUDA_SUCCESS) node->child = std::move(child);
  return result;
}

CUresult AddAny(const Place& place, CUgraphNodeParams* params) {
  Call call(Api::kGraphAddNode);
  if (!call.ok()) return call.result();
  if (params == nullptr || params->reserved0[0] != 0 ||
      params->reserved0[1] != 0 || params->reserved0[2] != 0 ||
      params->reserved2 != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  switch (params->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return AddKernel(call, place, FromV3(params->kernel));
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      if (params->memcpy.flags != 0 || params->memcpy.reserved != 0) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      return AddMemcpy(call, place, params->memcpy.copyParams,
                       params->memcpy.copyCtx);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      const CUDA_MEMSET_NODE_PARAMS_v2& v2 = params->memset;
      return AddMemset(
          call, place,
          {v2.dst, v2.pitch, v2.value, v2.elementSize, v2.width, v2.height},
          v2.ctx);
    }
    case CU_GRAPH_NODE_TYPE_HOST:
      return AddHost(call, place, params->host.fn, params->host.userData);
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return AddChild(call, place, params->graph.graph,
                      params->graph.ownership);
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return AddEmpty(call, place);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return AddEventWait(call, place, params->eventWait.event);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return AddEventRecord(call, place, params->eventRecord.event);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
      CUDA_MEM_ALLOC_NODE_PARAMS alloc;
      static_assert(sizeof alloc == sizeof params->alloc);
      std::memcpy(&alloc, &params->alloc, sizeof alloc);
      const CUresult result = AddMemAlloc(call, place, &alloc);
      if (result == CUDA_SUCCESS) params->alloc.dptr = alloc.dptr;
      return result;
    }
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return AddMemFree(call, place, params->free.dptr);
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return AddConditional(call, place, &params->conditional);
    default:
      softcuda::runtime::ReportUnsupported(
          call.name(),
          "nodes of type " + std::to_string(static_cast<int>(params->type)));
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

CUresult GetKernelParams(CUgraphNode handle, KernelNodeParams* params) {
  Call call(Api::kGraphKernelNodeGetParams);
  if (!call.ok()) return call.result();
  const auto node = FindNodeOfType(call, handle, CU_GRAPH_NODE_TYPE_KERNEL);
  if (node == nullptr) return call.Fail();
  *params = DescribeKernelNode(*node);
  return CUDA_SUCCESS;
}

template <typename Params>
void FillShape(const KernelNodeParams& from, Params* to) {
  *to = {};
  to->func = from.function;
  to->gridDimX = from.grid[0];
  to->gridDimY = from.grid[1];
  to->gridDimZ = from.grid[2];
  to->blockDimX = from.block[0];
  to->blockDimY = from.block[1];
  to->blockDimZ = from.block[2];
  to->sharedMemBytes = from.shared_bytes;
  to->kernelParams = from.params;
  to->extra = from.extra;
}

// Replaces a node's operation by what `make` fills in.
template <typename Make>
CUresult SetParams(Call& call, CUgraphNode handle, CUgraphNodeType type,
                   const Make& make) {
  const auto node = FindNodeOfType(call, handle, type);
  if (node == nullptr) return call.Fail();
  Operation operation;
  const CUresult result = make(&operation);
  if (result != CUDA_SUCCESS) return result;
  if (auto* kernel = std::get_if<KernelOp>(&operation)) {
    kernel->priority = std::get<KernelOp>(*node->operation).priority;
  }
  node->operation = std::make_shared<const Operation>(std::move(operation));
  return CUDA_SUCCESS;
}

CUresult SetKernelParams(CUgraphNode handle, const KernelNodeParams& params) {
  Call call(Api::kGraphKernelNodeSetParams);
  if (!call.ok()) return call.result();
  return SetParams(call, handle, CU_GRAPH_NODE_TYPE_KERNEL,
                   [&](Operation* operation) {
                     return MakeKernelNode(call, params, operation);
                   });
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuGraphAddKernelNode(
    CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
    size_t count, const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  Call call(Api::kGraphAddKernelNode);
  if (call.ok() && params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return call.ok()
             ? AddKernel(call, {node, graph, dependencies, nullptr, count},
                         FromV1(*params))
             : call.result();
}
CUresult CUDAAPI cuGraphAddKernelNode_v2(
    CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
    size_t count, const CUDA_KERNEL_NODE_PARAMS_v2* params) {
  Call call(Api::kGraphAddKernelNode);
  if (call.ok() && params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return call.ok()
             ? AddKernel(call, {node, graph, dependencies, nullptr, count},
                         FromV2(*params))
             : call.result();
}

CUresult CUDAAPI cuGraphKernelNodeGetParams(
    CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v1* params) {
  KernelNodeParams found;
  const CUresult result = GetKernelParams(node, &found);
  if (result != CUDA_SUCCESS) return result;
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  FillShape(found, params);
  // This form has no member for a kernel: it is cast to a function.
  if (params->func == nullptr) {
    params->func = std::bit_cast<CUfunction>(found.kernel);
  }
  return CUDA_SUCCESS;
}
CUresult CUDAAPI cuGraphKernelNodeGetParams_v2(
    CUgraphNode node, CUDA_KERNEL_NODE_PARAMS_v2* params) {
  KernelNodeParams found;
  const CUresult result = GetKernelParams(node, &found);
  if (result != CUDA_SUCCESS) return result;
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  FillShape(found, params);
  params->kern = found.kernel;
  params->ctx = found.context;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphKernelNodeSetParams(
    CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return SetKernelParams(node, FromV1(*params));
}
CUresult CUDAAPI cuGraphKernelNodeSetParams_v2(
    CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS_v2* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return SetKernelParams(node, FromV2(*params));
}

CUresult CUDAAPI cuGraphKernelNodeGetAttribute(CUgraphNode handle,
                                               CUkernelNodeAttrID id,
                                               CUkernelNodeAttrValue* value) {
  Call call(Api::kGraphKernelNodeGetAttribute);
  if (!call.ok()) return call.result();
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto node = FindNodeOfType(call, handle, CU_GRAPH_NODE_TYPE_KERNEL);
  if (node == nullptr) return call.Fail();
  const auto& kernel = std::get<KernelOp>(*node->operation);
  *value = {};
  switch (id) {
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
      value->priority = kernel.priority;
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
      value->clusterDim.x = 1;
      value->clusterDim.y = 1;
      value->clusterDim.z = 1;
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
      value->cooperative = kernel.cooperative ? 1 : 0;
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult CUDAAPI
cuGraphKernelNodeSetAttribute(CUgraphNode handle, CUkernelNodeAttrID id,
                              const CUkernelNodeAttrValue* value) {
  Call call(Api::kGraphKernelNodeSetAttribute);
  if (!call.ok()) return call.result();
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto node = FindNodeOfType(call, handle, CU_GRAPH_NODE_TYPE_KERNEL);
  if (node == nullptr) return call.Fail();
  auto kernel = std::get<KernelOp>(*node->operation);
  CUlaunchAttribute attribute = {};
  attribute.id = id;
  attribute.value = *value;
  const CUresult result = softcuda::runtime::ApplyLaunchAttributes(
      &attribute, 1, /*capturing=*/true, &kernel);
  if (result == CUDA_SUCCESS) {
    node->operation = std::make_shared<const Operation>(std::move(kernel));
  }
  return result;
}

CUresult CUDAAPI cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph,
                                      const CUgraphNode* dependencies,
                                      size_t count, const CUDA_MEMCPY3D* params,
                                      CUcontext context) {
  Call call(Api::kGraphAddMemcpyNode);
  if (!call.ok()) return call.result();
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return AddMemcpy(call, {node, graph, dependencies, nullptr, count}, *params,
                   context);
}

CUresult CUDAAPI cuGraphMemcpyNodeGetParams(CUgraphNode handle,
                                            CUDA_MEMCPY3D* params) {
  Call call(Api::kGraphMemcpyNodeGetParams);
  if (!call.ok()) return call.result();
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto node = FindNodeOfType(call, handle, CU_GRAPH_NODE_TYPE_MEMCPY);
  if (node == nullptr) return call.Fail();
  *params = std::get<CopyOp>(*node->operation).params;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphMemcpyNodeSetParams(CUgraphNode handle,
                                            const CUDA_MEMCPY3D* params) {
  Call call(Api::kGraphMemcpyNodeSetParams);
  if (!call.ok()) return call.result();
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return SetParams(
      call, handle, CU_GRAPH_NODE_TYPE_MEMCPY, [&](Operation* operation) {
        return MakeMemcpyNode(call, *params, call.device().context, operation);
      });
}

CUresult CUDAAPI cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph,
                                      const CUgraphNode* dependencies,
                                      size_t count,
                                      const CUDA_MEMSET_NODE_PARAMS* params,
                                      CUcontext context) {
  Call call(Api::kGraphAddMemsetNode);
  if (!call.ok()) return call.result();
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return AddMemset(call, {node, graph, dependencies, nullptr, count}, *params,
                   context);
}

CUresult CUDAAPI cuGraphMemsetNodeGetParams(CUgraphNode handle,
                                            CUDA_MEMSET_NODE_PARAMS* params) {
  Call call(Api::kGraphMemsetNodeGetParams);
  if (!call.ok()) return call.result();
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto node = FindNodeOfType(call, handle, CU_GRAPH_NODE_TYPE_MEMSET);
  if (node == nullptr) return call.Fail();
  *params = DescribeMemsetNode(*node);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphMemsetNodeSetParams(
    CUgraphNode handle, const CUDA_MEMSET_NODE_PARAMS* params) {
  Call call(Api::kGraphMemsetNodeSetParams);
  if (!call.ok()) return call.result();
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return SetParams(
      call, handle, CU_GRAPH_NODE_TYPE_MEMSET, [&](Operation* operation) {
        return MakeMemsetNode(call, *params, call.device().context, operation);
      });
}

CUresult CUDAAPI cuGraphAddHostNode(CUgraphNode* node, CUgraph graph,
                                    const CUgraphNode* dependencies,
                                    size_t count,
                                    const CUDA_HOST_NODE_PARAMS* params) {
  Call call(Api::kGraphAddHostNode);
  if (!call.ok()) return call.result();
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return AddHost(call, {node, graph, dependencies, nullptr, count}, params->fn,
                 params->userData);
}

CUresult CUDAAPI cuGraphHostNodeGetParams(CUgraphNode handle,
                                          CUDA_HOST_NODE_PARAMS* params) {
  Call call(Api::kGraphHostNodeGetParams);
  if (!call.ok()) return call.result();
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto node = FindNodeOfType(call, handle, CU_GRAPH_NODE_TYPE_HOST);
  if (node == nullptr) return call.Fail();
  const auto& host = std::get<HostOp>(*node->operation);
  params->fn = host.function;
  params->userData = host.user_data;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphHostNodeSetParams(CUgraphNode handle,
                                          const CUDA_HOST_NODE_PARAMS* params) {
  Call call(Api::kGraphHostNodeSetParams);
  if (!call.ok()) return call.result();
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return SetParams(
      call, handle, CU_GRAPH_NODE_TYPE_HOST, [&](Operation* operation) {
        return MakeHostNode(params->fn, params->userData, operation);
      });
}

CUresult CUDAAPI cuGraphAddChildGraphNode(CUgraphNode* node, CUgraph graph,
                                          const CUgraphNode* dependencies,
                                          size_t count, CUgraph child) {
  Call call(Api::kGraphAddChildGraphNode);
  return AddChild(call, {node, graph, dependencies, nullptr, count}, child,
                  CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE);
}

CUresult CUDAAPI cuGraphChildGraphNodeGetGraph(CUgraphNode handle,
                                               CUgraph* graph) {
  Call call(Api::kGraphChildGraphNodeGetGraph);
  if (!call.ok()) return call.result();
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto node = FindNodeOfType(call, handle, CU_GRAPH_NODE_TYPE_GRAPH);
  if (node == nullptr) return call.Fail();
  *graph = node->child->handle;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph,
                                     const CUgraphNode* dependencies,
                                     size_t count) {
  Call call(Api::kGraphAddEmptyNode);
  return AddEmpty(call, {node, graph, dependencies, nullptr, count});
}

CUresult CUDAAPI cuGraphAddEventRecordNode(CUgraphNode* node, CUgraph graph,
                                           const CUgraphNode* dependencies,
                                           size_t count, CUevent event) {
  Call call(Api::kGraphAddEventRecordNode);
  return AddEventRecord(call, {node, graph, dependencies, nullptr, count},
                        event);
}

CUresult CUDAAPI cuGraphEventRecordNodeGetEvent(CUgraphNode handle,
                                                CUevent* event) {
  Call call(Api::kGraphEventRecordNodeGetEvent);
  if (!call.ok()) return call.result();
  if (event == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto node =
      FindNodeOfType(call, handle, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
  if (node == nullptr) return call.Fail();
  *event = std::get<EventRecordOp>(*node->operation).event->handle;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphEventRecordNodeSetEvent(CUgraphNode node,
                                                CUevent handle) {
  Call call(Api::kGraphEventRecordNodeSetEvent);
  if (!call.ok()) return call.result();
  return SetParams(call, node, CU_GRAPH_NODE_TYPE_EVENT_RECORD,
                   [&](Operation* operation) {
                     auto event = call.Find(handle);
                     if (event == nullptr) return CUDA_ERROR_INVALID_VALUE;
                     *operation = EventRecordOp{std::move(event)};
                     return CUDA_SUCCESS;
                   });
}

CUresult CUDAAPI cuGraphAddEventWaitNode(CUgraphNode* node, CUgraph graph,
                                         const CUgraphNode* dependencies,
                                         size_t count, CUevent event) {
  Call call(Api::kGraphAddEventWaitNode);
  return AddEventWait(call, {node, graph, dependencies, nullptr, count}, event);
}

CUresult CUDAAPI cuGraphEventWaitNodeGetEvent(CUgraphNode handle,
                                              CUevent* event) {
  Call call(Api::kGraphEventWaitNodeGetEvent);
  if (!call.ok()) return call.result();
  if (event == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto node = FindNodeOfType(call, handle, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
  if (node == nullptr) return call.Fail();
  *event = std::get<EventWaitOp>(*node->operation).event->handle;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphEventWaitNodeSetEvent(CUgraphNode node,
                                              CUevent handle) {
  Call call(Api::kGraphEventWaitNodeSetEvent);
  if (!call.ok()) return call.result();
  return SetParams(call, node, CU_GRAPH_NODE_TYPE_WAIT_EVENT,
                   [&](Operation* operation) {
                     auto event = call.Find(handle);
                     if (event == nullptr) return CUDA_ERROR_INVALID_VALUE;
                     *operation = EventWaitOp{std::move(event)};
                     return CUDA_SUCCESS;
                   });
}

CUresult CUDAAPI cuGraphAddNode(CUgraphNode* node, CUgraph graph,
                                const CUgraphNode* dependencies, size_t count,
                                CUgraphNodeParams* params) {
  return AddAny({node, graph, dependencies, nullptr, count}, params);
}
CUresult CUDAAPI cuGraphAddNode_v2(CUgraphNode* node, CUgraph graph,
                                   const CUgraphNode* dependencies,
                                   const CUgraphEdgeData* edges, size_t count,
                                   CUgraphNodeParams* params) {
  return AddAny({node, graph, dependencies, edges, count}, params);
}

}  // extern "C"
