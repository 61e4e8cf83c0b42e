// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_ABI_NODE_PARAMS_H_
#define SOFTCUDA_ABI_NODE_PARAMS_H_

#include "abi/cuda_abi.h"
#include "runtime/call.h"
#include "runtime/operation.h"

// Between the parameter structs of graph nodes and operations.
namespace softcuda::abi {

/// The three versions of kernel node parameters, as their union.
struct KernelNodeParams {
  CUfunction function = nullptr;
  CUkernel kernel = nullptr;  // used where `function` is null
  CUcontext context = nullptr;
  unsigned int grid[3] = {};
  unsigned int block[3] = {};
  unsigned int shared_bytes = 0;
  void** params = nullptr;
  void** extra = nullptr;
};

KernelNodeParams FromV1(const CUDA_KERNEL_NODE_PARAMS_v1& params);
KernelNodeParams FromV2(const CUDA_KERNEL_NODE_PARAMS_v2& params);
KernelNodeParams FromV3(const CUDA_KERNEL_NODE_PARAMS_v3& params);

// Each of these checks the parameters and makes the operation.
CUresult MakeKernelNode(runtime::Call& call, const KernelNodeParams& params,
                        runtime::Operation* operation);
CUresult MakeMemcpyNode(runtime::Call& call, const CUDA_MEMCPY3D& params,
                        CUcontext context, runtime::Operation* operation);
CUresult MakeMemsetNode(runtime::Call& call,
                        const CUDA_MEMSET_NODE_PARAMS_v1& params,
                        CUcontext context, runtime::Operation* operation);
CUresult MakeHostNode(CUhostFn function, void* user_data,
                      runtime::Operation* operation);

/// The operation of parameters in their common form, of the kinds whose
/// parameters may be set: kernel, memcpy, memset, host and event nodes.
///
/// Errors: NOT_SUPPORTED for the other kinds.
CUresult MakeAnyNode(runtime::Call& call, const CUgraphNodeParams& params,
                     runtime::Operation* operation);

/// A kernel node's parameters. Arrays belong to the node, until the next query
/// or change of it.
KernelNodeParams DescribeKernelNode(runtime::Node& node);
CUDA_MEMSET_NODE_PARAMS_v1 DescribeMemsetNode(const runtime::Node& node);

/// The operation behind a node handle of the expected type. Null, with
/// call.result() set, if it is not.
std::shared_ptr<runtime::Node> FindNodeOfType(runtime::Call& call,
                                              CUgraphNode handle,
                                              CUgraphNodeType type);

}  // namespace softcuda::abi

#endif  // SOFTCUDA_ABI_NODE_PARAMS_H_
