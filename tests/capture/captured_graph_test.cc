// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/capture/captured_graph.h"

#include <gtest/gtest.h>

#include <vector>

#include "permafrost/driver/faulting_driver.h"
#include "permafrost/driver/status.h"
#include "tests/capture/capture_fixture.h"

namespace permafrost {
namespace {

using ::permafrost::testing::CaptureTest;
using ::permafrost::testing::MakeCopyStep;
using ::permafrost::testing::MakeScaleStep;
using ::permafrost::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

class CapturedGraphTest : public CaptureTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(CaptureTest::SetUp());
    ASSERT_OK(Prepare(MakeScaleStep(kernels())));
  }

  // The parameters of the n-th node of a graph.
  CUgraphNode Node(const CapturedGraph& graph, size_t n) const {
    size_t count = 16;
    CUgraphNode nodes[16] = {};
    EXPECT_EQ(api().GraphGetNodes(graph.graph(), nodes, &count), CUDA_SUCCESS);
    EXPECT_LT(n, count);
    return nodes[n];
  }
};

TEST_F(CapturedGraphTest, ReplayDoesTheStep) {
  ASSERT_OK_AND_ASSIGN(const GraphSet set, Capture());
  Write(Buffer("input").base, std::vector<float>(64, 1.0f));
  Write(Buffer("output").base, std::vector<float>(64, 0.0f));
  ASSERT_OK_AND_ASSIGN(CapturedGraph * graph, set.Find(4));
  EXPECT_EQ(graph->node_count(), 2);
  EXPECT_EQ(graph->replays(), 0);
  EXPECT_THAT(Read(Buffer("output").base, 64), Each(0.0f));
  ASSERT_OK(graph->Replay());
  EXPECT_THAT(Read(Buffer("output").base, 64), Each(6.0f));
  // New contents of the same buffer are all that changes.
  Write(Buffer("input").base, std::vector<float>(64, 2.0f));
  ASSERT_OK(graph->Replay());
  EXPECT_THAT(Read(Buffer("output").base, 64), Each(12.0f));
  EXPECT_EQ(graph->replays(), 2);
}

TEST_F(CapturedGraphTest, AParameterChangedAfterTheAuditIsNamed) {
  ASSERT_OK_AND_ASSIGN(const GraphSet set, Capture());
  CapturedGraph& graph = set[0];
  int64_t compared = 0;
  ASSERT_OK(graph.VerifyNodes(&compared));
  EXPECT_EQ(compared, 2);

  const CUgraphNode node = Node(graph, 1);
  CUDA_KERNEL_NODE_PARAMS before = {};
  ASSERT_EQ(api().GraphKernelNodeGetParams(node, &before), CUDA_SUCCESS);
  CUdeviceptr dst = Buffer("state").base.value();
  CUdeviceptr src = Buffer("scratch").base.value();
  int32_t count = 32;
  float factor = 3.0f;
  void* params[] = {&dst, &src, &count, &factor};
  CUDA_KERNEL_NODE_PARAMS after = before;
  after.kernelParams = params;
  ASSERT_EQ(api().GraphKernelNodeSetParams(node, &after), CUDA_SUCCESS);
  EXPECT_THAT(graph.VerifyNodes(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("graph of 2 rows on lane 'decode'"),
                             HasSubstr("node 1 (k_scale): address 'dst'"),
                             HasSubstr(Buffer("output").base.ToString()),
                             HasSubstr(Buffer("state").base.ToString()))));

  // Put back, it verifies again; then a scalar, then the launch shape.
  dst = Buffer("output").base.value();
  ASSERT_EQ(api().GraphKernelNodeSetParams(node, &after), CUDA_SUCCESS);
  EXPECT_OK(graph.VerifyNodes());
  count = 31;
  ASSERT_EQ(api().GraphKernelNodeSetParams(node, &after), CUDA_SUCCESS);
  EXPECT_THAT(graph.VerifyNodes(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("scalar 'count' was 0x20 at audit and is "
                                 "0x1f now")));
  count = 32;
  after.gridDimX = 7;
  ASSERT_EQ(api().GraphKernelNodeSetParams(node, &after), CUDA_SUCCESS);
  EXPECT_THAT(graph.VerifyNodes(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("'gridDimX' was 0x1")));
}

