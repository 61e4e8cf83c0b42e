// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Beginning, asking about and ending captures: assertions 67 to 83.
#include <cstring>

#include "contract_api.h"

namespace permafrost::contract {
namespace {

using CaptureContract = ContractTest;

struct CaptureInfo {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t id = 0;
  CUgraph graph = nullptr;
  const CUgraphNode* nodes = nullptr;
  const CUgraphEdgeData* edges = nullptr;
  size_t count = 0;
};

CUresult GetInfo(const Api& cu, CUstream stream, CaptureInfo* info) {
  return cu.StreamGetCaptureInfo(stream, &info->status, &info->id, &info->graph,
                                 &info->nodes, &info->edges, &info->count);
}

TEST_F(CaptureContract, A067_LegacyStreamCannotCapture) {
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, Begin(nullptr));
}

TEST_F(CaptureContract, A068_UnknownModeIsRefused) {
  const CUstream stream = NewStream(kNonBlocking);
  const int unknown = 7;
  CUstreamCaptureMode mode = kGlobal;
  std::memcpy(&mode, &unknown, sizeof(mode));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, Begin(stream, mode));
}

TEST_F(CaptureContract, A069_BeginTwiceKeepsTheFirst) {
  const CUstream stream = NewStream(kNonBlocking);
  ASSERT_CU_OK(Begin(stream));
  EXPECT_CU(CUDA_ERROR_ILLEGAL_STATE, cu.StreamBeginCapture(stream, kGlobal));
  CUgraph graph = nullptr;
  EXPECT_CU_OK(End(stream, &graph));
  EXPECT_NE(graph, nullptr);
}

TEST_F(CaptureContract, A070_BeginOnAJoinedStreamIsRefused) {
  const CUstream origin = NewStream(kNonBlocking);
  const CUstream fork = NewStream(kNonBlocking);
  const CUevent event = NewEvent();
  ASSERT_CU_OK(Begin(origin));
  ASSERT_CU_OK(cu.EventRecord(event, origin));
  ASSERT_CU_OK(cu.StreamWaitEvent(fork, event, 0));
  EXPECT_CU(CUDA_ERROR_ILLEGAL_STATE, cu.StreamBeginCapture(fork, kGlobal));
  CUgraph graph = nullptr;
  EXPECT_CU_OK(End(origin, &graph));
}

TEST_F(CaptureContract, A071_EndWithoutBegin) {
  CUgraph graph = nullptr;
  EXPECT_CU(CUDA_ERROR_ILLEGAL_STATE,
            cu.StreamEndCapture(NewStream(kNonBlocking), &graph));
  EXPECT_CU(CUDA_ERROR_ILLEGAL_STATE, cu.StreamEndCapture(nullptr, &graph));
}

TEST_F(CaptureContract, A072_StatusAroundACapture) {
  const CUstream stream = NewStream(kNonBlocking);
  EXPECT_EQ(StatusOf(stream), CU_STREAM_CAPTURE_STATUS_NONE);
  ASSERT_CU_OK(Begin(stream));
  EXPECT_EQ(StatusOf(stream), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CUgraph graph = nullptr;
  ASSERT_CU_OK(End(stream, &graph));
  EXPECT_EQ(StatusOf(stream), CU_STREAM_CAPTURE_STATUS_NONE);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.StreamIsCapturing(stream, nullptr));
}

TEST_F(CaptureContract, A073_CapturedWorkDoesNotRun) {
  const CUstream stream = NewStream(kNonBlocking);
  const CUdeviceptr words = NewWords(64);
  ASSERT_CU_OK(Begin(stream));
  ASSERT_CU_OK(LaunchFill(stream, words, 6, 64));
  CUgraph graph = nullptr;
  ASSERT_CU_OK(End(stream, &graph));
  EXPECT_EQ(Read(words, 64), std::vector<uint32_t>(64, 0));
  ASSERT_CU_OK(cu.GraphLaunch(Instantiate(graph), stream));
  EXPECT_EQ(Read(words, 64), std::vector<uint32_t>(64, 6));
}

TEST_F(CaptureContract, A074_EmptyCaptureIsAnEmptyGraph) {
  const CUstream stream = NewStream(kNonBlocking);
  ASSERT_CU_OK(Begin(stream));
  CUgraph graph = nullptr;
  ASSERT_CU_OK(End(stream, &graph));
  EXPECT_EQ(Nodes(graph).size(), 0u);
  EXPECT_CU_OK(cu.GraphLaunch(Instantiate(graph), stream));
  EXPECT_CU_OK(cu.StreamSynchronize(stream));
}

TEST_F(CaptureContract, A075_OneStreamMakesAChain) {
  const CUstream stream = NewStream(kNonBlocking);
  const CUdeviceptr words = NewWords(64);
  ASSERT_CU_OK(Begin(stream));
  for (uint32_t i = 0; i < 3; ++i) {
    ASSERT_CU_OK(LaunchAdd(stream, words, i, 64));
  }
  CUgraph graph = nullptr;
  ASSERT_CU_OK(End(stream, &graph));
  const std::vector<CUgraphNode> nodes = Nodes(graph);
  ASSERT_EQ(nodes.size(), 3u);
  for (CUgraphNode node : nodes) {
    EXPECT_EQ(TypeOf(node), CU_GRAPH_NODE_TYPE_KERNEL);
  }
  EXPECT_EQ(EdgeCount(graph), 2u);
  EXPECT_TRUE(HasEdge(graph, nodes[0], nodes[1]));
  EXPECT_TRUE(HasEdge(graph, nodes[1], nodes[2]));
}

