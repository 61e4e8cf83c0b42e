// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Recorded nodes and graph queries: assertions 114 to 124.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>

#include "contract_api.h"

namespace permafrost::contract {
namespace {

class GraphContract : public ContractTest {
 protected:
  void SetUp() override {
    ContractTest::SetUp();
    stream_ = NewStream(kNonBlocking);
    words_ = NewWords(64);
  }

  CUgraph NewGraph() {
    CUgraph graph = nullptr;
    EXPECT_CU_OK(cu.GraphCreate(&graph, 0));
    Keep(graph);
    return graph;
  }
  CUgraphNode AddEmpty(CUgraph graph) {
    CUgraphNode node = nullptr;
    EXPECT_CU_OK(cu.GraphAddEmptyNode(&node, graph, nullptr, 0));
    return node;
  }
  CUgraphNode AddFill(CUgraph graph, uint32_t value, uint32_t count) {
    CUDA_KERNEL_NODE_PARAMS params = {};
    params.func = Function("k_fill");
    params.gridDimX = params.gridDimY = params.gridDimZ = 1;
    params.blockDimX = 64;
    params.blockDimY = params.blockDimZ = 1;
    void* arguments[] = {&words_, &value, &count};
    params.kernelParams = arguments;
    CUgraphNode node = nullptr;
    EXPECT_CU_OK(cu.GraphAddKernelNode(&node, graph, nullptr, 0, &params));
    return node;
  }
  CUresult AddEdges(CUgraph graph, CUgraphNode from, CUgraphNode to) {
    return cu.GraphAddDependencies(graph, &from, &to, nullptr, 1);
  }

