// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_RUNTIME_LAUNCH_H_
#define SOFTCUDA_RUNTIME_LAUNCH_H_

#include <cuda.h>

#include <cstddef>
#include <memory>

#include "runtime/objects.h"
#include "runtime/operation.h"

// From the arguments of kernel launches to checked operations.
namespace softcuda::runtime {

struct LaunchShape {
  exec::Dim3 grid;
  exec::Dim3 block;
  uint32_t dynamic_shared_bytes = 0;
};

/// Checks a launch and copies its parameters.
///
/// Errors: INVALID_VALUE for dimensions or shared memory beyond the limits, for
///   `params` and `extra` both given, for missing or short parameters;
///   LAUNCH_OUT_OF_RESOURCES for a block larger than the kernel allows.
CUresult MakeKernelOp(std::shared_ptr<Function> function, bool named_by_kernel,
                      const LaunchShape& shape, void** params, void** extra,
                      KernelOp* operation);

/// Applies launch attributes.
///
/// Errors: NOT_SUPPORTED for those that the software device does not have
///   (clusters, cooperative launches, programmatic events, device-updatable
///   nodes); INVALID_VALUE for unknown ones.
CUresult ApplyLaunchAttributes(const CUlaunchAttribute* attributes,
                               size_t count, bool capturing,
                               KernelOp* operation);

/// A kernel's attribute, as cuFuncGetAttribute answers it.
CUresult GetFunctionAttribute(const Function& function,
                              CUfunction_attribute attribute, int* value);
CUresult SetFunctionAttribute(Function& function,
                              CUfunction_attribute attribute, int value);

/// Blocks of the kernel that fit one multiprocessor, by the limits of the
/// device's compute capability.
int MaxActiveBlocks(const Function& function, int block_threads,
                    size_t dynamic_shared_bytes);

}  // namespace softcuda::runtime

#endif  // SOFTCUDA_RUNTIME_LAUNCH_H_
