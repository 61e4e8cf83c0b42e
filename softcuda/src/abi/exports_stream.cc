// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Streams, host functions and kernel launches.
#include <algorithm>
#include <utility>

#include "abi/cuda_abi.h"
#include "runtime/answers.h"
#include "runtime/call.h"
#include "runtime/capture.h"
#include "runtime/context.h"
#include "runtime/launch.h"
#include "runtime/policy_check.h"

using softcuda::runtime::Answer;
using softcuda::runtime::Api;
using softcuda::runtime::ApplyLaunchAttributes;
using softcuda::runtime::Call;
using softcuda::runtime::Function;
using softcuda::runtime::HandleBits;
using softcuda::runtime::HandleKind;
using softcuda::runtime::HostOp;
using softcuda::runtime::KernelOp;
using softcuda::runtime::LaunchShape;
using softcuda::runtime::MakeKernelOp;

namespace {

constexpr int kLeastPriority = 0;
constexpr int kGreatestPriority = -5;

CUresult Create(Api api, CUstream* stream, unsigned int flags, int priority) {
  Call call(api);
  if (!call.ok()) return call.result();
  if (stream == nullptr ||
      (flags != CU_STREAM_DEFAULT && flags != CU_STREAM_NON_BLOCKING)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  priority = std::clamp(priority, kGreatestPriority, kLeastPriority);
  *stream = NewStream(call.runtime(), call.device(), flags, priority)->handle;
  return CUDA_SUCCESS;
}

CUresult Destroy(CUstream handle) {
  Call call(Api::kStreamDestroy, handle);
  if (!call.ok()) return call.result();
  // The special streams are not the caller's.
  if (call.stream().handle != handle || handle == CU_STREAM_LEGACY ||
      handle == CU_STREAM_PER_THREAD) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  if (call.capturing()) {
    softcuda::runtime::ReportMisuse(call.name(), "the stream is capturing");
    AbandonCapture(call.runtime(), call.stream());
  }
  if (call.stream().blocking() && call.stream().last != nullptr) {
    DeviceAt(call.runtime(), call.stream().device)
        .orphans.push_back(call.stream().last);
  }
  call.runtime().streams.Erase(handle);
  return CUDA_SUCCESS;
}

CUresult Query(CUstream handle, bool per_thread) {
  Call call(Api::kStreamQuery, handle, per_thread);
  if (!call.ok()) return call.result();
  return StreamIsIdle(call.runtime(), call.stream()) ? call.StickyResult()
                                                     : CUDA_ERROR_NOT_READY;
}

CUresult Synchronize(CUstream handle, bool per_thread) {
  Call call(Api::kStreamSynchronize, handle, per_thread);
  if (!call.ok()) return call.result();
  WaitForStream(call.runtime(), call.lock(), call.stream());
  softcuda::runtime::TrimPoolsAfterWait();
  return call.StickyResult();
}

// A call that reads one property of a stream.
template <typename T, typename Read>
CUresult GetProperty(Api api, CUstream handle, bool per_thread, T* out,
                     const Read& read) {
  Call call(api, handle, per_thread);
  if (!call.ok()) return call.result();
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = read(call.stream());
  return CUDA_SUCCESS;
}

CUresult GetFlags(CUstream handle, bool per_thread, unsigned int* flags) {
  return GetProperty(Api::kStreamGetFlags, handle, per_thread, flags,
                     [](const auto& stream) { return stream.flags; });
}

CUresult GetPriority(CUstream handle, bool per_thread, int* priority) {
  return GetProperty(Api::kStreamGetPriority, handle, per_thread, priority,
                     [](const auto& stream) { return stream.priority; });
}

CUresult GetId(CUstream handle, bool per_thread, unsigned long long* id) {
  return GetProperty(Api::kStreamGetId, handle, per_thread, id,
                     [](const auto& stream) { return stream.id; });
}

CUresult GetDevice(CUstream handle, bool per_thread, CUdevice* device) {
  return GetProperty(Api::kStreamGetDevice, handle, per_thread, device,
                     [](const auto& stream) { return stream.device; });
}

CUresult GetCtx(CUstream handle, bool per_thread, CUcontext* context) {
  return GetProperty(
      Api::kStreamGetCtx, handle, per_thread, context, [](const auto& stream) {
        return softcuda::runtime::PrimaryContextHandle(stream.device);
      });
}

CUresult GetCtxAndGreen(CUstream handle, bool per_thread, CUcontext* context,
                        CUgreenCtx* green) {
  const CUresult result = GetCtx(handle, per_thread, context);
  if (result == CUDA_SUCCESS && green != nullptr) *green = nullptr;
  return result;
}

CUresult GetAttribute(CUstream handle, bool per_thread, CUstreamAttrID id,
                      CUstreamAttrValue* value) {
  Call call(Api::kStreamGetAttribute, handle, per_thread);
  if (!call.ok()) return call.result();
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *value = {};
  switch (id) {
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
      value->priority = call.stream().priority;
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
      value->syncPolicy = call.stream().sync_policy;
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult SetAttribute(CUstream handle, bool per_thread, CUstreamAttrID id,
                      const CUstreamAttrValue* value) {
  Call call(Api::kStreamSetAttribute, handle, per_thread);
  if (!call.ok()) return call.result();
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  switch (id) {
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
      call.stream().priority =
          std::clamp(value->priority, kGreatestPriority, kLeastPriority);
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
      if (value->syncPolicy < CU_SYNC_POLICY_AUTO ||
          value->syncPolicy > CU_SYNC_POLICY_BLOCKING_SYNC) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      call.stream().sync_policy = value->syncPolicy;
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult HostFunc(CUstream handle, bool per_thread, CUhostFn function,
                  void* user_data) {
  Call call(Api::kLaunchHostFunc, handle, per_thread);
  if (!call.ok()) return call.result();
  if (function == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  HostOp operation;
  operation.function = function;
  operation.user_data = user_data;
  call.Issue(CU_GRAPH_NODE_TYPE_HOST, operation);
  return CUDA_SUCCESS;
}

CUresult AddCallback(CUstream handle, bool per_thread,
                     CUstreamCallback callback, void* user_data,
                     unsigned int flags) {
  Call call(Api::kStreamAddCallback, handle, per_thread);
  if (!call.ok()) return call.result();
  if (callback == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  HostOp operation;
  operation.callback = callback;
  operation.callback_stream = handle;
  operation.user_data = user_data;
  call.Issue(CU_GRAPH_NODE_TYPE_HOST, operation);
  return CUDA_SUCCESS;
}

// A launch loads its function where nobody has, and a driver may not allow that
// in a capture.
CUresult Load(Call& call, Function& function) {
  if (!function.loaded && call.capturing() &&
      Says(Answer::kFirstLaunchInCaptureCode)) {
    const CUresult result = CheckUnsafe(call.runtime(), call.thread());
    if (result != CUDA_SUCCESS) return result;
  }
  function.loaded = true;
  return CUDA_SUCCESS;
}

CUresult LaunchWithAttributes(Call& call, CUfunction function,
                              const LaunchShape& shape, void** params,
                              void** extra, const CUlaunchAttribute* attributes,
                              size_t attribute_count) {
  auto object = call.Find(function);
  if (object == nullptr) return call.Fail();
  const bool named_by_kernel =
      softcuda::runtime::HasKind(HandleBits(function), HandleKind::kKernel);
  // A module's function runs in its own context only.
  if (object->module->library == nullptr &&
      object->module->device != call.stream().device) {
    return call.Fail(CUDA_ERROR_INVALID_HANDLE);
  }
  CUresult result = Load(call, *object);
  if (result != CUDA_SUCCESS) return result;
  KernelOp operation;
  operation.device = call.stream().device;
  operation.priority = call.stream().priority;
  result = MakeKernelOp(std::move(object), named_by_kernel, shape, params,
                        extra, &operation);
  if (result != CUDA_SUCCESS) return call.Fail(result);
  result = ApplyLaunchAttributes(attributes, attribute_count, call.capturing(),
                                 &operation);
  if (result != CUDA_SUCCESS) return call.Fail(result);
  call.Issue(CU_GRAPH_NODE_TYPE_KERNEL, std::move(operation));
  return CUDA_SUCCESS;
}

CUresult Launch(CUfunction function, const LaunchShape& shape, CUstream stream,
                bool per_thread, void** params, void** extra) {
  Call call(Api::kLaunchKernel, stream, per_thread);
  if (!call.ok()) return call.result();
  return LaunchWithAttributes(call, function, shape, params, extra, nullptr, 0);
}

CUresult LaunchEx(const CUlaunchConfig* config, CUfunction function,
                  bool per_thread, void** params, void** extra) {
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Call call(Api::kLaunchKernelEx, config->hStream, per_thread);
  if (!call.ok()) return call.result();
  const LaunchShape shape = {
      {config->gridDimX, config->gridDimY, config->gridDimZ},
      {config->blockDimX, config->blockDimY, config->blockDimZ},
      config->sharedMemBytes};
  return LaunchWithAttributes(call, function, shape, params, extra,
                              config->attrs, config->numAttrs);
}

CUresult LaunchCooperative(CUfunction function, const LaunchShape& shape,
                           CUstream stream, bool per_thread, void** params) {
  Call call(Api::kLaunchCooperativeKernel, stream, per_thread);
  if (!call.ok()) return call.result();
  CUlaunchAttribute attribute = {};
  attribute.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  attribute.value.cooperative = 1;
  return LaunchWithAttributes(call, function, shape, params, nullptr,
                              &attribute, 1);
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuStreamCreate(CUstream* stream, unsigned int flags) {
  return Create(Api::kStreamCreate, stream, flags, kLeastPriority);
}
CUresult CUDAAPI cuStreamCreateWithPriority(CUstream* stream,
                                            unsigned int flags, int priority) {
  return Create(Api::kStreamCreateWithPriority, stream, flags, priority);
}
CUresult CUDAAPI cuStreamDestroy(CUstream stream) { return Destroy(stream); }
CUresult CUDAAPI cuStreamDestroy_v2(CUstream stream) { return Destroy(stream); }

CUresult CUDAAPI cuStreamQuery(CUstream stream) { return Query(stream, false); }
CUresult CUDAAPI cuStreamQuery_ptsz(CUstream stream) {
  return Query(stream, true);
}
CUresult CUDAAPI cuStreamSynchronize(CUstream stream) {
  return Synchronize(stream, false);
}
CUresult CUDAAPI cuStreamSynchronize_ptsz(CUstream stream) {
  return Synchronize(stream, true);
}

CUresult CUDAAPI cuStreamGetFlags(CUstream stream, unsigned int* flags) {
  return GetFlags(stream, false, flags);
}
CUresult CUDAAPI cuStreamGetFlags_ptsz(CUstream stream, unsigned int* flags) {
  return GetFlags(stream, true, flags);
}
CUresult CUDAAPI cuStreamGetPriority(CUstream stream, int* priority) {
  return GetPriority(stream, false, priority);
}
CUresult CUDAAPI cuStreamGetPriority_ptsz(CUstream stream, int* priority) {
  return GetPriority(stream, true, priority);
}
CUresult CUDAAPI cuStreamGetId(CUstream stream, unsigned long long* id) {
  return GetId(stream, false, id);
}
CUresult CUDAAPI cuStreamGetId_ptsz(CUstream stream, unsigned long long* id) {
  return GetId(stream, true, id);
}
CUresult CUDAAPI cuStreamGetDevice(CUstream stream, CUdevice* device) {
  return GetDevice(stream, false, device);
}
CUresult CUDAAPI cuStreamGetDevice_ptsz(CUstream stream, CUdevice* device) {
  return GetDevice(stream, true, device);
}
CUresult CUDAAPI cuStreamGetCtx(CUstream stream, CUcontext* context) {
  return GetCtx(stream, false, context);
}
CUresult CUDAAPI cuStreamGetCtx_ptsz(CUstream stream, CUcontext* context) {
  return GetCtx(stream, true, context);
}
CUresult CUDAAPI cuStreamGetCtx_v2(CUstream stream, CUcontext* context,
                                   CUgreenCtx* green) {
  return GetCtxAndGreen(stream, false, context, green);
}
CUresult CUDAAPI cuStreamGetCtx_v2_ptsz(CUstream stream, CUcontext* context,
                                        CUgreenCtx* green) {
  return GetCtxAndGreen(stream, true, context, green);
}

CUresult CUDAAPI cuStreamGetAttribute(CUstream stream, CUstreamAttrID id,
                                      CUstreamAttrValue* value) {
  return GetAttribute(stream, false, id, value);
}
CUresult CUDAAPI cuStreamGetAttribute_ptsz(CUstream stream, CUstreamAttrID id,
                                           CUstreamAttrValue* value) {
  return GetAttribute(stream, true, id, value);
}
CUresult CUDAAPI cuStreamSetAttribute(CUstream stream, CUstreamAttrID id,
                                      const CUstreamAttrValue* value) {
  return SetAttribute(stream, false, id, value);
}
CUresult CUDAAPI cuStreamSetAttribute_ptsz(CUstream stream, CUstreamAttrID id,
                                           const CUstreamAttrValue* value) {
  return SetAttribute(stream, true, id, value);
}

CUresult CUDAAPI cuLaunchHostFunc(CUstream stream, CUhostFn function,
                                  void* user_data) {
  return HostFunc(stream, false, function, user_data);
}
CUresult CUDAAPI cuLaunchHostFunc_ptsz(CUstream stream, CUhostFn function,
                                       void* user_data) {
  return HostFunc(stream, true, function, user_data);
}
CUresult CUDAAPI cuStreamAddCallback(CUstream stream, CUstreamCallback callback,
                                     void* user_data, unsigned int flags) {
  return AddCallback(stream, false, callback, user_data, flags);
}
CUresult CUDAAPI cuStreamAddCallback_ptsz(CUstream stream,
                                          CUstreamCallback callback,
                                          void* user_data, unsigned int flags) {
  return AddCallback(stream, true, callback, user_data, flags);
}

CUresult CUDAAPI cuLaunchKernel(CUfunction function, unsigned int grid_x,
                                unsigned int grid_y, unsigned int grid_z,
                                unsigned int block_x, unsigned int block_y,
                                unsigned int block_z, unsigned int shared_bytes,
                                CUstream stream, void** params, void** extra) {
  return Launch(
      function,
      {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes},
      stream, false, params, extra);
}
CUresult CUDAAPI cuLaunchKernel_ptsz(CUfunction function, unsigned int grid_x,
                                     unsigned int grid_y, unsigned int grid_z,
                                     unsigned int block_x, unsigned int block_y,
                                     unsigned int block_z,
                                     unsigned int shared_bytes, CUstream stream,
                                     void** params, void** extra) {
  return Launch(
      function,
      {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes},
      stream, true, params, extra);
}
CUresult CUDAAPI cuLaunchKernelEx(const CUlaunchConfig* config,
                                  CUfunction function, void** params,
                                  void** extra) {
  return LaunchEx(config, function, false, params, extra);
}
CUresult CUDAAPI cuLaunchKernelEx_ptsz(const CUlaunchConfig* config,
                                       CUfunction function, void** params,
                                       void** extra) {
  return LaunchEx(config, function, true, params, extra);
}

CUresult CUDAAPI cuLaunchCooperativeKernel(
    CUfunction function, unsigned int grid_x, unsigned int grid_y,
    unsigned int grid_z, unsigned int block_x, unsigned int block_y,
    unsigned int block_z, unsigned int shared_bytes, CUstream stream,
    void** params) {
  return LaunchCooperative(
      function,
      {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes},
      stream, false, params);
}
CUresult CUDAAPI cuLaunchCooperativeKernel_ptsz(
    CUfunction function, unsigned int grid_x, unsigned int grid_y,
    unsigned int grid_z, unsigned int block_x, unsigned int block_y,
    unsigned int block_z, unsigned int shared_bytes, CUstream stream,
    void** params) {
  return LaunchCooperative(
      function,
      {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes},
      stream, true, params);
}

}  // extern "C"
