// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/policy.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>

#include "check/current_call.h"
#include "runtime/answers.h"
#include "runtime/capture.h"
#include "runtime/policy_check.h"
#include "runtime/state.h"

namespace softcuda::runtime {
namespace {

constexpr ApiPolicy Row(const char* name, CaptureClass capture_class,
                        Certainty certainty, Need need) {
  return {name, capture_class, certainty, need};
}

constexpr auto kPolicies = std::to_array<ApiPolicy>({
#define SOFTCUDA_API(name, capture_class, certainty, need)           \
  Row("cu" #name, CaptureClass::capture_class, Certainty::certainty, \
      Need::need),
#include "runtime/policy.inc"
#undef SOFTCUDA_API
});

bool AnyActiveCapture(const Runtime& runtime) {
  for (const auto& capture : runtime.captures) {
    if (capture->active()) return true;
  }
  return false;
}

// A copy that waits in the legacy stream while only non-blocking streams
// capture.
CUresult CheckSyncCopy(Runtime& runtime, const ThreadState& thread) {
  CUresult result = CUDA_SUCCESS;
  const Device& device = *CurrentDevice(runtime, thread);
  for (const auto& capture : runtime.captures) {
    if (!capture->active()) continue;
    const bool own = capture->thread_id == thread.id;
    Answer answer = Answer::kSyncCopyInRelaxedCode;
    if (capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL) {
      answer = Answer::kSyncCopyInGlobalCode;
    } else if (capture->mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) {
      answer = Answer::kSyncCopyInThreadLocalCode;
    }
    const bool relaxed = capture->mode == CU_STREAM_CAPTURE_MODE_RELAXED;
    if (!Says(answer) ||
        (relaxed ? !own : !ConflictsWith(*capture, thread, device.ordinal))) {
      continue;
    }
    Invalidate(*capture);
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}

// What a call meets that may not touch a capturing stream. SUCCESS when the
// stream does not capture.
CUresult CheckNotCapturing(Runtime& runtime, const Stream& stream) {
  if (stream.kind == StreamKind::kLegacy) {
    return InvalidateBlockingCaptures(runtime, stream.device)
               ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT
               : CUDA_SUCCESS;
  }
  if (stream.capture == nullptr) return CUDA_SUCCESS;
  if (!stream.capture->active()) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  Invalidate(*stream.capture);
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult CheckRecorded(Runtime& runtime, const Stream& stream) {
  if (stream.kind == StreamKind::kLegacy) {
    return CheckNotCapturing(runtime, stream);
  }
  if (stream.capture != nullptr && !stream.capture->active()) {
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  }
  return CUDA_SUCCESS;
}

CUresult CheckSynchronising(Runtime& runtime, const ThreadState& thread,
                            const Stream& stream) {
  const CUresult result = CheckNotCapturing(runtime, stream);
  return result != CUDA_SUCCESS ? result : CheckUnsafe(runtime, thread);
}

// Captures that have no stream on the device are out of the call's reach.
CUresult CheckContextWide(Runtime& runtime, int device) {
  CUresult result = CUDA_SUCCESS;
  for (const auto& capture : runtime.captures) {
    const bool is_here =
        std::any_of(capture->members.begin(), capture->members.end(),
                    [&](const Stream* s) { return s->device == device; });
    if (!capture->active() || !is_here) continue;
    Invalidate(*capture);
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}

}  // namespace

const ApiPolicy& PolicyOf(Api api) {
  return kPolicies[static_cast<size_t>(api)];
}

CaptureClass ClassOf(Api api) {
  return AnsweredClass(api, PolicyOf(api).capture_class);
}

int ApiCount() { return static_cast<int>(kPolicies.size()); }

CUresult CheckUnsafe(Runtime& runtime, const ThreadState& thread) {
  const Device& device = *CurrentDevice(runtime, thread);
  const std::vector<Capture*> conflicts =
      ConflictingCaptures(runtime, thread, device.ordinal);
  for (Capture* capture : conflicts) Invalidate(*capture);
  return conflicts.empty() ? CUDA_SUCCESS
                           : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

Device* CurrentDevice(Runtime& runtime, const ThreadState& thread) {
  return thread.contexts.empty()
             ? FindDevice(runtime, 0)
             : DeviceOfContext(runtime, thread.contexts.back());
}

CUresult CheckReady(Runtime& runtime, const ThreadState& thread, Api api) {
  const ApiPolicy& policy = PolicyOf(api);
  check::CurrentCall() = policy.name;
  if (policy.need == Need::kNothing) return CUDA_SUCCESS;
  if (!runtime.initialized) return CUDA_ERROR_NOT_INITIALIZED;
  if (thread.in_host_function) {
    ReportMisuse(policy.name, "called inside a host function");
    return CUDA_ERROR_NOT_PERMITTED;
  }
  if (api == Api::kCtxGetCurrent) return CUDA_SUCCESS;
  const auto sticky = static_cast<CUresult>(runtime.sticky.load());
  if (sticky != CUDA_SUCCESS) return sticky;
  if (policy.need == Need::kContext) {
    if (thread.contexts.empty()) return CUDA_ERROR_INVALID_CONTEXT;
    if (CurrentDevice(runtime, thread)->retain_count == 0) {
      return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
  }
  return CUDA_SUCCESS;
}

CUresult CheckCapture(Runtime& runtime, const ThreadState& thread, Api api,
                      const Stream* stream, const Event* event) {
  if (runtime.captures.empty() &&
      (event == nullptr || event->state != EventState::kCaptured)) {
    return CUDA_SUCCESS;
  }
  const Device& device = *CurrentDevice(runtime, thread);
  const Stream& target = stream != nullptr ? *stream : *device.legacy;
  switch (ClassOf(api)) {
    case CaptureClass::kSafe:
    case CaptureClass::kControl:
      return CUDA_SUCCESS;
    case CaptureClass::kRecorded:
      return CheckRecorded(runtime, target);
    case CaptureClass::kConflictsContext:
      return CheckContextWide(runtime, target.device);
    case CaptureClass::kConflictsStream:
      if (api == Api::kGraphLaunch && target.capture != nullptr &&
          target.capture->active()) {
        if (Says(Answer::kGraphLaunchInCaptureInvalidates)) {
          Invalidate(*target.capture);
        }
        return CodeOf(Answer::kGraphLaunchInCaptureCode);
      }
      return CheckNotCapturing(runtime, target);
    case CaptureClass::kSynchronous: {
      const CUresult result = CheckNotCapturing(runtime, target);
      return result != CUDA_SUCCESS ? result : CheckSyncCopy(runtime, thread);
    }
    case CaptureClass::kSyncStream:
      return CheckSynchronising(runtime, thread, target);
    case CaptureClass::kSyncEvent:
      if (event != nullptr && event->state == EventState::kCaptured) {
        if (event->capture->status == CaptureStatus::kEnded) {
          return CodeOf(Answer::kQueryOfEndedCaptureCode);
        }
        if (AnswerTo(Answer::kStatusAfterCapturedEventQuery) ==
            CU_STREAM_CAPTURE_STATUS_INVALIDATED) {
          Invalidate(*event->capture);
        }
        return CUDA_ERROR_CAPTURED_EVENT;
      }
      return CheckUnsafe(runtime, thread);
    case CaptureClass::kUnknown:
      if (AnyActiveCapture(runtime)) ++runtime.unknown_calls_during_capture;
      [[fallthrough]];
    case CaptureClass::kUnsafe:
      // Destroying a stream that captures is accepted: it abandons the capture.
      if (api == Api::kStreamDestroy && target.capture != nullptr) {
        return CUDA_SUCCESS;
      }
      return CheckUnsafe(runtime, thread);
  }
  return CUDA_ERROR_UNKNOWN;
}

CUresult FindStream(Runtime& runtime, ThreadState& thread, const char* api,
                    CUstream handle, bool per_thread,
                    std::shared_ptr<Stream>* stream) {
  Device& device = *CurrentDevice(runtime, thread);
  if (handle == nullptr) {
    handle = per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
  }
  if (handle == CU_STREAM_LEGACY) {
    *stream = device.legacy;
    return CUDA_SUCCESS;
  }
  if (handle == CU_STREAM_PER_THREAD) {
    auto& mine = thread.per_thread_streams[device.ordinal];
    if (mine == nullptr) {
      mine = std::make_shared<Stream>();
      mine->kind = StreamKind::kPerThread;
      mine->handle = CU_STREAM_PER_THREAD;
      mine->device = device.ordinal;
      mine->id = runtime.next_stream_id++;
      device.per_thread_streams.push_back(mine);
    }
    *stream = mine;
    return CUDA_SUCCESS;
  }
  *stream = runtime.streams.Find(handle);
  if (*stream != nullptr) return CUDA_SUCCESS;
  ReportBadHandle(api, "stream", HandleBits(handle),
                  runtime.streams.WasGiven(handle));
  return CUDA_ERROR_INVALID_HANDLE;
}

void ReportBadHandle(const char* api, const char* what, uint64_t bits,
                     bool was_given) {
  char text[128];
  std::snprintf(text, sizeof(text), "%s handle 0x%llx %s", what,
                static_cast<unsigned long long>(bits),
                was_given ? "was destroyed" : "was never given out");
  ReportMisuse(api, text);
}

CUresult Enter(Api api, CUstream stream) {
  Runtime& runtime = TheRuntime();
  ThreadState& thread = ThisThread();
  const Lock lock(runtime.mutex);
  CUresult result = CheckReady(runtime, thread, api);
  if (result != CUDA_SUCCESS) return result;
  std::shared_ptr<Stream> target;
  result = FindStream(runtime, thread, PolicyOf(api).name, stream,
                      /*per_thread=*/false, &target);
  if (result != CUDA_SUCCESS) return result;
  return CheckCapture(runtime, thread, api, target.get(), nullptr);
}

int64_t UnknownCallsDuringCapture() {
  return TheRuntime().unknown_calls_during_capture.load();
}

}  // namespace softcuda::runtime
