// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_RUNTIME_CONTEXT_H_
#define SOFTCUDA_RUNTIME_CONTEXT_H_

#include <cuda.h>

#include <cstdint>

// softcuda has one device and one context on it, the primary one.
namespace softcuda::runtime {

/// The handle that cuDevicePrimaryCtxRetain gives out, the same for the life of
/// the process whether the context is active or not.
CUcontext PrimaryContextHandle();

/// Whether the primary context is retained.
bool PrimaryContextActive();

/// Streams, events, modules, libraries, graphs, executable graphs and user
/// objects that the caller has not destroyed yet.
int64_t LiveObjects();

}  // namespace softcuda::runtime

#endif  // SOFTCUDA_RUNTIME_CONTEXT_H_
