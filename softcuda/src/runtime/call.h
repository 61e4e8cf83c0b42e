// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_RUNTIME_CALL_H_
#define SOFTCUDA_RUNTIME_CALL_H_

#include <cuda.h>

#include <memory>
#include <vector>

#include "runtime/policy.h"
#include "runtime/state.h"

namespace softcuda::runtime {

/// One call of an entry point: takes the lock, checks the policy, and looks up
/// handles. It keeps the lock until it is destroyed.
///
/// Typical use:
///   Call call(Api::kEventRecord, stream);
///   if (!call.ok()) return call.result();
///   const auto event = call.Find(handle);
///   if (event == nullptr) return call.Fail();
class Call {
 public:
  explicit Call(Api api);
  /// For a call with a stream argument. `per_thread` is for symbols whose null
  /// stream is the per-thread one.
  Call(Api api, CUstream stream, bool per_thread = false);
  /// For a call about a whole context; null stands for the current one.
  Call(Api api, CUcontext context);
  /// For a call that waits for, or asks about, an event.
  Call(Api api, CUevent event);
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  bool ok() const { return result_ == CUDA_SUCCESS; }
  CUresult result() const { return result_; }
  const char* name() const { return policy_.name; }
  Runtime& runtime() { return runtime_; }
  ThreadState& thread() { return thread_; }
  Lock& lock() { return lock_; }

  /// The device of the call's context, or of the current one; the first one
  /// without a context.
  Device& device() { return *device_; }
  Stream& stream() { return *stream_; }
  const std::shared_ptr<Event>& event() const { return event_; }
  /// Whether the call's stream records; never true unless ok().
  bool capturing() const {
    return stream_ != nullptr && stream_->capture != nullptr;
  }

  /// The objects behind handles; null, with result() set, when there is none.
  std::shared_ptr<Stream> Find(CUstream handle);
  std::shared_ptr<Event> Find(CUevent handle);
  std::shared_ptr<LoadedModule> Find(CUmodule handle);
  std::shared_ptr<Library> Find(CUlibrary handle);
  std::shared_ptr<Function> Find(CUkernel handle);
  /// Takes a CUkernel in the guise of a CUfunction too.
  std::shared_ptr<Function> Find(CUfunction handle);
  std::shared_ptr<Graph> Find(CUgraph handle);
  std::shared_ptr<Node> Find(CUgraphNode handle);
  std::shared_ptr<Exec> Find(CUgraphExec handle);
  std::shared_ptr<UserObject> Find(CUuserObject handle);
  std::shared_ptr<memory::Pool> Find(CUmemoryPool handle);

  /// The dependencies that a call names, which must be distinct nodes of
  /// `graph`. `edges` may be null. False, with result() set, if they are not.
  bool FindDependencies(const Graph& graph, const CUgraphNode* nodes,
                        const CUgraphEdgeData* edges, size_t count,
                        std::vector<Dependency>* dependencies);

  /// The device whose active context this is; null stands for the current
  /// context. Null, with result() set, if there is none.
  Device* FindDevice(CUcontext context);

  /// Whether FindDevice() finds one.
  bool CheckContext(CUcontext context) {
    return FindDevice(context) != nullptr;
  }

  /// Ends the call with an error: of a call that its stream would have
  /// recorded, that breaks the capture, because the graph would miss a node.
  CUresult Fail(CUresult result);
  CUresult Fail() { return Fail(result_); }

  /// Records the operation if the stream captures, else enqueues it. The task,
  /// or null when it was recorded.
  std::shared_ptr<Task> Issue(CUgraphNodeType type, Operation operation);

  /// Enqueues a task that is ready to be submitted.
  void Enqueue(const std::shared_ptr<Task>& task);

  /// Blocks until the task is done, and answers with the sticky error.
  CUresult Wait(const std::shared_ptr<Task>& task);
  CUresult StickyResult() const;

 private:
  template <typename Table, typename Handle>
  auto Lookup(const Table& table, Handle handle, CUresult error,
              const char* what);

  Runtime& runtime_;
  ThreadState& thread_;
  const ApiPolicy& policy_;
  Lock lock_;
  CUresult result_;
  Device* device_ = nullptr;
  std::shared_ptr<Stream> stream_;
  std::shared_ptr<Event> event_;
};

}  // namespace softcuda::runtime

#endif  // SOFTCUDA_RUNTIME_CALL_H_
