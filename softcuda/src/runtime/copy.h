// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_RUNTIME_COPY_H_
#define SOFTCUDA_RUNTIME_COPY_H_

#include <cuda.h>

#include <cstdint>

#include "runtime/operation.h"

// From the arguments of copies and memsets to checked operations.
namespace softcuda::runtime {

enum class Side : uint8_t { kHost, kDevice, kEither };

/// A copy of `bytes` bytes in a row. `source` and `target` tell what the call
/// takes them for; kEither is found out from the address.
///
/// Errors: INVALID_VALUE for a null address and for device or pinned memory
///   that is not all there or may not be accessed.
CUresult MakeLinearCopy(uint64_t target, Side target_side, uint64_t source,
                        Side source_side, uint64_t bytes, CopyOp* copy);

/// A copy as CUDA_MEMCPY3D describes it.
///
/// Errors: INVALID_VALUE as above, for reserved fields in use and for pitches
///   that rows do not fit in; NOT_SUPPORTED for arrays.
CUresult MakeCopy(const CUDA_MEMCPY3D& params, CopyOp* copy);

/// Commits host memory for what the operation will touch.
///
/// Errors: OUT_OF_MEMORY, with a log line, when the budget does not allow it.
CUresult CommitCopy(const char* api, const CopyOp& copy);
CUresult CommitMemset(const char* api, const MemsetOp& memset);

/// Takes the source's bytes now, so that the caller may change them.
void StageSource(CopyOp* copy);

/// Whether both sides are host memory, pinned or not.
bool IsHostToHost(const CopyOp& copy);
bool TargetIsHost(const CopyOp& copy);
bool SourceIsHost(const CopyOp& copy);
bool IsLinear(const CopyOp& copy);

/// Errors: INVALID_VALUE for an element size other than 1, 2 or 4, a misaligned
///   or null address, and memory that is not all there.
CUresult MakeMemset(const MemsetOp& asked, MemsetOp* memset);

/// Whether the memset's target is pinned host memory.
bool MemsetTargetIsHost(const MemsetOp& memset);

}  // namespace softcuda::runtime

#endif  // SOFTCUDA_RUNTIME_COPY_H_
