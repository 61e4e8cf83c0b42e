// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Allocation and free nodes beyond the contract.
#include "runtime_fixture.h"

namespace softcuda {
namespace {

class GraphMemoryTest : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    EXPECT_OK(cuDeviceGraphMemTrim(0));
    cuuint64_t zero = 0;
    EXPECT_OK(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH,
                                           &zero));
    bytes_before_ = softcuda_live_bytes();
    ASSERT_OK(cuGraphCreate(&graph_, 0));
  }
  void TearDown() override {
    softcuda_set_device_memory(size_t{80} << 30);
    EXPECT_OK(cuStreamSynchronize(stream_));
    if (exec_ != nullptr) {
      EXPECT_OK(cuGraphExecDestroy(exec_));
    }
    EXPECT_OK(cuGraphDestroy(graph_));
    EXPECT_EQ(softcuda_live_bytes(), bytes_before_) << "leaked device memory";
    RuntimeTest::TearDown();
  }

  static CUDA_MEM_ALLOC_NODE_PARAMS Params(size_t bytes) {
    CUDA_MEM_ALLOC_NODE_PARAMS params = {};
    params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    params.bytesize = bytes;
    return params;
  }
  CUdeviceptr AddAllocation(size_t bytes, CUgraphNode* node) {
    CUDA_MEM_ALLOC_NODE_PARAMS params = Params(bytes);
    EXPECT_OK(cuGraphAddMemAllocNode(node, graph_, nullptr, 0, &params));
    return params.dptr;
  }
  void Instantiate(unsigned long long flags = 0) {
    ASSERT_OK(cuGraphInstantiateWithFlags(&exec_, graph_, flags));
  }
  static cuuint64_t Attribute(CUgraphMem_attribute attribute) {
    cuuint64_t value = 0;
    EXPECT_OK(cuDeviceGetGraphMemAttribute(0, attribute, &value));
    return value;
  }

  CUgraph graph_ = nullptr;
  CUgraphExec exec_ = nullptr;
  int64_t bytes_before_ = 0;
};

TEST_F(GraphMemoryTest, MemoryIsReservedByTheLaunchAndKeptUntilTrimmed) {
  CUgraphNode alloc = nullptr;
  CUgraphNode free = nullptr;
  const CUdeviceptr memory = AddAllocation(kMiB, &alloc);
  EXPECT_OK(cuGraphAddMemFreeNode(&free, graph_, &alloc, 1, memory));
  Instantiate();
  EXPECT_EQ(softcuda_live_bytes(), bytes_before_) << "an address, no memory";
  EXPECT_OK(cuGraphLaunch(exec_, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(Attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), kMiB);
  EXPECT_EQ(Attribute(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0u);
  EXPECT_EQ(Attribute(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH), kMiB);
  EXPECT_EQ(softcuda_live_bytes(), bytes_before_ + static_cast<int64_t>(kMiB));
  EXPECT_OK(cuDeviceGraphMemTrim(0));
  EXPECT_EQ(Attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 0u);
  cuuint64_t zero = 0;
  EXPECT_OK(
      cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &zero));
  EXPECT_EQ(Attribute(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH), 0u);
  zero = 1;
  EXPECT_CU(
      CUDA_ERROR_INVALID_VALUE,
      cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &zero));
}

TEST_F(GraphMemoryTest, LaunchThatDoesNotFitIsRefusedAndRunsNothing) {
  CUgraphNode alloc = nullptr;
  CUgraphNode free = nullptr;
  const CUdeviceptr memory = AddAllocation(2 * kMiB, &alloc);
  EXPECT_OK(cuGraphAddMemFreeNode(&free, graph_, &alloc, 1, memory));
  Instantiate();
  softcuda_set_device_memory(static_cast<size_t>(bytes_before_) + kMiB);
  EXPECT_CU(CUDA_ERROR_OUT_OF_MEMORY, cuGraphLaunch(exec_, stream_));
  softcuda_set_device_memory(static_cast<size_t>(bytes_before_) + 2 * kMiB);
  EXPECT_OK(cuGraphLaunch(exec_, stream_));
}

