// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Instantiation, launches and updates: assertions 125 to 137, 141 and 142.
#include "contract_api.h"

namespace permafrost::contract {
namespace {

class LaunchContract : public ContractTest {
 protected:
  void SetUp() override {
    ContractTest::SetUp();
    stream_ = NewStream(kNonBlocking);
    other_ = NewStream(kNonBlocking);
    words_ = NewWords(64);
  }

  CUgraph CaptureAdd(uint32_t value) {
    CUgraph graph = nullptr;
    EXPECT_CU_OK(Begin(stream_));
    EXPECT_CU_OK(LaunchAdd(stream_, words_, value, 64));
    EXPECT_CU_OK(End(stream_, &graph));
    return graph;
  }
  // A graph of a gate and an addition behind it.
  CUgraph CaptureGatedAdd(uint32_t* gate, CUdeviceptr words) {
    CUgraph graph = nullptr;
    EXPECT_CU_OK(Begin(stream_));
    EXPECT_CU_OK(LaunchGate(stream_, gate));
    EXPECT_CU_OK(LaunchAdd(stream_, words, 1, 64));
    EXPECT_CU_OK(End(stream_, &graph));
    return graph;
  }
  void ExpectWords(uint32_t value) {
    EXPECT_EQ(Read(words_, 64), std::vector<uint32_t>(64, value));
  }

  CUstream stream_ = nullptr;
  CUstream other_ = nullptr;
  CUdeviceptr words_ = 0;
};

TEST_F(LaunchContract, A125_UndefinedFlagIsRefused) {
  CUDA_GRAPH_INSTANTIATE_PARAMS params = {};
  params.flags = cuuint64_t{1} << 40;
  CUgraphExec exec = nullptr;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cu.GraphInstantiateWithParams(&exec, CaptureAdd(1), &params));
  EXPECT_EQ(params.result_out, CUDA_GRAPH_INSTANTIATE_ERROR);
}

TEST_F(LaunchContract, A126_ExecOutlivesItsGraph) {
  CUgraph graph = nullptr;
  ASSERT_CU_OK(Begin(stream_));
  ASSERT_CU_OK(LaunchAdd(stream_, words_, 4, 64));
  ASSERT_CU_OK(cu.StreamEndCapture(stream_, &graph));
  const CUgraphExec exec = Instantiate(graph);
  ASSERT_CU_OK(cu.GraphDestroy(graph));
  ASSERT_CU_OK(cu.GraphLaunch(exec, stream_));
  ExpectWords(4);
}

TEST_F(LaunchContract, A127_LaunchesOfOneExecAccumulate) {
  const CUgraphExec exec = Instantiate(CaptureAdd(3));
  ASSERT_CU_OK(cu.GraphLaunch(exec, stream_));
  ASSERT_CU_OK(cu.GraphLaunch(exec, stream_));
  ExpectWords(6);
}

TEST_F(LaunchContract, A128_LaunchesOfOneExecNeverOverlap) {
  uint32_t* const gate = NewPinnedWords(1);
  const CUgraphExec exec = Instantiate(CaptureGatedAdd(gate, words_));
  ASSERT_CU_OK(cu.GraphLaunch(exec, stream_));
  ASSERT_CU_OK(cu.GraphLaunch(exec, other_));
  EXPECT_CU(CUDA_ERROR_NOT_READY, cu.StreamQuery(other_));
  OpenGate(gate);
  ExpectWords(2);
}

TEST_F(LaunchContract, A129_ExecsInTwoStreamsAreIndependent) {
  uint32_t* const closed = NewPinnedWords(1);
  uint32_t* const open = NewPinnedWords(1);
  const CUdeviceptr others = NewWords(64);
  const CUgraphExec gated = Instantiate(CaptureGatedAdd(closed, words_));
  const CUgraphExec free = Instantiate(CaptureGatedAdd(open, others));
  OpenGate(open);
  ASSERT_CU_OK(cu.GraphLaunch(gated, stream_));
  ASSERT_CU_OK(cu.GraphLaunch(free, other_));
  EXPECT_CU_OK(cu.StreamSynchronize(other_));
  EXPECT_CU(CUDA_ERROR_NOT_READY, cu.StreamQuery(stream_));
  OpenGate(closed);
  ExpectWords(1);
}

TEST_F(LaunchContract, A130_GraphsKeepTheStreamsOrder) {
  const CUgraphExec exec = Instantiate(CaptureAdd(1));
  ASSERT_CU_OK(LaunchFill(stream_, words_, 10, 64));
  ASSERT_CU_OK(cu.GraphLaunch(exec, stream_));
  const CUdeviceptr copy = NewWords(64);
  ASSERT_CU_OK(cu.MemcpyDtoDAsync(copy, words_, 256, stream_));
  ASSERT_CU_OK(LaunchFill(stream_, words_, 0, 64));
  EXPECT_EQ(Read(copy, 64), std::vector<uint32_t>(64, 11));
}

TEST_F(LaunchContract, A131_DestroyInFlight) {
  CUgraphExec exec = nullptr;
  uint32_t* const gate = NewPinnedWords(1);
  ASSERT_CU_OK(
      cu.GraphInstantiateWithFlags(&exec, CaptureGatedAdd(gate, words_), 0));
  ASSERT_CU_OK(cu.GraphLaunch(exec, stream_));
  ASSERT_CU_OK(cu.GraphExecDestroy(exec));
  OpenGate(gate);
  ExpectWords(1);
}

TEST_F(LaunchContract, A132_NoExec) {
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.GraphLaunch(nullptr, stream_));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.GraphExecDestroy(nullptr));
}

