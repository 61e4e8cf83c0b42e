// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_ABI_CUDA_ABI_H_
#define SOFTCUDA_ABI_CUDA_ABI_H_

// cuda.h as the driver itself sees it: no call is renamed by macro, every old
// spelling and per-thread variant is declared, and what is declared is
// exported. A definition that does not match its declaration does not compile.
// It must come before any other include of cuda.h.
#ifdef __cuda_cuda_h__
#error "include abi/cuda_abi.h first"
#endif
#define __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL_ODR
#pragma GCC visibility push(default)
#include <cuda.h>
#pragma GCC visibility pop

#endif  // SOFTCUDA_ABI_CUDA_ABI_H_
