// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/code.h"

#include <algorithm>
#include <utility>

#include "check/settings.h"
#include "exec/device_limits.h"

namespace softcuda::runtime {
namespace {

std::shared_ptr<Function> MakeFunction(
    const std::shared_ptr<LoadedModule>& module, const ptx::Kernel& kernel) {
  auto function = std::make_shared<Function>();
  function->module = module;
  function->kernel = &kernel;
  const uint32_t fixed = kernel.static_shared_bytes();
  function->attributes.max_dynamic_shared_bytes = static_cast<int>(
      kDefaultSharedBytes - std::min(fixed, kDefaultSharedBytes));
  return function;
}

}  // namespace

CUresult LoadModule(Call& call, const void* image, CUlibrary library,
                    std::shared_ptr<LoadedModule>* module,
                    std::string* message) {
  if (image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto loaded = std::make_shared<LoadedModule>();
  loaded->device = call.device().ordinal;
  // A library's kernels run on every device, and its variables exist once.
  const int place = library == nullptr ? loaded->device : -1;
  ptx::LoadError error;
  // Parsing takes a while, and needs memory, whose calls take their own locks.
  call.lock().unlock();
  loaded->image = ptx::LoadImage(
      image, check::Settings::Get().compute_capability(), &error, place);
  call.lock().lock();
  if (loaded->image == nullptr) {
    *message = std::move(error.message);
    return error.code == CUDA_SUCCESS ? CUDA_ERROR_INVALID_IMAGE : error.code;
  }
  loaded->library = library;
  loaded->handle = call.runtime().modules.Add(loaded);
  *module = std::move(loaded);
  return CUDA_SUCCESS;
}

void ForgetModule(Runtime& runtime, LoadedModule& module) {
  module.unloaded = true;
  for (const auto& [name, function] : module.functions) {
    runtime.functions.Erase(function);
  }
  module.functions.clear();
  runtime.modules.Erase(module.handle);
}

std::shared_ptr<Function> FindFunction(Runtime& runtime,
                                       const std::shared_ptr<LoadedModule>& in,
                                       const std::string& name) {
  const auto known = in->functions.find(name);
  if (known != in->functions.end()) {
    return runtime.functions.Find(known->second);
  }
  const ptx::Kernel* const kernel = in->image->Find(name);
  if (kernel == nullptr) return nullptr;
  auto function = MakeFunction(in, *kernel);
  function->handle = runtime.functions.Add(function);
  in->functions.emplace(name, function->handle);
  return function;
}

std::shared_ptr<Function> FindKernel(Runtime& runtime, Library& library,
                                     const std::string& name) {
  const auto known = library.kernels.find(name);
  if (known != library.kernels.end()) {
    return runtime.kernels.Find(known->second);
  }
  // A kernel and the function of the same name are one object.
  const auto function = FindFunction(runtime, library.module, name);
  if (function == nullptr) return nullptr;
  function->kernel_handle = runtime.kernels.Add(function);
  library.kernels.emplace(name, function->kernel_handle);
  return function;
}

}  // namespace softcuda::runtime
