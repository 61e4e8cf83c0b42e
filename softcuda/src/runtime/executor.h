// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_RUNTIME_EXECUTOR_H_
#define SOFTCUDA_RUNTIME_EXECUTOR_H_

#include <cuda.h>

#include <cstdint>
#include <string>

// What the rest of softcuda needs of the executor. Its inner workings are in
// task.h.
namespace softcuda::runtime {

/// Blocks until everything enqueued before the call has finished.
///
/// Threads: any but a worker of the executor. Call it with no lock held that
/// AddressSpace::snapshot() or a kernel's memory access may want.
void WaitIdle();

/// Records the error that every later call returns, and logs why. The first one
/// wins; work still queued is dropped, host functions included.
void SetSticky(CUresult result, const std::string& log);

/// The sticky error, or CUDA_SUCCESS.
CUresult Sticky();

/// Seeds the choice among items that may run next; 0 is submission order.
///
/// With another seed the executor starts one item at a time while that makes
/// progress, so that the order depends on the seed and not on timing.
void SetScheduleSeed(uint64_t seed);
uint64_t ScheduleSeed();

/// With execution off, kernels count as run without being run. Copies, memsets
/// and host functions still are.
void SetExecution(bool enabled);

/// Kernels run to their end since the process started.
int64_t KernelsExecuted();

}  // namespace softcuda::runtime

#endif  // SOFTCUDA_RUNTIME_EXECUTOR_H_
