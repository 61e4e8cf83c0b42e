// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_RUNTIME_CODE_H_
#define SOFTCUDA_RUNTIME_CODE_H_

#include <cuda.h>

#include <memory>
#include <string>

#include "runtime/call.h"
#include "runtime/objects.h"

// Modules, libraries and the functions in them.
namespace softcuda::runtime {

/// Loads an image as a module, with the call's lock released meanwhile, and
/// lists it. `*message` tells why an image was refused.
CUresult LoadModule(Call& call, const void* image, CUlibrary library,
                    std::shared_ptr<LoadedModule>* module,
                    std::string* message);

/// Takes the module and its functions out of the handle tables.
void ForgetModule(Runtime& runtime, LoadedModule& module);

/// The function of that name, made when first asked for; null if there is none.
std::shared_ptr<Function> FindFunction(Runtime& runtime,
                                       const std::shared_ptr<LoadedModule>& in,
                                       const std::string& name);

/// The kernel of that name in a library; null if there is none.
std::shared_ptr<Function> FindKernel(Runtime& runtime, Library& library,
                                     const std::string& name);

}  // namespace softcuda::runtime

#endif  // SOFTCUDA_RUNTIME_CODE_H_
