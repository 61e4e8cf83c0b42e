// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Stream capture.
#include <algorithm>
#include <utility>
#include <vector>

#include "abi/cuda_abi.h"
#include "runtime/call.h"
#include "runtime/capture.h"

using softcuda::runtime::Api;
using softcuda::runtime::Call;
using softcuda::runtime::Dependency;
using softcuda::runtime::EdgeIsDefault;
using softcuda::runtime::Stream;
using softcuda::runtime::StreamKind;

namespace {

// Where a capture query puts its answers; only `status` is required.
struct InfoOutputs {
  CUstreamCaptureStatus* status = nullptr;
  cuuint64_t* id = nullptr;
  CUgraph* graph = nullptr;
  const CUgraphNode** nodes = nullptr;
  const CUgraphEdgeData** edges = nullptr;
  size_t* count = nullptr;
};

CUresult Begin(CUstream handle, bool per_thread, CUstreamCaptureMode mode) {
  Call call(Api::kStreamBeginCapture, handle, per_thread);
  if (!call.ok()) return call.result();
  return BeginCapture(call.runtime(), call.thread(), call.stream(), nullptr, {},
                      mode);
}

CUresult BeginToGraph(CUstream handle, bool per_thread, CUgraph graph_handle,
                      const CUgraphNode* nodes, const CUgraphEdgeData* edges,
                      size_t count, CUstreamCaptureMode mode) {
  Call call(Api::kStreamBeginCaptureToGraph, handle, per_thread);
  if (!call.ok()) return call.result();
  if (call.stream().kind == StreamKind::kLegacy) {
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  const auto graph = call.Find(graph_handle);
  if (graph == nullptr) return call.Fail();
  std::vector<Dependency> dependencies;
  if (!call.FindDependencies(*graph, nodes, edges, count, &dependencies)) {
    return call.Fail();
  }
  if (graph->capturing) return CUDA_ERROR_INVALID_VALUE;
  return BeginCapture(call.runtime(), call.thread(), call.stream(), graph,
                      std::move(dependencies), mode);
}

CUresult End(CUstream handle, bool per_thread, CUgraph* graph) {
  Call call(Api::kStreamEndCapture, handle, per_thread);
  if (!call.ok()) return call.result();
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return EndCapture(call.runtime(), call.thread(), call.stream(), graph);
}

// A query of the legacy stream fails, without harm, where work in it would.
bool IsImplicit(Call& call) {
  return call.stream().kind == StreamKind::kLegacy &&
         AnyBlockingCapture(call.runtime(), call.stream().device);
}

CUstreamCaptureStatus StatusOf(const Stream& stream) {
  if (stream.capture == nullptr) return CU_STREAM_CAPTURE_STATUS_NONE;
  return stream.capture->active() ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                  : CU_STREAM_CAPTURE_STATUS_INVALIDATED;
}

CUresult IsCapturing(CUstream handle, bool per_thread,
                     CUstreamCaptureStatus* status) {
  Call call(Api::kStreamIsCapturing, handle, per_thread);
  if (!call.ok()) return call.result();
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (IsImplicit(call)) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  *status = StatusOf(call.stream());
  return CUDA_SUCCESS;
}

CUresult GetInfo(CUstream handle, bool per_thread, const InfoOutputs& outputs) {
  Call call(Api::kStreamGetCaptureInfo, handle, per_thread);
  if (!call.ok()) return call.result();
  if (outputs.status == nullptr ||
      (outputs.edges != nullptr && outputs.nodes == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (IsImplicit(call)) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  Stream& stream = call.stream();
  *outputs.status = StatusOf(stream);
  if (*outputs.status != CU_STREAM_CAPTURE_STATUS_ACTIVE) return CUDA_SUCCESS;
  if (outputs.nodes != nullptr && outputs.edges == nullptr &&
      std::any_of(stream.dependencies.begin(), stream.dependencies.end(),
                  [](const Dependency& dependency) {
                    return !EdgeIsDefault(dependency.edge);
                  })) {
    return CUDA_ERROR_LOSSY_QUERY;
  }
  stream.info_nodes.clear();
  stream.info_edges.clear();
  for (const Dependency& dependency : stream.dependencies) {
    stream.info_nodes.push_back(dependency.node->handle);
    stream.info_edges.push_back(dependency.edge);
  }
  if (outputs.id != nullptr) *outputs.id = stream.capture->id;
  if (outputs.graph != nullptr) *outputs.graph = stream.capture->graph->handle;
  if (outputs.nodes != nullptr) *outputs.nodes = stream.info_nodes.data();
  if (outputs.edges != nullptr) *outputs.edges = stream.info_edges.data();
  if (outputs.count != nullptr) *outputs.count = stream.info_nodes.size();
  return CUDA_SUCCESS;
}

CUresult UpdateDependencies(CUstream handle, bool per_thread,
                            const CUgraphNode* nodes,
                            const CUgraphEdgeData* edges, size_t count,
                            unsigned int flags) {
  Call call(Api::kStreamUpdateCaptureDependencies, handle, per_thread);
  if (!call.ok()) return call.result();
  Stream& stream = call.stream();
  if (stream.capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (!stream.capture->active()) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (flags != CU_STREAM_ADD_CAPTURE_DEPENDENCIES &&
      flags != CU_STREAM_SET_CAPTURE_DEPENDENCIES) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::vector<Dependency> dependencies;
  if (!call.FindDependencies(*stream.capture->graph, nodes, edges, count,
                             &dependencies)) {
    return call.Fail();
  }
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES) {
    stream.dependencies = std::move(dependencies);
    return CUDA_SUCCESS;
  }
  for (Dependency& dependency : dependencies) {
    const bool known = std::any_of(
        stream.dependencies.begin(), stream.dependencies.end(),
        [&](const Dependency& other) { return other.node == dependency.node; });
    if (!known) stream.dependencies.push_back(std::move(dependency));
  }
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

// The first form, before captures had modes.
CUresult CUDAAPI cuStreamBeginCapture(CUstream stream) {
  return Begin(stream, false, CU_STREAM_CAPTURE_MODE_GLOBAL);
}
CUresult CUDAAPI cuStreamBeginCapture_ptsz(CUstream stream) {
  return Begin(stream, true, CU_STREAM_CAPTURE_MODE_GLOBAL);
}
CUresult CUDAAPI cuStreamBeginCapture_v2(CUstream stream,
                                         CUstreamCaptureMode mode) {
  return Begin(stream, false, mode);
}
CUresult CUDAAPI cuStreamBeginCapture_v2_ptsz(CUstream stream,
                                              CUstreamCaptureMode mode) {
  return Begin(stream, true, mode);
}

CUresult CUDAAPI cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph,
                                             const CUgraphNode* nodes,
                                             const CUgraphEdgeData* edges,
                                             size_t count,
                                             CUstreamCaptureMode mode) {
  return BeginToGraph(stream, false, graph, nodes, edges, count, mode);
}
CUresult CUDAAPI cuStreamBeginCaptureToGraph_ptsz(
    CUstream stream, CUgraph graph, const CUgraphNode* nodes,
    const CUgraphEdgeData* edges, size_t count, CUstreamCaptureMode mode) {
  return BeginToGraph(stream, true, graph, nodes, edges, count, mode);
}

CUresult CUDAAPI cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  return End(stream, false, graph);
}
CUresult CUDAAPI cuStreamEndCapture_ptsz(CUstream stream, CUgraph* graph) {
  return End(stream, true, graph);
}

CUresult CUDAAPI cuStreamIsCapturing(CUstream stream,
                                     CUstreamCaptureStatus* status) {
  return IsCapturing(stream, false, status);
}
CUresult CUDAAPI cuStreamIsCapturing_ptsz(CUstream stream,
                                          CUstreamCaptureStatus* status) {
  return IsCapturing(stream, true, status);
}

CUresult CUDAAPI cuStreamGetCaptureInfo(CUstream stream,
                                        CUstreamCaptureStatus* status,
                                        cuuint64_t* id) {
  return GetInfo(stream, false,
                 {status, id, nullptr, nullptr, nullptr, nullptr});
}
CUresult CUDAAPI cuStreamGetCaptureInfo_ptsz(CUstream stream,
                                             CUstreamCaptureStatus* status,
                                             cuuint64_t* id) {
  return GetInfo(stream, true,
                 {status, id, nullptr, nullptr, nullptr, nullptr});
}
CUresult CUDAAPI cuStreamGetCaptureInfo_v2(CUstream stream,
                                           CUstreamCaptureStatus* status,
                                           cuuint64_t* id, CUgraph* graph,
                                           const CUgraphNode** nodes,
                                           size_t* count) {
  return GetInfo(stream, false, {status, id, graph, nodes, nullptr, count});
}
CUresult CUDAAPI cuStreamGetCaptureInfo_v2_ptsz(CUstream stream,
                                                CUstreamCaptureStatus* status,
                                                cuuint64_t* id, CUgraph* graph,
                                                const CUgraphNode** nodes,
                                                size_t* count) {
  return GetInfo(stream, true, {status, id, graph, nodes, nullptr, count});
}
CUresult CUDAAPI cuStreamGetCaptureInfo_v3(CUstream stream,
                                           CUstreamCaptureStatus* status,
                                           cuuint64_t* id, CUgraph* graph,
                                           const CUgraphNode** nodes,
                                           const CUgraphEdgeData** edges,
                                           size_t* count) {
  return GetInfo(stream, false, {status, id, graph, nodes, edges, count});
}
CUresult CUDAAPI cuStreamGetCaptureInfo_v3_ptsz(CUstream stream,
                                                CUstreamCaptureStatus* status,
                                                cuuint64_t* id, CUgraph* graph,
                                                const CUgraphNode** nodes,
                                                const CUgraphEdgeData** edges,
                                                size_t* count) {
  return GetInfo(stream, true, {status, id, graph, nodes, edges, count});
}

CUresult CUDAAPI cuStreamUpdateCaptureDependencies(CUstream stream,
                                                   CUgraphNode* nodes,
                                                   size_t count,
                                                   unsigned int flags) {
  return UpdateDependencies(stream, false, nodes, nullptr, count, flags);
}
CUresult CUDAAPI cuStreamUpdateCaptureDependencies_ptsz(CUstream stream,
                                                        CUgraphNode* nodes,
                                                        size_t count,
                                                        unsigned int flags) {
  return UpdateDependencies(stream, true, nodes, nullptr, count, flags);
}
CUresult CUDAAPI cuStreamUpdateCaptureDependencies_v2(
    CUstream stream, CUgraphNode* nodes, const CUgraphEdgeData* edges,
    size_t count, unsigned int flags) {
  return UpdateDependencies(stream, false, nodes, edges, count, flags);
}
CUresult CUDAAPI cuStreamUpdateCaptureDependencies_v2_ptsz(
    CUstream stream, CUgraphNode* nodes, const CUgraphEdgeData* edges,
    size_t count, unsigned int flags) {
  return UpdateDependencies(stream, true, nodes, edges, count, flags);
}

CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  Call call(Api::kThreadExchangeStreamCaptureMode);
  if (!call.ok()) return call.result();
  if (mode == nullptr || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL ||
      *mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::swap(*mode, call.thread().capture_mode);
  return CUDA_SUCCESS;
}

}  // extern "C"
