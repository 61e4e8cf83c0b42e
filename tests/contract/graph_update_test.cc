// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Updates of whole executable graphs: assertions 138 to 140.
#include "contract_api.h"

namespace permafrost::contract {
namespace {

class GraphUpdateContract : public ContractTest {
 protected:
  void SetUp() override {
    ContractTest::SetUp();
    stream_ = NewStream(kNonBlocking);
    first_ = NewWords(64);
    second_ = NewWords(64);
  }

  // `count` kernels that each add `value`, in a row.
  CUgraph CaptureAdds(CUdeviceptr words, uint32_t value, int count) {
    CUgraph graph = nullptr;
    EXPECT_CU_OK(Begin(stream_));
    for (int i = 0; i < count; ++i) {
      EXPECT_CU_OK(LaunchAdd(stream_, words, value, 64));
    }
    EXPECT_CU_OK(End(stream_, &graph));
    return graph;
  }
  void ExpectFails(CUgraphExec exec, CUgraph graph) {
    CUgraphExecUpdateResultInfo info = {};
    EXPECT_CU(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
              cu.GraphExecUpdate(exec, graph, &info));
    EXPECT_NE(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
  }
  void ExpectWords(CUdeviceptr words, uint32_t value) {
    EXPECT_EQ(Read(words, 64), std::vector<uint32_t>(64, value));
  }

  CUstream stream_ = nullptr;
  CUdeviceptr first_ = 0;
  CUdeviceptr second_ = 0;
};

TEST_F(GraphUpdateContract, A138_SameCallsWithOtherPointers) {
  const CUgraphExec exec = Instantiate(CaptureAdds(first_, 3, 2));
  ASSERT_CU_OK(cu.GraphLaunch(exec, stream_));
  CUgraphExecUpdateResultInfo info = {};
  info.result = CU_GRAPH_EXEC_UPDATE_ERROR;
  EXPECT_CU_OK(cu.GraphExecUpdate(exec, CaptureAdds(second_, 5, 2), &info));
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
  ASSERT_CU_OK(cu.GraphLaunch(exec, stream_));
  ExpectWords(first_, 6);
  ExpectWords(second_, 10);
}

TEST_F(GraphUpdateContract, A139_OneNodeMoreIsRefused) {
  const CUgraphExec exec = Instantiate(CaptureAdds(first_, 3, 2));
  ExpectFails(exec, CaptureAdds(second_, 5, 3));
  ASSERT_CU_OK(cu.GraphLaunch(exec, stream_));
  ExpectWords(first_, 6);
  ExpectWords(second_, 0);
}

TEST_F(GraphUpdateContract, A140_KernelThatBecameAMemsetIsRefused) {
  const CUgraphExec exec = Instantiate(CaptureAdds(first_, 3, 1));
  CUgraph graph = nullptr;
  ASSERT_CU_OK(Begin(stream_));
  ASSERT_CU_OK(cu.MemsetD32Async(first_, 1, 64, stream_));
  ASSERT_CU_OK(End(stream_, &graph));
  ExpectFails(exec, graph);
}

}  // namespace
}  // namespace permafrost::contract