TEST_F(CapturedGraphTest, AFillOrACopyChangedAfterTheAuditIsNamed) {
  ASSERT_OK_AND_ASSIGN(
      Graph recorded, Record([&](CUstream stream) {
        return CuStatus(
            api().MemsetD8Async(Buffer("output").base.value(), 0, 64, stream),
            "fill");
      }));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<CapturedGraph> graph,
                       CapturedGraph::Adopt(arena(), lane(), Bucket{1},
                                            std::move(recorded), AuditScope()));
  ASSERT_OK(graph->VerifyNodes());
  CUDA_MEMSET_NODE_PARAMS fill = {};
  ASSERT_EQ(api().GraphMemsetNodeGetParams(Node(*graph, 0), &fill),
            CUDA_SUCCESS);
  fill.value = 3;
  ASSERT_EQ(api().GraphMemsetNodeSetParams(Node(*graph, 0), &fill),
            CUDA_SUCCESS);
  EXPECT_THAT(graph->VerifyNodes(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("node 0 (memset): scalar 'value' was 0x0")));
}

TEST_F(CapturedGraphTest, ANodeAddedAfterTheAuditIsFound) {
  ASSERT_OK_AND_ASSIGN(const GraphSet set, Capture());
  CUgraphNode node = nullptr;
  ASSERT_EQ(api().GraphAddEmptyNode(&node, set[0].graph(), nullptr, 0),
            CUDA_SUCCESS);
  EXPECT_THAT(set[0].VerifyNodes(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("had 2 nodes at audit and has 3 now")));
}

TEST_F(CapturedGraphTest, TheArenaStaysWhileAGraphHoldsIt) {
  ASSERT_OK_AND_ASSIGN(GraphSet set, Capture());
  EXPECT_THAT(mutable_arena().Release(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("graph of 2 rows on lane 'decode'")));
  ASSERT_OK(set.Destroy());
  EXPECT_OK(mutable_arena().Release());
}

TEST_F(CapturedGraphTest, AfterDestroyEveryCallSaysSo) {
  ASSERT_OK_AND_ASSIGN(const GraphSet set, Capture());
  ASSERT_OK(set[0].Replay());
  ASSERT_OK(set[0].Destroy());
  EXPECT_OK(set[0].Destroy());
  EXPECT_THAT(set[0].Replay(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                        HasSubstr("after Destroy")));
  EXPECT_THAT(set[0].VerifyNodes(),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(set[0].replays(), 1);
}

TEST_F(CapturedGraphTest, AGraphWithoutOneIsRefused) {
  EXPECT_THAT(
      CapturedGraph::Adopt(arena(), lane(), Bucket{1}, Graph(), AuditScope()),
      StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(CapturedGraphTest, AReleasedArenaIsRefused) {
  ASSERT_OK_AND_ASSIGN(
      Graph recorded, Record([&](CUstream stream) {
        return CuStatus(
            api().MemsetD8Async(Buffer("output").base.value(), 0, 64, stream),
            "fill");
      }));
  ASSERT_OK(mutable_arena().Release());
  EXPECT_THAT(CapturedGraph::Adopt(arena(), lane(), Bucket{1},
                                   std::move(recorded), AuditScope()),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

// A failing replay is an error each time, and nothing else runs in its place.
TEST(ReplayFailureTest, IsReportedEachTimeAndNeverReplaced) {
  ASSERT_OK(testing::TestDriver());
  const auto faulting = FaultingDriver::Wrap(*testing::TestDriver());
  ASSERT_OK_AND_ASSIGN(const ContextRef context,
                       Context::RetainPrimary(faulting->driver()));
  const Context::Scope scope = context->MakeCurrent();
  ASSERT_OK_AND_ASSIGN(const Lane lane, Lane::Create(context, "decode"));
  ASSERT_OK_AND_ASSIGN(Arena arena,
                       Arena::Create(context, testing::MakeTestPlan()));
  int runs = 0;
  const Step copy = MakeCopyStep(context);
  const Step step = [&](const StepContext& step_context) {
    ++runs;
    return copy(step_context);
  };
  ASSERT_OK_AND_ASSIGN(const WarmSet warm, WarmUp(arena, lane, step, {{2}}));
  ASSERT_OK_AND_ASSIGN(const FrozenArena frozen, std::move(arena).Freeze());
  ASSERT_OK_AND_ASSIGN(const GraphSet set, CaptureAll(frozen, warm, lane));
  const int runs_before = runs;
  faulting->FailFrom(1, CUDA_ERROR_LAUNCH_FAILED, "cuGraphLaunch");
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(set[0].Replay(), StatusIs(absl::StatusCode::kInternal,
                                          AllOf(HasSubstr("cuGraphLaunch"),
                                                HasSubstr("graph of 2 rows"))));
  }
  faulting->Disarm();
  EXPECT_EQ(runs, runs_before);
  EXPECT_EQ(set.counters().replays, 0);
  EXPECT_EQ(set.counters().fallbacks, 0);
  EXPECT_OK(set[0].Replay());
  EXPECT_EQ(set.counters().replays, 1);
}

}  // namespace
}  // namespace permafrost
