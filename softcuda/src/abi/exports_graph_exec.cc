// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Executable graphs: instantiation, launches, updates.
#include <memory>
#include <utility>
#include <vector>

#include "abi/cuda_abi.h"
#include "abi/node_params.h"
#include "memory/address_space.h"
#include "runtime/call.h"
#include "runtime/capture.h"
#include "runtime/copy.h"
#include "runtime/graph_exec.h"
#include "runtime/graph_memory.h"
#include "runtime/host_sources.h"
#include "runtime/task_order.h"

using softcuda::abi::FromV1;
using softcuda::abi::FromV2;
using softcuda::abi::KernelNodeParams;
using softcuda::abi::MakeHostNode;
using softcuda::abi::MakeKernelNode;
using softcuda::abi::MakeMemcpyNode;
using softcuda::abi::MakeMemsetNode;
using softcuda::runtime::Api;
using softcuda::runtime::Call;
using softcuda::runtime::CopyOp;
using softcuda::runtime::Event;
using softcuda::runtime::EventRecordOp;
using softcuda::runtime::EventState;
using softcuda::runtime::EventWaitOp;
using softcuda::runtime::Exec;
using softcuda::runtime::Executor;
using softcuda::runtime::HostSources;
using softcuda::runtime::InstantiateFailure;
using softcuda::runtime::InstantiateGraph;
using softcuda::runtime::KernelOp;
using softcuda::runtime::MemFreeOp;
using softcuda::runtime::MemsetOp;
using softcuda::runtime::Operation;
using softcuda::runtime::Task;
using softcuda::runtime::TracksOrder;

namespace {

constexpr cuuint64_t kFlagsWithoutUpload =
    CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
    CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |
    CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
constexpr cuuint64_t kFlags =
    kFlagsWithoutUpload | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;

// Instantiates for a call whose flags were checked against `allowed`.
CUresult Instantiate(Call& call, CUgraphExec* out, CUgraph handle,
                     cuuint64_t flags, cuuint64_t allowed,
                     InstantiateFailure* failure) {
  *failure = {CUDA_ERROR_INVALID_VALUE, CUDA_GRAPH_INSTANTIATE_ERROR, nullptr};
  if (out == nullptr || (flags & ~allowed) != 0) return failure->code;
  const auto graph = call.Find(handle);
  // A graph that is being captured into is not complete.
  if (graph == nullptr || graph->capturing ||
      graph->owner == softcuda::runtime::GraphOwner::kNode) {
    return failure->code;
  }
  if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0) {
    if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) == 0) {
      softcuda::runtime::ReportUnsupported(call.name(),
                                           "graphs launched by the device");
      failure->code = CUDA_ERROR_NOT_SUPPORTED;
    }
    return failure->code;
  }
  const auto exec = InstantiateGraph(call.runtime(), *graph,
                                     flags & kFlagsWithoutUpload, failure);
  if (exec == nullptr) return failure->code;
  exec->device = call.device().ordinal;
  *failure = {};
  *out = exec->handle;
  return CUDA_SUCCESS;
}

// An upload does everything that a launch does but run: nothing, then, except
// to take its place in the order.
void EnqueueUpload(Call& call, Exec& exec) {
  const auto marker = call.runtime().executor.NewTask(call.name());
  Executor::AddDependency(exec.last_launch, marker);
  call.Enqueue(marker);
}

// What a call gives that has no parameters: what it may not do comes first.
CUresult WithoutParams(Api api) {
  const Call call(api);
  return call.ok() ? CUDA_ERROR_INVALID_VALUE : call.result();
}

