// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_RUNTIME_CAPTURE_H_
#define SOFTCUDA_RUNTIME_CAPTURE_H_

#include <cuda.h>

#include <memory>
#include <vector>

#include "runtime/objects.h"
#include "runtime/state.h"

// Stream capture: who belongs to which capture, and how one ends.
namespace softcuda::runtime {

/// Breaks an active capture: its streams answer 901 until it is ended.
void Invalidate(Capture& capture);

/// Breaks each active capture with a blocking stream of the device, and tells
/// if there were any.
bool InvalidateBlockingCaptures(Runtime& runtime, int device);
bool AnyBlockingCapture(const Runtime& runtime, int device);

/// The active captures that a potentially unsafe call of this thread conflicts
/// with, by the modes of the captures and of the thread.
std::vector<Capture*> ConflictingCaptures(const Runtime& runtime,
                                          const ThreadState& thread,
                                          int device);
/// Whether such a call, with a context of the device, conflicts with it.
bool ConflictsWith(const Capture& capture, const ThreadState& thread,
                   int device);

CUresult BeginCapture(Runtime& runtime, ThreadState& thread, Stream& stream,
                      std::shared_ptr<Graph> user_graph,
                      std::vector<Dependency> dependencies,
                      CUstreamCaptureMode mode);

/// Ends the capture that `stream` began. `*graph` is null unless it succeeds.
CUresult EndCapture(Runtime& runtime, ThreadState& thread, Stream& stream,
                    CUgraph* graph);

/// Adds a node behind what the capturing stream holds, which then is all that
/// the stream holds.
void Record(Runtime& runtime, Stream& stream, CUgraphNodeType type,
            std::shared_ptr<const Operation> operation);

/// cuEventRecord on a capturing stream: the event stands for what it holds.
void RecordEventInCapture(Stream& stream, Event& event);

/// cuStreamWaitEvent where the stream, the event or both are captured.
CUresult WaitEventInCapture(Runtime& runtime, Stream& stream, Event& event);

/// Takes a stream that is being destroyed out of its capture, and breaks it.
void AbandonCapture(Runtime& runtime, Stream& stream);

}  // namespace softcuda::runtime

#endif  // SOFTCUDA_RUNTIME_CAPTURE_H_
