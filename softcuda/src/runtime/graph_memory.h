// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_RUNTIME_GRAPH_MEMORY_H_
#define SOFTCUDA_RUNTIME_GRAPH_MEMORY_H_

#include <cuda.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "runtime/graph_exec.h"

// Allocation and free nodes.
namespace softcuda::runtime {

/// What an allocation node allocates. Its nodes and the executable graphs made
/// from them share it; the address goes with the last of them, unless the
/// memory is still allocated.
///
/// Threads: the runtime's lock guards it.
struct GraphAllocation {
  ~GraphAllocation();

  uint64_t address = 0;
  uint64_t serial = 0;
  CUDA_MEM_ALLOC_NODE_PARAMS params = {};
  std::vector<CUmemAccessDesc> access;
  const Graph* owner = nullptr;  // compared only
  bool has_free_in_owner = false;
  bool has_free_elsewhere = false;
};

/// Makes what a new node of `graph` allocates, and fills in `params->dptr`.
///
/// Errors: INVALID_VALUE for bad properties; OUT_OF_MEMORY for more than the
///   device has; NOT_SUPPORTED for host memory and for exports.
CUresult MakeGraphAllocation(Runtime& runtime, const Graph& graph,
                             CUDA_MEM_ALLOC_NODE_PARAMS* params,
                             MemAllocOp* operation);

/// What a new free node of `graph` frees, which then counts as freed there.
///
/// Errors: INVALID_VALUE for what is no graph allocation, and for one that is
///   freed in this graph, or in the owning graph and another one.
CUresult MakeGraphFree(Runtime& runtime, const Graph& graph, uint64_t address,
                       MemFreeOp* operation);

/// Whether the graph has an allocation or free node, children and bodies
/// included.
bool HasMemoryNodes(const Graph& graph);

/// Checks that a launch may allocate and free what its graph does, gives the
/// allocations memory, and marks them. `*auto_frees` is what has to be freed in
/// the stream before the launch.
///
/// Errors: INVALID_VALUE when an earlier launch's memory is not freed yet, or
///   what is to be freed is not allocated; OUT_OF_MEMORY.
CUresult PrepareGraphMemory(const Exec& exec, const Program& program,
                            std::vector<MemFreeOp>* auto_frees);

}  // namespace softcuda::runtime

#endif  // SOFTCUDA_RUNTIME_GRAPH_MEMORY_H_