  CUstream stream_ = nullptr;
  CUdeviceptr words_ = 0;
};

TEST_F(GraphContract, A114_PinnedSourceIsReadAtReplay) {
  uint32_t* const host = NewPinnedWords(1);
  *host = 1;
  ASSERT_CU_OK(Begin(stream_));
  ASSERT_CU_OK(cu.MemcpyHtoDAsync(words_, host, 4, stream_));
  CUgraph graph = nullptr;
  ASSERT_CU_OK(End(stream_, &graph));
  const CUgraphExec exec = Instantiate(graph);
  *host = 2;
  ASSERT_CU_OK(cu.GraphLaunch(exec, stream_));
  EXPECT_EQ(Read(words_, 1)[0], 2u);
  *host = 3;
  ASSERT_CU_OK(cu.GraphLaunch(exec, stream_));
  EXPECT_EQ(Read(words_, 1)[0], 3u);
}

TEST_F(GraphContract, A115_PageableSourceIsReadAtReplay) {
  std::vector<uint32_t> host(1, 1);
  ASSERT_CU_OK(Begin(stream_));
  ASSERT_CU_OK(cu.MemcpyHtoDAsync(words_, host.data(), 4, stream_));
  CUgraph graph = nullptr;
  ASSERT_CU_OK(End(stream_, &graph));
  const CUgraphExec exec = Instantiate(graph);
  host[0] = 2;
  ASSERT_CU_OK(cu.GraphLaunch(exec, stream_));
  EXPECT_EQ(Read(words_, 1)[0], 2u);
}

TEST_F(GraphContract, A116_MemsetNodeParameters) {
  ASSERT_CU_OK(Begin(stream_));
  ASSERT_CU_OK(cu.MemsetD32Async(words_, 0xABCD, 60, stream_));
  CUgraph graph = nullptr;
  ASSERT_CU_OK(End(stream_, &graph));
  const std::vector<CUgraphNode> nodes = Nodes(graph);
  ASSERT_EQ(nodes.size(), 1u);
  ASSERT_EQ(TypeOf(nodes[0]), CU_GRAPH_NODE_TYPE_MEMSET);
  CUDA_MEMSET_NODE_PARAMS params = {};
  ASSERT_CU_OK(cu.GraphMemsetNodeGetParams(nodes[0], &params));
  EXPECT_EQ(params.dst, words_);
  EXPECT_EQ(params.elementSize, 4u);
  EXPECT_EQ(params.width, 60u);
  EXPECT_EQ(params.height, 1u);
  EXPECT_EQ(params.value, 0xABCDu);
}

TEST_F(GraphContract, A117_KernelNodeParameters) {
  CUdeviceptr words = words_;
  uint32_t value = 12;
  uint32_t count = 34;
  void* arguments[] = {&words, &value, &count};
  ASSERT_CU_OK(Begin(stream_));
  ASSERT_CU_OK(cu.LaunchKernel(Function("k_fill"), 2, 3, 4, 8, 2, 1, 128,
                               stream_, arguments, nullptr));
  words = 0;
  value = 0;
  count = 0;
  CUgraph graph = nullptr;
  ASSERT_CU_OK(End(stream_, &graph));
  CUDA_KERNEL_NODE_PARAMS params = {};
  ASSERT_CU_OK(cu.GraphKernelNodeGetParams(Nodes(graph).at(0), &params));
  EXPECT_EQ(params.gridDimX, 2u);
  EXPECT_EQ(params.gridDimY, 3u);
  EXPECT_EQ(params.gridDimZ, 4u);
  EXPECT_EQ(params.blockDimX, 8u);
  EXPECT_EQ(params.blockDimY, 2u);
  EXPECT_EQ(params.blockDimZ, 1u);
  EXPECT_EQ(params.sharedMemBytes, 128u);
  ASSERT_NE(params.kernelParams, nullptr);
  CUdeviceptr recorded_words = 0;
  uint32_t recorded[2] = {};
  std::memcpy(&recorded_words, params.kernelParams[0], 8);
  std::memcpy(&recorded[0], params.kernelParams[1], 4);
  std::memcpy(&recorded[1], params.kernelParams[2], 4);
  EXPECT_EQ(recorded_words, words_);
  EXPECT_EQ(recorded[0], 12u);
  EXPECT_EQ(recorded[1], 34u);
}

TEST_F(GraphContract, A118_MemcpyNodeParameters) {
  const CUdeviceptr source = NewWords(64);
  ASSERT_CU_OK(Begin(stream_));
  ASSERT_CU_OK(cu.MemcpyDtoDAsync(words_, source, 256, stream_));
  CUgraph graph = nullptr;
  ASSERT_CU_OK(End(stream_, &graph));
  const CUgraphNode node = Nodes(graph).at(0);
  ASSERT_EQ(TypeOf(node), CU_GRAPH_NODE_TYPE_MEMCPY);
  CUDA_MEMCPY3D params = {};
  ASSERT_CU_OK(cu.GraphMemcpyNodeGetParams(node, &params));
  EXPECT_EQ(params.Depth * params.Height * params.WidthInBytes, 256u);
  EXPECT_EQ(params.srcDevice, source);
  EXPECT_EQ(params.dstDevice, words_);
}

TEST_F(GraphContract, A119_ArrayQueries) {
  const CUgraph graph = NewGraph();
  const CUgraphNode nodes[] = {AddEmpty(graph), AddEmpty(graph),
                               AddEmpty(graph)};
  CUgraphNode found[5] = {nodes[0], nodes[0], nodes[0], nodes[0], nodes[0]};
  size_t count = 5;
  ASSERT_CU_OK(cu.GraphGetNodes(graph, found, &count));
  EXPECT_EQ(count, 3u);
  EXPECT_EQ(found[3], nullptr);
  EXPECT_EQ(found[4], nullptr);
  CUgraphNode fewer[2] = {};
  count = 2;
  ASSERT_CU_OK(cu.GraphGetNodes(graph, fewer, &count));
  EXPECT_EQ(count, 2u);
  EXPECT_NE(fewer[0], nullptr);
  EXPECT_NE(fewer[1], nullptr);
}

TEST_F(GraphContract, A120_BadDependenciesAreRefused) {
  const CUgraph graph = NewGraph();
  const CUgraphNode a = AddEmpty(graph);
  const CUgraphNode b = AddEmpty(graph);
  const CUgraphNode foreign = AddEmpty(NewGraph());
  ASSERT_CU_OK(AddEdges(graph, a, b));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, AddEdges(graph, a, b));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, AddEdges(graph, a, a));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, AddEdges(graph, a, foreign));
}

