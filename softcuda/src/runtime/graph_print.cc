// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <string>
#include <unordered_map>

#include "runtime/graph.h"

namespace softcuda::runtime {
namespace {

const char* TypeName(CUgraphNodeType type) {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return "KERNEL";
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return "MEMCPY";
    case CU_GRAPH_NODE_TYPE_MEMSET:
      return "MEMSET";
    case CU_GRAPH_NODE_TYPE_HOST:
      return "HOST";
    case CU_GRAPH_NODE_TYPE_GRAPH:
      return "GRAPH";
    case CU_GRAPH_NODE_TYPE_EMPTY:
      return "EMPTY";
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
      return "EVENT_WAIT";
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
      return "EVENT_RECORD";
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
      return "MEM_ALLOC";
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
      return "MEM_FREE";
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
      return "BATCH_MEM_OP";
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return "CONDITIONAL";
    default:
      return "OTHER";
  }
}

std::string Hex(uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof(text), "0x%llx",
                static_cast<unsigned long long>(value));
  return text;
}

std::string Sizes(const exec::Dim3& dim) {
  return "(" + std::to_string(dim.x) + "," + std::to_string(dim.y) + "," +
         std::to_string(dim.z) + ")";
}

std::string Detail(const Node& node) {
  if (node.operation == nullptr) return "";
  if (const auto* kernel = std::get_if<KernelOp>(node.operation.get())) {
    return "\\n" + kernel->function->kernel->name() + "\\ngrid " +
           Sizes(kernel->grid) + " block " + Sizes(kernel->block) + " shared " +
           std::to_string(kernel->dynamic_shared_bytes);
  }
  if (const auto* copy = std::get_if<CopyOp>(node.operation.get())) {
    return "\\n" + Hex(copy->source.address) + " to " +
           Hex(copy->target.address) + "\\n" +
           std::to_string(copy->width_bytes) + " x " +
           std::to_string(copy->rows) + " x " + std::to_string(copy->slices) +
           " bytes";
  }
  if (const auto* memset = std::get_if<MemsetOp>(node.operation.get())) {
    return "\\n" + Hex(memset->address) + " value " + Hex(memset->value) +
           "\\n" + std::to_string(memset->width_elements) + " x " +
           std::to_string(memset->rows) + " elements of " +
           std::to_string(memset->element_bytes);
  }
  return "";
}

void Print(const Graph& graph, const std::string& prefix, bool details,
           std::string* out) {
  std::unordered_map<const Node*, std::string> names;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = *graph.nodes[i];
    const std::string name = prefix + std::to_string(i);
    names.emplace(&node, name);
    *out += "  \"" + name + "\" [label=\"" + name + " " + TypeName(node.type) +
            (details ? Detail(node) : "") + "\"];\n";
    if (node.child != nullptr) {
      *out += "  subgraph \"cluster_" + name + "\" {\n";
      Print(*node.child, name + "_", details, out);
      *out += "  }\n";
    }
    for (size_t body = 0; body < node.bodies.size(); ++body) {
      const std::string body_name = name + "_" + std::to_string(body);
      *out += "  subgraph \"cluster_" + body_name + "\" {\n";
      Print(*node.bodies[body], body_name + "_", details, out);
      *out += "  }\n";
    }
  }
  for (const auto& node : graph.nodes) {
    for (const Node::Edge& edge : node->out) {
      *out += "  \"" + names.at(node.get()) + "\" -> \"" + names.at(edge.node) +
              "\"" + (EdgeIsDefault(edge.data) ? "" : " [style=dashed]") +
              ";\n";
    }
  }
}

}  // namespace

std::string GraphAsDot(const Graph& graph, unsigned int flags) {
  std::string out = "digraph softcuda {\n  node [shape=box];\n";
  Print(graph, "n", flags != 0, &out);
  return out + "}\n";
}

}  // namespace softcuda::runtime
