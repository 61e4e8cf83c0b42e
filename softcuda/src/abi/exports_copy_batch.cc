// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Batches of copies.
#include <utility>
#include <vector>

#include "abi/cuda_abi.h"
#include "runtime/call.h"
#include "runtime/capture.h"
#include "runtime/copy.h"

using softcuda::runtime::Api;
using softcuda::runtime::Call;
using softcuda::runtime::CopyOp;
using softcuda::runtime::MakeLinearCopy;
using softcuda::runtime::Side;
using softcuda::runtime::StreamKind;

namespace {

struct Batch {
  CUdeviceptr* targets;
  CUdeviceptr* sources;
  size_t* sizes;
  size_t count;
  CUmemcpyAttributes* attributes;
  size_t* first_copies;  // of each entry of `attributes`
  size_t attribute_count;
};

bool HasOrder(const CUmemcpyAttributes& attributes) {
  return attributes.srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
         attributes.srcAccessOrder ==
             CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL ||
         attributes.srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
}

// Whether each copy has attributes, and each entry copies.
bool AreAttributesValid(const Batch& batch) {
  if (batch.attribute_count == 0 || batch.attribute_count > batch.count ||
      batch.attributes == nullptr || batch.first_copies == nullptr ||
      batch.first_copies[0] != 0) {
    return false;
  }
  for (size_t i = 0; i < batch.attribute_count; ++i) {
    if (!HasOrder(batch.attributes[i]) ||
        batch.first_copies[i] >= batch.count ||
        (i > 0 && batch.first_copies[i] <= batch.first_copies[i - 1])) {
      return false;
    }
  }
  return true;
}

CUresult CopyBatch(const Batch& batch, CUstream stream, bool per_thread,
                   size_t* failed) {
  Call call(Api::kMemcpyBatchAsync, stream, per_thread);
  if (!call.ok()) return call.result();
  // A number that no array has room for.
  constexpr size_t kMostCopies = size_t{1} << 24;
  if (failed != nullptr) *failed = SIZE_MAX;
  if (call.stream().kind == StreamKind::kLegacy || batch.count == 0 ||
      batch.count > kMostCopies || batch.targets == nullptr ||
      batch.sources == nullptr || batch.sizes == nullptr ||
      !AreAttributesValid(batch)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // What a batch becomes in a capture is not stated: it breaks it.
  if (call.capturing()) {
    Invalidate(*call.stream().capture);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  std::vector<CopyOp> copies(batch.count);
  for (size_t i = 0; i < batch.count; ++i) {
    CUresult result =
        MakeLinearCopy(batch.targets[i], Side::kEither, batch.sources[i],
                       Side::kEither, batch.sizes[i], &copies[i]);
    if (result == CUDA_SUCCESS) result = CommitCopy(call.name(), copies[i]);
    if (result == CUDA_SUCCESS) continue;
    if (failed != nullptr) *failed = i;
    return result;
  }
  for (CopyOp& copy : copies) {
    if (copy.source.pageable) StageSource(&copy);
    call.Issue(CU_GRAPH_NODE_TYPE_MEMCPY, std::move(copy));
  }
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuMemcpyBatchAsync(CUdeviceptr* targets, CUdeviceptr* sources,
                                    size_t* sizes, size_t count,
                                    CUmemcpyAttributes* attributes,
                                    size_t* first_copies,
                                    size_t attribute_count, size_t* failed,
                                    CUstream stream) {
  return CopyBatch({targets, sources, sizes, count, attributes, first_copies,
                    attribute_count},
                   stream, false, failed);
}
CUresult CUDAAPI cuMemcpyBatchAsync_ptsz(
    CUdeviceptr* targets, CUdeviceptr* sources, size_t* sizes, size_t count,
    CUmemcpyAttributes* attributes, size_t* first_copies,
    size_t attribute_count, size_t* failed, CUstream stream) {
  return CopyBatch({targets, sources, sizes, count, attributes, first_copies,
                    attribute_count},
                   stream, true, failed);
}
CUresult CUDAAPI cuMemcpyBatchAsync_v2(
    CUdeviceptr* targets, CUdeviceptr* sources, size_t* sizes, size_t count,
    CUmemcpyAttributes* attributes, size_t* first_copies,
    size_t attribute_count, CUstream stream) {
  return CopyBatch({targets, sources, sizes, count, attributes, first_copies,
                    attribute_count},
                   stream, false, nullptr);
}
CUresult CUDAAPI cuMemcpyBatchAsync_v2_ptsz(
    CUdeviceptr* targets, CUdeviceptr* sources, size_t* sizes, size_t count,
    CUmemcpyAttributes* attributes, size_t* first_copies,
    size_t attribute_count, CUstream stream) {
  return CopyBatch({targets, sources, sizes, count, attributes, first_copies,
                    attribute_count},
                   stream, true, nullptr);
}

}  // extern "C"
