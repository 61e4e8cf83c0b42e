// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_RUNTIME_GRAPH_EXEC_H_
#define SOFTCUDA_RUNTIME_GRAPH_EXEC_H_

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "runtime/conditional.h"
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
  // Of each edge in `successors`: whether it is a programmatic one.
  std::vector<bool> programmatic;
  std::vector<uint32_t> roots;
  // Event record and wait nodes.
  std::vector<uint32_t> record_nodes;
  std::vector<uint32_t> wait_nodes;
  // The item of each node of the source graph and of its child graphs.
  std::unordered_map<uint64_t, uint32_t> item_of_node;
};

/// The nodes of a graph in the order of their creation, which is what pairs
/// them with the nodes of another graph.
struct Shape {
  struct Edge {
    uint32_t from = 0;  // position among the nodes
    CUgraphEdgeData data = {};
  };
  struct Element {
    CUgraphNode node = nullptr;
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
    uint32_t item = 0;
    std::vector<Edge> in;
    std::shared_ptr<const Shape> child;
  };
  std::vector<Element> elements;
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
  std::shared_ptr<const Shape> shape;
  std::shared_ptr<const Program> program;
  std::vector<UserObjectHold> user_objects;
  // Modules of its kernels, each once, so that a launch after an unload is
  // told.
  std::vector<std::shared_ptr<LoadedModule>> modules;
  std::vector<std::shared_ptr<Condition>> conditions;
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
std::shared_ptr<Exec> InstantiateGraph(Runtime& runtime, Graph& graph,
                                       cuuint64_t flags,
                                       InstantiateFailure* failure);

/// Replaces what one item does in launches from now on.
void ReplaceOperation(Exec& exec, uint32_t item,
                      std::shared_ptr<const Operation> operation);
void SetItemEnabled(Exec& exec, uint32_t item, bool enabled);

/// Recomputes `exec.modules` from the operations.
void RefreshModules(Exec& exec);

/// Lets launches from now on do what `graph` does, which must be paired node by
/// node with the source of `exec`. All or nothing.
CUgraphExecUpdateResultInfo UpdateExec(Exec& exec, const Graph& graph);

/// The same for the child graph of one child graph node.
CUgraphExecUpdateResultInfo UpdateChild(Exec& exec, CUgraphNode node,
                                        const Graph& child);

/// Why an operation may not take another one's place in an executable graph;
/// CU_GRAPH_EXEC_UPDATE_SUCCESS when it may.
CUgraphExecUpdateResult CompareOperations(const Operation& old_operation,
                                          const Operation& operation,
                                          cuuint64_t exec_flags);

}  // namespace softcuda::runtime

#endif  // SOFTCUDA_RUNTIME_GRAPH_EXEC_H_
