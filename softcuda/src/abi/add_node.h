// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_ABI_ADD_NODE_H_
#define SOFTCUDA_ABI_ADD_NODE_H_

#include <memory>
#include <utility>
#include <vector>

#include "abi/cuda_abi.h"
#include "runtime/call.h"
#include "runtime/graph.h"

namespace softcuda::abi {

/// Where a new node goes.
struct Place {
  CUgraphNode* out = nullptr;
  CUgraph graph = nullptr;
  const CUgraphNode* dependencies = nullptr;
  const CUgraphEdgeData* edges = nullptr;
  size_t count = 0;
};

/// Adds a node at a place. `make` checks the parameters and fills the operation
/// in, given the graph; it runs once the place is known to be good.
template <typename Make>
CUresult AddInto(runtime::Call& call, const Place& place, CUgraphNodeType type,
                 const Make& make,
                 std::shared_ptr<runtime::Node>* added = nullptr) {
  if (!call.ok()) return call.result();
  if (place.out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto graph = call.Find(place.graph);
  if (graph == nullptr) return call.Fail();
  std::vector<runtime::Dependency> dependencies;
  if (!call.FindDependencies(*graph, place.dependencies, place.edges,
                             place.count, &dependencies)) {
    return call.Fail();
  }
  for (const runtime::Dependency& dependency : dependencies) {
    if (!runtime::EdgeIsValid(*dependency.node, dependency.edge, type)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  runtime::Operation operation;
  const CUresult result = make(*graph, &operation);
  if (result != CUDA_SUCCESS) return result;
  auto node = runtime::AddNode(
      call.runtime(), *graph, type,
      std::make_shared<const runtime::Operation>(std::move(operation)),
      dependencies);
  *place.out = node->handle;
  if (added != nullptr) *added = std::move(node);
  return CUDA_SUCCESS;
}

/// The same for nodes that do not look at their graph.
template <typename Make>
CUresult Add(runtime::Call& call, const Place& place, CUgraphNodeType type,
             const Make& make,
             std::shared_ptr<runtime::Node>* added = nullptr) {
  return AddInto(
      call, place, type,
      [&](const runtime::Graph&, runtime::Operation* operation) {
        return make(operation);
      },
      added);
}

CUresult AddMemAlloc(runtime::Call& call, const Place& place,
                     CUDA_MEM_ALLOC_NODE_PARAMS* params);
CUresult AddMemFree(runtime::Call& call, const Place& place,
                    CUdeviceptr address);
CUresult AddConditional(runtime::Call& call, const Place& place,
                        CUDA_CONDITIONAL_NODE_PARAMS* params);

}  // namespace softcuda::abi

#endif  // SOFTCUDA_ABI_ADD_NODE_H_