CUresult InstantiateWithParams(CUgraphExec* out, CUgraph graph,
                               CUDA_GRAPH_INSTANTIATE_PARAMS* params,
                               bool per_thread) {
  if (params == nullptr) return WithoutParams(Api::kGraphInstantiateWithParams);
  // Without the flag the stream is not looked at.
  const bool upload = (params->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0;
  Call call(Api::kGraphInstantiateWithParams,
            upload ? params->hUploadStream : nullptr, per_thread);
  params->hErrNode_out = nullptr;
  params->result_out = CUDA_GRAPH_INSTANTIATE_ERROR;
  if (!call.ok()) return call.result();
  InstantiateFailure failure;
  const CUresult result =
      Instantiate(call, out, graph, params->flags, kFlags, &failure);
  params->hErrNode_out = failure.node;
  params->result_out = failure.result;
  if (result != CUDA_SUCCESS) return result;
  if (upload && !call.capturing()) EnqueueUpload(call, *call.Find(*out));
  return CUDA_SUCCESS;
}

CUresult InstantiateWithLog(CUgraphExec* out, CUgraph graph,
                            CUgraphNode* error_node, char* log,
                            size_t log_bytes) {
  Call call(Api::kGraphInstantiate);
  if (!call.ok()) return call.result();
  InstantiateFailure failure;
  const CUresult result = Instantiate(call, out, graph, 0, 0, &failure);
  if (error_node != nullptr) *error_node = failure.node;
  if (log != nullptr && log_bytes > 0) log[0] = '\0';
  return result;
}

CUresult Upload(CUgraphExec handle, CUstream stream, bool per_thread) {
  Call call(Api::kGraphUpload, stream, per_thread);
  if (!call.ok()) return call.result();
  const auto exec = call.Find(handle);
  if (exec == nullptr) return call.Fail();
  if (call.capturing()) {
    Invalidate(*call.stream().capture);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  EnqueueUpload(call, *exec);
  return CUDA_SUCCESS;
}

// Makes the launch's nodes wait for events as they are now.
void HoldForEvents(Call& call, const std::shared_ptr<Task>& launch) {
  for (const uint32_t item : launch->exec->topology->wait_nodes) {
    const auto& wait =
        std::get<EventWaitOp>(*launch->program->operations[item]);
    const Event& event = *wait.event;
    if (event.state != EventState::kRecorded ||
        (event.work->done && !TracksOrder())) {
      continue;
    }
    launch->external_waits.emplace_back(item, 1);
    const auto bridge = call.runtime().executor.NewTask(call.name());
    bridge->bridged_launch = launch;
    bridge->bridged_node = item;
    Executor::AddDependency(event.work, bridge);
    OrderBeforeItem(*bridge, *launch, item);
    launch->late_behind.push_back(bridge);
    call.runtime().executor.Submit(bridge);
  }
}

// From now on its events stand for this launch's record nodes.
void RecordEvents(Call& call, const std::shared_ptr<Task>& launch) {
  for (const uint32_t item : launch->exec->topology->record_nodes) {
    const auto& record =
        std::get<EventRecordOp>(*launch->program->operations[item]);
    auto mark = call.runtime().executor.NewTask(call.name());
    Event& event = *record.event;
    event.state = EventState::kRecorded;
    event.work = mark;
    event.capture.reset();
    event.dependencies.clear();
    OrderBehindItem(*launch, item, *mark);
    mark->late_behind.push_back(launch);
    launch->record_marks.emplace_back(item, std::move(mark));
  }
}

// From now on nobody but the launch changes what its copies read.
void ExpectHostSources(Task& launch) {
  const auto& operations = launch.program->operations;
  for (size_t item = 0; item < operations.size(); ++item) {
    if (!launch.program->enabled[item]) continue;
    const uint64_t number = HostSources::Get().Expect(*operations[item]);
    if (number == 0) continue;
    launch.host_sources.emplace(static_cast<int64_t>(item), number);
  }
}

CUresult Launch(CUgraphExec handle, CUstream stream, bool per_thread) {
  Call call(Api::kGraphLaunch, stream, per_thread);
  if (!call.ok()) return call.result();
  const auto exec = call.Find(handle);
  if (exec == nullptr) return call.Fail();
  for (const auto& module : exec->modules) {
    if (module->unloaded) {
      softcuda::runtime::ReportMisuse(
          call.name(), "the module of one of its kernels was unloaded");
    }
  }
  std::vector<MemFreeOp> auto_frees;
  const CUresult result =
      PrepareGraphMemory(*exec, *exec->program, &auto_frees);
  if (result != CUDA_SUCCESS) return result;
  for (const MemFreeOp& free : auto_frees) {
    call.Issue(CU_GRAPH_NODE_TYPE_MEM_FREE, free);
  }
  const auto launch = call.runtime().executor.NewTask(call.name());
  launch->exec = exec;
  launch->program = exec->program;
  Executor::AddDependency(exec->last_launch, launch);
  exec->last_launch = launch;
  PlaceGraphItems(launch.get());
  ExpectHostSources(*launch);
  HoldForEvents(call, launch);
  RecordEvents(call, launch);
  call.Enqueue(launch);
  return CUDA_SUCCESS;
}

// The item of an executable graph that came from a node, which must exist and
// be of one of the given types.
bool FindItem(Call& call, const Exec& exec, CUgraphNode handle,
              CUgraphNodeType type, uint32_t* item) {
  const auto node = call.Find(handle);
  if (node == nullptr) return false;
  const auto& items = exec.topology->item_of_node;
  const auto found = items.find(softcuda::runtime::HandleBits(handle));
  if (found == items.end() || node->type != type) {
    call.Fail(CUDA_ERROR_INVALID_VALUE);
    return false;
  }
  *item = found->second;
  return true;
}

// Replaces what an item does by what `make` fills in, given what it does now.
template <typename Make>
CUresult SetItem(Call& call, CUgraphExec exec_handle, CUgraphNode node,
                 CUgraphNodeType type, const Make& make) {
  if (!call.ok()) return call.result();
  const auto exec = call.Find(exec_handle);
  if (exec == nullptr) return call.Fail();
  uint32_t item = 0;
  if (!FindItem(call, *exec, node, type, &item)) return call.Fail();
  Operation operation;
  const CUresult result = make(*exec->program->operations[item], &operation);
  if (result != CUDA_SUCCESS) return result;
  ReplaceOperation(*exec, item,
                   std::make_shared<const Operation>(std::move(operation)));
  return CUDA_SUCCESS;
}

CUresult SetKernel(CUgraphExec exec, CUgraphNode node,
                   const KernelNodeParams& params) {
  Call call(Api::kGraphExecKernelNodeSetParams);
  return SetItem(call, exec, node, CU_GRAPH_NODE_TYPE_KERNEL,
                 [&](const Operation& old, Operation* operation) {
                   const CUresult result =
                       MakeKernelNode(call, params, operation);
                   if (result == CUDA_SUCCESS) {
                     std::get<KernelOp>(*operation).priority =
                         std::get<KernelOp>(old).priority;
                   }
                   return result;
                 });
}

// Whether a copy may take another one's place: both in a row, with each side in
// the same kind of memory.
bool IsSameKindOfCopy(const CopyOp& a, const CopyOp& b) {
  return IsLinear(a) && IsLinear(b) && SourceIsHost(a) == SourceIsHost(b) &&
         TargetIsHost(a) == TargetIsHost(b);
}

CUresult SetEvent(Api api, CUgraphExec exec, CUgraphNode node, CUevent handle,
                  CUgraphNodeType type) {
  Call call(api);
  return SetItem(call, exec, node, type,
                 [&](const Operation&, Operation* operation) {
                   auto event = call.Find(handle);
                   if (event == nullptr) return CUDA_ERROR_INVALID_VALUE;
                   if (type == CU_GRAPH_NODE_TYPE_EVENT_RECORD) {
                     *operation = EventRecordOp{std::move(event)};
                   } else {
                     *operation = EventWaitOp{std::move(event)};
                   }
                   return CUDA_SUCCESS;
                 });
}

bool CanBeDisabled(CUgraphNodeType type) {
  return type == CU_GRAPH_NODE_TYPE_KERNEL ||
         type == CU_GRAPH_NODE_TYPE_MEMCPY || type == CU_GRAPH_NODE_TYPE_MEMSET;
}

// The item of a node that can be disabled.
bool FindSwitchable(Call& call, const Exec& exec, CUgraphNode handle,
                    uint32_t* item) {
  const auto node = call.Find(handle);
  if (node == nullptr) return false;
  if (!CanBeDisabled(node->type)) {
    call.Fail(CUDA_ERROR_INVALID_VALUE);
    return false;
  }
  return FindItem(call, exec, handle, node->type, item);
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuGraphInstantiate(CUgraphExec* exec, CUgraph graph,
                                    CUgraphNode* error_node, char* log,
                                    size_t log_bytes) {
  return InstantiateWithLog(exec, graph, error_node, log, log_bytes);
}
CUresult CUDAAPI cuGraphInstantiate_v2(CUgraphExec* exec, CUgraph graph,
                                       CUgraphNode* error_node, char* log,
                                       size_t log_bytes) {
  return InstantiateWithLog(exec, graph, error_node, log, log_bytes);
}
CUresult CUDAAPI cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph,
                                             unsigned long long flags) {
  Call call(Api::kGraphInstantiate);
  if (!call.ok()) return call.result();
  InstantiateFailure failure;
  return Instantiate(call, exec, graph, flags, kFlagsWithoutUpload, &failure);
}
CUresult CUDAAPI cuGraphInstantiateWithParams(
    CUgraphExec* exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  return InstantiateWithParams(exec, graph, params, false);
}
CUresult CUDAAPI cuGraphInstantiateWithParams_ptsz(
    CUgraphExec* exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  return InstantiateWithParams(exec, graph, params, true);
}

CUresult CUDAAPI cuGraphExecGetFlags(CUgraphExec handle, cuuint64_t* flags) {
  Call call(Api::kGraphExecGetFlags);
  if (!call.ok()) return call.result();
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto exec = call.Find(handle);
  if (exec == nullptr) return call.Fail();
  *flags = exec->flags;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphExecDestroy(CUgraphExec handle) {
  Call call(Api::kGraphExecDestroy);
  if (!call.ok()) return call.result();
  if (call.Find(handle) == nullptr) return call.Fail();
  // Launches in flight keep the object until they are done.
  call.runtime().execs.Erase(handle);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphUpload(CUgraphExec exec, CUstream stream) {
  return Upload(exec, stream, false);
}
CUresult CUDAAPI cuGraphUpload_ptsz(CUgraphExec exec, CUstream stream) {
  return Upload(exec, stream, true);
}
CUresult CUDAAPI cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  return Launch(exec, stream, false);
}
CUresult CUDAAPI cuGraphLaunch_ptsz(CUgraphExec exec, CUstream stream) {
  return Launch(exec, stream, true);
}

CUresult CUDAAPI
cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                               const CUDA_KERNEL_NODE_PARAMS_v1* params) {
  if (params == nullptr) {
    return WithoutParams(Api::kGraphExecKernelNodeSetParams);
  }
  return SetKernel(exec, node, FromV1(*params));
}
CUresult CUDAAPI
cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                  const CUDA_KERNEL_NODE_PARAMS_v2* params) {
  if (params == nullptr) {
    return WithoutParams(Api::kGraphExecKernelNodeSetParams);
  }
  return SetKernel(exec, node, FromV2(*params));
}

CUresult CUDAAPI cuGraphExecMemcpyNodeSetParams(CUgraphExec exec,
                                                CUgraphNode node,
                                                const CUDA_MEMCPY3D* params,
                                                CUcontext context) {
  Call call(Api::kGraphExecMemcpyNodeSetParams);
  if (call.ok() && params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return SetItem(call, exec, node, CU_GRAPH_NODE_TYPE_MEMCPY,
                 [&](const Operation& old, Operation* operation) {
                   const CUresult result =
                       MakeMemcpyNode(call, *params, context, operation);
                   if (result != CUDA_SUCCESS) return result;
                   return IsSameKindOfCopy(std::get<CopyOp>(old),
                                           std::get<CopyOp>(*operation))
                              ? CUDA_SUCCESS
                              : CUDA_ERROR_INVALID_VALUE;
                 });
}

CUresult CUDAAPI cuGraphExecMemsetNodeSetParams(
    CUgraphExec exec, CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS* params,
    CUcontext context) {
  Call call(Api::kGraphExecMemsetNodeSetParams);
  if (call.ok() && params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return SetItem(call, exec, node, CU_GRAPH_NODE_TYPE_MEMSET,
                 [&](const Operation& old, Operation* operation) {
                   const CUresult result =
                       MakeMemsetNode(call, *params, context, operation);
                   if (result != CUDA_SUCCESS) return result;
                   return std::get<MemsetOp>(old).rows == 1 &&
                                  std::get<MemsetOp>(*operation).rows == 1
                              ? CUDA_SUCCESS
                              : CUDA_ERROR_INVALID_VALUE;
                 });
}

CUresult CUDAAPI cuGraphExecHostNodeSetParams(
    CUgraphExec exec, CUgraphNode node, const CUDA_HOST_NODE_PARAMS* params) {
  Call call(Api::kGraphExecHostNodeSetParams);
  if (call.ok() && params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return SetItem(call, exec, node, CU_GRAPH_NODE_TYPE_HOST,
                 [&](const Operation&, Operation* operation) {
                   return MakeHostNode(params->fn, params->userData, operation);
                 });
}

CUresult CUDAAPI cuGraphExecEventRecordNodeSetEvent(CUgraphExec exec,
                                                    CUgraphNode node,
                                                    CUevent event) {
  return SetEvent(Api::kGraphExecEventRecordNodeSetEvent, exec, node, event,
                  CU_GRAPH_NODE_TYPE_EVENT_RECORD);
}
CUresult CUDAAPI cuGraphExecEventWaitNodeSetEvent(CUgraphExec exec,
                                                  CUgraphNode node,
                                                  CUevent event) {
  return SetEvent(Api::kGraphExecEventWaitNodeSetEvent, exec, node, event,
                  CU_GRAPH_NODE_TYPE_WAIT_EVENT);
}

CUresult CUDAAPI cuGraphNodeSetEnabled(CUgraphExec exec_handle,
                                       CUgraphNode node, unsigned int enabled) {
  Call call(Api::kGraphNodeSetEnabled);
  if (!call.ok()) return call.result();
  const auto exec = call.Find(exec_handle);
  if (exec == nullptr) return call.Fail();
  uint32_t item = 0;
  if (!FindSwitchable(call, *exec, node, &item)) return call.Fail();
  SetItemEnabled(*exec, item, enabled != 0);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGraphNodeGetEnabled(CUgraphExec exec_handle,
                                       CUgraphNode node,
                                       unsigned int* enabled) {
  Call call(Api::kGraphNodeGetEnabled);
  if (!call.ok()) return call.result();
  if (enabled == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto exec = call.Find(exec_handle);
  if (exec == nullptr) return call.Fail();
  uint32_t item = 0;
  if (!FindSwitchable(call, *exec, node, &item)) return call.Fail();
  *enabled = exec->program->enabled[item] ? 1 : 0;
  return CUDA_SUCCESS;
}

}  // extern "C"
