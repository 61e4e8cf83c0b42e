// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Why an update of an executable graph is refused, and that it is all or
// nothing.
#include <atomic>

#include "runtime_fixture.h"

namespace softcuda {
namespace {

void Count(void* counter) { ++*static_cast<std::atomic<int>*>(counter); }

class GraphUpdateTest : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    ASSERT_OK(cuMemAlloc(&memory_, 256));
  }
  void TearDown() override {
    EXPECT_OK(cuStreamSynchronize(stream_));
    for (CUgraphExec exec : execs_) EXPECT_OK(cuGraphExecDestroy(exec));
    for (CUgraph graph : graphs_) EXPECT_OK(cuGraphDestroy(graph));
    EXPECT_OK(cuMemFree(memory_));
    RuntimeTest::TearDown();
  }

  CUgraph NewGraph() {
    CUgraph graph = nullptr;
    EXPECT_OK(cuGraphCreate(&graph, 0));
    graphs_.push_back(graph);
    return graph;
  }
  CUgraphExec Instantiate(CUgraph graph) {
    CUgraphExec exec = nullptr;
    EXPECT_OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    execs_.push_back(exec);
    return exec;
  }
  CUgraphNode AddMemset(CUgraph graph, unsigned int value,
                        const std::vector<CUgraphNode>& behind,
                        size_t height = 1) {
    CUDA_MEMSET_NODE_PARAMS params = {};
    params.dst = memory_;
    params.value = value;
    params.elementSize = 4;
    params.width = 4;
    params.height = height;
    params.pitch = 64;
    CUgraphNode node = nullptr;
    EXPECT_OK(cuGraphAddMemsetNode(&node, graph, behind.data(), behind.size(),
                                   &params, context_));
    return node;
  }
  CUgraphExecUpdateResultInfo Refusal(CUgraphExec exec, CUgraph graph) {
    CUgraphExecUpdateResultInfo info = {};
    EXPECT_CU(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
              cuGraphExecUpdate(exec, graph, &info));
    return info;
  }
  uint32_t Word() {
    uint32_t word = 0;
    EXPECT_OK(cuMemcpyDtoH(&word, memory_, sizeof word));
    return word;
  }

  CUdeviceptr memory_ = 0;
  std::vector<CUgraph> graphs_;
  std::vector<CUgraphExec> execs_;
};

TEST_F(GraphUpdateTest, ChangedEdgesAreNamed) {
  const CUgraph graph = NewGraph();
  const CUgraphNode a = AddHostNode(graph, Count, nullptr);
  const CUgraphNode b = AddHostNode(graph, Count, nullptr, {a});
  AddHostNode(graph, Count, nullptr, {a, b});
  const CUgraphExec exec = Instantiate(graph);

  const CUgraph fewer = NewGraph();
  const CUgraphNode fewer_a = AddHostNode(fewer, Count, nullptr);
  const CUgraphNode fewer_b = AddHostNode(fewer, Count, nullptr, {fewer_a});
  const CUgraphNode fewer_c = AddHostNode(fewer, Count, nullptr, {fewer_b});
  CUgraphExecUpdateResultInfo info = Refusal(exec, fewer);
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  EXPECT_EQ(info.errorNode, fewer_c);
  EXPECT_EQ(info.errorFromNode, nullptr);

  const CUgraph swapped = NewGraph();
  const CUgraphNode swapped_a = AddHostNode(swapped, Count, nullptr);
  const CUgraphNode swapped_b =
      AddHostNode(swapped, Count, nullptr, {swapped_a});
  const CUgraphNode swapped_c =
      AddHostNode(swapped, Count, nullptr, {swapped_b, swapped_a});
  info = Refusal(exec, swapped);
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  EXPECT_EQ(info.errorNode, swapped_c);
  EXPECT_EQ(info.errorFromNode, swapped_b);
}

TEST_F(GraphUpdateTest, ChangedKindIsNamed) {
  const CUgraph graph = NewGraph();
  AddMemset(graph, 1, {});
  const CUgraphExec exec = Instantiate(graph);
  const CUgraph other = NewGraph();
  const CUgraphNode host = AddHostNode(other, Count, nullptr);
  const CUgraphExecUpdateResultInfo info = Refusal(exec, other);
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
  EXPECT_EQ(info.errorNode, host);
}

TEST_F(GraphUpdateTest, NothingChangesWhenTheSecondNodeIsRefused) {
  const CUgraph graph = NewGraph();
  AddMemset(graph, 1, {AddMemset(graph, 2, {})});
  const CUgraphExec exec = Instantiate(graph);
  const CUgraph other = NewGraph();
  const CUgraphNode refused =
      AddMemset(other, 8, {AddMemset(other, 9, {})}, /*height=*/2);
  const CUgraphExecUpdateResultInfo info = Refusal(exec, other);
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED);
  EXPECT_EQ(info.errorNode, refused);
  EXPECT_OK(cuGraphLaunch(exec, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(Word(), 1u);
}

TEST_F(GraphUpdateTest, ChildGraphsAreUpdatedWithTheirParent) {
  std::atomic<int> first{0};
  std::atomic<int> second{0};
  const auto with_child = [&](std::atomic<int>* counter) {
    const CUgraph child = NewGraph();
    AddHostNode(child, Count, counter);
    const CUgraph graph = NewGraph();
    CUgraphNode node = nullptr;
    EXPECT_OK(cuGraphAddChildGraphNode(&node, graph, nullptr, 0, child));
    return std::make_pair(graph, node);
  };
  const auto [graph, node] = with_child(&first);
  const CUgraphExec exec = Instantiate(graph);
  CUgraphExecUpdateResultInfo info = {};
  EXPECT_OK(cuGraphExecUpdate(exec, with_child(&second).first, &info));
  EXPECT_OK(cuGraphLaunch(exec, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, 1);
  const CUgraph replacement = NewGraph();
  const CUgraphNode host = AddHostNode(replacement, Count, &first);
  EXPECT_OK(cuGraphExecChildGraphNodeSetParams(exec, node, replacement));
  EXPECT_OK(cuGraphLaunch(exec, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(first, 1);
  AddHostNode(replacement, Count, &first, {host});
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuGraphExecChildGraphNodeSetParams(exec, node, replacement));
}

TEST_F(GraphUpdateTest, ParametersInTheirCommonForm) {
  std::atomic<int> first{0};
  std::atomic<int> second{0};
  const CUgraph graph = NewGraph();
  const CUgraphNode node = AddHostNode(graph, Count, &first);
  const CUgraphExec exec = Instantiate(graph);
  CUgraphNodeParams params = {};
  params.type = CU_GRAPH_NODE_TYPE_HOST;
  params.host.fn = Count;
  params.host.userData = &second;
  EXPECT_OK(cuGraphExecNodeSetParams(exec, node, &params));
  EXPECT_OK(cuGraphLaunch(exec, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(first, 0);
  EXPECT_EQ(second, 1);
  CUDA_HOST_NODE_PARAMS found = {};
  EXPECT_OK(cuGraphHostNodeGetParams(node, &found));
  EXPECT_EQ(found.userData, &first) << "the source is not touched";
  EXPECT_OK(cuGraphNodeSetParams(node, &params));
  EXPECT_OK(cuGraphHostNodeGetParams(node, &found));
  EXPECT_EQ(found.userData, &second);
  params.type = CU_GRAPH_NODE_TYPE_MEMSET;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuGraphExecNodeSetParams(exec, node, &params));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGraphNodeSetParams(node, nullptr));
}

}  // namespace
}  // namespace softcuda
