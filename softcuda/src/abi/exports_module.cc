// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Modules and libraries.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "abi/cuda_abi.h"
#include "check/report.h"
#include "runtime/answers.h"
#include "runtime/call.h"
#include "runtime/code.h"

using softcuda::runtime::Answer;
using softcuda::runtime::Api;
using softcuda::runtime::Call;
using softcuda::runtime::Library;
using softcuda::runtime::LoadedModule;
using softcuda::runtime::LoadModule;

namespace {

// Where a refused image's message goes, by the JIT options of the call.
struct ErrorLog {
  char* buffer = nullptr;
  void** bytes = nullptr;  // holds the buffer's size, then that of the text
};

constexpr unsigned int kMaxOptions = 64;

CUresult FindErrorLog(const CUjit_option* options, void** values,
                      unsigned int count, ErrorLog* log) {
  if (count == 0) return CUDA_SUCCESS;
  if (count > kMaxOptions || options == nullptr || values == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (unsigned int i = 0; i < count; ++i) {
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER) {
      log->buffer = static_cast<char*>(values[i]);
    } else if (options[i] == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) {
      log->bytes = &values[i];
    }
  }
  return CUDA_SUCCESS;
}

void WriteErrorLog(const char* api, const ErrorLog& log,
                   const std::string& message) {
  if (!softcuda::check::Reporter::Get().quiet()) {
    std::fprintf(stderr, "softcuda: %s: %s\n", api, message.c_str());
  }
  if (log.buffer == nullptr || log.bytes == nullptr) return;
  const auto capacity = std::bit_cast<size_t>(*log.bytes);
  if (capacity == 0) return;
  const size_t copied = std::min(capacity - 1, message.size());
  std::memcpy(log.buffer, message.data(), copied);
  log.buffer[copied] = '\0';
  *log.bytes = std::bit_cast<void*>(copied + 1);
}

CUresult LoadModuleData(Api api, CUmodule* module, const void* image,
                        const CUjit_option* options, void** values,
                        unsigned int count) {
  Call call(api);
  if (!call.ok()) return call.result();
  if (module == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  ErrorLog log;
  CUresult result = FindErrorLog(options, values, count, &log);
  if (result != CUDA_SUCCESS) return result;
  std::shared_ptr<LoadedModule> loaded;
  std::string message;
  result = LoadModule(call, image, nullptr, &loaded, &message);
  if (result != CUDA_SUCCESS) {
    WriteErrorLog(call.name(), log, message);
    return result;
  }
  *module = loaded->handle;
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuModuleLoadData(CUmodule* module, const void* image) {
  return LoadModuleData(Api::kModuleLoadData, module, image, nullptr, nullptr,
                        0);
}

CUresult CUDAAPI cuModuleLoadDataEx(CUmodule* module, const void* image,
                                    unsigned int count, CUjit_option* options,
                                    void** values) {
  return LoadModuleData(Api::kModuleLoadDataEx, module, image, options, values,
                        count);
}

CUresult CUDAAPI cuModuleLoadFatBinary(CUmodule* module, const void* image) {
  return LoadModuleData(Api::kModuleLoadFatBinary, module, image, nullptr,
                        nullptr, 0);
}

CUresult CUDAAPI cuModuleUnload(CUmodule handle) {
  Call call(Api::kModuleUnload);
  if (!call.ok()) return call.result();
  const auto module = call.Find(handle);
  if (module == nullptr) return call.Fail();
  if (module->library != nullptr) return CUDA_ERROR_NOT_PERMITTED;
  ForgetModule(call.runtime(), *module);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  Call call(Api::kModuleGetLoadingMode);
  if (!call.ok()) return call.result();
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *mode = Says(Answer::kFirstLaunchInCaptureCode) ? CU_MODULE_LAZY_LOADING
                                                  : CU_MODULE_EAGER_LOADING;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleGetFunction(CUfunction* function, CUmodule handle,
                                     const char* name) {
  Call call(Api::kModuleGetFunction);
  if (!call.ok()) return call.result();
  if (function == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto module = call.Find(handle);
  if (module == nullptr) return call.Fail();
  const auto found = FindFunction(call.runtime(), module, name);
  if (found == nullptr) return CUDA_ERROR_NOT_FOUND;
  *function = found->handle;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleGetFunctionCount(unsigned int* count,
                                          CUmodule handle) {
  Call call(Api::kModuleGetFunctionCount);
  if (!call.ok()) return call.result();
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto module = call.Find(handle);
  if (module == nullptr) return call.Fail();
  *count = static_cast<unsigned int>(module->image->kernels().size());
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleEnumerateFunctions(CUfunction* functions,
                                            unsigned int count,
                                            CUmodule handle) {
  Call call(Api::kModuleEnumerateFunctions);
  if (!call.ok()) return call.result();
  if (functions == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  const auto module = call.Find(handle);
  if (module == nullptr) return call.Fail();
  const auto& kernels = module->image->kernels();
  for (size_t i = 0; i < std::min<size_t>(count, kernels.size()); ++i) {
    functions[i] =
        FindFunction(call.runtime(), module, kernels[i]->name())->handle;
  }
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleGetGlobal_v2(CUdeviceptr* address, size_t* bytes,
                                      CUmodule handle, const char* name) {
  Call call(Api::kModuleGetGlobal);
  if (!call.ok()) return call.result();
  if (name == nullptr || (address == nullptr && bytes == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto module = call.Find(handle);
  if (module == nullptr) return call.Fail();
  const auto* global = module->image->FindGlobal(name);
  if (global == nullptr) return CUDA_ERROR_NOT_FOUND;
  if (address != nullptr) *address = global->address;
  if (bytes != nullptr) *bytes = global->bytes;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLibraryLoadData(CUlibrary* library, const void* code,
                                   CUjit_option* options, void** values,
                                   unsigned int count,
                                   CUlibraryOption* library_options,
                                   void** library_values,
                                   unsigned int library_count) {
  Call call(Api::kLibraryLoadData);
  if (!call.ok()) return call.result();
  if (library == nullptr || code == nullptr ||
      (library_count > 0 && library_options == nullptr) ||
      (library_count > 0 && library_values == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  ErrorLog log;
  CUresult result = FindErrorLog(options, values, count, &log);
  if (result != CUDA_SUCCESS) return result;
  auto made = std::make_shared<Library>();
  made->handle = call.runtime().libraries.Add(made);
  std::string message;
  result = LoadModule(call, code, made->handle, &made->module, &message);
  if (result != CUDA_SUCCESS) {
    call.runtime().libraries.Erase(made->handle);
    WriteErrorLog(call.name(), log, message);
    return result;
  }
  *library = made->handle;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLibraryUnload(CUlibrary handle) {
  Call call(Api::kLibraryUnload);
  if (!call.ok()) return call.result();
  const auto library = call.Find(handle);
  if (library == nullptr || library->module == nullptr) {
    return call.Fail(CUDA_ERROR_INVALID_HANDLE);
  }
  for (const auto& [name, kernel] : library->kernels) {
    call.runtime().kernels.Erase(kernel);
  }
  ForgetModule(call.runtime(), *library->module);
  call.runtime().libraries.Erase(handle);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLibraryGetModule(CUmodule* module, CUlibrary handle) {
  Call call(Api::kLibraryGetModule);
  if (!call.ok()) return call.result();
  if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto library = call.Find(handle);
  if (library == nullptr) return call.Fail();
  *module = library->module->handle;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLibraryGetKernel(CUkernel* kernel, CUlibrary handle,
                                    const char* name) {
  Call call(Api::kLibraryGetKernel);
  if (!call.ok()) return call.result();
  if (kernel == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto library = call.Find(handle);
  if (library == nullptr) return call.Fail();
  const auto found = FindKernel(call.runtime(), *library, name);
  if (found == nullptr) return CUDA_ERROR_NOT_FOUND;
  *kernel = found->kernel_handle;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLibraryGetKernelCount(unsigned int* count,
                                         CUlibrary handle) {
  Call call(Api::kLibraryGetKernelCount);
  if (!call.ok()) return call.result();
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto library = call.Find(handle);
  if (library == nullptr) return call.Fail();
  *count = static_cast<unsigned int>(library->module->image->kernels().size());
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLibraryEnumerateKernels(CUkernel* kernels,
                                           unsigned int count,
                                           CUlibrary handle) {
  Call call(Api::kLibraryEnumerateKernels);
  if (!call.ok()) return call.result();
  if (kernels == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  const auto library = call.Find(handle);
  if (library == nullptr) return call.Fail();
  const auto& found = library->module->image->kernels();
  for (size_t i = 0; i < std::min<size_t>(count, found.size()); ++i) {
    kernels[i] =
        FindKernel(call.runtime(), *library, found[i]->name())->kernel_handle;
  }
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes,
                                    CUlibrary handle, const char* name) {
  Call call(Api::kLibraryGetGlobal);
  if (!call.ok()) return call.result();
  if (name == nullptr || (address == nullptr && bytes == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto library = call.Find(handle);
  if (library == nullptr) return call.Fail();
  const auto* global = library->module->image->FindGlobal(name);
  if (global == nullptr) return CUDA_ERROR_NOT_FOUND;
  if (address != nullptr) *address = global->address;
  if (bytes != nullptr) *bytes = global->bytes;
  return CUDA_SUCCESS;
}

}  // extern "C"
