// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Event nodes order a graph against streams outside it; nested child graphs and
// annotated edges.
#include <atomic>

#include "runtime_fixture.h"

namespace softcuda {
namespace {

struct Gate {
  std::atomic<bool> open{false};
};
void WaitForGate(void* data) {
  while (!static_cast<Gate*>(data)->open) {
  }
}
void Increment(void* data) { ++*static_cast<std::atomic<int>*>(data); }

class GraphEventsTest : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    ASSERT_OK(cuEventCreate(&event_, 0));
    ASSERT_OK(cuGraphCreate(&graph_, 0));
    ASSERT_OK(cuStreamCreate(&other_, CU_STREAM_NON_BLOCKING));
  }
  void TearDown() override {
    if (exec_ != nullptr) {
      EXPECT_OK(cuGraphExecDestroy(exec_));
    }
    EXPECT_OK(cuGraphDestroy(graph_));
    EXPECT_OK(cuEventDestroy(event_));
    EXPECT_OK(cuStreamDestroy(other_));
    RuntimeTest::TearDown();
  }
  void Instantiate() { ASSERT_OK(cuGraphInstantiate(&exec_, graph_, 0)); }

  CUevent event_ = nullptr;
  CUgraph graph_ = nullptr;
  CUgraphExec exec_ = nullptr;
  CUstream other_ = nullptr;
};

TEST_F(GraphEventsTest, RecordNodeReleasesAWaitThatCameAfterTheLaunch) {
  Gate before_record;
  Gate after_record;
  const CUgraphNode first = AddHostNode(graph_, WaitForGate, &before_record);
  CUgraphNode record = nullptr;
  ASSERT_OK(cuGraphAddEventRecordNode(&record, graph_, &first, 1, event_));
  AddHostNode(graph_, WaitForGate, &after_record, {record});
  Instantiate();
  ASSERT_OK(cuGraphLaunch(exec_, stream_));
  EXPECT_CU(CUDA_ERROR_NOT_READY, cuEventQuery(event_));
  ASSERT_OK(cuStreamWaitEvent(other_, event_, 0));
  before_record.open = true;
  // The second stream goes on although the graph is still running.
  EXPECT_OK(cuStreamSynchronize(other_));
  EXPECT_OK(cuEventQuery(event_));
  EXPECT_CU(CUDA_ERROR_NOT_READY, cuStreamQuery(stream_));
  after_record.open = true;
  EXPECT_OK(cuStreamSynchronize(stream_));
}

TEST_F(GraphEventsTest, WaitNodeHoldsForWorkRecordedBeforeTheLaunch) {
  Gate gate;
  std::atomic<int> count{0};
  CUgraphNode wait = nullptr;
  ASSERT_OK(cuGraphAddEventWaitNode(&wait, graph_, nullptr, 0, event_));
  AddHostNode(graph_, Increment, &count, {wait});
  Instantiate();
  ASSERT_OK(cuLaunchHostFunc(other_, WaitForGate, &gate));
  ASSERT_OK(cuEventRecord(event_, other_));
  ASSERT_OK(cuGraphLaunch(exec_, stream_));
  EXPECT_CU(CUDA_ERROR_NOT_READY, cuStreamQuery(stream_));
  EXPECT_EQ(count, 0);
  gate.open = true;
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(count, 1);
  // The event is complete now: the next launch does not wait.
  ASSERT_OK(cuGraphLaunch(exec_, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(count, 2);
}

TEST_F(GraphEventsTest, ChildGraphsNestAndMayBeEmpty) {
  std::atomic<int> count{0};
  CUgraph inner = nullptr;
  CUgraph outer = nullptr;
  CUgraph empty = nullptr;
  ASSERT_OK(cuGraphCreate(&inner, 0));
  ASSERT_OK(cuGraphCreate(&outer, 0));
  ASSERT_OK(cuGraphCreate(&empty, 0));
  AddHostNode(inner, Increment, &count);
  AddHostNode(inner, Increment, &count);
  CUgraphNode node = nullptr;
  ASSERT_OK(cuGraphAddChildGraphNode(&node, outer, nullptr, 0, inner));
  AddHostNode(outer, Increment, &count, {node});
  CUgraphNode outer_node = nullptr;
  CUgraphNode empty_node = nullptr;
  ASSERT_OK(cuGraphAddChildGraphNode(&outer_node, graph_, nullptr, 0, outer));
  ASSERT_OK(
      cuGraphAddChildGraphNode(&empty_node, graph_, &outer_node, 1, empty));
  AddHostNode(graph_, Increment, &count, {empty_node});
  EXPECT_OK(cuGraphDestroy(inner));
  EXPECT_OK(cuGraphDestroy(outer));
  EXPECT_OK(cuGraphDestroy(empty));
  Instantiate();
  ASSERT_OK(cuGraphLaunch(exec_, stream_));
  ASSERT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(count, 4);
  CUgraph embedded = nullptr;
  ASSERT_OK(cuGraphChildGraphNodeGetGraph(outer_node, &embedded));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(embedded));
  EXPECT_NE(TakeReports().find("cuGraphDestroy"), std::string::npos);
}

TEST_F(GraphEventsTest, DestroyingACapturingStreamEndsTheCapture) {
  CUstream origin = nullptr;
  ASSERT_OK(cuStreamCreate(&origin, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(cuStreamBeginCapture(origin, CU_STREAM_CAPTURE_MODE_GLOBAL));
  ASSERT_OK(cuEventRecord(event_, origin));
  ASSERT_OK(cuStreamWaitEvent(other_, event_, 0));
  EXPECT_OK(cuStreamDestroy(origin));
  EXPECT_NE(TakeReports().find("cuStreamDestroy"), std::string::npos);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  EXPECT_OK(cuStreamIsCapturing(other_, &status));
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
  EXPECT_OK(cuStreamSynchronize(other_));
}

}  // namespace
}  // namespace softcuda
