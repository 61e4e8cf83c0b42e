// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/graph_flatten.h"

#include <utility>

#include "runtime/handle.h"

namespace softcuda::runtime {

bool Flattener::AddGraph(const Graph& graph, InstantiateFailure* failure) {
  std::vector<Node*> blocked;
  const std::vector<Node*> order = TopologicalOrder(graph, &blocked);
  if (!blocked.empty()) {
    *failure = {CUDA_ERROR_INVALID_VALUE,
                CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE,
                blocked.front()->handle};
    return false;
  }
  std::unordered_map<const Node*, Span> spans;
  std::unordered_map<const Node*, std::shared_ptr<const Shape>> child_shapes;
  for (Node* node : order) {
    Span span;
    span.begin = AddItem(node->type, node->operation);
    span.end = span.begin;
    item_of_node_.emplace(HandleBits(node->handle), span.begin);
    if (node->child != nullptr) {
      if (!AddChild(*node->child, &span, failure)) return false;
      child_shapes.emplace(node, std::move(shape_));
    }
    for (const Node::Edge& edge : node->in) {
      AddEdge(spans.at(edge.node).end, span.begin,
              edge.data.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC);
    }
    spans.emplace(node, span);
  }
  auto shape = std::make_shared<Shape>();
  std::unordered_map<const Node*, uint32_t> positions;
  for (const auto& node : graph.nodes) {
    positions.emplace(node.get(), static_cast<uint32_t>(positions.size()));
  }
  for (const auto& node : graph.nodes) {
    Shape::Element element;
    element.node = node->handle;
    element.type = node->type;
    element.item = spans.at(node.get()).begin;
    for (const Node::Edge& edge : node->in) {
      element.in.push_back({positions.at(edge.node), edge.data});
    }
    const auto child = child_shapes.find(node.get());
    if (child != child_shapes.end()) element.child = child->second;
    shape->elements.push_back(std::move(element));
  }
  shape_ = std::move(shape);
  return true;
}

std::shared_ptr<Topology> Flattener::MakeTopology() {
  auto topology = std::make_shared<Topology>();
  const auto count = static_cast<uint32_t>(types_.size());
  std::vector<uint32_t> in_degree(count, 0);
  for (uint32_t i = 0; i < count; ++i) {
    for (const Successor& next : successors_[i]) ++in_degree[next.item];
  }
  for (uint32_t i = 0; i < count; ++i) {
    topology->items.push_back(
        {types_[i], in_degree[i],
         static_cast<uint32_t>(topology->successors.size()),
         static_cast<uint32_t>(successors_[i].size())});
    for (const Successor& next : successors_[i]) {
      topology->successors.push_back(next.item);
      topology->programmatic.push_back(next.programmatic);
    }
    if (in_degree[i] == 0) topology->roots.push_back(i);
    if (types_[i] == CU_GRAPH_NODE_TYPE_EVENT_RECORD) {
      topology->record_nodes.push_back(i);
    }
    if (types_[i] == CU_GRAPH_NODE_TYPE_WAIT_EVENT) {
      topology->wait_nodes.push_back(i);
    }
  }
  topology->item_of_node = std::move(item_of_node_);
  return topology;
}

uint32_t Flattener::AddItem(CUgraphNodeType type,
                            std::shared_ptr<const Operation> operation) {
  static const auto kEmpty = std::make_shared<const Operation>(EmptyOp{});
  types_.push_back(type);
  operations_.push_back(operation != nullptr ? std::move(operation) : kEmpty);
  successors_.emplace_back();
  return static_cast<uint32_t>(types_.size() - 1);
}

bool Flattener::AddChild(const Graph& child, Span* span,
                         InstantiateFailure* failure) {
  const auto first = static_cast<uint32_t>(types_.size());
  if (!AddGraph(child, failure)) return false;
  const auto last = static_cast<uint32_t>(types_.size());
  std::vector<bool> has_predecessor(last, false);
  for (uint32_t i = first; i < last; ++i) {
    for (const Successor& next : successors_[i]) {
      has_predecessor[next.item] = true;
    }
  }
  const uint32_t end = AddItem(CU_GRAPH_NODE_TYPE_EMPTY, nullptr);
  for (uint32_t i = first; i < last; ++i) {
    if (successors_[i].empty()) AddEdge(i, end);
    if (!has_predecessor[i]) AddEdge(span->begin, i);
  }
  if (first == last) AddEdge(span->begin, end);
  span->end = end;
  return true;
}

}  // namespace softcuda::runtime
