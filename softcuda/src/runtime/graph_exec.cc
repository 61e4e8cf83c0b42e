// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/graph_exec.h"

#include <algorithm>
#include <utility>

#include "runtime/graph_flatten.h"
#include "runtime/graph_memory.h"
#include "runtime/state.h"

namespace softcuda::runtime {
namespace {

bool Fail(InstantiateFailure* failure, CUresult code,
          CUgraphInstantiateResult result, CUgraphNode node) {
  *failure = {code, result, node};
  return false;
}

bool MayBeInBody(CUgraphNodeType type) {
  switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
    case CU_GRAPH_NODE_TYPE_EMPTY:
    case CU_GRAPH_NODE_TYPE_GRAPH:
    case CU_GRAPH_NODE_TYPE_MEMSET:
    case CU_GRAPH_NODE_TYPE_MEMCPY:
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
      return true;
    default:
      return false;
  }
}

// Whether the body of a conditional node holds what it may, children included.
bool CheckBody(const Graph& body, int device, InstantiateFailure* failure) {
  for (const auto& node : body.nodes) {
    if (!MayBeInBody(node->type)) {
      return Fail(failure, CUDA_ERROR_INVALID_VALUE,
                  CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE, node->handle);
    }
    const auto* kernel = std::get_if<KernelOp>(node->operation.get());
    if (kernel != nullptr && kernel->device != device) {
      return Fail(failure, CUDA_ERROR_INVALID_VALUE,
                  CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED,
                  node->handle);
    }
    if (node->child != nullptr && !CheckBody(*node->child, device, failure)) {
      return false;
    }
  }
  return true;
}

// Gives the conditional nodes executable bodies.
bool MakeBodies(Runtime& runtime, const Graph& graph, const Topology& topology,
                Program* program, InstantiateFailure* failure);

std::shared_ptr<Exec> MakeExec(Runtime& runtime, const Graph& graph,
                               cuuint64_t flags, InstantiateFailure* failure) {
  Flattener flattener;
  if (!flattener.AddGraph(graph, failure)) return nullptr;
  auto exec = std::make_shared<Exec>();
  exec->flags = flags;
  exec->topology = flattener.MakeTopology();
  exec->shape = flattener.shape();
  auto program = std::make_shared<Program>();
  program->operations = std::move(flattener.operations());
  program->enabled.assign(program->operations.size(), true);
  exec->pending.resize(program->operations.size());
  if (!MakeBodies(runtime, graph, *exec->topology, program.get(), failure)) {
    return nullptr;
  }
  exec->program = std::move(program);
  RefreshModules(*exec);
  return exec;
}

bool MakeBodies(Runtime& runtime, const Graph& graph, const Topology& topology,
                Program* program, InstantiateFailure* failure) {
  for (const auto& node : graph.nodes) {
    if (node->type != CU_GRAPH_NODE_TYPE_CONDITIONAL) continue;
    auto conditional = std::get<ConditionalOp>(*node->operation);
    conditional.bodies.clear();
    for (const auto& body : node->bodies) {
      if (!CheckBody(*body, conditional.condition->device, failure)) {
        return false;
      }
      auto exec = MakeExec(runtime, *body, 0, failure);
      if (exec == nullptr) return false;
      conditional.bodies.push_back(std::move(exec));
    }
    const uint32_t item = topology.item_of_node.at(HandleBits(node->handle));
    program->operations[item] =
        std::make_shared<const Operation>(std::move(conditional));
  }
  return true;
}

// Whether a graph that may be instantiated once only already is.
bool IsTaken(const Runtime& runtime, const Graph& graph) {
  return graph.last_exec != nullptr &&
         runtime.execs.Find(graph.last_exec) != nullptr &&
         (HasMemoryNodes(graph) || HasConditionalNodes(graph));
}

}  // namespace

std::shared_ptr<Exec> InstantiateGraph(Runtime& runtime, Graph& graph,
                                       cuuint64_t flags,
                                       InstantiateFailure* failure) {
  if (IsTaken(runtime, graph)) {
    Fail(failure, CUDA_ERROR_NOT_SUPPORTED, CUDA_GRAPH_INSTANTIATE_ERROR,
         nullptr);
    return nullptr;
  }
  for (const auto& condition : graph.conditions) {
    if (condition->has_node) continue;
    Fail(failure, CUDA_ERROR_INVALID_VALUE,
         CUDA_GRAPH_INSTANTIATE_CONDITIONAL_HANDLE_UNUSED, nullptr);
    return nullptr;
  }
  auto exec = MakeExec(runtime, graph, flags, failure);
  if (exec == nullptr) return nullptr;
  exec->conditions = graph.conditions;
  for (const UserObjectHold& hold : graph.user_objects) {
    exec->user_objects.push_back(hold.Copy());
  }
  exec->handle = runtime.execs.Add(exec);
  graph.last_exec = exec->handle;
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
  const auto add = [&](const std::shared_ptr<LoadedModule>& module) {
    if (std::find(exec.modules.begin(), exec.modules.end(), module) ==
        exec.modules.end()) {
      exec.modules.push_back(module);
    }
  };
  for (const auto& operation : exec.program->operations) {
    if (const auto* kernel = std::get_if<KernelOp>(operation.get())) {
      add(kernel->function->module);
    } else if (const auto* node = std::get_if<ConditionalOp>(operation.get())) {
      for (const auto& body : node->bodies) {
        for (const auto& module : body->modules) add(module);
      }
    }
  }
}

}  // namespace softcuda::runtime