TEST_F(LaunchContract, A133_UploadRunsNothing) {
  const CUgraphExec exec = Instantiate(CaptureAdd(2));
  ASSERT_CU_OK(cu.GraphUpload(exec, stream_));
  ExpectWords(0);
  ASSERT_CU_OK(cu.GraphLaunch(exec, stream_));
  ExpectWords(2);
}

TEST_F(LaunchContract, A134_KernelUpdateReachesLaterLaunchesOnly) {
  const CUgraph graph = CaptureAdd(1);
  const CUgraphNode node = Nodes(graph).at(0);
  const CUgraphExec exec = Instantiate(graph);
  uint32_t* const gate = NewPinnedWords(1);
  ASSERT_CU_OK(LaunchGate(stream_, gate));
  ASSERT_CU_OK(cu.GraphLaunch(exec, stream_));
  CUDA_KERNEL_NODE_PARAMS params = {};
  ASSERT_CU_OK(cu.GraphKernelNodeGetParams(node, &params));
  uint32_t value = 100;
  uint32_t count = 64;
  void* arguments[] = {&words_, &value, &count};
  params.kernelParams = arguments;
  ASSERT_CU_OK(cu.GraphExecKernelNodeSetParams(exec, node, &params));
  OpenGate(gate);
  ExpectWords(1);
  ASSERT_CU_OK(cu.GraphLaunch(exec, stream_));
  ExpectWords(101);
  ASSERT_CU_OK(cu.GraphKernelNodeGetParams(node, &params));
  EXPECT_EQ(*static_cast<uint32_t*>(params.kernelParams[1]), 1u);
}

TEST_F(LaunchContract, A135_NodeOfAnotherGraphIsRefused) {
  const CUgraphExec exec = Instantiate(CaptureAdd(1));
  const CUgraphNode foreign = Nodes(CaptureAdd(1)).at(0);
  CUDA_KERNEL_NODE_PARAMS params = {};
  ASSERT_CU_OK(cu.GraphKernelNodeGetParams(foreign, &params));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cu.GraphExecKernelNodeSetParams(exec, foreign, &params));
}

