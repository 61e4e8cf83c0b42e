// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_RUNTIME_GRAPH_H_
#define SOFTCUDA_RUNTIME_GRAPH_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/objects.h"
#include "runtime/operation.h"

namespace softcuda::runtime {

struct Graph;
struct Runtime;

struct Node {
  CUgraphNode handle = nullptr;
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  Graph* graph = nullptr;
  std::shared_ptr<const Operation> operation;
  std::shared_ptr<Graph> child;  // of a child graph node
  // Of a conditional node, with the array of handles that its maker got.
  std::vector<std::shared_ptr<Graph>> bodies;
  std::vector<CUgraph> body_handles;
  // Edges, in the order in which they were added.
  struct Edge {
    Node* node;
    CUgraphEdgeData data;
  };
  std::vector<Edge> in;
  std::vector<Edge> out;
  // The node that this one was cloned from, and through it older originals.
  std::vector<CUgraphNode> originals;
  // What the last parameter query pointed its caller to.
  std::vector<std::byte> query_params;
  std::vector<void*> query_pointers;
  size_t query_bytes = 0;
};

enum class GraphOwner : uint8_t { kUser, kCapture, kNode };

struct Graph {
  CUgraph handle = nullptr;
  GraphOwner owner = GraphOwner::kUser;
  // A capture records into it.
  bool capturing = false;
  std::vector<std::shared_ptr<Node>> nodes;  // in the order of creation
  std::vector<UserObjectHold> user_objects;
  std::vector<std::shared_ptr<Condition>> conditions;
  // The newest instantiation; of a graph with memory or conditional nodes only
  // one may exist.
  CUgraphExec last_exec = nullptr;
};

std::shared_ptr<Graph> NewGraph(Runtime& runtime, GraphOwner owner);

/// Takes the graph, its nodes and its child graphs out of the handle tables.
void ForgetGraph(Runtime& runtime, Graph& graph);

/// Adds a node behind the given dependencies.
std::shared_ptr<Node> AddNode(Runtime& runtime, Graph& graph,
                              CUgraphNodeType type,
                              std::shared_ptr<const Operation> operation,
                              const std::vector<Dependency>& dependencies);

/// Takes the node and its edges out of its graph.
void RemoveNode(Runtime& runtime, Node& node);

void AddEdge(Node& from, Node& to, const CUgraphEdgeData& data);
/// False when there is no such edge.
bool RemoveEdge(Node& from, Node& to);
bool HasEdge(const Node& from, const Node& to);

/// Whether the edge's annotations allow it between these nodes.
bool EdgeIsValid(const Node& from, const CUgraphEdgeData& data,
                 CUgraphNodeType to_type);
bool EdgeIsDefault(const CUgraphEdgeData& data);

/// Whether the graph has a conditional node, children included.
bool HasConditionalNodes(const Graph& graph);

/// A deep copy, child graphs included, whose nodes know their originals.
std::shared_ptr<Graph> CloneGraph(Runtime& runtime, const Graph& graph,
                                  GraphOwner owner);

/// A topological order, or the nodes on or behind a cycle in `*blocked`.
std::vector<Node*> TopologicalOrder(const Graph& graph,
                                    std::vector<Node*>* blocked);

/// The graph as text for graphviz.
std::string GraphAsDot(const Graph& graph, unsigned int flags);

}  // namespace softcuda::runtime

#endif  // SOFTCUDA_RUNTIME_GRAPH_H_
