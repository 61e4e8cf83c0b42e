// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Edges with data: programmatic launches in captures, and who may not see them.
#include "runtime_fixture.h"

namespace softcuda {
namespace {

constexpr char kEdgesPtx[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry k_nothing() { ret; }
)";

class GraphEdgesTest : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    ASSERT_OK(cuModuleLoadData(&module_, kEdgesPtx));
    ASSERT_OK(cuModuleGetFunction(&function_, module_, "k_nothing"));
    ASSERT_OK(cuMemAlloc(&memory_, 64));
  }
  void TearDown() override {
    if (graph_ != nullptr) {
      EXPECT_OK(cuGraphDestroy(graph_));
    }
    EXPECT_OK(cuMemFree(memory_));
    EXPECT_OK(cuModuleUnload(module_));
    RuntimeTest::TearDown();
  }

  // A launch that may start before the one before it ends.
  CUresult LaunchEarly() {
    CUlaunchAttribute attribute = {};
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.programmaticStreamSerializationAllowed = 1;
    CUlaunchConfig config = {};
    config.gridDimX = config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = config.blockDimY = config.blockDimZ = 1;
    config.hStream = stream_;
    config.attrs = &attribute;
    config.numAttrs = 1;
    return cuLaunchKernelEx(&config, function_, nullptr, nullptr);
  }
  CUresult Launch() {
    return cuLaunchKernel(function_, 1, 1, 1, 1, 1, 1, 0, stream_, nullptr,
                          nullptr);
  }
  // The data of the one edge of the captured graph.
  CUgraphEdgeData Edge() {
    CUgraphNode from = nullptr;
    CUgraphNode to = nullptr;
    CUgraphEdgeData data = {};
    size_t count = 1;
    EXPECT_OK(cuGraphGetEdges(graph_, &from, &to, &data, &count));
    EXPECT_EQ(count, 1u);
    return data;
  }

  CUmodule module_ = nullptr;
  CUfunction function_ = nullptr;
  CUdeviceptr memory_ = 0;
  CUgraph graph_ = nullptr;
};

TEST_F(GraphEdgesTest, ProgrammaticLaunchBehindAKernelHasAProgrammaticEdge) {
  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_OK(Launch());
  EXPECT_OK(LaunchEarly());
  ASSERT_OK(cuStreamEndCapture(stream_, &graph_));
  const CUgraphEdgeData data = Edge();
  EXPECT_EQ(data.type, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC);
  EXPECT_EQ(data.from_port, CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC);
}

TEST_F(GraphEdgesTest, QueriesWithoutEdgeDataWouldLoseIt) {
  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_OK(Launch());
  EXPECT_OK(LaunchEarly());
  ASSERT_OK(cuStreamEndCapture(stream_, &graph_));
  CUgraphNode from = nullptr;
  CUgraphNode to = nullptr;
  size_t count = 1;
  EXPECT_CU(CUDA_ERROR_LOSSY_QUERY,
            cuGraphGetEdges(graph_, &from, &to, nullptr, &count));
  CUgraphNode nodes[2] = {};
  count = 2;
  EXPECT_OK(cuGraphGetNodes(graph_, nodes, &count));
  count = 1;
  EXPECT_CU(CUDA_ERROR_LOSSY_QUERY,
            cuGraphNodeGetDependencies(nodes[1], &from, nullptr, &count));
  EXPECT_CU(CUDA_ERROR_LOSSY_QUERY,
            cuGraphNodeGetDependentNodes(nodes[0], &to, nullptr, &count));
}

TEST_F(GraphEdgesTest, OnlyKernelsCanBeOvertaken) {
  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_OK(cuMemsetD32Async(memory_, 0, 1, stream_));
  EXPECT_OK(LaunchEarly());
  ASSERT_OK(cuStreamEndCapture(stream_, &graph_));
  EXPECT_EQ(Edge().type, CU_GRAPH_DEPENDENCY_TYPE_DEFAULT);
}

TEST_F(GraphEdgesTest, UpdateSeesAChangedEdge) {
  CUgraph plain = nullptr;
  CUgraphExec exec = nullptr;
  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_OK(Launch());
  EXPECT_OK(Launch());
  ASSERT_OK(cuStreamEndCapture(stream_, &plain));
  ASSERT_OK(cuGraphInstantiate(&exec, plain, 0));
  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_OK(Launch());
  EXPECT_OK(LaunchEarly());
  ASSERT_OK(cuStreamEndCapture(stream_, &graph_));
  CUgraphExecUpdateResultInfo info = {};
  EXPECT_CU(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
            cuGraphExecUpdate(exec, graph_, &info));
  EXPECT_EQ(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  EXPECT_NE(info.errorFromNode, nullptr);
  EXPECT_OK(cuGraphExecDestroy(exec));
  EXPECT_OK(cuGraphDestroy(plain));
}

}  // namespace
}  // namespace softcuda
