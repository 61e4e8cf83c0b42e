// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_RUNTIME_GRAPH_EXEC_H_
#define SOFTCUDA_RUNTIME_GRAPH_EXEC_H_

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "runtime/graph.h"
#include "runtime/objects.h"
#include "runtime/operation.h"

namespace softcuda::runtime {

struct Runtime;
struct Task;

/// The shape of an executable graph, child graphs flattened. Never changes.
struct Topology {
  struct Item {
    CUgraphNodeType type;
    uint32_t in_degree;
    uint32_t first_successor;  // into `successors`
    uint32_t successor_count;
  };
  std::vector<Item> items;
  std::vector<uint32_t> successors;
  std::vector<uint32_t> roots;
  // Event record and wait nodes.
  std::vector<uint32_t> record_nodes;
  std::vector<uint32_t> wait_nodes;
  // The item of each node of the source graph and of its child graphs.
  std::unordered_map<uint64_t, uint32_t> item_of_node;
};

/// What the items do. An update replaces it; launches keep the one they found.
struct Program {
  std::vector<std::shared_ptr<const Operation>> operations;
  std::vector<bool> enabled;
};

struct Exec {
  CUgraphExec handle = nullptr;
  int device = 0;  // of the context that was current at instantiation
  cuuint64_t flags = 0;
  std::shared_ptr<const Topology> topology;
  std::shared_ptr<const Program> program;
  std::vector<UserObjectHold> user_objects;
  // Modules of its kernels, each once, so that a launch after an unload is
  // told.
  std::vector<std::shared_ptr<LoadedModule>> modules;
  std::shared_ptr<Task> last_launch;

  // State of the one launch that may be running, allocated at instantiation.
  std::vector<uint32_t> pending;
  uint32_t remaining = 0;
};

struct InstantiateFailure {
  CUresult code = CUDA_SUCCESS;
  CUgraphInstantiateResult result = CUDA_GRAPH_INSTANTIATE_SUCCESS;
  CUgraphNode node = nullptr;
};

/// Null, with `*failure` set, when the graph cannot be run.
std::shared_ptr<Exec> InstantiateGraph(Runtime& runtime, const Graph& graph,
                                       cuuint64_t flags,
                                       InstantiateFailure* failure);

/// Replaces what one item does in launches from now on.
void ReplaceOperation(Exec& exec, uint32_t item,
                      std::shared_ptr<const Operation> operation);
void SetItemEnabled(Exec& exec, uint32_t item, bool enabled);

/// Recomputes `exec.modules` from the operations.
void RefreshModules(Exec& exec);

}  // namespace softcuda::runtime

#endif  // SOFTCUDA_RUNTIME_GRAPH_EXEC_H_