TEST_F(LaunchContract, A136_CopyUpdate) {
  const CUdeviceptr first = NewWords(64);
  const CUdeviceptr second = NewWords(64);
  ASSERT_CU_OK(cu.MemsetD32(first, 1, 64));
  ASSERT_CU_OK(cu.MemsetD32(second, 2, 64));
  ASSERT_CU_OK(cu.CtxSynchronize());
  CUgraph graph = nullptr;
  ASSERT_CU_OK(Begin(stream_));
  ASSERT_CU_OK(cu.MemcpyDtoDAsync(words_, first, 256, stream_));
  ASSERT_CU_OK(End(stream_, &graph));
  const CUgraphNode node = Nodes(graph).at(0);
  const CUgraphExec exec = Instantiate(graph);
  CUDA_MEMCPY3D params = {};
  ASSERT_CU_OK(cu.GraphMemcpyNodeGetParams(node, &params));
  params.srcDevice = second;
  ASSERT_CU_OK(cu.GraphExecMemcpyNodeSetParams(exec, node, &params, context));
  ASSERT_CU_OK(cu.GraphLaunch(exec, stream_));
  ExpectWords(2);
  params.WidthInBytes = 0;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cu.GraphExecMemcpyNodeSetParams(exec, node, &params, context));
}

TEST_F(LaunchContract, A137_DisabledKernelIsSkipped) {
  CUgraph graph = nullptr;
  ASSERT_CU_OK(Begin(stream_));
  ASSERT_CU_OK(LaunchFill(stream_, words_, 5, 64));
  ASSERT_CU_OK(LaunchFill(stream_, words_, 50, 64));
  ASSERT_CU_OK(LaunchAdd(stream_, words_, 1, 64));
  ASSERT_CU_OK(End(stream_, &graph));
  const CUgraphNode middle = Nodes(graph).at(1);
  CUgraphNode empty = nullptr;
  ASSERT_CU_OK(cu.GraphAddEmptyNode(&empty, graph, nullptr, 0));
  const CUgraphExec exec = Instantiate(graph);
  ASSERT_CU_OK(cu.GraphNodeSetEnabled(exec, middle, 0));
  ASSERT_CU_OK(cu.GraphLaunch(exec, stream_));
  ExpectWords(6);
  ASSERT_CU_OK(cu.GraphNodeSetEnabled(exec, middle, 1));
  ASSERT_CU_OK(cu.GraphLaunch(exec, stream_));
  ExpectWords(51);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.GraphNodeSetEnabled(exec, empty, 0));
}

TEST_F(LaunchContract, A141_ReplaysDoNotEatMemory) {
  const CUgraphExec exec = Instantiate(CaptureAdd(1));
  ASSERT_CU_OK(cu.GraphLaunch(exec, stream_));
  ASSERT_CU_OK(cu.StreamSynchronize(stream_));
  size_t free_before = 0;
  size_t free_after = 0;
  size_t total = 0;
  ASSERT_CU_OK(cu.MemGetInfo(&free_before, &total));
  for (int i = 1; i < 1000; ++i) ASSERT_CU_OK(cu.GraphLaunch(exec, stream_));
  ExpectWords(1000);
  ASSERT_CU_OK(cu.MemGetInfo(&free_after, &total));
  EXPECT_EQ(free_before, free_after);
}

TEST_F(LaunchContract, A142_ReplaysReadLiveContents) {
  const CUdeviceptr input = NewWords(64);
  CUgraph graph = nullptr;
  ASSERT_CU_OK(Begin(stream_));
  uint32_t count = 64;
  CUdeviceptr source = input;
  void* arguments[] = {&words_, &source, &count};
  ASSERT_CU_OK(cu.LaunchKernel(Function("k_copy"), 1, 1, 1, 64, 1, 1, 0,
                               stream_, arguments, nullptr));
  ASSERT_CU_OK(End(stream_, &graph));
  const CUgraphExec exec = Instantiate(graph);
  for (uint32_t value = 1; value <= 3; ++value) {
    const std::vector<uint32_t> host(64, value);
    ASSERT_CU_OK(cu.MemcpyHtoD(input, host.data(), 256));
    ASSERT_CU_OK(cu.CtxSynchronize());
    ASSERT_CU_OK(cu.GraphLaunch(exec, stream_));
    ExpectWords(value);
  }
}

}  // namespace
}  // namespace permafrost::contract
