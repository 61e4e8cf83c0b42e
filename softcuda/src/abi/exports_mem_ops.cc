// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Writes to and waits for words of memory in stream order.
#include <utility>
#include <vector>

#include "abi/cuda_abi.h"
#include "memory/address_space.h"
#include "runtime/call.h"

using softcuda::memory::AddressSpace;
using softcuda::runtime::Api;
using softcuda::runtime::Call;
using softcuda::runtime::MemOpsOp;
using softcuda::runtime::WordOp;

namespace {

constexpr unsigned int kWaitKinds =
    CU_STREAM_WAIT_VALUE_GEQ | CU_STREAM_WAIT_VALUE_EQ |
    CU_STREAM_WAIT_VALUE_AND | CU_STREAM_WAIT_VALUE_NOR;

CUresult MakeWord(const WordOp& asked, bool is_wait, unsigned int flags,
                  WordOp* word) {
  *word = asked;
  word->is_wait = is_wait;
  if (is_wait) {
    // Nothing here comes from a remote device, so a flush has nothing to do.
    flags &= ~static_cast<unsigned int>(CU_STREAM_WAIT_VALUE_FLUSH);
    if ((flags & ~kWaitKinds) != 0) return CUDA_ERROR_INVALID_VALUE;
    word->wait_kind = flags;
  } else if (flags != CU_STREAM_WRITE_VALUE_DEFAULT &&
             flags != CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (word->address % word->bytes != 0) return CUDA_ERROR_INVALID_VALUE;
  return AddressSpace::Get().call_snapshot()->CheckRange(
      word->address, word->bytes, !is_wait, nullptr);
}

CUresult Issue(Call& call, std::vector<WordOp> words) {
  MemOpsOp operation;
  operation.words = std::move(words);
  call.Issue(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, std::move(operation));
  return CUDA_SUCCESS;
}

CUresult One(Api api, CUstream stream, bool per_thread, const WordOp& asked,
             bool is_wait, unsigned int flags) {
  Call call(api, stream, per_thread);
  if (!call.ok()) return call.result();
  WordOp word;
  const CUresult result = MakeWord(asked, is_wait, flags, &word);
  if (result != CUDA_SUCCESS) return call.Fail(result);
  return Issue(call, {word});
}

CUresult Write32(CUstream stream, bool per_thread, CUdeviceptr address,
                 cuuint32_t value, unsigned int flags) {
  return One(Api::kStreamWriteValue32, stream, per_thread, {address, value, 4},
             false, flags);
}
CUresult Write64(CUstream stream, bool per_thread, CUdeviceptr address,
                 cuuint64_t value, unsigned int flags) {
  return One(Api::kStreamWriteValue64, stream, per_thread, {address, value, 8},
             false, flags);
}
CUresult Wait32(CUstream stream, bool per_thread, CUdeviceptr address,
                cuuint32_t value, unsigned int flags) {
  return One(Api::kStreamWaitValue32, stream, per_thread, {address, value, 4},
             true, flags);
}
CUresult Wait64(CUstream stream, bool per_thread, CUdeviceptr address,
                cuuint64_t value, unsigned int flags) {
  return One(Api::kStreamWaitValue64, stream, per_thread, {address, value, 8},
             true, flags);
}

CUresult RunBatch(CUstream stream, bool per_thread, unsigned int count,
                  const CUstreamBatchMemOpParams* params, unsigned int flags) {
  Call call(Api::kStreamBatchMemOp, stream, per_thread);
  if (!call.ok()) return call.result();
  // As many as a driver takes in one batch.
  constexpr unsigned int kMostOperations = 256;
  if (flags != 0 || count > kMostOperations ||
      (count > 0 && params == nullptr)) {
    return call.Fail(CUDA_ERROR_INVALID_VALUE);
  }
  std::vector<WordOp> words;
  for (unsigned int i = 0; i < count; ++i) {
    const auto& wait = params[i].waitValue;
    const auto& write = params[i].writeValue;
    WordOp word;
    CUresult result = CUDA_SUCCESS;
    switch (params[i].operation) {
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        result =
            MakeWord({wait.address, wait.value, 4}, true, wait.flags, &word);
        break;
      case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        result =
            MakeWord({wait.address, wait.value64, 8}, true, wait.flags, &word);
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        result = MakeWord({write.address, write.value, 4}, false, write.flags,
                          &word);
        break;
      case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        result = MakeWord({write.address, write.value64, 8}, false, write.flags,
                          &word);
        break;
      // Memory is in order anyway.
      case CU_STREAM_MEM_OP_BARRIER:
      case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
        continue;
      default:
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result != CUDA_SUCCESS) return call.Fail(result);
    words.push_back(word);
  }
  return Issue(call, std::move(words));
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address,
                                         cuuint32_t value, unsigned int flags) {
  return Write32(stream, false, address, value, flags);
}
CUresult CUDAAPI cuStreamWriteValue32_v2_ptsz(CUstream stream,
                                              CUdeviceptr address,
                                              cuuint32_t value,
                                              unsigned int flags) {
  return Write32(stream, true, address, value, flags);
}
CUresult CUDAAPI cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr address,
                                         cuuint64_t value, unsigned int flags) {
  return Write64(stream, false, address, value, flags);
}
CUresult CUDAAPI cuStreamWriteValue64_v2_ptsz(CUstream stream,
                                              CUdeviceptr address,
                                              cuuint64_t value,
                                              unsigned int flags) {
  return Write64(stream, true, address, value, flags);
}
CUresult CUDAAPI cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr address,
                                        cuuint32_t value, unsigned int flags) {
  return Wait32(stream, false, address, value, flags);
}
CUresult CUDAAPI cuStreamWaitValue32_v2_ptsz(CUstream stream,
                                             CUdeviceptr address,
                                             cuuint32_t value,
                                             unsigned int flags) {
  return Wait32(stream, true, address, value, flags);
}
CUresult CUDAAPI cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr address,
                                        cuuint64_t value, unsigned int flags) {
  return Wait64(stream, false, address, value, flags);
}
CUresult CUDAAPI cuStreamWaitValue64_v2_ptsz(CUstream stream,
                                             CUdeviceptr address,
                                             cuuint64_t value,
                                             unsigned int flags) {
  return Wait64(stream, true, address, value, flags);
}
CUresult CUDAAPI cuStreamBatchMemOp_v2(CUstream stream, unsigned int count,
                                       CUstreamBatchMemOpParams* params,
                                       unsigned int flags) {
  return RunBatch(stream, false, count, params, flags);
}
CUresult CUDAAPI cuStreamBatchMemOp_v2_ptsz(CUstream stream, unsigned int count,
                                            CUstreamBatchMemOpParams* params,
                                            unsigned int flags) {
  return RunBatch(stream, true, count, params, flags);
}

}  // extern "C"
