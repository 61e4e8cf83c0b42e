// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include "permafrost/driver/handles.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace permafrost {
namespace {

absl::Status CheckSize(int64_t bytes, absl::string_view what) {
  if (bytes > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, ": got ", bytes, " bytes, need at least 1"));
}

const char* InstantiateResultName(CUgraphInstantiateResult result) {
  switch (result) {
    case CUDA_GRAPH_INSTANTIATE_SUCCESS:
      return "success";
    case CUDA_GRAPH_INSTANTIATE_ERROR:
      return "error";
    case CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE:
      return "invalid structure, such as a cycle";
    case CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED:
      return "a node's operation is not supported";
    case CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED:
      return "nodes of several contexts";
    default:
      return "a reason this toolkit does not know";
  }
}

}  // namespace

absl::StatusOr<Stream> Stream::Create(ContextRef context, unsigned flags) {
  const Context::Scope scope = context->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  CUstream stream = nullptr;
  PERMAFROST_RETURN_IF_ERROR(
      CuStatus(context->api().StreamCreate(&stream, flags), "cuStreamCreate"));
  return Stream(std::move(context), stream);
}

absl::Status Stream::Synchronize() const {
  const Context::Scope scope = context()->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  return CuStatus(context()->api().StreamSynchronize(get()),
                  "cuStreamSynchronize");
}

absl::StatusOr<Event> Event::Create(ContextRef context, unsigned flags) {
  const Context::Scope scope = context->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  CUevent event = nullptr;
  PERMAFROST_RETURN_IF_ERROR(
      CuStatus(context->api().EventCreate(&event, flags), "cuEventCreate"));
  return Event(std::move(context), event);
}

absl::StatusOr<Module> Module::Load(ContextRef context, const void* image) {
  if (image == nullptr) {
    return absl::InvalidArgumentError("module image: got a null pointer");
  }
  const Context::Scope scope = context->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  CUmodule module = nullptr;
  PERMAFROST_RETURN_IF_ERROR(CuStatus(
      context->api().ModuleLoadData(&module, image), "cuModuleLoadData",
      absl::StrCat("image for a device of architecture sm_",
                   context->compute_capability())));
  return Module(std::move(context), module);
}

absl::StatusOr<CUfunction> Module::Function(const char* name) const {
  const Context::Scope scope = context()->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  const DriverApi& api = context()->api();
  const std::string what = absl::StrCat("kernel ", name);
  CUfunction function = nullptr;
  PERMAFROST_RETURN_IF_ERROR(
      CuStatus(api.ModuleGetFunction(&function, get(), name),
               "cuModuleGetFunction", what));
  PERMAFROST_RETURN_IF_ERROR(
      CuStatus(api.FuncLoad(function), "cuFuncLoad", what));
  return function;
}

Graph Graph::Adopt(ContextRef context, CUgraph graph) {
  return Graph(std::move(context), graph);
}

absl::StatusOr<GraphExec> GraphExec::Instantiate(ContextRef context,
                                                 CUgraph graph) {
  const Context::Scope scope = context->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  CUDA_GRAPH_INSTANTIATE_PARAMS params{};
  CUgraphExec exec = nullptr;
  const CUresult result =
      context->api().GraphInstantiateWithParams(&exec, graph, &params);
  if (result != CUDA_SUCCESS) {
    return CuStatus(
        result, "cuGraphInstantiateWithParams",
        absl::StrCat("graph (", InstantiateResultName(params.result_out), ")"));
  }
  return GraphExec(std::move(context), exec);
}

absl::StatusOr<PinnedBuffer> PinnedBuffer::Allocate(ContextRef context,
                                                    int64_t bytes) {
  PERMAFROST_RETURN_IF_ERROR(CheckSize(bytes, "pinned buffer"));
  const Context::Scope scope = context->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  void* data = nullptr;
  PERMAFROST_RETURN_IF_ERROR(CuStatus(
      context->api().MemHostAlloc(&data, static_cast<size_t>(bytes), 0),
      "cuMemHostAlloc", absl::StrCat("pinned buffer of ", bytes, " bytes")));
  return PinnedBuffer(std::move(context), data, bytes);
}

absl::StatusOr<DeviceBuffer> DeviceBuffer::Allocate(ContextRef context,
                                                    int64_t bytes) {
  PERMAFROST_RETURN_IF_ERROR(CheckSize(bytes, "device buffer"));
  const Context::Scope scope = context->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  CUdeviceptr data = 0;
  PERMAFROST_RETURN_IF_ERROR(CuStatus(
      context->api().MemAlloc(&data, static_cast<size_t>(bytes)), "cuMemAlloc",
      absl::StrCat("device buffer of ", bytes, " bytes")));
  return DeviceBuffer(std::move(context), data, bytes);
}

}  // namespace permafrost
