// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

//
// A library that passes for a driver as far as the loader looks.

#include <cuda.h>

#include <cstring>

#ifndef FAKE_VERSION
#define FAKE_VERSION CUDA_VERSION
#endif
#ifndef FAKE_MISSING
#define FAKE_MISSING ""
#endif
#ifndef FAKE_INIT_RESULT
#define FAKE_INIT_RESULT CUDA_SUCCESS
#endif
#ifndef FAKE_VERSION_RESULT
#define FAKE_VERSION_RESULT CUDA_SUCCESS
#endif

extern "C" {

CUresult cuInit(unsigned /*flags*/) { return FAKE_INIT_RESULT; }

CUresult cuDriverGetVersion(int* version) {
  *version = FAKE_VERSION;
  return FAKE_VERSION_RESULT;
}

CUresult cuDeviceGetCount(int* count) {
  *count = 1;
  return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize() { return CUDA_SUCCESS; }

CUresult cuMemRelease(CUmemGenericAllocationHandle /*handle*/) {
  return CUDA_SUCCESS;
}

// For entry points that a test resolves and never calls.
CUresult NeverCalled() { return CUDA_ERROR_UNKNOWN; }

CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version,
                             cuuint64_t /*flags*/,
                             CUdriverProcAddressQueryResult* result) {
  if (version > FAKE_VERSION) return CUDA_ERROR_INVALID_VALUE;
  if (std::strcmp(symbol, FAKE_MISSING) == 0) {
    *function = nullptr;
    *result = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return CUDA_SUCCESS;
  }
  *result = CU_GET_PROC_ADDRESS_SUCCESS;
  const auto is = [symbol](const char* name) {
    return std::strcmp(symbol, name) == 0;
  };
  *function =
      is("cuInit")               ? reinterpret_cast<void*>(&cuInit)
      : is("cuDriverGetVersion") ? reinterpret_cast<void*>(&cuDriverGetVersion)
      : is("cuDeviceGetCount")   ? reinterpret_cast<void*>(&cuDeviceGetCount)
      : is("cuCtxSynchronize")
          ? reinterpret_cast<void*>(
                static_cast<CUresult (*)()>(&cuCtxSynchronize))
      : is("cuMemRelease") ? reinterpret_cast<void*>(&cuMemRelease)
                           : reinterpret_cast<void*>(&NeverCalled);
  return CUDA_SUCCESS;
}

}  // extern "C"