TEST_F(GraphContract, A121_CyclesAreFoundAtInstantiation) {
  const CUgraph graph = NewGraph();
  const CUgraphNode a = AddEmpty(graph);
  const CUgraphNode b = AddEmpty(graph);
  ASSERT_CU_OK(AddEdges(graph, a, b));
  ASSERT_CU_OK(AddEdges(graph, b, a));
  CUgraphExec exec = nullptr;
  EXPECT_CU_FAILS(cu.GraphInstantiateWithFlags(&exec, graph, 0));
  CUDA_GRAPH_INSTANTIATE_PARAMS params = {};
  EXPECT_CU_FAILS(cu.GraphInstantiateWithParams(&exec, graph, &params));
  EXPECT_NE(params.result_out, CUDA_GRAPH_INSTANTIATE_SUCCESS);
}

TEST_F(GraphContract, A122_CloneIsIndependent) {
  const CUgraph graph = NewGraph();
  const CUgraphNode a = AddEmpty(graph);
  const CUgraphNode b = AddEmpty(graph);
  ASSERT_CU_OK(AddEdges(graph, a, b));
  CUgraph clone = nullptr;
  ASSERT_CU_OK(cu.GraphClone(&clone, graph));
  Keep(clone);
  CUgraphNode a_clone = nullptr;
  CUgraphNode b_clone = nullptr;
  EXPECT_CU_OK(cu.GraphNodeFindInClone(&a_clone, a, clone));
  EXPECT_CU_OK(cu.GraphNodeFindInClone(&b_clone, b, clone));
  EXPECT_TRUE(HasEdge(clone, a_clone, b_clone));
  AddEmpty(graph);
  EXPECT_EQ(Nodes(graph).size(), 3u);
  EXPECT_EQ(Nodes(clone).size(), 2u);
}

TEST_F(GraphContract, A123_ChildGraphRunsBetweenItsNeighbours) {
  const CUgraph child = NewGraph();
  CUDA_MEMSET_NODE_PARAMS memset = {};
  memset.dst = words_;
  memset.elementSize = 4;
  memset.width = 32;
  memset.height = 1;
  memset.value = 5;
  CUgraphNode memset_node = nullptr;
  ASSERT_CU_OK(
      cu.GraphAddMemsetNode(&memset_node, child, nullptr, 0, &memset, context));
  const CUgraph graph = NewGraph();
  const CUgraphNode before = AddFill(graph, 1, 64);
  CUgraphNode child_node = nullptr;
  ASSERT_CU_OK(
      cu.GraphAddChildGraphNode(&child_node, graph, &before, 1, child));
  const CUgraphNode after = AddFill(graph, 9, 16);
  ASSERT_CU_OK(AddEdges(graph, child_node, after));
  // The child is a copy: this does not reach it.
  memset.value = 77;
  memset.width = 64;
  ASSERT_CU_OK(cu.GraphAddMemsetNode(&memset_node, child, &memset_node, 1,
                                     &memset, context));
  ASSERT_CU_OK(cu.GraphLaunch(Instantiate(graph), stream_));
  std::vector<uint32_t> expected(64, 1);
  std::fill_n(expected.begin(), 32, 5);
  std::fill_n(expected.begin(), 16, 9);
  EXPECT_EQ(Read(words_, 64), expected);
}

TEST_F(GraphContract, A124_DotPrint) {
  const CUgraph graph = NewGraph();
  AddFill(graph, 1, 64);
  const std::string path = ::testing::TempDir() + "contract_graph.dot";
  ASSERT_CU_OK(cu.GraphDebugDotPrint(graph, path.c_str(), 0));
  std::ifstream file(path);
  std::string first;
  file >> first;
  EXPECT_EQ(first, "digraph");
  std::remove(path.c_str());
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.GraphDebugDotPrint(graph, nullptr, 0));
  EXPECT_CU(CUDA_ERROR_OPERATING_SYSTEM,
            cu.GraphDebugDotPrint(graph, "/nonexistent/x", 0));
}

}  // namespace
}  // namespace permafrost::contract
