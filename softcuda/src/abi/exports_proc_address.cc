// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Entry points by name and version.

// The driver's view of cuda.h must come before anything else of CUDA.
// clang-format off
#include "abi/cuda_abi.h"
#include "check/settings.h"
#include <cudaTypedefs.h>
// clang-format on

#include <bit>
#include <cstring>

#include "runtime/state.h"

namespace {

struct EntryRow {
  const char* name;
  int version;
  void* function;          // null: softcuda does not have this ABI
  int per_thread_version;  // 0: there is no per-thread form
  void* per_thread_function;
};

template <typename Function>
void* Address(Function* function) {
  return std::bit_cast<void*>(function);
}

// Each cast compares a function with the type that callers give its address.
const EntryRow kEntries[] = {
#define SOFTCUDA_ENTRY(name, version, symbol)                                \
  {#name, version, Address(static_cast<PFN_##name##_v##version>(symbol)), 0, \
   nullptr},
#define SOFTCUDA_ENTRY_PER_THREAD(name, version, symbol, per_thread_version, \
                                  suffix, per_thread_symbol)                 \
  {#name, version, Address(static_cast<PFN_##name##_v##version>(symbol)),    \
   per_thread_version,                                                       \
   Address(static_cast<PFN_##name##_v##per_thread_version##_##suffix>(       \
       per_thread_symbol))},
#define SOFTCUDA_ABSENT(name, version) {#name, version, nullptr, 0, nullptr},
#include "abi/entry_table.inc"
#undef SOFTCUDA_ENTRY
#undef SOFTCUDA_ENTRY_PER_THREAD
#undef SOFTCUDA_ABSENT
};

struct Lookup {
  void* function = nullptr;
  CUdriverProcAddressQueryResult result = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
};

// The newest ABI that is not newer than `version`.
Lookup Find(const char* name, int version, bool per_thread) {
  Lookup found;
  const EntryRow* best = nullptr;
  bool known = false;
  for (const EntryRow& row : kEntries) {
    if (std::strcmp(row.name, name) != 0) continue;
    known = true;
    if (row.version > version) continue;
    if (best == nullptr || row.version > best->version) best = &row;
  }
  if (best == nullptr) {
    if (known) found.result = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    return found;
  }
  if (best->function == nullptr) return found;
  const bool use_per_thread = per_thread && best->per_thread_version != 0 &&
                              best->per_thread_version <= version;
  found.function = use_per_thread ? best->per_thread_function : best->function;
  found.result = CU_GET_PROC_ADDRESS_SUCCESS;
  return found;
}

CUresult GetProcAddress(const char* name, void** function, int version,
                        cuuint64_t flags, Lookup* found) {
  if (name == nullptr || function == nullptr ||
      version > softcuda::check::Settings::Get().driver_version() ||
      (flags != CU_GET_PROC_ADDRESS_DEFAULT &&
       flags != CU_GET_PROC_ADDRESS_LEGACY_STREAM &&
       flags != CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *found = Find(name, version,
                flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
  *function = found->function;
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

// The first form has no result argument: a missing symbol is an error.
CUresult CUDAAPI cuGetProcAddress(const char* name, void** function,
                                  int version, cuuint64_t flags) {
  Lookup found;
  const CUresult result =
      GetProcAddress(name, function, version, flags, &found);
  if (result != CUDA_SUCCESS) return result;
  return found.function == nullptr ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}

CUresult CUDAAPI cuGetProcAddress_v2(const char* name, void** function,
                                     int version, cuuint64_t flags,
                                     CUdriverProcAddressQueryResult* status) {
  Lookup found;
  const CUresult result =
      GetProcAddress(name, function, version, flags, &found);
  if (result == CUDA_SUCCESS && status != nullptr) *status = found.result;
  return result;
}

}  // extern "C"