TEST_F(CaptureContract, A076_CaptureIds) {
  const CUstream origin = NewStream(kNonBlocking);
  const CUstream fork = NewStream(kNonBlocking);
  const CUevent event = NewEvent();
  cuuint64_t ids[2] = {};
  for (cuuint64_t& id : ids) {
    ASSERT_CU_OK(Begin(origin));
    ASSERT_CU_OK(cu.EventRecord(event, origin));
    ASSERT_CU_OK(cu.StreamWaitEvent(fork, event, 0));
    CaptureInfo at_origin;
    CaptureInfo at_fork;
    EXPECT_CU_OK(GetInfo(cu, origin, &at_origin));
    EXPECT_CU_OK(GetInfo(cu, fork, &at_fork));
    EXPECT_EQ(at_origin.id, at_fork.id);
    id = at_origin.id;
    CUgraph graph = nullptr;
    ASSERT_CU_OK(End(origin, &graph));
  }
  EXPECT_NE(ids[0], ids[1]);
}

TEST_F(CaptureContract, A077_InfoOfAStreamThatDoesNotCapture) {
  CaptureInfo info;
  info.status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  EXPECT_CU_OK(GetInfo(cu, NewStream(kNonBlocking), &info));
  EXPECT_EQ(info.status, CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST_F(CaptureContract, A078_DependenciesAreTheLastNode) {
  const CUstream stream = NewStream(kNonBlocking);
  const CUdeviceptr words = NewWords(64);
  ASSERT_CU_OK(Begin(stream));
  ASSERT_CU_OK(LaunchFill(stream, words, 1, 64));
  ASSERT_CU_OK(LaunchAdd(stream, words, 1, 64));
  CaptureInfo info;
  ASSERT_CU_OK(GetInfo(cu, stream, &info));
  ASSERT_EQ(info.count, 1u);
  const CUgraphNode last = info.nodes[0];
  CUgraph graph = nullptr;
  ASSERT_CU_OK(End(stream, &graph));
  EXPECT_EQ(Nodes(graph).back(), last);
}

TEST_F(CaptureContract, A079_UpdateOutsideACaptureIsRefused) {
  EXPECT_CU(CUDA_ERROR_ILLEGAL_STATE,
            cu.StreamUpdateCaptureDependencies(NewStream(kNonBlocking), nullptr,
                                               nullptr, 0, 1));
}

TEST_F(CaptureContract, A080_ClearedDependenciesMakeARoot) {
  const CUstream stream = NewStream(kNonBlocking);
  const CUdeviceptr words = NewWords(64);
  ASSERT_CU_OK(Begin(stream));
  ASSERT_CU_OK(LaunchFill(stream, words, 1, 64));
  ASSERT_CU_OK(cu.StreamUpdateCaptureDependencies(
      stream, nullptr, nullptr, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
  ASSERT_CU_OK(LaunchAdd(stream, words, 1, 64));
  CUgraph graph = nullptr;
  EXPECT_CU_OK(End(stream, &graph));
  EXPECT_EQ(Nodes(graph).size(), 2u);
  EXPECT_EQ(EdgeCount(graph), 0u);
}

TEST_F(CaptureContract, A081_NodeAddedByHandBecomesTheDependency) {
  const CUstream stream = NewStream(kNonBlocking);
  const CUdeviceptr words = NewWords(64);
  ASSERT_CU_OK(Begin(stream));
  CaptureInfo info;
  ASSERT_CU_OK(GetInfo(cu, stream, &info));
  CUgraphNodeParams params = {};
  params.type = CU_GRAPH_NODE_TYPE_EMPTY;
  CUgraphNode empty = nullptr;
  ASSERT_CU_OK(
      cu.GraphAddNode(&empty, info.graph, nullptr, nullptr, 0, &params));
  ASSERT_CU_OK(cu.StreamUpdateCaptureDependencies(
      stream, &empty, nullptr, 1, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
  ASSERT_CU_OK(LaunchFill(stream, words, 1, 64));
  CUgraph graph = nullptr;
  ASSERT_CU_OK(End(stream, &graph));
  EXPECT_TRUE(HasEdge(graph, empty, Nodes(graph).back()));
}

TEST_F(CaptureContract, A082_CaptureIntoAGraphOfTheCaller) {
  const CUstream stream = NewStream(kNonBlocking);
  const CUdeviceptr words = NewWords(64);
  CUgraph graph = nullptr;
  ASSERT_CU_OK(cu.GraphCreate(&graph, 0));
  CUgraphNode first = nullptr;
  ASSERT_CU_OK(cu.GraphAddEmptyNode(&first, graph, nullptr, 0));
  ASSERT_CU_OK(
      cu.StreamBeginCaptureToGraph(stream, graph, &first, nullptr, 1, kGlobal));
  ASSERT_CU_OK(LaunchFill(stream, words, 2, 64));
  CUgraph ended = nullptr;
  ASSERT_CU_OK(End(stream, &ended));
  EXPECT_EQ(ended, graph);
  const std::vector<CUgraphNode> nodes = Nodes(graph);
  ASSERT_EQ(nodes.size(), 2u);
  EXPECT_TRUE(HasEdge(graph, first, nodes[1]));
}

TEST_F(CaptureContract, A083_CaptureIntoNothingIsRefused) {
  const CUstream stream = NewStream(kNonBlocking);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cu.StreamBeginCaptureToGraph(stream, nullptr, nullptr, nullptr, 0,
                                         kGlobal));
  CUgraph graph = nullptr;
  ASSERT_CU_OK(cu.GraphCreate(&graph, 0));
  Keep(graph);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cu.StreamBeginCaptureToGraph(stream, graph, nullptr, nullptr, 1,
                                         kGlobal));
}

}  // namespace
}  // namespace permafrost::contract
