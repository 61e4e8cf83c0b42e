// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_RUNTIME_ERROR_NAMES_H_
#define SOFTCUDA_RUNTIME_ERROR_NAMES_H_

#include <cuda.h>

namespace softcuda::runtime {

/// "CUDA_ERROR_INVALID_VALUE", or null for a number that is no result.
const char* ErrorName(CUresult result);
/// A short text, or null for a number that is no result.
const char* ErrorText(CUresult result);
/// Whether a fault with this code leaves the context unusable.
bool IsStickyCode(CUresult result);

}  // namespace softcuda::runtime

#endif  // SOFTCUDA_RUNTIME_ERROR_NAMES_H_
