// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Handles that are no handles, null outputs and wild counts: an error and a
// report, never a crash.
#include <bit>

#include "runtime_fixture.h"

namespace softcuda {
namespace {

class HostileCallsTest : public RuntimeTest {
 protected:
  // Expects one report that names the call and says `what`.
  static void ExpectReport(const std::string& call, const std::string& what) {
    const std::string reports = TakeReports();
    EXPECT_NE(reports.find(call), std::string::npos) << reports;
    EXPECT_NE(reports.find(what), std::string::npos) << reports;
  }
};

TEST_F(HostileCallsTest, DestroyedHandlesAreTold) {
  CUstream stream = nullptr;
  CUevent event = nullptr;
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  ASSERT_OK(cuStreamCreate(&stream, 0));
  ASSERT_OK(cuEventCreate(&event, 0));
  ASSERT_OK(cuGraphCreate(&graph, 0));
  ASSERT_OK(cuGraphInstantiate(&exec, graph, 0));
  ASSERT_OK(cuStreamDestroy(stream));
  ASSERT_OK(cuEventDestroy(event));
  ASSERT_OK(cuGraphDestroy(graph));
  ASSERT_OK(cuGraphExecDestroy(exec));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize(stream));
  ExpectReport("cuStreamSynchronize", "was destroyed");
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cuEventQuery(event));
  ExpectReport("cuEventQuery", "was destroyed");
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(graph));
  ExpectReport("cuGraphDestroy", "was destroyed");
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(exec, stream_));
  ExpectReport("cuGraphLaunch", "was destroyed");
}

TEST_F(HostileCallsTest, GarbageAndForeignHandlesAreTold) {
  int here = 0;
  const auto garbage = std::bit_cast<CUstream>(&here);
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize(garbage));
  ExpectReport("cuStreamSynchronize", "was never given out");
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE,
            cuEventQuery(std::bit_cast<CUevent>(stream_)));
  ExpectReport("cuEventQuery", "was never given out");
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuGraphNodeGetType(std::bit_cast<CUgraphNode>(stream_), &type));
  ExpectReport("cuGraphNodeGetType", "was never given out");
  CUfunction function = nullptr;
  EXPECT_CU(
      CUDA_ERROR_INVALID_VALUE,
      cuModuleGetFunction(&function, std::bit_cast<CUmodule>(&here), "k"));
  ExpectReport("cuModuleGetFunction", "was never given out");
}

TEST_F(HostileCallsTest, NodesOfADestroyedGraphAreTold) {
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  ASSERT_OK(cuGraphCreate(&graph, 0));
  ASSERT_OK(cuGraphAddEmptyNode(&node, graph, nullptr, 0));
  ASSERT_OK(cuGraphDestroy(graph));
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGraphNodeGetType(node, &type));
  ExpectReport("cuGraphNodeGetType", "was destroyed");
}

TEST_F(HostileCallsTest, GraphOfABrokenCaptureIsGone) {
  CUgraph graph = nullptr;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  ASSERT_OK(cuStreamGetCaptureInfo(stream_, &status, nullptr, &graph, nullptr,
                                   nullptr, nullptr));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(graph));
  ExpectReport("cuGraphDestroy", "belongs to a capture");
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
            cuStreamSynchronize(stream_));
  CUgraph ended = nullptr;
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
            cuStreamEndCapture(stream_, &ended));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(graph));
  ExpectReport("cuGraphDestroy", "was destroyed");
}

