// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Events, and the waits of streams for them.
#include <chrono>
#include <memory>

#include "abi/cuda_abi.h"
#include "runtime/answers.h"
#include "runtime/call.h"
#include "runtime/capture.h"
#include "runtime/task_order.h"

using softcuda::runtime::Answer;
using softcuda::runtime::Api;
using softcuda::runtime::Call;
using softcuda::runtime::Event;
using softcuda::runtime::EventRecordOp;
using softcuda::runtime::EventState;
using softcuda::runtime::EventWaitOp;
using softcuda::runtime::Executor;
using softcuda::runtime::NoteHostWaited;
using softcuda::runtime::TracksOrder;

namespace {

constexpr unsigned int kEventFlags =
    CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;

CUresult Destroy(CUevent handle) {
  Call call(Api::kEventDestroy);
  if (!call.ok()) return call.result();
  if (call.Find(handle) == nullptr) return call.Fail();
  call.runtime().events.Erase(handle);
  return CUDA_SUCCESS;
}

CUresult RecordWithFlags(Api api, CUevent handle, CUstream stream,
                         bool per_thread, unsigned int flags) {
  Call call(api, stream, per_thread);
  if (!call.ok()) return call.result();
  const auto event = call.Find(handle);
  if (event == nullptr) return call.Fail();
  if (event->device != call.stream().device) {
    return call.Fail(CUDA_ERROR_INVALID_HANDLE);
  }
  if (flags != CU_EVENT_RECORD_DEFAULT && flags != CU_EVENT_RECORD_EXTERNAL) {
    return call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  const bool external = flags == CU_EVENT_RECORD_EXTERNAL;
  if (call.capturing()) {
    if (external) {
      call.Issue(CU_GRAPH_NODE_TYPE_EVENT_RECORD, EventRecordOp{event});
    } else {
      RecordEventInCapture(call.stream(), *event);
    }
    return CUDA_SUCCESS;
  }
  if (external) return CUDA_ERROR_INVALID_VALUE;
  const auto marker = call.runtime().executor.NewTask(call.name());
  call.Enqueue(marker);
  event->state = EventState::kRecorded;
  event->work = marker;
  event->capture.reset();
  event->dependencies.clear();
  return CUDA_SUCCESS;
}

CUresult StreamWait(CUstream stream, bool per_thread, CUevent handle,
                    unsigned int flags) {
  Call call(Api::kStreamWaitEvent, stream, per_thread);
  if (!call.ok()) return call.result();
  const auto event = call.Find(handle);
  if (event == nullptr) return call.Fail();
  if (flags != CU_EVENT_WAIT_DEFAULT && flags != CU_EVENT_WAIT_EXTERNAL) {
    return call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  const bool external = flags == CU_EVENT_WAIT_EXTERNAL;
  if (external) {
    if (!call.capturing()) return CUDA_ERROR_INVALID_VALUE;
    call.Issue(CU_GRAPH_NODE_TYPE_WAIT_EVENT, EventWaitOp{event});
    return CUDA_SUCCESS;
  }
  if (call.capturing() || event->state == EventState::kCaptured) {
    return WaitEventInCapture(call.runtime(), call.stream(), *event);
  }
  if (event->state == EventState::kEmpty ||
      (event->work->done && !TracksOrder())) {
    return CUDA_SUCCESS;
  }
  const auto marker = call.runtime().executor.NewTask(call.name());
  Executor::AddDependency(event->work, marker);
  call.Enqueue(marker);
  return CUDA_SUCCESS;
}

CUresult ElapsedTime(float* milliseconds, CUevent start_handle,
                     CUevent end_handle) {
  Call call(Api::kEventElapsedTime);
  if (!call.ok()) return call.result();
  if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto start = call.Find(start_handle);
  if (start == nullptr) return call.Fail();
  const auto end = call.Find(end_handle);
  if (end == nullptr) return call.Fail();
  for (const auto& event : {start, end}) {
    if (event->state == EventState::kCaptured) {
      if (Says(Answer::kElapsedOfCapturedInvalidates)) {
        Invalidate(*event->capture);
      }
      return CodeOf(Answer::kElapsedOfCapturedCode);
    }
    if (event->state == EventState::kEmpty || !event->timing()) {
      return CUDA_ERROR_INVALID_HANDLE;
    }
  }
  if (!start->work->done || !end->work->done) return CUDA_ERROR_NOT_READY;
  *milliseconds = std::chrono::duration<float, std::milli>(
                      end->work->completed - start->work->completed)
                      .count();
  return call.StickyResult();
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuEventCreate(CUevent* handle, unsigned int flags) {
  Call call(Api::kEventCreate);
  if (!call.ok()) return call.result();
  if (handle == nullptr || (flags & ~kEventFlags) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if ((flags & CU_EVENT_INTERPROCESS) != 0) {
    if ((flags & CU_EVENT_DISABLE_TIMING) == 0) return CUDA_ERROR_INVALID_VALUE;
    softcuda::runtime::ReportUnsupported(call.name(), "interprocess events");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  auto event = std::make_shared<Event>();
  event->flags = flags;
  event->device = call.device().ordinal;
  event->handle = call.runtime().events.Add(event);
  *handle = event->handle;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventDestroy(CUevent event) { return Destroy(event); }
CUresult CUDAAPI cuEventDestroy_v2(CUevent event) { return Destroy(event); }

CUresult CUDAAPI cuEventRecord(CUevent event, CUstream stream) {
  return RecordWithFlags(Api::kEventRecord, event, stream, false, 0);
}
CUresult CUDAAPI cuEventRecord_ptsz(CUevent event, CUstream stream) {
  return RecordWithFlags(Api::kEventRecord, event, stream, true, 0);
}
CUresult CUDAAPI cuEventRecordWithFlags(CUevent event, CUstream stream,
                                        unsigned int flags) {
  return RecordWithFlags(Api::kEventRecordWithFlags, event, stream, false,
                         flags);
}
CUresult CUDAAPI cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream,
                                             unsigned int flags) {
  return RecordWithFlags(Api::kEventRecordWithFlags, event, stream, true,
                         flags);
}

CUresult CUDAAPI cuStreamWaitEvent(CUstream stream, CUevent event,
                                   unsigned int flags) {
  return StreamWait(stream, false, event, flags);
}
CUresult CUDAAPI cuStreamWaitEvent_ptsz(CUstream stream, CUevent event,
                                        unsigned int flags) {
  return StreamWait(stream, true, event, flags);
}

CUresult CUDAAPI cuEventQuery(CUevent handle) {
  Call call(Api::kEventQuery, handle);
  if (!call.ok()) return call.result();
  const Event& event = *call.event();
  if (event.work == nullptr) return call.StickyResult();
  if (!event.work->done) {
    call.runtime().executor.Want(event.work);
    return CUDA_ERROR_NOT_READY;
  }
  NoteHostWaited(*event.work);
  return call.StickyResult();
}

CUresult CUDAAPI cuEventSynchronize(CUevent handle) {
  Call call(Api::kEventSynchronize, handle);
  if (!call.ok()) return call.result();
  if (call.event()->work == nullptr) return CUDA_SUCCESS;
  return call.Wait(call.event()->work);
}

CUresult CUDAAPI cuEventElapsedTime(float* milliseconds, CUevent start,
                                    CUevent end) {
  return ElapsedTime(milliseconds, start, end);
}
CUresult CUDAAPI cuEventElapsedTime_v2(float* milliseconds, CUevent start,
                                       CUevent end) {
  return ElapsedTime(milliseconds, start, end);
}

}  // extern "C"
