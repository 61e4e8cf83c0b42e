// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Races with nodes that are more than one operation: children, bodies of
// conditional nodes, event nodes, and memory that begins a new life.
#include "check_fixture.h"

namespace softcuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class GraphRacesTest : public CheckTest {
 protected:
  void SetUp() override {
    CheckTest::SetUp();
    ASSERT_OK(cuGraphCreate(&graph_, 0));
  }
  void TearDown() override {
    EXPECT_OK(cuCtxSynchronize());
    EXPECT_OK(cuGraphDestroy(graph_));
    CheckTest::TearDown();
  }

  CUgraphNode AddFill(CUgraph graph, CUdeviceptr out,
                      const std::vector<CUgraphNode>& behind = {}) {
    int n = kInts;
    void* params[] = {&out, &n, &n};
    return AddKernel(graph, "k_fill", params, behind);
  }
  CUgraphNode AddAdd(CUgraph graph, CUdeviceptr in, CUdeviceptr out,
                     const std::vector<CUgraphNode>& behind = {}) {
    int n = kInts;
    void* params[] = {&in, &out, &n};
    return AddKernel(graph, "k_add", params, behind);
  }
  CUgraphNode AddKernel(CUgraph graph, const char* kernel, void** params,
                        const std::vector<CUgraphNode>& behind) {
    CUDA_KERNEL_NODE_PARAMS node_params = {};
    node_params.func = Function(kernel);
    node_params.gridDimX = 2;
    node_params.gridDimY = node_params.gridDimZ = 1;
    node_params.blockDimX = 128;
    node_params.blockDimY = node_params.blockDimZ = 1;
    node_params.kernelParams = params;
    CUgraphNode node = nullptr;
    EXPECT_OK(cuGraphAddKernelNode(&node, graph, behind.data(), behind.size(),
                                   &node_params));
    return node;
  }

  // A conditional node that runs its body once.
  CUgraphNode AddIf(const std::vector<CUgraphNode>& behind, CUgraph* body) {
    CUgraphNodeParams params = {};
    params.type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    EXPECT_OK(cuGraphConditionalHandleCreate(&params.conditional.handle, graph_,
                                             context_, 1,
                                             CU_GRAPH_COND_ASSIGN_DEFAULT));
    params.conditional.type = CU_GRAPH_COND_TYPE_IF;
    params.conditional.size = 1;
    params.conditional.ctx = context_;
    CUgraphNode node = nullptr;
    EXPECT_OK(cuGraphAddNode(&node, graph_, behind.data(), nullptr,
                             behind.size(), &params));
    *body = params.conditional.phGraph_out[0];
    return node;
  }

  std::string ReportsOfTwoLaunches() {
    CUgraphExec exec = nullptr;
    EXPECT_OK(cuGraphInstantiate(&exec, graph_, 0));
    for (int k = 0; k < 2; ++k) EXPECT_OK(cuGraphLaunch(exec, stream_));
    EXPECT_OK(cuStreamSynchronize(stream_));
    EXPECT_OK(cuGraphExecDestroy(exec));
    return TakeReports();
  }

  CUgraph graph_ = nullptr;
};

TEST_F(GraphRacesTest, AChildGraphIsOrderedByItsNode) {
  CUgraph child = nullptr;
  ASSERT_OK(cuGraphCreate(&child, 0));
  AddAdd(child, a_, b_);
  const CUgraphNode first = AddFill(graph_, a_);
  CUgraphNode middle = nullptr;
  ASSERT_OK(cuGraphAddChildGraphNode(&middle, graph_, &first, 1, child));
  AddAdd(graph_, b_, c_, {middle});
  EXPECT_EQ(ReportsOfTwoLaunches(), "");
  AddFill(graph_, b_, {first});
  EXPECT_THAT(ReportsOfTwoLaunches(), AllOf(HasSubstr("no path orders"),
                                            HasSubstr(LineOf("add_write"))));
  EXPECT_OK(cuGraphDestroy(child));
}

TEST_F(GraphRacesTest, ABodyIsOrderedByItsNode) {
  CUgraph body = nullptr;
  const CUgraphNode first = AddFill(graph_, a_);
  const CUgraphNode middle = AddIf({first}, &body);
  AddAdd(body, a_, b_);
  AddAdd(graph_, b_, c_, {middle});
  EXPECT_EQ(ReportsOfTwoLaunches(), "");
}

TEST_F(GraphRacesTest, ABodyAgainstABranchBesideItsNodeIsReported) {
  CUgraph body = nullptr;
  const CUgraphNode first = AddFill(graph_, a_);
  AddIf({first}, &body);
  AddAdd(body, a_, b_);
  AddFill(graph_, b_, {first});
  EXPECT_THAT(ReportsOfTwoLaunches(),
              AllOf(HasSubstr("no path orders"), HasSubstr("conditional"),
                    HasSubstr(LineOf("fill"))));
}

// An event node orders what another stream does behind it, and no more.
TEST_F(GraphRacesTest, AnEventNodeOrdersWhatWaitsForIt) {
  CUevent event = nullptr;
  ASSERT_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  const CUgraphNode first = AddFill(graph_, a_);
  CUgraphNode record = nullptr;
  ASSERT_OK(cuGraphAddEventRecordNode(&record, graph_, &first, 1, event));
  AddFill(graph_, b_, {record});
  CUgraphExec exec = nullptr;
  ASSERT_OK(cuGraphInstantiate(&exec, graph_, 0));
  ASSERT_OK(cuGraphLaunch(exec, stream_));
  ASSERT_OK(cuStreamWaitEvent(other_, event, 0));
  Add(other_, a_, c_);
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_EQ(TakeReports(), "");
  ASSERT_OK(cuGraphLaunch(exec, stream_));
  ASSERT_OK(cuStreamWaitEvent(other_, event, 0));
  Add(other_, b_, c_);
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_THAT(TakeReports(), HasSubstr("no path orders"));
  EXPECT_OK(cuGraphExecDestroy(exec));
  EXPECT_OK(cuEventDestroy(event));
}

// The pool hands freed memory to the other stream: two lives, no race.
TEST_F(GraphRacesTest, MemoryOfAPoolThatComesBackIsSilent) {
  for (int k = 0; k < 8; ++k) {
    const CUstream stream = k % 2 == 0 ? stream_ : other_;
    CUdeviceptr memory = 0;
    ASSERT_OK(cuMemAllocAsync(&memory, kBytes, stream));
    Fill(stream, memory);
    ASSERT_OK(cuMemFreeAsync(memory, stream));
    EXPECT_OK(cuStreamQuery(stream) == CUDA_ERROR_NOT_READY
                  ? cuStreamSynchronize(stream)
                  : CUDA_SUCCESS);
  }
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_EQ(TakeReports(), "");
}

}  // namespace
}  // namespace softcuda
