// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/graph_memory.h"

#include <algorithm>
#include <utility>

#include "memory/address_space.h"
#include "runtime/state.h"

namespace softcuda::runtime {
namespace {

using memory::AddressSpace;

// The free of an allocation in the same program, if there is one.
bool IsFreedIn(const Program& program, const GraphAllocation& allocation) {
  return std::any_of(
      program.operations.begin(), program.operations.end(),
      [&](const std::shared_ptr<const Operation>& operation) {
        const auto* free = std::get_if<MemFreeOp>(operation.get());
        return free != nullptr && free->graph.get() == &allocation;
      });
}

bool IsAllocatedIn(const Program& program, const GraphAllocation& allocation) {
  return std::any_of(
      program.operations.begin(), program.operations.end(),
      [&](const std::shared_ptr<const Operation>& operation) {
        const auto* alloc = std::get_if<MemAllocOp>(operation.get());
        return alloc != nullptr && alloc->graph.get() == &allocation;
      });
}

}  // namespace

GraphAllocation::~GraphAllocation() {
  AddressSpace::Get().DropGraphRange(address, serial);
}

CUresult MakeGraphAllocation(Runtime& runtime, const Graph& graph,
                             CUDA_MEM_ALLOC_NODE_PARAMS* params,
                             MemAllocOp* operation) {
  const CUmemPoolProps& props = params->poolProps;
  if (props.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      props.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
      FindDevice(runtime, props.location.id) == nullptr ||
      params->accessDescCount > runtime.devices.size() ||
      (params->accessDescCount > 0 && params->accessDescs == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (props.handleTypes != CU_MEM_HANDLE_TYPE_NONE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::vector<memory::AccessGrant> grants;
  for (size_t i = 0; i < params->accessDescCount; ++i) {
    const CUmemAccessDesc& descriptor = params->accessDescs[i];
    if (descriptor.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        FindDevice(runtime, descriptor.location.id) == nullptr ||
        descriptor.flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    grants.push_back({descriptor.location.id, memory::Access::kReadWrite});
  }
  uint64_t address = 0;
  uint64_t serial = 0;
  const CUresult result = AddressSpace::Get().AddGraphRange(
      props.location.id, params->bytesize, grants, &address, &serial);
  if (result != CUDA_SUCCESS) return result;
  auto allocation = std::make_shared<GraphAllocation>();
  allocation->address = address;
  allocation->serial = serial;
  allocation->owner = &graph;
  allocation->access.assign(params->accessDescs,
                            params->accessDescs + params->accessDescCount);
  params->dptr = address;
  allocation->params = *params;
  allocation->params.accessDescs =
      allocation->access.empty() ? nullptr : allocation->access.data();
  runtime.graph_allocations[address] = allocation;
  operation->address = address;
  operation->serial = serial;
  operation->graph = std::move(allocation);
  return CUDA_SUCCESS;
}

CUresult MakeGraphFree(Runtime& runtime, const Graph& graph, uint64_t address,
                       MemFreeOp* operation) {
  const auto found = runtime.graph_allocations.find(address);
  if (found == runtime.graph_allocations.end()) return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<GraphAllocation> allocation = found->second.lock();
  if (allocation == nullptr) {
    runtime.graph_allocations.erase(found);
    return CUDA_ERROR_INVALID_VALUE;
  }
  const bool in_owner = allocation->owner == &graph;
  const bool repeated = std::any_of(
      graph.nodes.begin(), graph.nodes.end(), [&](const auto& node) {
        const auto* free = std::get_if<MemFreeOp>(node->operation.get());
        return free != nullptr && free->graph == allocation;
      });
  if (repeated || (in_owner ? allocation->has_free_elsewhere
                            : allocation->has_free_in_owner)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  (in_owner ? allocation->has_free_in_owner : allocation->has_free_elsewhere) =
      true;
  operation->address = address;
  operation->serial = allocation->serial;
  operation->graph = allocation;
  return CUDA_SUCCESS;
}

bool HasMemoryNodes(const Graph& graph) {
  return std::any_of(
      graph.nodes.begin(), graph.nodes.end(), [](const auto& node) {
        return node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
               node->type == CU_GRAPH_NODE_TYPE_MEM_FREE ||
               (node->child != nullptr && HasMemoryNodes(*node->child));
      });
}

CUresult PrepareGraphMemory(const Exec& exec, const Program& program,
                            std::vector<MemFreeOp>* auto_frees) {
  AddressSpace& space = AddressSpace::Get();
  const bool auto_free =
      (exec.flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0;
  for (const auto& operation : program.operations) {
    if (const auto* alloc = std::get_if<MemAllocOp>(operation.get())) {
      if (!space.IsGraphAllocated(alloc->address, alloc->serial)) continue;
      if (!auto_free) return CUDA_ERROR_INVALID_VALUE;
      auto_frees->push_back({alloc->address, alloc->serial, alloc->graph});
    } else if (const auto* free = std::get_if<MemFreeOp>(operation.get())) {
      if (!IsAllocatedIn(program, *free->graph) &&
          !space.IsGraphAllocated(free->address, free->serial)) {
        return CUDA_ERROR_INVALID_VALUE;
      }
    }
  }
  for (const auto& operation : program.operations) {
    const auto* alloc = std::get_if<MemAllocOp>(operation.get());
    if (alloc == nullptr) continue;
    const CUresult result = space.BackGraphRange(alloc->address, alloc->serial);
    if (result != CUDA_SUCCESS) return result;
  }
  for (const auto& operation : program.operations) {
    if (const auto* alloc = std::get_if<MemAllocOp>(operation.get())) {
      space.ScheduleGraphRange(alloc->address, alloc->serial,
                               !IsFreedIn(program, *alloc->graph));
    } else if (const auto* free = std::get_if<MemFreeOp>(operation.get())) {
      uint64_t serial = 0;
      if (!IsAllocatedIn(program, *free->graph)) {
        (void)space.BeginFree(free->address, 0, &serial);
      }
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace softcuda::runtime
