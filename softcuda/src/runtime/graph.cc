// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/graph.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "runtime/state.h"

namespace softcuda::runtime {
namespace {

auto FindEdge(std::vector<Node::Edge>& edges, const Node& node) {
  return std::find_if(edges.begin(), edges.end(), [&](const Node::Edge& edge) {
    return edge.node == &node;
  });
}

}  // namespace

std::shared_ptr<Graph> NewGraph(Runtime& runtime, GraphOwner owner) {
  auto graph = std::make_shared<Graph>();
  graph->owner = owner;
  graph->handle = runtime.graphs.Add(graph);
  return graph;
}

void ForgetGraph(Runtime& runtime, Graph& graph) {
  for (const auto& node : graph.nodes) {
    runtime.nodes.Erase(node->handle);
    if (node->child != nullptr) ForgetGraph(runtime, *node->child);
    for (const auto& body : node->bodies) ForgetGraph(runtime, *body);
  }
  runtime.graphs.Erase(graph.handle);
}

std::shared_ptr<Node> AddNode(Runtime& runtime, Graph& graph,
                              CUgraphNodeType type,
                              std::shared_ptr<const Operation> operation,
                              const std::vector<Dependency>& dependencies) {
  auto node = std::make_shared<Node>();
  node->type = type;
  node->graph = &graph;
  node->operation = std::move(operation);
  node->handle = runtime.nodes.Add(node);
  graph.nodes.push_back(node);
  for (const Dependency& dependency : dependencies) {
    AddEdge(*dependency.node, *node, dependency.edge);
  }
  return node;
}

void RemoveNode(Runtime& runtime, Node& node) {
  while (!node.in.empty()) RemoveEdge(*node.in.back().node, node);
  while (!node.out.empty()) RemoveEdge(node, *node.out.back().node);
  if (node.child != nullptr) ForgetGraph(runtime, *node.child);
  for (const auto& body : node.bodies) ForgetGraph(runtime, *body);
  runtime.nodes.Erase(node.handle);
  std::erase_if(node.graph->nodes, [&](const std::shared_ptr<Node>& other) {
    return other.get() == &node;
  });
}

void AddEdge(Node& from, Node& to, const CUgraphEdgeData& data) {
  from.out.push_back({&to, data});
  to.in.push_back({&from, data});
}

bool RemoveEdge(Node& from, Node& to) {
  const auto out = FindEdge(from.out, to);
  if (out == from.out.end()) return false;
  from.out.erase(out);
  to.in.erase(FindEdge(to.in, from));
  return true;
}

bool HasEdge(const Node& from, const Node& to) {
  return std::any_of(from.out.begin(), from.out.end(),
                     [&](const Node::Edge& edge) { return edge.node == &to; });
}

bool EdgeIsDefault(const CUgraphEdgeData& data) {
  return data.from_port == 0 && data.to_port == 0 && data.type == 0;
}

bool EdgeIsValid(const Node& from, const CUgraphEdgeData& data,
                 CUgraphNodeType to_type) {
  for (const unsigned char reserved : data.reserved) {
    if (reserved != 0) return false;
  }
  if (EdgeIsDefault(data)) return true;
  return data.to_port == 0 &&
         data.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC &&
         (data.from_port == CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC ||
          data.from_port == CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER) &&
         from.type == CU_GRAPH_NODE_TYPE_KERNEL &&
         to_type == CU_GRAPH_NODE_TYPE_KERNEL;
}

bool HasConditionalNodes(const Graph& graph) {
  return std::any_of(
      graph.nodes.begin(), graph.nodes.end(), [](const auto& node) {
        return node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL ||
               (node->child != nullptr && HasConditionalNodes(*node->child));
      });
}

std::shared_ptr<Graph> CloneGraph(Runtime& runtime, const Graph& graph,
                                  GraphOwner owner) {
  auto clone = NewGraph(runtime, owner);
  std::unordered_map<const Node*, Node*> clones;
  for (const auto& node : graph.nodes) {
    auto copy = AddNode(runtime, *clone, node->type, node->operation, {});
    copy->originals = node->originals;
    copy->originals.push_back(node->handle);
    if (node->child != nullptr) {
      copy->child = CloneGraph(runtime, *node->child, GraphOwner::kNode);
    }
    clones.emplace(node.get(), copy.get());
  }
  // In-edges and out-edges keep their own orders.
  for (const auto& node : graph.nodes) {
    Node& copy = *clones.at(node.get());
    for (const Node::Edge& edge : node->in) {
      copy.in.push_back({clones.at(edge.node), edge.data});
    }
    for (const Node::Edge& edge : node->out) {
      copy.out.push_back({clones.at(edge.node), edge.data});
    }
  }
  for (const UserObjectHold& hold : graph.user_objects) {
    clone->user_objects.push_back(hold.Copy());
  }
  return clone;
}

std::vector<Node*> TopologicalOrder(const Graph& graph,
                                    std::vector<Node*>* blocked) {
  std::unordered_map<const Node*, size_t> missing;
  std::vector<Node*> order;
  order.reserve(graph.nodes.size());
  for (const auto& node : graph.nodes) {
    missing[node.get()] = node->in.size();
    if (node->in.empty()) order.push_back(node.get());
  }
  for (size_t next = 0; next < order.size(); ++next) {
    for (const Node::Edge& edge : order[next]->out) {
      if (--missing[edge.node] == 0) order.push_back(edge.node);
    }
  }
  blocked->clear();
  for (const auto& node : graph.nodes) {
    if (missing[node.get()] != 0) blocked->push_back(node.get());
  }
  return order;
}

}  // namespace softcuda::runtime
