// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_RUNTIME_POLICY_CHECK_H_
#define SOFTCUDA_RUNTIME_POLICY_CHECK_H_

#include <cuda.h>

#include <cstdint>
#include <memory>

#include "runtime/policy.h"
#include "runtime/state.h"

// The steps of Enter(), for callers that hold the runtime's lock.
namespace softcuda::runtime {

/// Whether the call may be made at all: initialised, no sticky error, a context
/// where it needs one.
CUresult CheckReady(Runtime& runtime, const ThreadState& thread, Api api);

/// Applies the call's capture class. A null stream is the legacy stream; null
/// event where the call takes none.
CUresult CheckCapture(Runtime& runtime, const ThreadState& thread, Api api,
                      const Stream* stream, const Event* event);

/// The mode predicate of what is unsafe in a capture: 900, and each capture that
/// the thread conflicts with is invalidated, or SUCCESS where there is none.
CUresult CheckUnsafe(Runtime& runtime, const ThreadState& thread);

/// The device of the thread's current context; the first one without a context,
/// and null where there is no device.
Device* CurrentDevice(Runtime& runtime, const ThreadState& thread);

/// The stream behind a handle, special handles included. A bad handle is
/// reported.
CUresult FindStream(Runtime& runtime, ThreadState& thread, const char* api,
                    CUstream handle, bool per_thread,
                    std::shared_ptr<Stream>* stream);

void ReportBadHandle(const char* api, const char* what, uint64_t bits,
                     bool was_given);

}  // namespace softcuda::runtime

#endif  // SOFTCUDA_RUNTIME_POLICY_CHECK_H_
