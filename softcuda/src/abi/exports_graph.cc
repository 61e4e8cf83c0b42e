// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Graphs as such: making, copying, asking, connecting, printing.
#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "abi/cuda_abi.h"
#include "runtime/call.h"
#include "runtime/graph.h"
#include "runtime/graph_memory.h"

using softcuda::runtime::Api;
using softcuda::runtime::Call;
using softcuda::runtime::EdgeIsDefault;
using softcuda::runtime::EdgeIsValid;
using softcuda::runtime::Graph;
using softcuda::runtime::GraphOwner;
using softcuda::runtime::Node;

namespace {

// What every array query does: a null array asks for the count; a longer one
// gets null in its tail and the true count; a shorter one is filled.
template <typename T>
void FillArray(const std::vector<T>& values, T* out, size_t capacity) {
  const size_t copied = std::min(capacity, values.size());
  std::copy_n(values.begin(), copied, out);
  std::fill(out + copied, out + capacity, T{});
}

CUresult AnswerNodes(const std::vector<CUgraphNode>& nodes, CUgraphNode* out,
                     size_t* count) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (out == nullptr) {
    *count = nodes.size();
    return CUDA_SUCCESS;
  }
  FillArray(nodes, out, *count);
  *count = std::min(*count, nodes.size());
  return CUDA_SUCCESS;
}

