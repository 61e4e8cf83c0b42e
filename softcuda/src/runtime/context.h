// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_RUNTIME_CONTEXT_H_
#define SOFTCUDA_RUNTIME_CONTEXT_H_

#include <cuda.h>

#include <cstdint>

// Each device has one context, the primary one.
namespace softcuda::runtime {

/// The handle that cuDevicePrimaryCtxRetain gives out for a device, the same
/// for the life of the process whether the context is active or not.
CUcontext PrimaryContextHandle(int device);

/// The device of this thread's current context; 0 without one.
int CurrentDevice();

/// Sets the number of devices. False, without effect, after cuInit and for
/// more than kMaxDevices.
bool SetDeviceCount(int count);

/// Streams, events, modules, libraries, graphs, executable graphs and user
/// objects that the caller has not destroyed yet.
int64_t LiveObjects();

}  // namespace softcuda::runtime

#endif  // SOFTCUDA_RUNTIME_CONTEXT_H_
