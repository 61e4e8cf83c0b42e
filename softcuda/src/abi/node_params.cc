// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "abi/node_params.h"

#include <utility>

#include "runtime/answers.h"
#include "runtime/context.h"
#include "runtime/copy.h"
#include "runtime/launch.h"

namespace softcuda::abi {

using runtime::Call;
using runtime::CopyOp;
using runtime::HostOp;
using runtime::KernelOp;
using runtime::MemsetOp;
using runtime::Node;
using runtime::Operation;

namespace {

template <typename Params>
KernelNodeParams Shape(const Params& params) {
  KernelNodeParams out;
  out.grid[0] = params.gridDimX;
  out.grid[1] = params.gridDimY;
  out.grid[2] = params.gridDimZ;
  out.block[0] = params.blockDimX;
  out.block[1] = params.blockDimY;
  out.block[2] = params.blockDimZ;
  out.shared_bytes = params.sharedMemBytes;
  out.params = params.kernelParams;
  out.extra = params.extra;
  out.function = params.func;
  return out;
}

}  // namespace

KernelNodeParams FromV1(const CUDA_KERNEL_NODE_PARAMS_v1& params) {
  return Shape(params);
}

KernelNodeParams FromV2(const CUDA_KERNEL_NODE_PARAMS_v2& params) {
  KernelNodeParams out = Shape(params);
  out.kernel = params.kern;
  out.context = params.ctx;
  return out;
}

KernelNodeParams FromV3(const CUDA_KERNEL_NODE_PARAMS_v3& params) {
  KernelNodeParams out = Shape(params);
  out.kernel = params.kern;
  out.context = params.ctx;
  return out;
}

CUresult MakeKernelNode(Call& call, const KernelNodeParams& params,
                        Operation* operation) {
  const bool named_by_kernel =
      params.function == nullptr ||
      runtime::HasKind(runtime::HandleBits(params.function),
                       runtime::HandleKind::kKernel);
  const runtime::Device* device = &call.device();
  if (params.function == nullptr) {
    device = call.FindDevice(params.context);
    if (device == nullptr) return call.result();
  }
  if (params.function == nullptr && params.kernel == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto function = params.function != nullptr ? call.Find(params.function)
                                             : call.Find(params.kernel);
  if (function == nullptr) return call.result();
  const runtime::LaunchShape shape = {
      {params.grid[0], params.grid[1], params.grid[2]},
      {params.block[0], params.block[1], params.block[2]},
      params.shared_bytes};
  KernelOp kernel;
  kernel.device = function->module->library == nullptr
                      ? function->module->device
                      : device->ordinal;
  const CUresult result =
      MakeKernelOp(std::move(function), named_by_kernel, shape, params.params,
                   params.extra, &kernel);
  if (result == CUDA_SUCCESS) *operation = std::move(kernel);
  return result;
}

CUresult MakeMemcpyNode(Call& call, const CUDA_MEMCPY3D& params,
                        CUcontext context, Operation* operation) {
  if (!call.CheckContext(context)) return call.result();
  CopyOp copy;
  const CUresult result = MakeCopy(params, &copy);
  if (result == CUDA_SUCCESS) *operation = std::move(copy);
  return result;
}

CUresult MakeMemsetNode(Call& call, const CUDA_MEMSET_NODE_PARAMS_v1& params,
                        CUcontext context, Operation* operation) {
  if (!call.CheckContext(context)) return call.result();
  MemsetOp memset;
  const CUresult result =
      MakeMemset({params.dst, params.pitch, params.value, params.elementSize,
                  params.width, params.height},
                 &memset);
  if (result == CUDA_SUCCESS) *operation = memset;
  return result;
}

CUresult MakeHostNode(CUhostFn function, void* user_data,
                      Operation* operation) {
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  HostOp host;
  host.function = function;
  host.user_data = user_data;
  *operation = host;
  return CUDA_SUCCESS;
}

CUresult MakeAnyNode(Call& call, const CUgraphNodeParams& params,
                     Operation* operation) {
  switch (params.type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
      return MakeKernelNode(call, FromV3(params.kernel), operation);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
      return MakeMemcpyNode(call, params.memcpy.copyParams,
                            params.memcpy.copyCtx, operation);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
      const CUDA_MEMSET_NODE_PARAMS_v2& v2 = params.memset;
      return MakeMemsetNode(
          call,
          {v2.dst, v2.pitch, v2.value, v2.elementSize, v2.width, v2.height},
          v2.ctx, operation);
    }
    case CU_GRAPH_NODE_TYPE_HOST:
      return MakeHostNode(params.host.fn, params.host.userData, operation);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT: {
      auto event = call.Find(params.eventWait.event);
      if (event == nullptr) return CUDA_ERROR_INVALID_VALUE;
      *operation = runtime::EventWaitOp{std::move(event)};
      return CUDA_SUCCESS;
    }
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD: {
      auto event = call.Find(params.eventRecord.event);
      if (event == nullptr) return CUDA_ERROR_INVALID_VALUE;
      *operation = runtime::EventRecordOp{std::move(event)};
      return CUDA_SUCCESS;
    }
    default:
      runtime::ReportUnsupported(call.name(),
                                 "parameters of this kind of node");
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

KernelNodeParams DescribeKernelNode(Node& node) {
  const auto& kernel = std::get<KernelOp>(*node.operation);
  KernelNodeParams out;
  if (kernel.named_by_kernel &&
      runtime::Says(runtime::Answer::kKernelNodeNamesKernel)) {
    out.kernel = kernel.function->kernel_handle;
    out.context = runtime::PrimaryContextHandle(kernel.device);
  } else {
    out.function = kernel.function->handle;
  }
  out.grid[0] = kernel.grid.x;
  out.grid[1] = kernel.grid.y;
  out.grid[2] = kernel.grid.z;
  out.block[0] = kernel.block.x;
  out.block[1] = kernel.block.y;
  out.block[2] = kernel.block.z;
  out.shared_bytes = kernel.dynamic_shared_bytes;
  node.query_params = kernel.params;
  node.query_bytes = kernel.params.size();
  node.query_pointers.clear();
  if (kernel.params_packed) {
    node.query_pointers = {
        CU_LAUNCH_PARAM_BUFFER_POINTER, node.query_params.data(),
        CU_LAUNCH_PARAM_BUFFER_SIZE, &node.query_bytes, CU_LAUNCH_PARAM_END};
    out.extra = node.query_pointers.data();
  } else if (!kernel.function->kernel->params().empty()) {
    for (const ptx::ParamInfo& info : kernel.function->kernel->params()) {
      node.query_pointers.push_back(node.query_params.data() + info.offset);
    }
    out.params = node.query_pointers.data();
  }
  return out;
}

CUDA_MEMSET_NODE_PARAMS_v1 DescribeMemsetNode(const Node& node) {
  const auto& memset = std::get<MemsetOp>(*node.operation);
  CUDA_MEMSET_NODE_PARAMS_v1 out = {};
  out.dst = memset.address;
  out.pitch = memset.row_pitch;
  out.value = memset.value;
  out.elementSize = memset.element_bytes;
  out.width = memset.width_elements;
  out.height = memset.rows;
  return out;
}

std::shared_ptr<Node> FindNodeOfType(Call& call, CUgraphNode handle,
                                     CUgraphNodeType type) {
  auto node = call.Find(handle);
  if (node != nullptr && node->type != type) {
    call.Fail(CUDA_ERROR_INVALID_VALUE);
    return nullptr;
  }
  return node;
}

}  // namespace softcuda::abi
