// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_RUNTIME_GRAPH_FLATTEN_H_
#define SOFTCUDA_RUNTIME_GRAPH_FLATTEN_H_

#include <memory>
#include <unordered_map>
#include <vector>

#include "runtime/graph_exec.h"

namespace softcuda::runtime {

/// Collects items and edges of a graph and of its child graphs.
class Flattener {
 public:
  /// False, with the failure set, when a graph has a cycle.
  bool AddGraph(const Graph& graph, InstantiateFailure* failure);

  std::shared_ptr<Topology> MakeTopology();
  std::shared_ptr<const Shape> shape() const { return shape_; }
  std::vector<std::shared_ptr<const Operation>>& operations() {
    return operations_;
  }

 private:
  // The first and the last item that stand for a node.
  struct Span {
    uint32_t begin = 0;
    uint32_t end = 0;
  };

  struct Successor {
    uint32_t item;
    bool programmatic;
  };

  uint32_t AddItem(CUgraphNodeType type,
                   std::shared_ptr<const Operation> operation);
  void AddEdge(uint32_t from, uint32_t to, bool programmatic = false) {
    successors_[from].push_back({to, programmatic});
  }
  // A child graph's items lie between the item of its node and one more.
  bool AddChild(const Graph& child, Span* span, InstantiateFailure* failure);

  std::vector<CUgraphNodeType> types_;
  std::vector<std::shared_ptr<const Operation>> operations_;
  std::vector<std::vector<Successor>> successors_;
  std::unordered_map<uint64_t, uint32_t> item_of_node_;
  // Of the graph that was added last.
  std::shared_ptr<const Shape> shape_;
};

}  // namespace softcuda::runtime

#endif  // SOFTCUDA_RUNTIME_GRAPH_FLATTEN_H_
