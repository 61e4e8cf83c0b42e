// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_RUNTIME_STATE_H_
#define SOFTCUDA_RUNTIME_STATE_H_

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/device.h"
#include "runtime/graph.h"
#include "runtime/graph_exec.h"
#include "runtime/handle.h"
#include "runtime/objects.h"
#include "runtime/task.h"

namespace softcuda::runtime {

/// What belongs to one host thread.
struct ThreadState {
  ThreadState();
  ~ThreadState();
  ThreadState(const ThreadState&) = delete;
  ThreadState& operator=(const ThreadState&) = delete;

  uint64_t id;
  CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::vector<CUcontext> contexts;
  // By device; made when the thread first names CU_STREAM_PER_THREAD there.
  std::map<int, std::shared_ptr<Stream>> per_thread_streams;
  bool in_host_function = false;
};

ThreadState& ThisThread();

/// Everything the driver knows. One of it, never destroyed: its threads and the
/// caller's static destructors may use it until the process is gone.
///
/// Threads: `mutex` guards every member that is not atomic.
struct Runtime {
  Runtime();

  std::mutex mutex;
  Executor executor;

  std::atomic<bool> initialized{false};
  std::atomic<int> sticky{CUDA_SUCCESS};
  std::atomic<bool> execution_enabled{true};
  std::atomic<int64_t> kernels_executed{0};
  std::atomic<int64_t> unknown_calls_during_capture{0};

  // Fixed from cuInit on.
  std::vector<std::unique_ptr<Device>> devices;

  HandleTable<CUstream, Stream, HandleKind::kStream> streams;
  HandleTable<CUevent, Event, HandleKind::kEvent> events;
  HandleTable<CUmodule, LoadedModule, HandleKind::kModule> modules;
  HandleTable<CUlibrary, Library, HandleKind::kLibrary> libraries;
  HandleTable<CUfunction, Function, HandleKind::kFunction> functions;
  HandleTable<CUkernel, Function, HandleKind::kKernel> kernels;
  HandleTable<CUgraph, Graph, HandleKind::kGraph> graphs;
  HandleTable<CUgraphNode, Node, HandleKind::kNode> nodes;
  HandleTable<CUgraphExec, Exec, HandleKind::kExec> execs;
  HandleTable<CUuserObject, UserObject, HandleKind::kUserObject> user_objects;
  HandleTable<CUmemoryPool, memory::Pool, HandleKind::kPool> pools;

  uint64_t next_stream_id = 1;

  // Allocation nodes by address; those that are gone may still be listed.
  std::map<uint64_t, std::weak_ptr<GraphAllocation>> graph_allocations;

  // By handle; those that are gone may still be listed.
  std::map<CUgraphConditionalHandle, std::weak_ptr<Condition>> conditions;

  // Captures that were begun and not ended.
  std::vector<std::shared_ptr<Capture>> captures;
  uint64_t next_capture_id = 1;
};

Runtime& TheRuntime();

/// Records the sticky error; the first one wins. The lock may be held.
void SetStickyError(Runtime& runtime, CUresult result, const std::string& log);

/// Makes the devices anew. Only before cuInit.
void MakeDevices(Runtime& runtime, int count);

/// The device of that ordinal, or null.
Device* FindDevice(Runtime& runtime, int ordinal);
/// The device of a stream, event or module that exists.
Device& DeviceAt(Runtime& runtime, int ordinal);

/// The device whose context this is, or null.
Device* DeviceOfContext(Runtime& runtime, CUcontext context);

bool IsDefaultPool(const Runtime& runtime, const memory::Pool& pool);

/// Every stream of the device that is not the legacy one.
std::vector<Stream*> AllStreams(Runtime& runtime, const Device& device);

/// Adds a misuse report: what `api` was given that no caller should give.
void ReportMisuse(const char* api, const std::string& what);

/// Writes a line to stderr, unless reports are quiet.
void LogLine(const std::string& text);

/// Tells, in a log line and not as a finding, that softcuda does not have what
/// the call asks for.
void ReportUnsupported(const char* api, const std::string& what);

/// Orders `task` behind what `stream` holds, by the rules of the legacy stream,
/// and makes it the stream's newest item. Does not submit it.
void AppendToStream(Runtime& runtime, Stream& stream,
                    const std::shared_ptr<Task>& task);

/// Whether everything enqueued in the stream is done; for the legacy stream,
/// everything in the blocking streams too.
bool StreamIsIdle(Runtime& runtime, const Stream& stream);

/// Blocks until everything enqueued in the stream is done.
void WaitForStream(Runtime& runtime, Lock& lock, Stream& stream);

/// Makes a stream of the device and lists it.
std::shared_ptr<Stream> NewStream(Runtime& runtime, const Device& device,
                                  unsigned int flags, int priority);

/// Blocks until everything enqueued on the device so far is done.
void WaitForDevice(Runtime& runtime, Lock& lock, const Device& device);

/// Releases what pools cache above their thresholds, as every wait does.
void TrimPoolsAfterWait();

}  // namespace softcuda::runtime

#endif  // SOFTCUDA_RUNTIME_STATE_H_
