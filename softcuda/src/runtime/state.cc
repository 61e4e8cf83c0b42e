// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/state.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "check/options.h"
#include "check/report.h"
#include "memory/address_space.h"
#include "runtime/answers.h"
#include "runtime/capture.h"
#include "runtime/context.h"
#include "runtime/error_names.h"
#include "runtime/executor.h"
#include "runtime/task_order.h"

namespace softcuda::runtime {
namespace {

std::atomic<uint64_t> next_thread_id{1};

}  // namespace

Runtime::Runtime() : executor(&mutex) {
  LoadAnswersFromEnvironment();
  MakeDevices(
      *this, static_cast<int>(check::NumberOption("PERMAFROST_SOFTCUDA_DEVICES",
                                                  1, 0, memory::kMaxDevices)));
}

void MakeDevices(Runtime& runtime, int count) {
  runtime.devices.clear();
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    auto device = std::make_unique<Device>();
    device->ordinal = ordinal;
    device->context = std::bit_cast<CUcontext>(
        HandleBits(HandleKind::kContext, static_cast<uint64_t>(ordinal) + 1));
    device->legacy = std::make_shared<Stream>();
    device->legacy->kind = StreamKind::kLegacy;
    device->legacy->handle = CU_STREAM_LEGACY;
    device->legacy->device = ordinal;
    device->legacy->id = runtime.next_stream_id++;
    runtime.devices.push_back(std::move(device));
  }
  memory::AddressSpace::Get().set_device_count(count);
}

Device* FindDevice(Runtime& runtime, int ordinal) {
  return ordinal >= 0 && static_cast<size_t>(ordinal) < runtime.devices.size()
             ? runtime.devices[static_cast<size_t>(ordinal)].get()
             : nullptr;
}

Device& DeviceAt(Runtime& runtime, int ordinal) {
  return *runtime.devices[static_cast<size_t>(ordinal)];
}

Runtime& TheRuntime() {
  static auto* const runtime = new Runtime;
  return *runtime;
}

ThreadState::ThreadState() : id(next_thread_id++) {}

ThreadState::~ThreadState() {
  if (per_thread_streams.empty()) return;
  Runtime& runtime = TheRuntime();
  const Lock lock(runtime.mutex);
  for (const auto& [ordinal, stream] : per_thread_streams) {
    Device& device = DeviceAt(runtime, ordinal);
    AbandonCapture(runtime, *stream);
    device.orphans.push_back(stream->last);
    std::erase(device.per_thread_streams, stream);
  }
  per_thread_streams.clear();
}

ThreadState& ThisThread() {
  thread_local ThreadState state;
  return state;
}

std::vector<Stream*> AllStreams(Runtime& runtime, const Device& device) {
  std::vector<Stream*> streams;
  for (const auto& [bits, stream] : runtime.streams.objects()) {
    if (stream->device == device.ordinal) streams.push_back(stream.get());
  }
  for (const auto& stream : device.per_thread_streams) {
    streams.push_back(stream.get());
  }
  return streams;
}

void ReportMisuse(const char* api, const std::string& what) {
  check::Report report;
  report.check = "misuse";
  report.what = std::string(api) + ": " + what;
  check::Reporter::Get().Add(std::move(report));
}

void ReportUnsupported(const char* api, const std::string& what) {
  LogLine(std::string(api) + ": " + what + " are not supported");
}

void LogLine(const std::string& text) {
  if (check::Reporter::Get().quiet()) return;
  std::fprintf(stderr, "softcuda: %s\n", text.c_str());
}

void SetStickyError(Runtime& runtime, CUresult result, const std::string& log) {
  int expected = CUDA_SUCCESS;
  if (!runtime.sticky.compare_exchange_strong(expected, result)) return;
  if (check::Reporter::Get().quiet()) return;
  std::fprintf(stderr, "softcuda: %s (%d) in %s; every later call returns it\n",
               ErrorName(result), static_cast<int>(result), log.c_str());
}

void SetSticky(CUresult result, const std::string& log) {
  SetStickyError(TheRuntime(), result, log);
}

CUresult Sticky() { return static_cast<CUresult>(TheRuntime().sticky.load()); }

std::shared_ptr<Stream> NewStream(Runtime& runtime, const Device& device,
                                  unsigned int flags, int priority) {
  auto stream = std::make_shared<Stream>();
  stream->device = device.ordinal;
  stream->flags = flags;
  stream->priority = priority;
  stream->id = runtime.next_stream_id++;
  stream->handle = runtime.streams.Add(stream);
  return stream;
}

void AppendToStream(Runtime& runtime, Stream& stream,
                    const std::shared_ptr<Task>& task) {
  Device& device = DeviceAt(runtime, stream.device);
  task->device = stream.device;
  if (stream.kind == StreamKind::kLegacy) {
    for (Stream* other : AllStreams(runtime, device)) {
      if (other->blocking()) Executor::AddDependency(other->last, task);
    }
    for (const auto& orphan : device.orphans) {
      Executor::AddDependency(orphan, task);
    }
    std::erase_if(device.orphans, [](const std::shared_ptr<Task>& orphan) {
      return orphan == nullptr || orphan->done;
    });
  } else if (stream.blocking()) {
    Executor::AddDependency(device.legacy->last, task);
  }
  const auto* kernel = task->operation == nullptr
                           ? nullptr
                           : std::get_if<KernelOp>(task->operation.get());
  task->is_kernel = kernel != nullptr;
  const bool programmatic = kernel != nullptr &&
                            kernel->programmatic_serialization &&
                            stream.last != nullptr && stream.last->is_kernel;
  Executor::AddDependency(stream.last, task, programmatic);
  stream.last = task;
}

bool StreamIsIdle(Runtime& runtime, const Stream& stream) {
  const auto idle = [](const std::shared_ptr<Task>& task) {
    return task == nullptr || task->done;
  };
  if (!idle(stream.last)) {
    runtime.executor.Want(stream.last);
    return false;
  }
  std::vector<std::shared_ptr<Task>> done = {stream.last};
  if (stream.kind == StreamKind::kLegacy) {
    const Device& device = DeviceAt(runtime, stream.device);
    for (const Stream* other : AllStreams(runtime, device)) {
      if (!other->blocking()) continue;
      if (!idle(other->last)) {
        runtime.executor.Want(other->last);
        return false;
      }
      done.push_back(other->last);
    }
    for (const auto& orphan : device.orphans) {
      if (idle(orphan)) continue;
      runtime.executor.Want(orphan);
      return false;
    }
    done.insert(done.end(), device.orphans.begin(), device.orphans.end());
  }
  for (const auto& task : done) {
    if (task != nullptr) NoteHostWaited(*task);
  }
  return true;
}

void WaitForStream(Runtime& runtime, Lock& lock, Stream& stream) {
  if (stream.kind != StreamKind::kLegacy) {
    if (stream.last != nullptr) runtime.executor.Wait(lock, stream.last);
    return;
  }
  const auto marker = runtime.executor.NewTask("wait");
  AppendToStream(runtime, stream, marker);
  runtime.executor.Submit(marker);
  runtime.executor.Wait(lock, marker);
}

void WaitForDevice(Runtime& runtime, Lock& lock, const Device& device) {
  runtime.executor.WaitAll(lock, device.ordinal);
}

void TrimPoolsAfterWait() { memory::AddressSpace::Get().TrimPools(); }

}  // namespace softcuda::runtime
