// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_RUNTIME_POLICY_H_
#define SOFTCUDA_RUNTIME_POLICY_H_

#include <cuda.h>

#include <cstdint>

namespace softcuda::runtime {

/// Every entry point that softcuda knows, `kMemAlloc` for cuMemAlloc.
enum class Api : uint16_t {
#define SOFTCUDA_API(name, capture_class, certainty, need) k##name,
#include "runtime/policy.inc"
#undef SOFTCUDA_API
};

/// How an entry point and a running stream capture get along.
enum class CaptureClass : uint8_t {
  kSafe,      // no interaction
  kRecorded,  // becomes a node when its stream captures
  kControl,   // manages captures
  // Prohibited in every mode while any stream of the context captures (900).
  kConflictsContext,
  // Prohibited in every mode on a stream that captures (900).
  kConflictsStream,
  // Waits on the legacy stream: 906 while a blocking stream captures, else as
  // kUnsafe, because it synchronises.
  kSynchronous,
  // Waits for its stream: 900 if that stream captures, else as kUnsafe.
  kSyncStream,
  // Waits for its event: 907 if the event was captured, else as kUnsafe.
  kSyncEvent,
  // Prohibited by the mode predicate (900).
  kUnsafe,
  // Nobody has stated it. Treated as kUnsafe, and counted.
  kUnknown,
};

/// Whether the capture class of an entry point was stated or follows from a
/// general rule.
enum class Certainty : uint8_t { kStated, kInferred };

/// What must hold before an entry point may be called.
enum class Need : uint8_t { kNothing, kInit, kContext };

struct ApiPolicy {
  const char* name;  // with the "cu"
  CaptureClass capture_class;
  Certainty certainty;
  Need need;
};

const ApiPolicy& PolicyOf(Api api);

/// The entry point's capture class, as the table or a driver's answers say.
CaptureClass ClassOf(Api api);

/// Number of rows, one for each `Api`.
int ApiCount();

/// Checks whether `api` may be called now by this thread, and applies what a
/// prohibited call does to running captures.
///
/// Call it first in an entry point, with no lock of your own held.
/// `stream` is the call's stream argument; null is the legacy stream for calls
/// that take one.
/// Capture: a conflict invalidates each capture it conflicts with.
/// Threads: any.
/// Errors: NOT_INITIALIZED before cuInit, NOT_PERMITTED inside a host function,
///   the sticky error after a fault, INVALID_CONTEXT or CONTEXT_IS_DESTROYED
///   without a usable current context, INVALID_HANDLE for a stream that does
///   not exist, 900, 901 or 906 by the capture class.
/// Cost: one uncontended mutex.
CUresult Enter(Api api, CUstream stream = nullptr);

/// Calls of class kUnknown made while a capture was running.
int64_t UnknownCallsDuringCapture();

}  // namespace softcuda::runtime

#endif  // SOFTCUDA_RUNTIME_POLICY_H_
