// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Copies.
#include <bit>
#include <cstdint>
#include <utility>

#include "abi/cuda_abi.h"
#include "runtime/answers.h"
#include "runtime/call.h"
#include "runtime/copy.h"

using softcuda::runtime::Answer;
using softcuda::runtime::Api;
using softcuda::runtime::Call;
using softcuda::runtime::CopyOp;
using softcuda::runtime::Side;
using softcuda::runtime::WaitForStream;

namespace {

// What a linear copy call says about its two sides.
struct LinearCopy {
  uint64_t target;
  Side target_side;
  uint64_t source;
  Side source_side;
  uint64_t bytes;
};

LinearCopy AnyToAny(CUdeviceptr target, CUdeviceptr source, size_t bytes) {
  return {target, Side::kEither, source, Side::kEither, bytes};
}
LinearCopy HostToDevice(CUdeviceptr target, const void* source, size_t bytes) {
  return {target, Side::kDevice, std::bit_cast<uint64_t>(source), Side::kHost,
          bytes};
}
LinearCopy DeviceToHost(void* target, CUdeviceptr source, size_t bytes) {
  return {std::bit_cast<uint64_t>(target), Side::kHost, source, Side::kDevice,
          bytes};
}
LinearCopy DeviceToDevice(CUdeviceptr target, CUdeviceptr source,
                          size_t bytes) {
  return {target, Side::kDevice, source, Side::kDevice, bytes};
}

// What a copy that does not return before it has to does.
CUresult RunSynchronously(Call& call, CopyOp copy) {
  const CUresult committed = CommitCopy(call.name(), copy);
  if (committed != CUDA_SUCCESS) return committed;
  const bool source_is_host = SourceIsHost(copy);
  const bool target_is_host = TargetIsHost(copy);
  if (copy.source.pageable && !target_is_host) {
    // The source may be changed when the call returns; the copy may still run.
    WaitForStream(call.runtime(), call.lock(), call.stream());
    if (call.StickyResult() != CUDA_SUCCESS) return call.StickyResult();
    StageSource(&copy);
    call.Issue(CU_GRAPH_NODE_TYPE_MEMCPY, std::move(copy));
    return CUDA_SUCCESS;
  }
  const auto task = call.Issue(CU_GRAPH_NODE_TYPE_MEMCPY, std::move(copy));
  // A copy inside the device does not wait.
  if (!source_is_host && !target_is_host) return CUDA_SUCCESS;
  return call.Wait(task);
}

CUresult RunAsynchronously(Call& call, CopyOp copy) {
  if (call.capturing()) {
    // The node keeps the addresses: the bytes are those of each replay.
    call.Issue(CU_GRAPH_NODE_TYPE_MEMCPY, std::move(copy));
    return CUDA_SUCCESS;
  }
  const CUresult committed = CommitCopy(call.name(), copy);
  if (committed != CUDA_SUCCESS) return committed;
  const bool host_to_host = IsHostToHost(copy);
  if (copy.source.pageable && !host_to_host) StageSource(&copy);
  const auto task = call.Issue(CU_GRAPH_NODE_TYPE_MEMCPY, std::move(copy));
  return host_to_host ? call.Wait(task) : CUDA_SUCCESS;
}

CUresult MakeOrNothing(Call& call, const LinearCopy& linear, CopyOp* copy,
                       bool* nothing) {
  *nothing = linear.bytes == 0;
  if (*nothing && call.capturing() && Says(Answer::kEmptyCopyNodes)) {
    CopyOp empty;
    empty.source.address = linear.source;
    empty.target.address = linear.target;
    call.Issue(CU_GRAPH_NODE_TYPE_MEMCPY, std::move(empty));
    return CUDA_SUCCESS;
  }
  if (*nothing) {
    if (call.capturing()) {
      softcuda::runtime::ReportMisuse(
          call.name(),
          "a copy of no bytes in a capture: whether it becomes a node "
          "is not specified");
    }
    return CUDA_SUCCESS;
  }
  return MakeLinearCopy(linear.target, linear.target_side, linear.source,
                        linear.source_side, linear.bytes, copy);
}

CUresult Copy(Api api, bool per_thread, const LinearCopy& linear) {
  Call call(api, nullptr, per_thread);
  if (!call.ok()) return call.result();
  CopyOp copy;
  bool nothing = false;
  const CUresult result = MakeOrNothing(call, linear, &copy, &nothing);
  if (result != CUDA_SUCCESS || nothing) return result;
  return RunSynchronously(call, std::move(copy));
}

CUresult CopyAsync(Api api, CUstream stream, bool per_thread,
                   const LinearCopy& linear) {
  Call call(api, stream, per_thread);
  if (!call.ok()) return call.result();
  CopyOp copy;
  bool nothing = false;
  const CUresult result = MakeOrNothing(call, linear, &copy, &nothing);
  if (result != CUDA_SUCCESS) return call.Fail(result);
  return nothing ? CUDA_SUCCESS : RunAsynchronously(call, std::move(copy));
}

// With one address space, the contexts only have to exist.
bool HasContexts(Call& call, CUcontext target, CUcontext source) {
  if (target == nullptr || source == nullptr) {
    call.Fail(CUDA_ERROR_INVALID_CONTEXT);
    return false;
  }
  return call.CheckContext(target) && call.CheckContext(source);
}

CUresult CopyPeer(bool per_thread, CUcontext target, CUcontext source,
                  const LinearCopy& linear) {
  Call call(Api::kMemcpyPeer, nullptr, per_thread);
  if (!call.ok()) return call.result();
  if (!HasContexts(call, target, source)) return call.result();
  CopyOp copy;
  bool nothing = false;
  const CUresult result = MakeOrNothing(call, linear, &copy, &nothing);
  if (result != CUDA_SUCCESS || nothing) return result;
  return RunSynchronously(call, std::move(copy));
}

CUresult CopyPeerAsync(CUstream stream, bool per_thread, CUcontext target,
                       CUcontext source, const LinearCopy& linear) {
  Call call(Api::kMemcpyPeerAsync, stream, per_thread);
  if (!call.ok()) return call.result();
  if (!HasContexts(call, target, source)) return call.Fail();
  CopyOp copy;
  bool nothing = false;
  const CUresult result = MakeOrNothing(call, linear, &copy, &nothing);
  if (result != CUDA_SUCCESS) return call.Fail(result);
  return nothing ? CUDA_SUCCESS : RunAsynchronously(call, std::move(copy));
}

bool HasNoBytes(const CUDA_MEMCPY3D& params) {
  return params.WidthInBytes == 0 || params.Height == 0 || params.Depth == 0;
}

CUresult Copy3D(bool per_thread, const CUDA_MEMCPY3D* params) {
  Call call(Api::kMemcpy3D, nullptr, per_thread);
  if (!call.ok()) return call.result();
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (HasNoBytes(*params)) return CUDA_SUCCESS;
  CopyOp copy;
  const CUresult result = MakeCopy(*params, &copy);
  if (result != CUDA_SUCCESS) return result;
  return RunSynchronously(call, std::move(copy));
}

CUresult Copy3DAsync(CUstream stream, bool per_thread,
                     const CUDA_MEMCPY3D* params) {
  Call call(Api::kMemcpy3DAsync, stream, per_thread);
  if (!call.ok()) return call.result();
  if (params == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (HasNoBytes(*params) && !call.capturing()) return CUDA_SUCCESS;
  CopyOp copy;
  const CUresult result = MakeCopy(*params, &copy);
  if (result != CUDA_SUCCESS) return call.Fail(result);
  return RunAsynchronously(call, std::move(copy));
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuMemcpy(CUdeviceptr target, CUdeviceptr source,
                          size_t bytes) {
  return Copy(Api::kMemcpy, false, AnyToAny(target, source, bytes));
}
CUresult CUDAAPI cuMemcpy_ptds(CUdeviceptr target, CUdeviceptr source,
                               size_t bytes) {
  return Copy(Api::kMemcpy, true, AnyToAny(target, source, bytes));
}
CUresult CUDAAPI cuMemcpyHtoD_v2(CUdeviceptr target, const void* source,
                                 size_t bytes) {
  return Copy(Api::kMemcpyHtoD, false, HostToDevice(target, source, bytes));
}
CUresult CUDAAPI cuMemcpyHtoD_v2_ptds(CUdeviceptr target, const void* source,
                                      size_t bytes) {
  return Copy(Api::kMemcpyHtoD, true, HostToDevice(target, source, bytes));
}
CUresult CUDAAPI cuMemcpyDtoH_v2(void* target, CUdeviceptr source,
                                 size_t bytes) {
  return Copy(Api::kMemcpyDtoH, false, DeviceToHost(target, source, bytes));
}
CUresult CUDAAPI cuMemcpyDtoH_v2_ptds(void* target, CUdeviceptr source,
                                      size_t bytes) {
  return Copy(Api::kMemcpyDtoH, true, DeviceToHost(target, source, bytes));
}
CUresult CUDAAPI cuMemcpyDtoD_v2(CUdeviceptr target, CUdeviceptr source,
                                 size_t bytes) {
  return Copy(Api::kMemcpyDtoD, false, DeviceToDevice(target, source, bytes));
}
CUresult CUDAAPI cuMemcpyDtoD_v2_ptds(CUdeviceptr target, CUdeviceptr source,
                                      size_t bytes) {
  return Copy(Api::kMemcpyDtoD, true, DeviceToDevice(target, source, bytes));
}

CUresult CUDAAPI cuMemcpyAsync(CUdeviceptr target, CUdeviceptr source,
                               size_t bytes, CUstream stream) {
  return CopyAsync(Api::kMemcpyAsync, stream, false,
                   AnyToAny(target, source, bytes));
}
CUresult CUDAAPI cuMemcpyAsync_ptsz(CUdeviceptr target, CUdeviceptr source,
                                    size_t bytes, CUstream stream) {
  return CopyAsync(Api::kMemcpyAsync, stream, true,
                   AnyToAny(target, source, bytes));
}
CUresult CUDAAPI cuMemcpyHtoDAsync_v2(CUdeviceptr target, const void* source,
                                      size_t bytes, CUstream stream) {
  return CopyAsync(Api::kMemcpyHtoDAsync, stream, false,
                   HostToDevice(target, source, bytes));
}
CUresult CUDAAPI cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr target,
                                           const void* source, size_t bytes,
                                           CUstream stream) {
  return CopyAsync(Api::kMemcpyHtoDAsync, stream, true,
                   HostToDevice(target, source, bytes));
}
CUresult CUDAAPI cuMemcpyDtoHAsync_v2(void* target, CUdeviceptr source,
                                      size_t bytes, CUstream stream) {
  return CopyAsync(Api::kMemcpyDtoHAsync, stream, false,
                   DeviceToHost(target, source, bytes));
}
CUresult CUDAAPI cuMemcpyDtoHAsync_v2_ptsz(void* target, CUdeviceptr source,
                                           size_t bytes, CUstream stream) {
  return CopyAsync(Api::kMemcpyDtoHAsync, stream, true,
                   DeviceToHost(target, source, bytes));
}
CUresult CUDAAPI cuMemcpyDtoDAsync_v2(CUdeviceptr target, CUdeviceptr source,
                                      size_t bytes, CUstream stream) {
  return CopyAsync(Api::kMemcpyDtoDAsync, stream, false,
                   DeviceToDevice(target, source, bytes));
}
CUresult CUDAAPI cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr target,
                                           CUdeviceptr source, size_t bytes,
                                           CUstream stream) {
  return CopyAsync(Api::kMemcpyDtoDAsync, stream, true,
                   DeviceToDevice(target, source, bytes));
}

CUresult CUDAAPI cuMemcpyPeer(CUdeviceptr target, CUcontext target_context,
                              CUdeviceptr source, CUcontext source_context,
                              size_t bytes) {
  return CopyPeer(false, target_context, source_context,
                  DeviceToDevice(target, source, bytes));
}
CUresult CUDAAPI cuMemcpyPeer_ptds(CUdeviceptr target, CUcontext target_context,
                                   CUdeviceptr source, CUcontext source_context,
                                   size_t bytes) {
  return CopyPeer(true, target_context, source_context,
                  DeviceToDevice(target, source, bytes));
}
CUresult CUDAAPI cuMemcpyPeerAsync(CUdeviceptr target, CUcontext target_context,
                                   CUdeviceptr source, CUcontext source_context,
                                   size_t bytes, CUstream stream) {
  return CopyPeerAsync(stream, false, target_context, source_context,
                       DeviceToDevice(target, source, bytes));
}
CUresult CUDAAPI cuMemcpyPeerAsync_ptsz(CUdeviceptr target,
                                        CUcontext target_context,
                                        CUdeviceptr source,
                                        CUcontext source_context, size_t bytes,
                                        CUstream stream) {
  return CopyPeerAsync(stream, true, target_context, source_context,
                       DeviceToDevice(target, source, bytes));
}

CUresult CUDAAPI cuMemcpy3D_v2(const CUDA_MEMCPY3D* params) {
  return Copy3D(false, params);
}
CUresult CUDAAPI cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D* params) {
  return Copy3D(true, params);
}
CUresult CUDAAPI cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* params,
                                    CUstream stream) {
  return Copy3DAsync(stream, false, params);
}
CUresult CUDAAPI cuMemcpy3DAsync_v2_ptsz(const CUDA_MEMCPY3D* params,
                                         CUstream stream) {
  return Copy3DAsync(stream, true, params);
}

}  // extern "C"
