// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/state.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "check/report.h"
#include "runtime/capture.h"
#include "runtime/context.h"
#include "runtime/error_names.h"
#include "runtime/executor.h"

namespace softcuda::runtime {
namespace {

std::atomic<uint64_t> next_thread_id{1};

}  // namespace

Runtime::Runtime() : executor(&mutex) {
  legacy = std::make_shared<Stream>();
  legacy->kind = StreamKind::kLegacy;
  legacy->handle = CU_STREAM_LEGACY;
  legacy->id = next_stream_id++;
}

Runtime& TheRuntime() {
  static auto* const runtime = new Runtime;
  return *runtime;
}

ThreadState::ThreadState() : id(next_thread_id++) {}

ThreadState::~ThreadState() {
  if (per_thread_stream == nullptr) return;
  Runtime& runtime = TheRuntime();
  const Lock lock(runtime.mutex);
  AbandonCapture(runtime, *per_thread_stream);
  runtime.orphans.push_back(per_thread_stream->last);
  std::erase(runtime.per_thread_streams, per_thread_stream);
  per_thread_stream.reset();
}

ThreadState& ThisThread() {
  thread_local ThreadState state;
  return state;
}

std::vector<Stream*> AllStreams(Runtime& runtime) {
  std::vector<Stream*> streams;
  for (const auto& [bits, stream] : runtime.streams.objects()) {
    streams.push_back(stream.get());
  }
  for (const auto& stream : runtime.per_thread_streams) {
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

std::shared_ptr<Stream> NewStream(Runtime& runtime, unsigned int flags,
                                  int priority) {
  auto stream = std::make_shared<Stream>();
  stream->flags = flags;
  stream->priority = priority;
  stream->id = runtime.next_stream_id++;
  stream->handle = runtime.streams.Add(stream);
  return stream;
}

void AppendToStream(Runtime& runtime, Stream& stream,
                    const std::shared_ptr<Task>& task) {
  if (stream.kind == StreamKind::kLegacy) {
    for (Stream* other : AllStreams(runtime)) {
      if (other->blocking()) Executor::AddDependency(other->last, task);
    }
    std::erase_if(runtime.orphans, [](const std::shared_ptr<Task>& orphan) {
      return orphan == nullptr || orphan->done;
    });
    for (const auto& orphan : runtime.orphans) {
      Executor::AddDependency(orphan, task);
    }
  } else if (stream.blocking()) {
    Executor::AddDependency(runtime.legacy->last, task);
  }
  Executor::AddDependency(stream.last, task);
  stream.last = task;
}

bool StreamIsIdle(Runtime& runtime, const Stream& stream) {
  const auto idle = [](const std::shared_ptr<Task>& task) {
    return task == nullptr || task->done;
  };
  if (!idle(stream.last)) return false;
  if (stream.kind != StreamKind::kLegacy) return true;
  for (const Stream* other : AllStreams(runtime)) {
    if (other->blocking() && !idle(other->last)) return false;
  }
  return std::all_of(runtime.orphans.begin(), runtime.orphans.end(), idle);
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

}  // namespace softcuda::runtime
