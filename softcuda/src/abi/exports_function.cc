// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Functions and kernels: attributes, parameters, occupancy.
#include <algorithm>

#include "abi/cuda_abi.h"
#include "exec/device_limits.h"
#include "runtime/answers.h"
#include "runtime/call.h"
#include "runtime/launch.h"

using softcuda::runtime::Answer;
using softcuda::runtime::Api;
using softcuda::runtime::Call;
using softcuda::runtime::Function;
using softcuda::runtime::MaxActiveBlocks;

namespace {

template <typename Handle>
CUresult GetAttribute(Api api, int* value, CUfunction_attribute attribute,
                      Handle handle) {
  Call call(api);
  if (!call.ok()) return call.result();
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto function = call.Find(handle);
  if (function == nullptr) return call.Fail();
  return softcuda::runtime::GetFunctionAttribute(*function, attribute, value);
}

template <typename Handle>
CUresult SetAttribute(Api api, CUfunction_attribute attribute, int value,
                      Handle handle) {
  Call call(api);
  if (!call.ok()) return call.result();
  const auto function = call.Find(handle);
  if (function == nullptr) return call.Fail();
  return softcuda::runtime::SetFunctionAttribute(*function, attribute, value);
}

template <typename Handle>
CUresult GetParamInfo(Api api, Handle handle, size_t index, size_t* offset,
                      size_t* size) {
  Call call(api);
  if (!call.ok()) return call.result();
  const auto function = call.Find(handle);
  if (function == nullptr) return call.Fail();
  const auto& params = function->kernel->params();
  if (offset == nullptr || index >= params.size()) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *offset = params[index].offset;
  if (size != nullptr) *size = params[index].size;
  return CUDA_SUCCESS;
}

template <typename Handle>
CUresult GetName(Api api, const char** name, Handle handle) {
  Call call(api);
  if (!call.ok()) return call.result();
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto function = call.Find(handle);
  if (function == nullptr) return call.Fail();
  *name = function->kernel->name().c_str();
  return CUDA_SUCCESS;
}

CUresult CountActiveBlocks(Api api, int* blocks, CUfunction handle,
                           int block_size, size_t shared_bytes) {
  Call call(api);
  if (!call.ok()) return call.result();
  const auto function = call.Find(handle);
  if (function == nullptr) return call.Fail();
  if (blocks == nullptr || block_size <= 0 ||
      block_size >
          static_cast<int>(function->kernel->max_threads_per_block())) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *blocks = MaxActiveBlocks(*function, block_size, shared_bytes);
  return CUDA_SUCCESS;
}

CUresult PotentialBlockSize(Api api, int* min_grid, int* block_size,
                            CUfunction handle, CUoccupancyB2DSize shared_of,
                            size_t shared_bytes, int limit) {
  Call call(api);
  if (!call.ok()) return call.result();
  const auto function = call.Find(handle);
  if (function == nullptr) return call.Fail();
  if (min_grid == nullptr || block_size == nullptr || limit < 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  int largest = static_cast<int>(function->kernel->max_threads_per_block());
  if (limit > 0) largest = std::min(largest, limit);
  int best_threads = 0;
  for (int threads = largest; threads > 0;
       threads -= threads % 32 != 0 ? threads % 32 : 32) {
    const size_t shared =
        shared_of != nullptr ? shared_of(threads) : shared_bytes;
    const int blocks = MaxActiveBlocks(*function, threads, shared);
    if (blocks * threads > best_threads) {
      best_threads = blocks * threads;
      *block_size = threads;
      *min_grid = blocks * softcuda::kMultiprocessors;
    }
  }
  return best_threads > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuFuncGetAttribute(int* value, CUfunction_attribute attribute,
                                    CUfunction function) {
  return GetAttribute(Api::kFuncGetAttribute, value, attribute, function);
}

CUresult CUDAAPI cuFuncSetAttribute(CUfunction function,
                                    CUfunction_attribute attribute, int value) {
  return SetAttribute(Api::kFuncSetAttribute, attribute, value, function);
}

CUresult CUDAAPI cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache) {
  Call call(Api::kFuncSetCacheConfig);
  if (!call.ok()) return call.result();
  return call.Find(handle) == nullptr ? call.Fail() : CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncGetModule(CUmodule* module, CUfunction handle) {
  Call call(Api::kFuncGetModule);
  if (!call.ok()) return call.result();
  if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto function = call.Find(handle);
  if (function == nullptr) return call.Fail();
  *module = function->module->handle;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncGetName(const char** name, CUfunction function) {
  return GetName(Api::kFuncGetName, name, function);
}

CUresult CUDAAPI cuFuncGetParamInfo(CUfunction function, size_t index,
                                    size_t* offset, size_t* size) {
  return GetParamInfo(Api::kFuncGetParamInfo, function, index, offset, size);
}

CUresult CUDAAPI cuFuncIsLoaded(CUfunctionLoadingState* state,
                                CUfunction handle) {
  Call call(Api::kFuncIsLoaded);
  if (!call.ok()) return call.result();
  if (state == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto function = call.Find(handle);
  if (function == nullptr) return call.Fail();
  *state = function->loaded || !Says(Answer::kFirstLaunchInCaptureCode)
               ? CU_FUNCTION_LOADING_STATE_LOADED
               : CU_FUNCTION_LOADING_STATE_UNLOADED;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncLoad(CUfunction handle) {
  Call call(Api::kFuncLoad);
  if (!call.ok()) return call.result();
  // Images are decoded when they are loaded: nothing else is left to do.
  const auto function = call.Find(handle);
  if (function == nullptr) return call.Fail();
  function->loaded = true;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuKernelGetFunction(CUfunction* function, CUkernel handle) {
  Call call(Api::kKernelGetFunction);
  if (!call.ok()) return call.result();
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto kernel = call.Find(handle);
  if (kernel == nullptr) return call.Fail();
  *function = kernel->handle;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuKernelGetLibrary(CUlibrary* library, CUkernel handle) {
  Call call(Api::kKernelGetLibrary);
  if (!call.ok()) return call.result();
  if (library == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto kernel = call.Find(handle);
  if (kernel == nullptr) return call.Fail();
  *library = kernel->module->library;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuKernelGetParamInfo(CUkernel kernel, size_t index,
                                      size_t* offset, size_t* size) {
  return GetParamInfo(Api::kKernelGetParamInfo, kernel, index, offset, size);
}

CUresult CUDAAPI cuKernelGetName(const char** name, CUkernel kernel) {
  return GetName(Api::kKernelGetName, name, kernel);
}

CUresult CUDAAPI cuKernelGetAttribute(int* value,
                                      CUfunction_attribute attribute,
                                      CUkernel kernel, CUdevice device) {
  if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
  return GetAttribute(Api::kKernelGetAttribute, value, attribute, kernel);
}

CUresult CUDAAPI cuKernelSetAttribute(CUfunction_attribute attribute, int value,
                                      CUkernel kernel, CUdevice device) {
  if (device != 0) return CUDA_ERROR_INVALID_DEVICE;
  return SetAttribute(Api::kKernelSetAttribute, attribute, value, kernel);
}

CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessor(
    int* blocks, CUfunction function, int block_size, size_t shared_bytes) {
  return CountActiveBlocks(Api::kOccupancyMaxActiveBlocksPerMultiprocessor,
                           blocks, function, block_size, shared_bytes);
}

CUresult CUDAAPI cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, CUfunction function, int block_size, size_t shared_bytes,
    unsigned int flags) {
  if (flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CountActiveBlocks(
      Api::kOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, blocks,
      function, block_size, shared_bytes);
}

CUresult CUDAAPI cuOccupancyMaxPotentialBlockSize(
    int* min_grid, int* block_size, CUfunction function,
    CUoccupancyB2DSize shared_of, size_t shared_bytes, int limit) {
  return PotentialBlockSize(Api::kOccupancyMaxPotentialBlockSize, min_grid,
                            block_size, function, shared_of, shared_bytes,
                            limit);
}

CUresult CUDAAPI cuOccupancyMaxPotentialBlockSizeWithFlags(
    int* min_grid, int* block_size, CUfunction function,
    CUoccupancyB2DSize shared_of, size_t shared_bytes, int limit,
    unsigned int flags) {
  if (flags > CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return PotentialBlockSize(Api::kOccupancyMaxPotentialBlockSizeWithFlags,
                            min_grid, block_size, function, shared_of,
                            shared_bytes, limit);
}

}  // extern "C"
