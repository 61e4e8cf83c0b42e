// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Captures over several streams: assertions 84 to 92.
#include "contract_api.h"

namespace permafrost::contract {
namespace {

class ForkJoinContract : public ContractTest {
 protected:
  void SetUp() override {
    ContractTest::SetUp();
    origin_ = NewStream(kNonBlocking);
    fork_ = NewStream(kNonBlocking);
    forked_ = NewEvent();
    joined_ = NewEvent();
    words_ = NewWords(64);
  }

  void Fork() {
    ASSERT_CU_OK(cu.EventRecord(forked_, origin_));
    ASSERT_CU_OK(cu.StreamWaitEvent(fork_, forked_, 0));
  }
  void Join() {
    ASSERT_CU_OK(cu.EventRecord(joined_, fork_));
    ASSERT_CU_OK(cu.StreamWaitEvent(origin_, joined_, 0));
  }
  void Work(CUstream stream) { ASSERT_CU_OK(LaunchAdd(stream, words_, 1, 64)); }
  void ExpectCaptureWorksAgain(CUstream stream) {
    ASSERT_CU_OK(Begin(stream));
    Work(stream);
    CUgraph graph = nullptr;
    ASSERT_CU_OK(End(stream, &graph));
    EXPECT_EQ(Nodes(graph).size(), 1u);
  }

  CUstream origin_ = nullptr;
  CUstream fork_ = nullptr;
  CUevent forked_ = nullptr;
  CUevent joined_ = nullptr;
  CUdeviceptr words_ = 0;
};

TEST_F(ForkJoinContract, A084_ForkAndJoinMakeADiamond) {
  ASSERT_CU_OK(Begin(origin_));
  Work(origin_);
  Fork();
  Work(origin_);
  Work(fork_);
  Join();
  Work(origin_);
  CUgraph graph = nullptr;
  ASSERT_CU_OK(End(origin_, &graph));
  const std::vector<CUgraphNode> nodes = Nodes(graph);
  ASSERT_EQ(nodes.size(), 4u);
  EXPECT_EQ(EdgeCount(graph), 4u);
  EXPECT_TRUE(HasEdge(graph, nodes[0], nodes[1]));
  EXPECT_TRUE(HasEdge(graph, nodes[0], nodes[2]));
  EXPECT_TRUE(HasEdge(graph, nodes[1], nodes[3]));
  EXPECT_TRUE(HasEdge(graph, nodes[2], nodes[3]));
}

TEST_F(ForkJoinContract, A085_JoinedStreamCapturesUntilTheEnd) {
  ASSERT_CU_OK(Begin(origin_));
  Fork();
  EXPECT_EQ(StatusOf(fork_), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CUgraph graph = nullptr;
  ASSERT_CU_OK(End(origin_, &graph));
  EXPECT_EQ(StatusOf(fork_), CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST_F(ForkJoinContract, A086_UnjoinedWorkEndsTheCapture) {
  ASSERT_CU_OK(Begin(origin_));
  Fork();
  Work(fork_);
  CUgraph graph = nullptr;
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, End(origin_, &graph));
  EXPECT_EQ(graph, nullptr);
  EXPECT_EQ(StatusOf(origin_), CU_STREAM_CAPTURE_STATUS_NONE);
  EXPECT_EQ(StatusOf(fork_), CU_STREAM_CAPTURE_STATUS_NONE);
  ExpectCaptureWorksAgain(origin_);
  ExpectCaptureWorksAgain(fork_);
}

TEST_F(ForkJoinContract, A087_WorkAfterTheJoinIsUnjoined) {
  ASSERT_CU_OK(Begin(origin_));
  Fork();
  Work(fork_);
  Join();
  Work(fork_);
  CUgraph graph = nullptr;
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, End(origin_, &graph));
}

TEST_F(ForkJoinContract, A088_EndOnAForkedStreamIsUnmatched) {
  ASSERT_CU_OK(Begin(origin_));
  Fork();
  CUgraph graph = nullptr;
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
            cu.StreamEndCapture(fork_, &graph));
}

TEST_F(ForkJoinContract, A089_WaitOnEventRecordedBeforeCaptureIs905) {
  ASSERT_CU_OK(cu.EventRecord(forked_, fork_));
  ASSERT_CU_OK(Begin(origin_));
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
            cu.StreamWaitEvent(origin_, forked_, 0));
  EXPECT_EQ(StatusOf(origin_), CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  CUgraph graph = nullptr;
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, End(origin_, &graph));
  EXPECT_EQ(graph, nullptr);
}

TEST_F(ForkJoinContract, A090_CapturesDoNotMerge) {
  ASSERT_CU_OK(Begin(origin_));
  ASSERT_CU_OK(Begin(fork_));
  Work(fork_);
  ASSERT_CU_OK(cu.EventRecord(forked_, fork_));
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_MERGE,
            cu.StreamWaitEvent(origin_, forked_, 0));
  CUgraph graph = nullptr;
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, End(origin_, &graph));
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, End(fork_, &graph));
}

TEST_F(ForkJoinContract, A091_ExternalEventsBecomeNodes) {
  ASSERT_CU_OK(Begin(origin_));
  ASSERT_CU_OK(
      cu.EventRecordWithFlags(forked_, origin_, CU_EVENT_RECORD_EXTERNAL));
  ASSERT_CU_OK(cu.StreamWaitEvent(origin_, joined_, CU_EVENT_WAIT_EXTERNAL));
  CUgraph graph = nullptr;
  ASSERT_CU_OK(End(origin_, &graph));
  const std::vector<CUgraphNode> nodes = Nodes(graph);
  ASSERT_EQ(nodes.size(), 2u);
  ASSERT_EQ(TypeOf(nodes[0]), CU_GRAPH_NODE_TYPE_EVENT_RECORD);
  ASSERT_EQ(TypeOf(nodes[1]), CU_GRAPH_NODE_TYPE_WAIT_EVENT);
  CUevent event = nullptr;
  EXPECT_CU_OK(cu.GraphEventRecordNodeGetEvent(nodes[0], &event));
  EXPECT_EQ(event, forked_);
  EXPECT_CU_OK(cu.GraphEventWaitNodeGetEvent(nodes[1], &event));
  EXPECT_EQ(event, joined_);
}

TEST_F(ForkJoinContract, A092_EndFromAnotherThread) {
  for (const CUstreamCaptureMode mode : kAllModes) {
    const CUstream stream = NewStream(kNonBlocking);
    ASSERT_CU_OK(Begin(stream, mode));
    if (mode == kRelaxed) {
      OnOtherThread(context, [&] {
        CUgraph graph = nullptr;
        EXPECT_CU_OK(End(stream, &graph));
        EXPECT_NE(graph, nullptr);
      });
    } else {
      OnOtherThread(context, [&] {
        CUgraph graph = nullptr;
        EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
                  cu.StreamEndCapture(stream, &graph));
      });
      // Whether the capture survives is not known: it only has to end.
      CUgraph graph = nullptr;
      EXPECT_CU_ANY(End(stream, &graph), 0, 901);
    }
  }
}

}  // namespace
}  // namespace permafrost::contract
