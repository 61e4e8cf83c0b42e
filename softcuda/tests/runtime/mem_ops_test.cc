// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Writes to and waits for words in stream order, batches of copies, cooperative
// launches, and calls that are refused.
#include <atomic>

#include "runtime_fixture.h"

namespace softcuda {
namespace {

class MemOpsTest : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    ASSERT_OK(cuMemAlloc(&words_, 64));
    ASSERT_OK(cuMemsetD32(words_, 0, 16));
    ASSERT_OK(cuCtxSynchronize());
    ASSERT_OK(cuStreamCreate(&other_, CU_STREAM_NON_BLOCKING));
  }
  void TearDown() override {
    EXPECT_OK(cuCtxSynchronize());
    EXPECT_OK(cuStreamDestroy(other_));
    EXPECT_OK(cuMemFree(words_));
    RuntimeTest::TearDown();
  }
  uint32_t Word(int index) {
    uint32_t word = 0;
    EXPECT_OK(cuMemcpyDtoH(&word, words_ + 4 * static_cast<CUdeviceptr>(index),
                           sizeof word));
    return word;
  }

  CUdeviceptr words_ = 0;
  CUstream other_ = nullptr;
};

TEST_F(MemOpsTest, WaitHoldsItsStreamUntilTheWordIsThere) {
  EXPECT_OK(cuStreamWaitValue32(stream_, words_, 3, CU_STREAM_WAIT_VALUE_GEQ));
  EXPECT_OK(cuMemsetD32Async(words_ + 4, 7, 1, stream_));
  EXPECT_CU(CUDA_ERROR_NOT_READY, cuStreamQuery(stream_));
  EXPECT_OK(cuStreamWriteValue32(other_, words_, 2, 0));
  EXPECT_OK(cuStreamSynchronize(other_));
  EXPECT_CU(CUDA_ERROR_NOT_READY, cuStreamQuery(stream_));
  EXPECT_OK(cuStreamWriteValue32(other_, words_, 3, 0));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(Word(1), 7u);
}

TEST_F(MemOpsTest, EachKindOfWait) {
  EXPECT_OK(cuMemsetD32(words_, 0x80000001, 1));
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_OK(cuStreamWaitValue32(stream_, words_, 0x80000001,
                                CU_STREAM_WAIT_VALUE_EQ));
  EXPECT_OK(cuStreamWaitValue32(stream_, words_, 1, CU_STREAM_WAIT_VALUE_AND));
  EXPECT_OK(cuStreamWaitValue32(stream_, words_, 2, CU_STREAM_WAIT_VALUE_NOR));
  // A cyclic comparison: 0x80000001 lies behind 0x7fffffff.
  EXPECT_OK(cuStreamWaitValue32(stream_, words_, 0x7fffffff,
                                CU_STREAM_WAIT_VALUE_GEQ));
  EXPECT_OK(cuStreamWriteValue64(stream_, words_ + 8, 5, 0));
  EXPECT_OK(
      cuStreamWaitValue64(stream_, words_ + 8, 4, CU_STREAM_WAIT_VALUE_GEQ));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(Word(2), 5u);
}

TEST_F(MemOpsTest, BatchBecomesANode) {
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUstreamBatchMemOpParams params[2] = {};
  params[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  params[0].writeValue.address = words_;
  params[0].writeValue.value = 9;
  params[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  params[1].waitValue.address = words_;
  params[1].waitValue.value = 9;
  params[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_OK(cuStreamBatchMemOp(stream_, 2, params, 0));
  ASSERT_OK(cuStreamEndCapture(stream_, &graph));
  CUgraphNode node = nullptr;
  size_t count = 1;
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  EXPECT_OK(cuGraphGetNodes(graph, &node, &count));
  EXPECT_OK(cuGraphNodeGetType(node, &type));
  EXPECT_EQ(type, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
  EXPECT_EQ(Word(0), 0u);
  ASSERT_OK(cuGraphInstantiate(&exec, graph, 0));
  EXPECT_OK(cuGraphLaunch(exec, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(Word(0), 9u);
  EXPECT_OK(cuGraphExecDestroy(exec));
  EXPECT_OK(cuGraphDestroy(graph));
}

TEST_F(MemOpsTest, BadWordsAreRefused) {
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuStreamWriteValue32(stream_, words_ + 2, 1, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuStreamWriteValue32(stream_, 16, 1, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuStreamWriteValue64(stream_, words_ + 60, 1, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuStreamWaitValue32(stream_, words_, 1, 64));
  CUstreamBatchMemOpParams params = {};
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuStreamBatchMemOp(stream_, 1, &params, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuStreamBatchMemOp(stream_, 1, nullptr, 0));
}

TEST_F(MemOpsTest, CopiesInABatch) {
  uint32_t source = 5;
  CUdeviceptr targets[] = {words_, words_ + 4};
  CUdeviceptr sources[] = {reinterpret_cast<CUdeviceptr>(&source), words_ + 32};
  size_t sizes[] = {4, 4};
  CUmemcpyAttributes attributes = {};
  attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
  size_t first = 0;
  EXPECT_OK(cuMemsetD32(words_ + 32, 6, 1));
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_OK(cuMemcpyBatchAsync(targets, sources, sizes, 2, &attributes, &first,
                               1, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(Word(0), 5u);
  EXPECT_EQ(Word(1), 6u);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuMemcpyBatchAsync(targets, sources, sizes, 2, &attributes, &first,
                               1, nullptr))
      << "the legacy stream takes no batch";
  first = 1;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuMemcpyBatchAsync(targets, sources, sizes, 2, &attributes, &first,
                               1, stream_));
  first = 0;
  targets[1] = words_ + (1 << 20);  // no memory is there
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuMemcpyBatchAsync(targets, sources, sizes, 2, &attributes, &first,
                               1, stream_));
}

TEST_F(MemOpsTest, CooperativeLaunchMustFitTheDevice) {
  constexpr char kPtx[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry k_nothing() { ret; }
)";
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  ASSERT_OK(cuModuleLoadData(&module, kPtx));
  ASSERT_OK(cuModuleGetFunction(&function, module, "k_nothing"));
  EXPECT_OK(cuLaunchCooperativeKernel(function, 132, 1, 1, 1024, 1, 1, 0,
                                      stream_, nullptr));
  EXPECT_CU(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
            cuLaunchCooperativeKernel(function, 265, 1, 1, 1024, 1, 1, 0,
                                      stream_, nullptr));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_OK(cuModuleUnload(module));
}

TEST_F(MemOpsTest, WhatIsNotSupportedSaysSo) {
  unsigned int one = 1;
  ::testing::internal::CaptureStderr();
  softcuda_set_quiet(0);
  EXPECT_CU(
      CUDA_ERROR_NOT_SUPPORTED,
      cuPointerSetAttribute(&one, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, words_));
  EXPECT_CU(CUDA_ERROR_NOT_SUPPORTED,
            cuStreamAttachMemAsync(stream_, words_, 0, 1));
  softcuda_set_quiet(1);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("cuPointerSetAttribute"), std::string::npos) << log;
  EXPECT_NE(log.find("cuStreamAttachMemAsync: managed memory"),
            std::string::npos)
      << log;
}

}  // namespace
}  // namespace softcuda