CUresult AnswerEdges(const std::vector<CUgraphNode>& from,
                     CUgraphNode* from_out, const std::vector<CUgraphNode>& to,
                     CUgraphNode* to_out,
                     const std::vector<CUgraphEdgeData>& data,
                     CUgraphEdgeData* data_out, size_t* count) {
  if (count == nullptr || (from_out == nullptr) != (to_out == nullptr) ||
      (data_out != nullptr && from_out == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (from_out == nullptr) {
    *count = data.size();
    return CUDA_SUCCESS;
  }
  if (data_out == nullptr &&
      !std::all_of(data.begin(), data.end(), EdgeIsDefault)) {
    return CUDA_ERROR_LOSSY_QUERY;
  }
  FillArray(from, from_out, *count);
  FillArray(to, to_out, *count);
  if (data_out != nullptr) FillArray(data, data_out, *count);
  *count = std::min(*count, data.size());
  return CUDA_SUCCESS;
}

CUresult GetEdges(CUgraph handle, CUgraphNode* from_out, CUgraphNode* to_out,
                  CUgraphEdgeData* data_out, size_t* count) {
  Call call(Api::kGraphGetEdges);
  if (!call.ok()) return call.result();
  const auto graph = call.Find(handle);
  if (graph == nullptr) return call.Fail();
  std::vector<CUgraphNode> from;
  std::vector<CUgraphNode> to;
  std::vector<CUgraphEdgeData> data;
  for (const auto& node : graph->nodes) {
    for (const Node::Edge& edge : node->out) {
      from.push_back(node->handle);
      to.push_back(edge.node->handle);
      data.push_back(edge.data);
    }
  }
  return AnswerEdges(from, from_out, to, to_out, data, data_out, count);
}

CUresult GetNeighbours(Api api, CUgraphNode handle, bool dependents,
                       CUgraphNode* nodes_out, CUgraphEdgeData* data_out,
                       size_t* count) {
  Call call(api);
  if (!call.ok()) return call.result();
  const auto node = call.Find(handle);
  if (node == nullptr) return call.Fail();
  if (count == nullptr || (data_out != nullptr && nodes_out == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::vector<CUgraphNode> nodes;
  std::vector<CUgraphEdgeData> data;
  for (const Node::Edge& edge : dependents ? node->out : node->in) {
    nodes.push_back(edge.node->handle);
    data.push_back(edge.data);
  }
  if (nodes_out != nullptr && data_out == nullptr &&
      !std::all_of(data.begin(), data.end(), EdgeIsDefault)) {
    return CUDA_ERROR_LOSSY_QUERY;
  }
  if (data_out != nullptr) FillArray(data, data_out, *count);
  return AnswerNodes(nodes, nodes_out, count);
}

// The two ends of each edge that a call names; nodes of `graph`.
using Ends = std::pair<std::shared_ptr<Node>, std::shared_ptr<Node>>;

bool FindEnds(Call& call, const Graph& graph, const CUgraphNode* from,
              const CUgraphNode* to, size_t count, std::vector<Ends>* ends) {
  const size_t nodes = graph.nodes.size();
  if (from == nullptr || to == nullptr || count / 2 > nodes * nodes) {
    call.Fail(CUDA_ERROR_INVALID_VALUE);
    return false;
  }
  for (size_t i = 0; i < count; ++i) {
    Ends pair(call.Find(from[i]), call.Find(to[i]));
    if (pair.first == nullptr || pair.second == nullptr ||
        pair.first->graph != &graph || pair.second->graph != &graph ||
        pair.first == pair.second) {
      call.Fail(CUDA_ERROR_INVALID_VALUE);
      return false;
    }
    ends->push_back(std::move(pair));
  }
  return true;
}

CUresult AddDependencies(CUgraph handle, const CUgraphNode* from,
                         const CUgraphNode* to, const CUgraphEdgeData* data,
                         size_t count) {
  Call call(Api::kGraphAddDependencies);
  if (!call.ok()) return call.result();
  const auto graph = call.Find(handle);
  if (graph == nullptr) return call.Fail();
  if (count == 0) return CUDA_SUCCESS;
  std::vector<Ends> ends;
  if (!FindEnds(call, *graph, from, to, count, &ends)) return call.Fail();
  for (size_t i = 0; i < count; ++i) {
    const bool repeated =
        std::find(ends.begin(), ends.begin() + static_cast<ptrdiff_t>(i),
                  ends[i]) != ends.begin() + static_cast<ptrdiff_t>(i);
    if (repeated || HasEdge(*ends[i].first, *ends[i].second) ||
        (data != nullptr &&
         !EdgeIsValid(*ends[i].first, data[i], ends[i].second->type))) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  for (size_t i = 0; i < count; ++i) {
    AddEdge(*ends[i].first, *ends[i].second,
            data != nullptr ? data[i] : CUgraphEdgeData{});
  }
  return CUDA_SUCCESS;
}

CUresult RemoveDependencies(CUgraph handle, const CUgraphNode* from,
                            const CUgraphNode* to, const CUgraphEdgeData* data,
                            size_t count) {
  Call call(Api::kGraphRemoveDependencies);
  if (!call.ok()) return call.result();
  const auto graph = call.Find(handle);
  if (graph == nullptr) return call.Fail();
  if (count == 0) return CUDA_SUCCESS;
  if (HasMemoryNodes(*graph)) return CUDA_ERROR_NOT_SUPPORTED;
  std::vector<Ends> ends;
  if (!FindEnds(call, *graph, from, to, count, &ends)) return call.Fail();
  for (size_t i = 0; i < count; ++i) {
    const auto& out = ends[i].first->out;
    const auto edge = std::find_if(out.begin(), out.end(), [&](const auto& e) {
      return e.node == ends[i].second.get();
    });
    if (edge == out.end()) return CUDA_ERROR_INVALID_VALUE;
    // Without edge data the call names default edges only.
    const CUgraphEdgeData named = data != nullptr ? data[i] : CUgraphEdgeData{};
    if (named.from_port != edge->data.from_port ||
        named.to_port != edge->data.to_port || named.type != edge->data.type) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  for (const Ends& pair : ends) RemoveEdge(*pair.first, *pair.second);
  return CUDA_SUCCESS;
}

// A graph that a capture fills, or that belongs to a node, is not the caller's.
bool IsOwnedElsewhere(const Graph& graph) {
  return graph.capturing || graph.owner != GraphOwner::kUser;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuGraphCreate(CUgraph* graph, unsigned int flags) {
  Call call(Api::kGraphCreate);
  if (!call.ok()) return call.result();
  if (graph == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  *graph = NewGraph(call.runtime(), GraphOwner::kUser)->handle;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphDestroy(CUgraph handle) {
  Call call(Api::kGraphDestroy);
  if (!call.ok()) return call.result();
  const auto graph = call.Find(handle);
  if (graph == nullptr) return call.Fail();
  if (IsOwnedElsewhere(*graph)) {
    softcuda::runtime::ReportMisuse(
        call.name(), "the graph belongs to a capture or to a node");
    return CUDA_ERROR_INVALID_VALUE;
  }
  ForgetGraph(call.runtime(), *graph);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphClone(CUgraph* clone, CUgraph original) {
  Call call(Api::kGraphClone);
  if (!call.ok()) return call.result();
  if (clone == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto graph = call.Find(original);
  if (graph == nullptr) return call.Fail();
  if (HasMemoryNodes(*graph) || HasConditionalNodes(*graph)) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  *clone = CloneGraph(call.runtime(), *graph, GraphOwner::kUser)->handle;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphNodeFindInClone(CUgraphNode* node, CUgraphNode original,
                                        CUgraph clone) {
  Call call(Api::kGraphNodeFindInClone);
  if (!call.ok()) return call.result();
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto graph = call.Find(clone);
  if (graph == nullptr || call.Find(original) == nullptr) return call.Fail();
  for (const auto& candidate : graph->nodes) {
    const auto& originals = candidate->originals;
    if (std::find(originals.begin(), originals.end(), original) !=
        originals.end()) {
      *node = candidate->handle;
      return CUDA_SUCCESS;
    }
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuGraphGetNodes(CUgraph handle, CUgraphNode* nodes,
                                 size_t* count) {
  Call call(Api::kGraphGetNodes);
  if (!call.ok()) return call.result();
  const auto graph = call.Find(handle);
  if (graph == nullptr) return call.Fail();
  std::vector<CUgraphNode> all;
  for (const auto& node : graph->nodes) all.push_back(node->handle);
  return AnswerNodes(all, nodes, count);
}

CUresult CUDAAPI cuGraphGetRootNodes(CUgraph handle, CUgraphNode* nodes,
                                     size_t* count) {
  Call call(Api::kGraphGetRootNodes);
  if (!call.ok()) return call.result();
  const auto graph = call.Find(handle);
  if (graph == nullptr) return call.Fail();
  std::vector<CUgraphNode> roots;
  for (const auto& node : graph->nodes) {
    if (node->in.empty()) roots.push_back(node->handle);
  }
  return AnswerNodes(roots, nodes, count);
}

CUresult CUDAAPI cuGraphGetEdges(CUgraph graph, CUgraphNode* from,
                                 CUgraphNode* to, size_t* count) {
  return GetEdges(graph, from, to, nullptr, count);
}
CUresult CUDAAPI cuGraphGetEdges_v2(CUgraph graph, CUgraphNode* from,
                                    CUgraphNode* to, CUgraphEdgeData* data,
                                    size_t* count) {
  return GetEdges(graph, from, to, data, count);
}

CUresult CUDAAPI cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType* type) {
  Call call(Api::kGraphNodeGetType);
  if (!call.ok()) return call.result();
  if (type == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto node = call.Find(handle);
  if (node == nullptr) return call.Fail();
  *type = node->type;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphNodeGetDependencies(CUgraphNode node,
                                            CUgraphNode* nodes, size_t* count) {
  return GetNeighbours(Api::kGraphNodeGetDependencies, node, false, nodes,
                       nullptr, count);
}
CUresult CUDAAPI cuGraphNodeGetDependencies_v2(CUgraphNode node,
                                               CUgraphNode* nodes,
                                               CUgraphEdgeData* data,
                                               size_t* count) {
  return GetNeighbours(Api::kGraphNodeGetDependencies, node, false, nodes, data,
                       count);
}
CUresult CUDAAPI cuGraphNodeGetDependentNodes(CUgraphNode node,
                                              CUgraphNode* nodes,
                                              size_t* count) {
  return GetNeighbours(Api::kGraphNodeGetDependentNodes, node, true, nodes,
                       nullptr, count);
}
CUresult CUDAAPI cuGraphNodeGetDependentNodes_v2(CUgraphNode node,
                                                 CUgraphNode* nodes,
                                                 CUgraphEdgeData* data,
                                                 size_t* count) {
  return GetNeighbours(Api::kGraphNodeGetDependentNodes, node, true, nodes,
                       data, count);
}

CUresult CUDAAPI cuGraphAddDependencies(CUgraph graph, const CUgraphNode* from,
                                        const CUgraphNode* to, size_t count) {
  return AddDependencies(graph, from, to, nullptr, count);
}
CUresult CUDAAPI cuGraphAddDependencies_v2(CUgraph graph,
                                           const CUgraphNode* from,
                                           const CUgraphNode* to,
                                           const CUgraphEdgeData* data,
                                           size_t count) {
  return AddDependencies(graph, from, to, data, count);
}
CUresult CUDAAPI cuGraphRemoveDependencies(CUgraph graph,
                                           const CUgraphNode* from,
                                           const CUgraphNode* to,
                                           size_t count) {
  return RemoveDependencies(graph, from, to, nullptr, count);
}
CUresult CUDAAPI cuGraphRemoveDependencies_v2(CUgraph graph,
                                              const CUgraphNode* from,
                                              const CUgraphNode* to,
                                              const CUgraphEdgeData* data,
                                              size_t count) {
  return RemoveDependencies(graph, from, to, data, count);
}

CUresult CUDAAPI cuGraphDestroyNode(CUgraphNode handle) {
  Call call(Api::kGraphDestroyNode);
  if (!call.ok()) return call.result();
  const auto node = call.Find(handle);
  if (node == nullptr) return call.Fail();
  if (node->graph->capturing) {
    softcuda::runtime::ReportMisuse(call.name(),
                                    "a capture is recording into the graph");
    return CUDA_ERROR_NOT_PERMITTED;
  }
  if (HasMemoryNodes(*node->graph)) return CUDA_ERROR_NOT_SUPPORTED;
  RemoveNode(call.runtime(), *node);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphDebugDotPrint(CUgraph handle, const char* path,
                                      unsigned int flags) {
  Call call(Api::kGraphDebugDotPrint);
  if (!call.ok()) return call.result();
  const auto graph = call.Find(handle);
  if (graph == nullptr) return call.Fail();
  if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::string text = GraphAsDot(*graph, flags);
  std::FILE* const file = std::fopen(path, "w");
  if (file == nullptr) return CUDA_ERROR_OPERATING_SYSTEM;
  const bool written =
      std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = std::fclose(file) == 0;
  return written && closed ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}

}  // extern "C"
