// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Allocation and free nodes: assertions 143 to 145.
#include "contract_api.h"

namespace permafrost::contract {
namespace {

class GraphMemoryContract : public ContractTest {
 protected:
  void SetUp() override {
    ContractTest::SetUp();
    stream_ = NewStream(kNonBlocking);
  }

  // An allocation, a kernel that fills it, and a free node or not.
  CUgraph CaptureAllocation(bool with_free, CUdeviceptr* memory) {
    CUgraph graph = nullptr;
    EXPECT_CU_OK(Begin(stream_));
    EXPECT_CU_OK(cu.MemAllocAsync(memory, 256, stream_));
    EXPECT_CU_OK(LaunchFill(stream_, *memory, 9, 64));
    if (with_free) {
      EXPECT_CU_OK(cu.MemFreeAsync(*memory, stream_));
    }
    EXPECT_CU_OK(End(stream_, &graph));
    return graph;
  }

  CUstream stream_ = nullptr;
};

TEST_F(GraphMemoryContract, A143_CapturedAllocationAndFree) {
  CUdeviceptr memory = 0;
  const CUgraph graph = CaptureAllocation(true, &memory);
  const std::vector<CUgraphNode> nodes = Nodes(graph);
  ASSERT_EQ(nodes.size(), 3u);
  ASSERT_EQ(TypeOf(nodes[0]), CU_GRAPH_NODE_TYPE_MEM_ALLOC);
  ASSERT_EQ(TypeOf(nodes[2]), CU_GRAPH_NODE_TYPE_MEM_FREE);
  CUDA_MEM_ALLOC_NODE_PARAMS params = {};
  EXPECT_CU_OK(cu.GraphMemAllocNodeGetParams(nodes[0], &params));
  EXPECT_EQ(params.dptr, memory);
  EXPECT_EQ(params.bytesize, 256u);
  CUdeviceptr freed = 0;
  EXPECT_CU_OK(cu.GraphMemFreeNodeGetParams(nodes[2], &freed));
  EXPECT_EQ(freed, memory);
  const CUgraphExec exec = Instantiate(graph);
  EXPECT_CU_OK(cu.GraphLaunch(exec, stream_));
  EXPECT_CU_OK(cu.GraphLaunch(exec, stream_));
  EXPECT_CU_OK(cu.StreamSynchronize(stream_));
}

TEST_F(GraphMemoryContract, A144_LaunchWithAnUnfreedAllocation) {
  CUdeviceptr memory = 0;
  const CUgraph plain = CaptureAllocation(false, &memory);
  const CUgraphExec exec = Instantiate(plain);
  EXPECT_CU_OK(cu.GraphLaunch(exec, stream_));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.GraphLaunch(exec, stream_));
  std::vector<uint32_t> values(64);
  EXPECT_CU_OK(cu.MemcpyDtoHAsync(values.data(), memory, 256, stream_));
  EXPECT_CU_OK(cu.MemFreeAsync(memory, stream_));
  EXPECT_CU_OK(cu.GraphLaunch(exec, stream_)) << "freed in between";
  EXPECT_CU_OK(cu.MemFreeAsync(memory, stream_));
  EXPECT_CU_OK(cu.StreamSynchronize(stream_));
  EXPECT_EQ(values, std::vector<uint32_t>(64, 9));

  const CUgraph freeing = CaptureAllocation(false, &memory);
  CUgraphExec auto_free = nullptr;
  ASSERT_CU_OK(cu.GraphInstantiateWithFlags(
      &auto_free, freeing, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
  EXPECT_CU_OK(cu.GraphLaunch(auto_free, stream_));
  EXPECT_CU_OK(cu.GraphLaunch(auto_free, stream_));
  EXPECT_CU_OK(cu.MemFreeAsync(memory, stream_));
  EXPECT_CU_OK(cu.StreamSynchronize(stream_));
  EXPECT_CU_OK(cu.GraphExecDestroy(auto_free));
}

TEST_F(GraphMemoryContract, A145_WhatAGraphWithMemoryNodesMayNot) {
  CUdeviceptr memory = 0;
  const CUgraph graph = CaptureAllocation(true, &memory);
  const CUgraphExec exec = Instantiate(graph);
  ASSERT_NE(exec, nullptr);
  CUgraphExec second = nullptr;
  EXPECT_CU_FAILS(cu.GraphInstantiateWithFlags(&second, graph, 0));
  CUgraph clone = nullptr;
  EXPECT_CU_FAILS(cu.GraphClone(&clone, graph));
  const std::vector<CUgraphNode> nodes = Nodes(graph);
  ASSERT_EQ(nodes.size(), 3u);
  EXPECT_CU_FAILS(
      cu.GraphRemoveDependencies(graph, &nodes[0], &nodes[1], nullptr, 1));
}

}  // namespace
}  // namespace permafrost::contract
