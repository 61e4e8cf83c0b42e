// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/call.h"

#include <algorithm>
#include <utility>

#include "runtime/answers.h"
#include "runtime/capture.h"
#include "runtime/context.h"
#include "runtime/host_sources.h"
#include "runtime/policy_check.h"

namespace softcuda::runtime {

Call::Call(Api api)
    : runtime_(TheRuntime()),
      thread_(ThisThread()),
      policy_(PolicyOf(api)),
      lock_(runtime_.mutex),
      result_(CheckReady(runtime_, thread_, api)),
      device_(CurrentDevice(runtime_, thread_)) {
  if (ok()) result_ = CheckCapture(runtime_, thread_, api, nullptr, nullptr);
}

Call::Call(Api api, CUstream stream, bool per_thread)
    : runtime_(TheRuntime()),
      thread_(ThisThread()),
      policy_(PolicyOf(api)),
      lock_(runtime_.mutex),
      result_(CheckReady(runtime_, thread_, api)),
      device_(CurrentDevice(runtime_, thread_)) {
  if (ok()) {
    result_ = FindStream(runtime_, thread_, policy_.name, stream, per_thread,
                         &stream_);
  }
  if (ok()) {
    result_ = CheckCapture(runtime_, thread_, api, stream_.get(), nullptr);
  }
}

Call::Call(Api api, CUcontext context)
    : runtime_(TheRuntime()),
      thread_(ThisThread()),
      policy_(PolicyOf(api)),
      lock_(runtime_.mutex),
      result_(CheckReady(runtime_, thread_, api)),
      device_(CurrentDevice(runtime_, thread_)) {
  Device* const device = ok() ? FindDevice(context) : nullptr;
  if (device == nullptr) return;
  device_ = device;
  result_ = CheckCapture(runtime_, thread_, api, device->legacy.get(), nullptr);
}

Call::Call(Api api, CUevent event)
    : runtime_(TheRuntime()),
      thread_(ThisThread()),
      policy_(PolicyOf(api)),
      lock_(runtime_.mutex),
      result_(CheckReady(runtime_, thread_, api)),
      device_(CurrentDevice(runtime_, thread_)) {
  if (ok()) event_ = Find(event);
  if (ok()) {
    result_ = CheckCapture(runtime_, thread_, api, nullptr, event_.get());
  }
}

template <typename Table, typename Handle>
auto Call::Lookup(const Table& table, Handle handle, CUresult error,
                  const char* what) {
  auto object = table.Find(handle);
  if (object == nullptr) {
    // A null handle is an argument error like any other.
    if (handle != nullptr) {
      ReportBadHandle(policy_.name, what, HandleBits(handle),
                      table.WasGiven(handle));
    }
    result_ = error;
  }
  return object;
}

std::shared_ptr<Stream> Call::Find(CUstream handle) {
  std::shared_ptr<Stream> stream;
  result_ = FindStream(runtime_, thread_, policy_.name, handle,
                       /*per_thread=*/false, &stream);
  return stream;
}
std::shared_ptr<Event> Call::Find(CUevent handle) {
  return Lookup(runtime_.events, handle, CUDA_ERROR_INVALID_HANDLE, "event");
}
std::shared_ptr<LoadedModule> Call::Find(CUmodule handle) {
  return Lookup(runtime_.modules, handle, CUDA_ERROR_INVALID_VALUE, "module");
}
std::shared_ptr<Library> Call::Find(CUlibrary handle) {
  return Lookup(runtime_.libraries, handle, CUDA_ERROR_INVALID_HANDLE,
                "library");
}
std::shared_ptr<Function> Call::Find(CUkernel handle) {
  return Lookup(runtime_.kernels, handle, CUDA_ERROR_INVALID_HANDLE, "kernel");
}
std::shared_ptr<Function> Call::Find(CUfunction handle) {
  if (HasKind(HandleBits(handle), HandleKind::kKernel)) {
    return Find(std::bit_cast<CUkernel>(handle));
  }
  return Lookup(runtime_.functions, handle, CUDA_ERROR_INVALID_HANDLE,
                "function");
}
std::shared_ptr<Graph> Call::Find(CUgraph handle) {
  return Lookup(runtime_.graphs, handle, CUDA_ERROR_INVALID_VALUE, "graph");
}
std::shared_ptr<Node> Call::Find(CUgraphNode handle) {
  return Lookup(runtime_.nodes, handle, CUDA_ERROR_INVALID_VALUE, "graph node");
}
std::shared_ptr<Exec> Call::Find(CUgraphExec handle) {
  return Lookup(runtime_.execs, handle, CUDA_ERROR_INVALID_VALUE,
                "executable graph");
}
std::shared_ptr<memory::Pool> Call::Find(CUmemoryPool handle) {
  return Lookup(runtime_.pools, handle, CUDA_ERROR_INVALID_VALUE,
                "memory pool");
}
std::shared_ptr<UserObject> Call::Find(CUuserObject handle) {
  return Lookup(runtime_.user_objects, handle, CUDA_ERROR_INVALID_VALUE,
                "user object");
}

bool Call::FindDependencies(const Graph& graph, const CUgraphNode* nodes,
                            const CUgraphEdgeData* edges, size_t count,
                            std::vector<Dependency>* dependencies) {
  dependencies->clear();
  // Distinct nodes of one graph: a larger count is a wild number.
  if (count > graph.nodes.size() || (count > 0 && nodes == nullptr)) {
    result_ = CUDA_ERROR_INVALID_VALUE;
    return false;
  }
  for (size_t i = 0; i < count; ++i) {
    Dependency dependency;
    dependency.node = Find(nodes[i]);
    if (dependency.node == nullptr) return false;
    const bool repeated = std::any_of(
        dependencies->begin(), dependencies->end(),
        [&](const Dependency& other) { return other.node == dependency.node; });
    if (dependency.node->graph != &graph || repeated) {
      result_ = CUDA_ERROR_INVALID_VALUE;
      return false;
    }
    if (edges != nullptr) dependency.edge = edges[i];
    dependencies->push_back(std::move(dependency));
  }
  return true;
}

Device* Call::FindDevice(CUcontext context) {
  if (context == nullptr && !thread_.contexts.empty()) {
    context = thread_.contexts.back();
  }
  Device* const device = DeviceOfContext(runtime_, context);
  if (device == nullptr) {
    result_ = CUDA_ERROR_INVALID_CONTEXT;
  } else if (device->retain_count == 0) {
    result_ = CUDA_ERROR_CONTEXT_IS_DESTROYED;
  }
  return ok() ? device : nullptr;
}

CUresult Call::Fail(CUresult result) {
  if (policy_.capture_class == CaptureClass::kRecorded && capturing() &&
      Says(Answer::kArgumentErrorInvalidates)) {
    Invalidate(*stream_->capture);
  }
  result_ = result;
  return result;
}

std::shared_ptr<Task> Call::Issue(CUgraphNodeType type, Operation operation) {
  auto shared = std::make_shared<const Operation>(std::move(operation));
  if (capturing()) {
    HostSources::NoteCapture(policy_.name, *shared);
    Record(runtime_, *stream_, type, std::move(shared));
    return nullptr;
  }
  auto task = runtime_.executor.NewTask(policy_.name);
  if (const uint64_t source = HostSources::Get().Expect(*shared)) {
    task->host_sources.emplace(-1, source);
  }
  task->operation = std::move(shared);
  Enqueue(task);
  return task;
}

void Call::Enqueue(const std::shared_ptr<Task>& task) {
  AppendToStream(runtime_, *stream_, task);
  runtime_.executor.Submit(task);
}

CUresult Call::Wait(const std::shared_ptr<Task>& task) {
  runtime_.executor.Wait(lock_, task);
  TrimPoolsAfterWait();
  return StickyResult();
}

CUresult Call::StickyResult() const {
  return static_cast<CUresult>(runtime_.sticky.load());
}

}  // namespace softcuda::runtime
