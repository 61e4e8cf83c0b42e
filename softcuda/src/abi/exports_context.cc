// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// The primary context and the stacks of current contexts.
#include "abi/cuda_abi.h"
#include "runtime/call.h"
#include "runtime/context.h"
#include "runtime/context_reset.h"

using softcuda::runtime::Api;
using softcuda::runtime::AppendToStream;
using softcuda::runtime::Call;
using softcuda::runtime::Device;
using softcuda::runtime::DeviceOfContext;
using softcuda::runtime::EventState;
using softcuda::runtime::Executor;
using softcuda::runtime::FindDevice;
using softcuda::runtime::Stream;

namespace {

constexpr unsigned int kContextFlags = CU_CTX_FLAGS_MASK;

CUresult Retain(CUcontext* context, CUdevice device) {
  Call call(Api::kDevicePrimaryCtxRetain);
  if (!call.ok()) return call.result();
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Device* const found = FindDevice(call.runtime(), device);
  if (found == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  ++found->retain_count;
  *context = found->context;
  return CUDA_SUCCESS;
}

CUresult Release(CUdevice device) {
  Call call(Api::kDevicePrimaryCtxRelease);
  if (!call.ok()) return call.result();
  Device* const found = FindDevice(call.runtime(), device);
  if (found == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (found->retain_count == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--found->retain_count == 0) {
    ResetContext(call.runtime(), call.lock(), *found);
  }
  return CUDA_SUCCESS;
}

CUresult Reset(CUdevice device) {
  Call call(Api::kDevicePrimaryCtxReset);
  if (!call.ok()) return call.result();
  Device* const found = FindDevice(call.runtime(), device);
  if (found == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  ResetContext(call.runtime(), call.lock(), *found);
  return CUDA_SUCCESS;
}

CUresult SetFlags(CUdevice device, unsigned int flags) {
  Call call(Api::kDevicePrimaryCtxSetFlags);
  if (!call.ok()) return call.result();
  Device* const found = FindDevice(call.runtime(), device);
  if (found == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if ((flags & ~kContextFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  found->context_flags = flags;
  return CUDA_SUCCESS;
}

CUresult Push(CUcontext context) {
  Call call(Api::kCtxPushCurrent);
  if (!call.ok()) return call.result();
  if (DeviceOfContext(call.runtime(), context) == nullptr) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  call.thread().contexts.push_back(context);
  return CUDA_SUCCESS;
}

CUresult Pop(CUcontext* context) {
  Call call(Api::kCtxPopCurrent);
  if (!call.ok()) return call.result();
  if (call.thread().contexts.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (context != nullptr) *context = call.thread().contexts.back();
  call.thread().contexts.pop_back();
  return CUDA_SUCCESS;
}

CUresult Synchronize(CUcontext context) {
  Call call(Api::kCtxSynchronize, context);
  if (!call.ok()) return call.result();
  const Device* const device = &call.device();
  WaitForDevice(call.runtime(), call.lock(), *device);
  softcuda::runtime::TrimPoolsAfterWait();
  return call.StickyResult();
}

CUresult GetDevice(CUdevice* device, CUcontext context) {
  Call call(Api::kCtxGetDevice);
  if (!call.ok()) return call.result();
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Device* const found = call.FindDevice(context);
  if (found == nullptr) return call.result();
  *device = found->ordinal;
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  return Retain(context, device);
}
CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice device) {
  return Release(device);
}
CUresult CUDAAPI cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return Release(device);
}
CUresult CUDAAPI cuDevicePrimaryCtxReset(CUdevice device) {
  return Reset(device);
}
CUresult CUDAAPI cuDevicePrimaryCtxReset_v2(CUdevice device) {
  return Reset(device);
}
CUresult CUDAAPI cuDevicePrimaryCtxSetFlags(CUdevice device,
                                            unsigned int flags) {
  return SetFlags(device, flags);
}
CUresult CUDAAPI cuDevicePrimaryCtxSetFlags_v2(CUdevice device,
                                               unsigned int flags) {
  return SetFlags(device, flags);
}

CUresult CUDAAPI cuDevicePrimaryCtxGetState(CUdevice device,
                                            unsigned int* flags, int* active) {
  Call call(Api::kDevicePrimaryCtxGetState);
  if (!call.ok()) return call.result();
  if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Device* const found = FindDevice(call.runtime(), device);
  if (found == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *flags = found->context_flags;
  *active = found->retain_count > 0 ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxSetCurrent(CUcontext context) {
  Call call(Api::kCtxSetCurrent);
  if (!call.ok()) return call.result();
  if (context != nullptr &&
      DeviceOfContext(call.runtime(), context) == nullptr) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  auto& contexts = call.thread().contexts;
  if (!contexts.empty()) contexts.pop_back();
  if (context != nullptr) contexts.push_back(context);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetCurrent(CUcontext* context) {
  Call call(Api::kCtxGetCurrent);
  if (!call.ok()) return call.result();
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto& contexts = call.thread().contexts;
  *context = contexts.empty() ? nullptr : contexts.back();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxPushCurrent(CUcontext context) { return Push(context); }
CUresult CUDAAPI cuCtxPushCurrent_v2(CUcontext context) {
  return Push(context);
}
CUresult CUDAAPI cuCtxPopCurrent(CUcontext* context) { return Pop(context); }
CUresult CUDAAPI cuCtxPopCurrent_v2(CUcontext* context) { return Pop(context); }

CUresult CUDAAPI cuCtxGetDevice(CUdevice* device) {
  return GetDevice(device, nullptr);
}
CUresult CUDAAPI cuCtxGetDevice_v2(CUdevice* device, CUcontext context) {
  return GetDevice(device, context);
}
CUresult CUDAAPI cuCtxSynchronize() { return Synchronize(nullptr); }
CUresult CUDAAPI cuCtxSynchronize_v2(CUcontext context) {
  return Synchronize(context);
}

CUresult CUDAAPI cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  Call call(Api::kCtxGetStreamPriorityRange);
  if (!call.ok()) return call.result();
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetFlags(unsigned int* flags) {
  Call call(Api::kCtxGetFlags);
  if (!call.ok()) return call.result();
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = call.device().context_flags;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetApiVersion(CUcontext context, unsigned int* version) {
  Call call(Api::kCtxGetApiVersion);
  if (!call.ok()) return call.result();
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!call.CheckContext(context)) return call.result();
  *version = 3020;  // of every context that has no execution affinity
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxGetId(CUcontext context, unsigned long long* id) {
  Call call(Api::kCtxGetId);
  if (!call.ok()) return call.result();
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const Device* const device = call.FindDevice(context);
  if (device == nullptr) return call.result();
  *id = static_cast<unsigned long long>(device->ordinal) + 1;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxRecordEvent(CUcontext context, CUevent event) {
  Call call(Api::kCtxRecordEvent, context);
  if (!call.ok()) return call.result();
  const Device* const device = &call.device();
  const auto object = call.Find(event);
  if (object == nullptr) return call.Fail();
  if (object->device != device->ordinal) return CUDA_ERROR_INVALID_HANDLE;
  const auto marker = call.runtime().executor.NewTask(call.name());
  marker->device = device->ordinal;
  for (const Stream* stream : AllStreams(call.runtime(), *device)) {
    Executor::AddDependency(stream->last, marker);
  }
  Executor::AddDependency(device->legacy->last, marker);
  call.runtime().executor.Submit(marker);
  object->state = EventState::kRecorded;
  object->work = marker;
  object->capture.reset();
  object->dependencies.clear();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuCtxWaitEvent(CUcontext context, CUevent event) {
  Call call(Api::kCtxWaitEvent, context);
  if (!call.ok()) return call.result();
  const Device* const device = &call.device();
  const auto object = call.Find(event);
  if (object == nullptr) return call.Fail();
  if (object->state != EventState::kRecorded) {
    return object->state == EventState::kEmpty ? CUDA_SUCCESS
                                               : CUDA_ERROR_CAPTURED_EVENT;
  }
  // One marker in each stream; the legacy stream's comes last, so that it does
  // not hold the others back.
  auto streams = AllStreams(call.runtime(), *device);
  streams.push_back(device->legacy.get());
  for (Stream* stream : streams) {
    const auto marker = call.runtime().executor.NewTask(call.name());
    Executor::AddDependency(object->work, marker);
    AppendToStream(call.runtime(), *stream, marker);
    call.runtime().executor.Submit(marker);
  }
  return CUDA_SUCCESS;
}

}  // extern "C"
