// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/graph_exec.h"

#include <algorithm>
#include <utility>

#include "runtime/handle.h"
#include "runtime/state.h"

namespace softcuda::runtime {
namespace {

// Collects items and edges of a graph and of its child graphs.
class Flattener {
 public:
  // False, with the failure set, when a graph has a cycle.
  bool AddGraph(const Graph& graph, InstantiateFailure* failure) {
    std::vector<Node*> blocked;
    const std::vector<Node*> order = TopologicalOrder(graph, &blocked);
    if (!blocked.empty()) {
      *failure = {CUDA_ERROR_INVALID_VALUE,
                  CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE,
                  blocked.front()->handle};
      return false;
    }
    std::unordered_map<const Node*, Span> spans;
    for (Node* node : order) {
      Span span;
      span.begin = AddItem(node->type, node->operation);
      span.end = span.begin;
      item_of_node_.emplace(HandleBits(node->handle), span.begin);
      if (node->child != nullptr && !AddChild(*node->child, &span, failure)) {
        return false;
      }
      for (const Node::Edge& edge : node->in) {
        AddEdge(spans.at(edge.node).end, span.begin);
      }
      spans.emplace(node, span);
    }
    return true;
  }

  std::shared_ptr<Topology> MakeTopology() {
    auto topology = std::make_shared<Topology>();
    const auto count = static_cast<uint32_t>(types_.size());
    std::vector<uint32_t> in_degree(count, 0);
    for (uint32_t i = 0; i < count; ++i) {
      for (const uint32_t next : successors_[i]) ++in_degree[next];
    }
    for (uint32_t i = 0; i < count; ++i) {
      topology->items.push_back(
          {types_[i], in_degree[i],
           static_cast<uint32_t>(topology->successors.size()),
           static_cast<uint32_t>(successors_[i].size())});
      topology->successors.insert(topology->successors.end(),
                                  successors_[i].begin(), successors_[i].end());
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

  std::vector<std::shared_ptr<const Operation>>& operations() {
    return operations_;
  }

 private:
  // The first and the last item that stand for a node.
  struct Span {
    uint32_t begin = 0;
    uint32_t end = 0;
  };

  uint32_t AddItem(CUgraphNodeType type,
                   std::shared_ptr<const Operation> operation) {
    static const auto kEmpty = std::make_shared<const Operation>(EmptyOp{});
    types_.push_back(type);
    operations_.push_back(operation != nullptr ? std::move(operation) : kEmpty);
    successors_.emplace_back();
    return static_cast<uint32_t>(types_.size() - 1);
  }

  void AddEdge(uint32_t from, uint32_t to) { successors_[from].push_back(to); }

  // A child graph's items lie between the item of its node and one more.
  bool AddChild(const Graph& child, Span* span, InstantiateFailure* failure) {
    const auto first = static_cast<uint32_t>(types_.size());
    if (!AddGraph(child, failure)) return false;
    const auto last = static_cast<uint32_t>(types_.size());
    std::vector<bool> has_predecessor(last, false);
    for (uint32_t i = first; i < last; ++i) {
      for (const uint32_t next : successors_[i]) has_predecessor[next] = true;
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

  std::vector<CUgraphNodeType> types_;
  std::vector<std::shared_ptr<const Operation>> operations_;
  std::vector<std::vector<uint32_t>> successors_;
  std::unordered_map<uint64_t, uint32_t> item_of_node_;
};

}  // namespace

std::shared_ptr<Exec> InstantiateGraph(Runtime& runtime, const Graph& graph,
                                       cuuint64_t flags,
                                       InstantiateFailure* failure) {
  Flattener flattener;
  if (!flattener.AddGraph(graph, failure)) return nullptr;
  auto exec = std::make_shared<Exec>();
  exec->flags = flags;
  exec->topology = flattener.MakeTopology();
  auto program = std::make_shared<Program>();
  program->operations = std::move(flattener.operations());
  program->enabled.assign(program->operations.size(), true);
  exec->pending.resize(program->operations.size());
  exec->program = std::move(program);
  for (const UserObjectHold& hold : graph.user_objects) {
    exec->user_objects.push_back(hold.Copy());
  }
  RefreshModules(*exec);
  exec->handle = runtime.execs.Add(exec);
  return exec;
}

void ReplaceOperation(Exec& exec, uint32_t item,
                      std::shared_ptr<const Operation> operation) {
  auto program = std::make_shared<Program>(*exec.program);
  program->operations[item] = std::move(operation);
  exec.program = std::move(program);
  RefreshModules(exec);
}

void SetItemEnabled(Exec& exec, uint32_t item, bool enabled) {
  auto program = std::make_shared<Program>(*exec.program);
  program->enabled[item] = enabled;
  exec.program = std::move(program);
}

void RefreshModules(Exec& exec) {
  exec.modules.clear();
  for (const auto& operation : exec.program->operations) {
    const auto* kernel = std::get_if<KernelOp>(operation.get());
    if (kernel == nullptr) continue;
    const auto& module = kernel->function->module;
    if (std::find(exec.modules.begin(), exec.modules.end(), module) ==
        exec.modules.end()) {
      exec.modules.push_back(module);
    }
  }
}

}  // namespace softcuda::runtime