TEST_F(HostileCallsTest, NullOutputsAreRefused) {
  CUgraph graph = nullptr;
  ASSERT_OK(cuGraphCreate(&graph, 0));
  CUgraphNode node = nullptr;
  ASSERT_OK(cuGraphAddEmptyNode(&node, graph, nullptr, 0));
  const CUDA_HOST_NODE_PARAMS no_function = {};
  const CUresult results[] = {
      cuDriverGetVersion(nullptr),
      cuDeviceGet(nullptr, 0),
      cuDeviceGetCount(nullptr),
      cuDeviceGetName(nullptr, 10, 0),
      cuDeviceTotalMem(nullptr, 0),
      cuDeviceGetAttribute(nullptr, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0),
      cuDevicePrimaryCtxRetain(nullptr, 0),
      cuCtxGetCurrent(nullptr),
      cuCtxGetDevice(nullptr),
      cuModuleLoadData(nullptr, "x"),
      cuStreamCreate(nullptr, 0),
      cuStreamGetFlags(stream_, nullptr),
      cuStreamIsCapturing(stream_, nullptr),
      cuStreamEndCapture(stream_, nullptr),
      cuThreadExchangeStreamCaptureMode(nullptr),
      cuEventCreate(nullptr, 0),
      cuEventElapsedTime(nullptr, nullptr, nullptr),
      cuGraphCreate(nullptr, 0),
      cuGraphClone(nullptr, graph),
      cuGraphGetNodes(graph, nullptr, nullptr),
      cuGraphGetRootNodes(graph, nullptr, nullptr),
      cuGraphGetEdges(graph, nullptr, nullptr, nullptr, nullptr),
      cuGraphNodeGetType(node, nullptr),
      cuGraphAddEmptyNode(nullptr, graph, nullptr, 0),
      cuGraphAddEmptyNode(&node, nullptr, nullptr, 0),
      cuGraphAddKernelNode(&node, graph, nullptr, 0, nullptr),
      cuGraphAddMemcpyNode(&node, graph, nullptr, 0, nullptr, context_),
      cuGraphAddMemsetNode(&node, graph, nullptr, 0, nullptr, context_),
      cuGraphAddHostNode(&node, graph, nullptr, 0, nullptr),
      cuGraphAddHostNode(&node, graph, nullptr, 0, &no_function),
      cuGraphAddNode(&node, graph, nullptr, nullptr, 0, nullptr),
      cuGraphInstantiate(nullptr, graph, 0),
      cuGraphInstantiateWithParams(nullptr, graph, nullptr),
      cuGraphUpload(nullptr, stream_),
      cuGraphLaunch(nullptr, stream_),
      cuGraphExecDestroy(nullptr),
      cuGraphDestroy(nullptr),
      cuUserObjectCreate(nullptr, nullptr, nullptr, 0, 0),
      cuMemcpyHtoD(0, &graph, 4),
      cuMemcpyDtoH(nullptr, 0, 4),
      cuMemsetD8(0, 0, 4),
  };
  for (size_t i = 0; i < std::size(results); ++i) {
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, results[i]) << "call " << i;
  }
  EXPECT_OK(cuGraphDestroy(graph));
}

TEST_F(HostileCallsTest, WildCountsAreRefused) {
  constexpr size_t kWild = ~size_t{0} / 2;
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  ASSERT_OK(cuGraphCreate(&graph, 0));
  ASSERT_OK(cuGraphAddEmptyNode(&node, graph, nullptr, 0));
  CUgraphNode another = nullptr;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuGraphAddEmptyNode(&another, graph, &node, kWild));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuGraphAddEmptyNode(&another, graph, nullptr, 3));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuGraphAddDependencies(graph, &node, &node, nullptr, kWild));
  const CUgraphNode twice[] = {node, node};
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuGraphAddEmptyNode(&another, graph, twice, 2));
  CUlaunchConfig config = {};
  config.gridDimX = config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = config.blockDimY = config.blockDimZ = 1;
  config.numAttrs = ~0u;
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE,
            cuLaunchKernelEx(&config, nullptr, nullptr, nullptr));
  CUdeviceptr memory = 0;
  ASSERT_OK(cuMemAlloc(&memory, 256));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemsetD32(memory, 0, kWild));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemcpyDtoD(memory, memory, kWild));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuMemsetD2D32Async(memory, kWild, 0, 4, kWild, stream_));
  EXPECT_OK(cuMemFree(memory));
  EXPECT_OK(cuGraphDestroy(graph));
}

TEST_F(HostileCallsTest, ReleasedContextIsDestroyed) {
  ASSERT_OK(cuStreamDestroy(stream_));
  ASSERT_OK(cuDevicePrimaryCtxRelease(0));
  CUdeviceptr memory = 0;
  EXPECT_CU(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemAlloc(&memory, 16));
  ASSERT_OK(cuDevicePrimaryCtxRetain(&context_, 0));
  ASSERT_OK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(cuMemAlloc(&memory, 16));
  EXPECT_OK(cuMemFree(memory));
}

}  // namespace
}  // namespace softcuda
