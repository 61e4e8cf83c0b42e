// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Entry points that answer NOT_SUPPORTED, with a line that says so.
#include "abi/cuda_abi.h"
#include "runtime/call.h"

using softcuda::runtime::Api;
using softcuda::runtime::Call;
using softcuda::runtime::ReportUnsupported;

namespace {

CUresult AttachMem(CUstream stream, bool per_thread) {
  Call call(Api::kStreamAttachMemAsync, stream, per_thread);
  if (!call.ok()) return call.result();
  ReportUnsupported(call.name(), "managed memory and its attachments");
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuStreamAttachMemAsync(CUstream stream, CUdeviceptr, size_t,
                                        unsigned int) {
  return AttachMem(stream, false);
}
CUresult CUDAAPI cuStreamAttachMemAsync_ptsz(CUstream stream, CUdeviceptr,
                                             size_t, unsigned int) {
  return AttachMem(stream, true);
}

CUresult CUDAAPI cuPointerSetAttribute(const void* value,
                                       CUpointer_attribute attribute,
                                       CUdeviceptr) {
  Call call(Api::kPointerSetAttribute);
  if (!call.ok()) return call.result();
  if (value == nullptr || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  ReportUnsupported(call.name(), "copies that synchronise by pointer");
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // extern "C"
