// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "runtime/capture.h"

#include <algorithm>
#include <set>
#include <utility>

#include "runtime/answers.h"
#include "runtime/graph.h"

namespace softcuda::runtime {
namespace {

void Join(const std::shared_ptr<Capture>& capture, Stream& stream) {
  stream.capture = capture;
  capture->members.push_back(&stream);
}

void Leave(Stream& stream) {
  stream.capture.reset();
  stream.dependencies.clear();
  stream.info_nodes.clear();
  stream.info_edges.clear();
}

// All members leave, and the capture is over. A graph that the capture made and
// nobody got is destroyed.
void Finish(Runtime& runtime, const std::shared_ptr<Capture>& capture,
            bool keep_graph) {
  for (Stream* member : capture->members) Leave(*member);
  capture->members.clear();
  capture->status = CaptureStatus::kEnded;
  capture->graph->capturing = false;
  if (!keep_graph && !capture->to_user_graph) {
    ForgetGraph(runtime, *capture->graph);
  }
  std::erase(runtime.captures, capture);
}

// Every node that has a path to one of the stream's dependencies, and those.
std::set<const Node*> Ancestors(const Stream& stream) {
  std::set<const Node*> seen;
  std::vector<const Node*> open;
  const auto visit = [&](const Node* node) {
    if (seen.insert(node).second) open.push_back(node);
  };
  for (const Dependency& dependency : stream.dependencies) {
    visit(dependency.node.get());
  }
  while (!open.empty()) {
    const Node* node = open.back();
    open.pop_back();
    for (const Node::Edge& edge : node->in) visit(edge.node);
  }
  return seen;
}

bool AllJoined(const Capture& capture, const Stream& origin) {
  const std::set<const Node*> joined = Ancestors(origin);
  for (const Stream* member : capture.members) {
    for (const Dependency& dependency : member->dependencies) {
      if (joined.count(dependency.node.get()) == 0) return false;
    }
  }
  return true;
}

// Whether an active capture has one.
bool HasBlockingStream(const Capture& capture, int device) {
  return capture.active() &&
         std::any_of(capture.members.begin(), capture.members.end(),
                     [&](const Stream* member) {
                       return member->blocking() && member->device == device;
                     });
}

void AddDependencies(const std::vector<Dependency>& added, Stream& stream) {
  for (const Dependency& dependency : added) {
    const bool known = std::any_of(
        stream.dependencies.begin(), stream.dependencies.end(),
        [&](const Dependency& other) { return other.node == dependency.node; });
    if (!known) stream.dependencies.push_back(dependency);
  }
}

}  // namespace

void Invalidate(Capture& capture) {
  if (capture.active()) capture.status = CaptureStatus::kInvalidated;
}

bool AnyBlockingCapture(const Runtime& runtime, int device) {
  return std::any_of(runtime.captures.begin(), runtime.captures.end(),
                     [&](const std::shared_ptr<Capture>& capture) {
                       return HasBlockingStream(*capture, device);
                     });
}

bool InvalidateBlockingCaptures(Runtime& runtime, int device) {
  bool any = false;
  for (const auto& capture : runtime.captures) {
    if (!HasBlockingStream(*capture, device)) continue;
    Invalidate(*capture);
    any = true;
  }
  return any;
}

bool ConflictsWith(const Capture& capture, const ThreadState& thread,
                   int device) {
  if (!capture.active() ||
      thread.capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED) {
    return false;
  }
  const bool is_here = std::any_of(
      capture.members.begin(), capture.members.end(),
      [&](const Stream* member) { return member->device == device; });
  if (!is_here && !Says(Answer::kUnsafeCallsCrossDevices)) return false;
  return capture.thread_id == thread.id
             ? capture.mode != CU_STREAM_CAPTURE_MODE_RELAXED
             : capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                   thread.capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

std::vector<Capture*> ConflictingCaptures(const Runtime& runtime,
                                          const ThreadState& thread,
                                          int device) {
  std::vector<Capture*> conflicts;
  for (const auto& capture : runtime.captures) {
    if (ConflictsWith(*capture, thread, device)) {
      conflicts.push_back(capture.get());
    }
  }
  return conflicts;
}

CUresult BeginCapture(Runtime& runtime, ThreadState& thread, Stream& stream,
                      std::shared_ptr<Graph> user_graph,
                      std::vector<Dependency> dependencies,
                      CUstreamCaptureMode mode) {
  if (stream.kind == StreamKind::kLegacy) {
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  if (mode != CU_STREAM_CAPTURE_MODE_GLOBAL &&
      mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL &&
      mode != CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (stream.capture != nullptr) {
    return stream.capture->active() ? CUDA_ERROR_ILLEGAL_STATE
                                    : CodeOf(Answer::kBeginOnInvalidatedCode);
  }
  auto capture = std::make_shared<Capture>();
  capture->id = runtime.next_capture_id++;
  capture->to_user_graph = user_graph != nullptr;
  capture->graph = user_graph != nullptr
                       ? std::move(user_graph)
                       : NewGraph(runtime, GraphOwner::kCapture);
  capture->graph->capturing = true;
  capture->mode = mode;
  capture->thread_id = thread.id;
  capture->origin = &stream;
  Join(capture, stream);
  stream.dependencies = std::move(dependencies);
  runtime.captures.push_back(std::move(capture));
  return CUDA_SUCCESS;
}

CUresult EndCapture(Runtime& runtime, ThreadState& thread, Stream& stream,
                    CUgraph* graph) {
  *graph = nullptr;
  const std::shared_ptr<Capture> capture = stream.capture;
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->origin != &stream) {
    if (Says(Answer::kEndOnForkInvalidates)) Invalidate(*capture);
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
      capture->thread_id != thread.id) {
    if (Says(Answer::kEndByWrongThreadInvalidates)) Invalidate(*capture);
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  }
  if (!capture->active()) {
    Finish(runtime, capture, /*keep_graph=*/false);
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  }
  if (!AllJoined(*capture, stream)) {
    Finish(runtime, capture, /*keep_graph=*/false);
    return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  }
  Finish(runtime, capture, /*keep_graph=*/true);
  if (!capture->to_user_graph) capture->graph->owner = GraphOwner::kUser;
  *graph = capture->graph->handle;
  return CUDA_SUCCESS;
}

void Record(Runtime& runtime, Stream& stream, CUgraphNodeType type,
            std::shared_ptr<const Operation> operation) {
  // A launch that may overlap its predecessor does so only behind a kernel.
  const auto* kernel = std::get_if<KernelOp>(operation.get());
  if (kernel != nullptr && kernel->programmatic_serialization) {
    for (Dependency& dependency : stream.dependencies) {
      if (dependency.node->type != CU_GRAPH_NODE_TYPE_KERNEL) continue;
      dependency.edge.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
      dependency.edge.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
    }
  }
  auto node = AddNode(runtime, *stream.capture->graph, type,
                      std::move(operation), stream.dependencies);
  stream.dependencies.assign(1, Dependency{std::move(node), {}});
}

void RecordEventInCapture(Stream& stream, Event& event) {
  event.state = EventState::kCaptured;
  event.work.reset();
  event.capture = stream.capture;
  event.dependencies = stream.dependencies;
}

CUresult WaitEventInCapture(Runtime& runtime, Stream& stream, Event& event) {
  if (stream.kind == StreamKind::kLegacy) {
    // The legacy stream cannot join a capture.
    InvalidateBlockingCaptures(runtime, stream.device);
    return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  if (stream.capture == nullptr) {
    switch (event.capture->status) {
      case CaptureStatus::kActive:
        Join(event.capture, stream);
        stream.dependencies = event.dependencies;
        return CUDA_SUCCESS;
      case CaptureStatus::kInvalidated:
        return CUDA_ERROR_INVALID_VALUE;
      case CaptureStatus::kEnded:
        return CodeOf(Answer::kWaitForEndedCaptureCode);
    }
  }
  Capture& capture = *stream.capture;
  if (event.state == EventState::kCaptured && event.capture == stream.capture) {
    AddDependencies(event.dependencies, stream);
    return CUDA_SUCCESS;
  }
  if (event.state == EventState::kEmpty &&
      !Says(Answer::kWaitForEmptyEventCode)) {
    return CUDA_SUCCESS;
  }
  Invalidate(capture);
  if (event.state == EventState::kCaptured &&
      event.capture->status == CaptureStatus::kEnded) {
    return CodeOf(Answer::kCapturedWaitForEndedCaptureCode);
  }
  if (event.state == EventState::kCaptured &&
      event.capture->status != CaptureStatus::kEnded) {
    Invalidate(*event.capture);
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
}

void AbandonCapture(Runtime& runtime, Stream& stream) {
  const std::shared_ptr<Capture> capture = stream.capture;
  if (capture == nullptr) return;
  if (capture->origin == &stream) {
    // Nobody can end it any more.
    Finish(runtime, capture, /*keep_graph=*/false);
    return;
  }
  Invalidate(*capture);
  std::erase(capture->members, &stream);
  Leave(stream);
}

}  // namespace softcuda::runtime