TEST_F(GraphMemoryTest, AllocationOutlivesItsGraphUntilFreed) {
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUgraphNode alloc = nullptr;
  CUDA_MEM_ALLOC_NODE_PARAMS params = Params(4096);
  ASSERT_OK(cuGraphCreate(&graph, 0));
  ASSERT_OK(cuGraphAddMemAllocNode(&alloc, graph, nullptr, 0, &params));
  ASSERT_OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
  EXPECT_OK(cuGraphLaunch(exec, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_OK(cuGraphExecDestroy(exec));
  EXPECT_OK(cuGraphDestroy(graph));
  EXPECT_EQ(softcuda_live_handles(), handles_before_ + 3)
      << "the stream, the test's graph, the allocation";
  EXPECT_OK(cuMemsetD8Async(params.dptr, 1, 4096, stream_));
  EXPECT_OK(cuMemFreeAsync(params.dptr, stream_));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemFree(params.dptr));
}

TEST_F(GraphMemoryTest, AnotherGraphMayFree) {
  CUgraphNode alloc = nullptr;
  CUgraphNode free = nullptr;
  const CUdeviceptr memory = AddAllocation(4096, &alloc);
  Instantiate();
  CUgraph other = nullptr;
  CUgraphExec freeing = nullptr;
  ASSERT_OK(cuGraphCreate(&other, 0));
  ASSERT_OK(cuGraphAddMemFreeNode(&free, other, nullptr, 0, memory));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuGraphAddMemFreeNode(&free, graph_, &alloc, 1, memory))
      << "freed elsewhere already";
  ASSERT_OK(cuGraphInstantiateWithFlags(&freeing, other, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(freeing, stream_))
      << "nothing is allocated";
  EXPECT_OK(cuGraphLaunch(exec_, stream_));
  EXPECT_OK(cuGraphLaunch(freeing, stream_));
  EXPECT_OK(cuGraphLaunch(exec_, stream_));
  EXPECT_OK(cuGraphLaunch(freeing, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_OK(cuGraphExecDestroy(freeing));
  EXPECT_OK(cuGraphDestroy(other));
}

TEST_F(GraphMemoryTest, WhatCannotBeFreed) {
  CUgraphNode alloc = nullptr;
  CUgraphNode free = nullptr;
  const CUdeviceptr memory = AddAllocation(4096, &alloc);
  EXPECT_OK(cuGraphAddMemFreeNode(&free, graph_, &alloc, 1, memory));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuGraphAddMemFreeNode(&free, graph_, &alloc, 1, memory));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuGraphAddMemFreeNode(&free, graph_, nullptr, 0, 8));
  CUdeviceptr plain = 0;
  EXPECT_OK(cuMemAlloc(&plain, 64));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuGraphAddMemFreeNode(&free, graph_, nullptr, 0, plain));
  EXPECT_OK(cuMemFree(plain));
  EXPECT_CU(CUDA_ERROR_NOT_SUPPORTED, cuGraphDestroyNode(free));
}

TEST_F(GraphMemoryTest, BadParametersAreRefused) {
  CUgraphNode node = nullptr;
  CUDA_MEM_ALLOC_NODE_PARAMS params = Params(0);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuGraphAddMemAllocNode(&node, graph_, nullptr, 0, &params));
  params = Params(64);
  params.poolProps.location.id = 5;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuGraphAddMemAllocNode(&node, graph_, nullptr, 0, &params));
  params = Params(64);
  params.accessDescCount = 1;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuGraphAddMemAllocNode(&node, graph_, nullptr, 0, &params));
  params = Params(size_t{1} << 60);
  EXPECT_CU(CUDA_ERROR_OUT_OF_MEMORY,
            cuGraphAddMemAllocNode(&node, graph_, nullptr, 0, &params));
}

// A graph with memory nodes becomes a child only by giving itself up.
TEST_F(GraphMemoryTest, ChildTakesMemoryNodesByMove) {
  CUgraph child = nullptr;
  CUgraphNode alloc = nullptr;
  CUgraphNode free = nullptr;
  CUgraphNode node = nullptr;
  ASSERT_OK(cuGraphCreate(&child, 0));
  CUDA_MEM_ALLOC_NODE_PARAMS params = Params(4096);
  ASSERT_OK(cuGraphAddMemAllocNode(&alloc, child, nullptr, 0, &params));
  ASSERT_OK(cuGraphAddMemFreeNode(&free, child, &alloc, 1, params.dptr));
  EXPECT_CU(CUDA_ERROR_NOT_SUPPORTED,
            cuGraphAddChildGraphNode(&node, graph_, nullptr, 0, child));
  CUgraphNodeParams any = {};
  any.type = CU_GRAPH_NODE_TYPE_GRAPH;
  any.graph.graph = child;
  any.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
  EXPECT_OK(cuGraphAddNode(&node, graph_, nullptr, nullptr, 0, &any));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(child));
  EXPECT_NE(TakeReports().find("belongs to"), std::string::npos);
  Instantiate();
  EXPECT_OK(cuGraphLaunch(exec_, stream_));
}

}  // namespace
}  // namespace softcuda
