// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Memsets.
#include "abi/cuda_abi.h"
#include "runtime/answers.h"
#include "runtime/call.h"
#include "runtime/copy.h"

using softcuda::runtime::Answer;
using softcuda::runtime::Api;
using softcuda::runtime::Call;
using softcuda::runtime::MakeMemset;
using softcuda::runtime::MemsetOp;

namespace {

MemsetOp Row(CUdeviceptr address, unsigned int value, uint32_t element_bytes,
             size_t count) {
  return {address, 0, value, element_bytes, count, 1};
}

MemsetOp Rows(CUdeviceptr address, size_t pitch, unsigned int value,
              uint32_t element_bytes, size_t width, size_t height) {
  return {address, pitch, value, element_bytes, width, height};
}

CUresult Make(Call& call, const MemsetOp& asked, MemsetOp* memset,
              bool* nothing) {
  *nothing = asked.width_elements == 0 || asked.rows == 0;
  if (*nothing && call.capturing() && Says(Answer::kEmptyMemsetNodes)) {
    call.Issue(CU_GRAPH_NODE_TYPE_MEMSET, asked);
    return CUDA_SUCCESS;
  }
  if (*nothing) {
    if (call.capturing()) {
      softcuda::runtime::ReportMisuse(
          call.name(),
          "a memset of no bytes in a capture: whether it becomes a "
          "node is not specified");
    }
    return CUDA_SUCCESS;
  }
  return MakeMemset(asked, memset);
}

CUresult Set(Api api, bool per_thread, const MemsetOp& asked) {
  Call call(api, nullptr, per_thread);
  if (!call.ok()) return call.result();
  MemsetOp memset;
  bool nothing = false;
  const CUresult result = Make(call, asked, &memset, &nothing);
  if (result != CUDA_SUCCESS || nothing) return result;
  const CUresult committed = CommitMemset(call.name(), memset);
  if (committed != CUDA_SUCCESS) return committed;
  const auto task = call.Issue(CU_GRAPH_NODE_TYPE_MEMSET, memset);
  // Only host memory makes a memset wait.
  return MemsetTargetIsHost(memset) ? call.Wait(task) : CUDA_SUCCESS;
}

CUresult SetAsync(Api api, CUstream stream, bool per_thread,
                  const MemsetOp& asked) {
  Call call(api, stream, per_thread);
  if (!call.ok()) return call.result();
  MemsetOp memset;
  bool nothing = false;
  const CUresult result = Make(call, asked, &memset, &nothing);
  if (result != CUDA_SUCCESS) return call.Fail(result);
  if (nothing) return CUDA_SUCCESS;
  if (!call.capturing()) {
    const CUresult committed = CommitMemset(call.name(), memset);
    if (committed != CUDA_SUCCESS) return committed;
  }
  call.Issue(CU_GRAPH_NODE_TYPE_MEMSET, memset);
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuMemsetD8_v2(CUdeviceptr address, unsigned char value,
                               size_t count) {
  return Set(Api::kMemsetD8, false, Row(address, value, 1, count));
}
CUresult CUDAAPI cuMemsetD8_v2_ptds(CUdeviceptr address, unsigned char value,
                                    size_t count) {
  return Set(Api::kMemsetD8, true, Row(address, value, 1, count));
}
CUresult CUDAAPI cuMemsetD16_v2(CUdeviceptr address, unsigned short value,
                                size_t count) {
  return Set(Api::kMemsetD16, false, Row(address, value, 2, count));
}
CUresult CUDAAPI cuMemsetD16_v2_ptds(CUdeviceptr address, unsigned short value,
                                     size_t count) {
  return Set(Api::kMemsetD16, true, Row(address, value, 2, count));
}
CUresult CUDAAPI cuMemsetD32_v2(CUdeviceptr address, unsigned int value,
                                size_t count) {
  return Set(Api::kMemsetD32, false, Row(address, value, 4, count));
}
CUresult CUDAAPI cuMemsetD32_v2_ptds(CUdeviceptr address, unsigned int value,
                                     size_t count) {
  return Set(Api::kMemsetD32, true, Row(address, value, 4, count));
}

CUresult CUDAAPI cuMemsetD8Async(CUdeviceptr address, unsigned char value,
                                 size_t count, CUstream stream) {
  return SetAsync(Api::kMemsetD8Async, stream, false,
                  Row(address, value, 1, count));
}
CUresult CUDAAPI cuMemsetD8Async_ptsz(CUdeviceptr address, unsigned char value,
                                      size_t count, CUstream stream) {
  return SetAsync(Api::kMemsetD8Async, stream, true,
                  Row(address, value, 1, count));
}
CUresult CUDAAPI cuMemsetD16Async(CUdeviceptr address, unsigned short value,
                                  size_t count, CUstream stream) {
  return SetAsync(Api::kMemsetD16Async, stream, false,
                  Row(address, value, 2, count));
}
CUresult CUDAAPI cuMemsetD16Async_ptsz(CUdeviceptr address,
                                       unsigned short value, size_t count,
                                       CUstream stream) {
  return SetAsync(Api::kMemsetD16Async, stream, true,
                  Row(address, value, 2, count));
}
CUresult CUDAAPI cuMemsetD32Async(CUdeviceptr address, unsigned int value,
                                  size_t count, CUstream stream) {
  return SetAsync(Api::kMemsetD32Async, stream, false,
                  Row(address, value, 4, count));
}
CUresult CUDAAPI cuMemsetD32Async_ptsz(CUdeviceptr address, unsigned int value,
                                       size_t count, CUstream stream) {
  return SetAsync(Api::kMemsetD32Async, stream, true,
                  Row(address, value, 4, count));
}

CUresult CUDAAPI cuMemsetD2D8Async(CUdeviceptr address, size_t pitch,
                                   unsigned char value, size_t width,
                                   size_t height, CUstream stream) {
  return SetAsync(Api::kMemsetD2D8Async, stream, false,
                  Rows(address, pitch, value, 1, width, height));
}
CUresult CUDAAPI cuMemsetD2D8Async_ptsz(CUdeviceptr address, size_t pitch,
                                        unsigned char value, size_t width,
                                        size_t height, CUstream stream) {
  return SetAsync(Api::kMemsetD2D8Async, stream, true,
                  Rows(address, pitch, value, 1, width, height));
}
CUresult CUDAAPI cuMemsetD2D16Async(CUdeviceptr address, size_t pitch,
                                    unsigned short value, size_t width,
                                    size_t height, CUstream stream) {
  return SetAsync(Api::kMemsetD2D16Async, stream, false,
                  Rows(address, pitch, value, 2, width, height));
}
CUresult CUDAAPI cuMemsetD2D16Async_ptsz(CUdeviceptr address, size_t pitch,
                                         unsigned short value, size_t width,
                                         size_t height, CUstream stream) {
  return SetAsync(Api::kMemsetD2D16Async, stream, true,
                  Rows(address, pitch, value, 2, width, height));
}
CUresult CUDAAPI cuMemsetD2D32Async(CUdeviceptr address, size_t pitch,
                                    unsigned int value, size_t width,
                                    size_t height, CUstream stream) {
  return SetAsync(Api::kMemsetD2D32Async, stream, false,
                  Rows(address, pitch, value, 4, width, height));
}
CUresult CUDAAPI cuMemsetD2D32Async_ptsz(CUdeviceptr address, size_t pitch,
                                         unsigned int value, size_t width,
                                         size_t height, CUstream stream) {
  return SetAsync(Api::kMemsetD2D32Async, stream, true,
                  Rows(address, pitch, value, 4, width, height));
}

}  // extern "C"
