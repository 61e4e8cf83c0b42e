// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_RUNTIME_OPERATION_H_
#define SOFTCUDA_RUNTIME_OPERATION_H_

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "exec/launch.h"

// What a stream item or a graph node does. Operations are immutable once they
// are shared: an update makes a new one.
namespace softcuda::runtime {

struct Condition;
struct Event;
struct Exec;
struct Function;
struct GraphAllocation;

/// A node without work: an empty node, or the begin or end of a child graph.
struct EmptyOp {};

struct KernelOp {
  std::shared_ptr<Function> function;
  int device = 0;
  bool named_by_kernel = false;  // the launch gave a CUkernel
  exec::Dim3 grid;
  exec::Dim3 block;
  uint32_t dynamic_shared_bytes = 0;
  std::vector<std::byte> params;  // the parameter space
  bool params_packed = false;     // the launch gave them through `extra`
  int priority = 0;
  bool cooperative = false;
  // The launch may start before its predecessor ends, if that one allows it.
  bool programmatic_serialization = false;
};

/// One side of a copy: where its first byte lies and how rows and slices step.
/// Units: bytes.
struct CopySide {
  uint64_t address = 0;
  uint64_t row_pitch = 0;
  uint64_t slice_pitch = 0;
  bool pageable = false;  // host memory that no CUDA call has pinned
};

struct CopyOp {
  CopySide source;
  CopySide target;
  uint64_t width_bytes = 0;
  uint64_t rows = 1;
  uint64_t slices = 1;
  // The source's bytes, where they had to be taken during the call.
  std::shared_ptr<const std::vector<std::byte>> staged;
  // What a node query answers.
  CUDA_MEMCPY3D params = {};
};

struct MemsetOp {
  uint64_t address = 0;
  uint64_t row_pitch = 0;
  uint32_t value = 0;
  uint32_t element_bytes = 1;
  uint64_t width_elements = 0;
  uint64_t rows = 1;
};

struct HostOp {
  CUhostFn function = nullptr;
  // Set instead of `function` for cuStreamAddCallback, which hears of errors.
  CUstreamCallback callback = nullptr;
  CUstream callback_stream = nullptr;
  void* user_data = nullptr;
};

struct EventRecordOp {
  std::shared_ptr<Event> event;
};

struct EventWaitOp {
  std::shared_ptr<Event> event;
};

/// Where a stream reaches an allocation of a pool.
struct MemAllocOp {
  uint64_t address = 0;
  uint64_t serial = 0;  // of the allocation, among those at its address
  std::shared_ptr<GraphAllocation> graph;  // of a node; else null
};

/// Where a stream reaches the free of one.
struct MemFreeOp {
  uint64_t address = 0;
  uint64_t serial = 0;
  std::shared_ptr<GraphAllocation> graph;
};

/// A write to a word of memory, or a wait for one.
struct WordOp {
  uint64_t address = 0;
  uint64_t value = 0;
  uint32_t bytes = 4;  // or 8
  bool is_wait = false;
  unsigned int wait_kind = 0;  // a CUstreamWaitValue_flags
};

/// Words that are written and waited for, one after another.
struct MemOpsOp {
  std::vector<WordOp> words;
};

/// A node that runs one of its bodies, or the first one again and again.
struct ConditionalOp {
  std::shared_ptr<Condition> condition;
  CUgraphConditionalNodeType type = CU_GRAPH_COND_TYPE_IF;
  // In an executable graph only.
  std::vector<std::shared_ptr<Exec>> bodies;
};

using Operation =
    std::variant<EmptyOp, KernelOp, CopyOp, MemsetOp, HostOp, EventRecordOp,
                 EventWaitOp, MemAllocOp, MemFreeOp, MemOpsOp, ConditionalOp>;

/// Runs an operation that does work, on this thread and with no lock held.
///
/// `seed` orders what a kernel leaves open; `origin` is for reports; `point` is
/// where it stands in check::OperationOrder, 0 for nowhere.
/// Errors: CUDA_SUCCESS or a sticky code, with a report added.
CUresult RunOperation(const Operation& operation, uint64_t seed,
                      const std::string& origin, uint64_t point);

/// Calls a stream callback or host function. After an error only callbacks are
/// called, with that error.
void RunHostOperation(const HostOp& operation, CUresult status);

}  // namespace softcuda::runtime

#endif  // SOFTCUDA_RUNTIME_OPERATION_H_
