// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/capture/observed_step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "permafrost/driver/faulting_driver.h"
#include "permafrost/driver/handles.h"
#include "permafrost/driver/status.h"
#include "tests/capture/capture_fixture.h"

namespace permafrost {
namespace {

using ::permafrost::testing::CaptureTest;
using ::permafrost::testing::kBufferBytes;
using ::permafrost::testing::MakeCopyStep;
using ::permafrost::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int32_t kFloats = kBufferBytes / 4;

std::string Text(const BufferAccess& access) {
  return std::string(AccessName(access.access)) + " " + access.buffer +
         (access.access == Access::kWrite && !access.overwrites ? " in part"
                                                                : "");
}

std::vector<std::string> Uses(const StepOp& op) {
  std::vector<std::string> uses;
  for (const BufferAccess& access : op.accesses) uses.push_back(Text(access));
  return uses;
}

class ObservedStepTest : public CaptureTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(CaptureTest::SetUp());
    ASSERT_OK(Prepare(MakeCopyStep(context()), {{2}}, /*guard_bytes=*/256));
    side_ = *Stream::Create(context());
    forked_ = *Event::Create(context());
    joined_ = *Event::Create(context());
  }

  using Recording = std::function<absl::Status(CUstream)>;

  absl::StatusOr<StepDag> Observe(const Recording& record) {
    PERMAFROST_ASSIGN_OR_RETURN(const Graph graph, Record(record));
    const ArenaView view = arena().view();
    const AuditScope scope = Scope(view);
    return ObserveStep(*driver(), graph.get(), scope,
                       AuditGraph(*driver(), graph.get(), scope));
  }

  absl::Status Check(const Recording& record, const StepDag& step) {
    PERMAFROST_ASSIGN_OR_RETURN(const Graph graph, Record(record));
    const ArenaView view = arena().view();
    const AuditScope scope = Scope(view);
    return CheckObserved(*driver(), graph.get(), scope,
                         AuditGraph(*driver(), graph.get(), scope), step);
  }

  AuditScope Scope(const ArenaView& view) {
    AuditScope scope;
    scope.arena = &view;
    scope.signatures = &kernels().signatures();
    return scope;
  }

  Recording Scale(const char* dst, const char* src, int32_t count = kFloats) {
    return [=, this](CUstream stream) {
      return kernels().Scale(stream, Buffer(dst).base, Buffer(src).base, count,
                             2.0F);
    };
  }

  // Each after the one before, on one stream.
  static Recording InOrder(std::vector<Recording> parts) {
    return [=](CUstream stream) {
      for (const Recording& part : parts) {
        PERMAFROST_RETURN_IF_ERROR(part(stream));
      }
      return absl::OkStatus();
    };
  }

  // `main` and `side` behind the fork, both before the join.
  Recording Fork(const Recording& first, const Recording& main,
                 const Recording& side) {
    return [=, this](CUstream stream) {
      const DriverApi& api = context()->api();
      PERMAFROST_RETURN_IF_ERROR(first(stream));
      PERMAFROST_RETURN_IF_ERROR(
          CuStatus(api.EventRecord(forked_.get(), stream), "cuEventRecord"));
      PERMAFROST_RETURN_IF_ERROR(
          CuStatus(api.StreamWaitEvent(side_.get(), forked_.get(), 0),
                   "cuStreamWaitEvent"));
      PERMAFROST_RETURN_IF_ERROR(main(stream));
      PERMAFROST_RETURN_IF_ERROR(side(side_.get()));
      PERMAFROST_RETURN_IF_ERROR(CuStatus(
          api.EventRecord(joined_.get(), side_.get()), "cuEventRecord"));
      return CuStatus(api.StreamWaitEvent(stream, joined_.get(), 0),
                      "cuStreamWaitEvent");
    };
  }

  Stream side_;
  Event forked_;
  Event joined_;
};

TEST_F(ObservedStepTest, AChainIsItsNodesItsUsesAndItsEdge) {
  ASSERT_OK_AND_ASSIGN(const StepDag step,
                       Observe(InOrder({Scale("scratch", "input"),
                                        Scale("output", "scratch")})));
  EXPECT_EQ(step.origin, DagOrigin::kObserved);
  ASSERT_EQ(step.ops.size(), 2u);
  EXPECT_THAT(step.ops[0].name, HasSubstr("node 0"));
  EXPECT_THAT(Uses(step.ops[0]), ElementsAre("read input", "write scratch"));
  EXPECT_THAT(Uses(step.ops[1]), ElementsAre("write output", "read scratch"));
  ASSERT_EQ(step.edges.size(), 1u);
  EXPECT_EQ(step.edges[0].from, 0);
  EXPECT_EQ(step.edges[0].to, 1);
  EXPECT_EQ(step.edges[0].kind, EdgeKind::kFull);
  EXPECT_OK(ValidateStepDag(step));
}

TEST_F(ObservedStepTest, AWriteThatIsReadPastItsEndKeepsTheOldContentAlive) {
  ASSERT_OK_AND_ASSIGN(const StepDag step,
                       Observe(InOrder({Scale("scratch", "input", kFloats / 2),
                                        Scale("output", "scratch")})));
  EXPECT_THAT(Uses(step.ops[0]),
              ElementsAre("read input", "write scratch in part"));
}

TEST_F(ObservedStepTest, AReadBeforeTheWriteDoesNotWidenIt) {
  ASSERT_OK_AND_ASSIGN(
      const StepDag step,
      Observe(InOrder({Scale("output", "scratch"),
                       Scale("scratch", "input", kFloats / 2),
                       Scale("output", "scratch", kFloats / 2)})));
  EXPECT_THAT(Uses(step.ops[1]), ElementsAre("read input", "write scratch"));
}

TEST_F(ObservedStepTest, AReadOnAnotherBranchMayComeAfterTheWrite) {
  ASSERT_OK_AND_ASSIGN(const StepDag step,
                       Observe(Fork(Scale("output", "input"),
                                    Scale("scratch", "input", kFloats / 2),
                                    Scale("output", "scratch"))));
  EXPECT_THAT(Uses(step.ops[1]),
              ElementsAre("read input", "write scratch in part"));
}

TEST_F(ObservedStepTest, BranchesOfAForkHaveNoEdgeBetweenThem) {
  ASSERT_OK_AND_ASSIGN(
      const StepDag step,
      Observe(Fork(Scale("scratch", "input"), Scale("output", "scratch"),
                   Scale("state", "scratch", 8))));
  ASSERT_EQ(step.ops.size(), 3u);
  ASSERT_EQ(step.edges.size(), 2u);
  for (const StepEdge& edge : step.edges) EXPECT_EQ(edge.from, 0);
}

TEST_F(ObservedStepTest, AKernelWithoutASignatureUsesAllOfWhatItNames) {
  ASSERT_OK_AND_ASSIGN(const StepDag step, Observe([&](CUstream stream) {
                         return kernels().Opaque(stream,
                                                 Buffer("scratch").base + 8);
                       }));
  ASSERT_EQ(step.ops.size(), 1u);
  EXPECT_THAT(Uses(step.ops[0]), ElementsAre("read and write scratch"));
}

TEST_F(ObservedStepTest, CopiesReadAndWriteAndFillsWrite) {
  ASSERT_OK_AND_ASSIGN(
      const StepDag step, Observe([&](CUstream stream) {
        const DriverApi& api = context()->api();
        PERMAFROST_RETURN_IF_ERROR(CuStatus(
            api.MemsetD8Async(Buffer("input").base.value(), 1, 64, stream),
            "cuMemsetD8Async"));
        return CuStatus(api.MemcpyDtoDAsync(Buffer("output").base.value(),
                                            Buffer("input").base.value(),
                                            kBufferBytes, stream),
                        "cuMemcpyDtoDAsync");
      }));
  ASSERT_EQ(step.ops.size(), 2u);
  EXPECT_THAT(Uses(step.ops[0]), ElementsAre("write input in part"));
  EXPECT_THAT(Uses(step.ops[1]), ElementsAre("read input", "write output"));
}

TEST_F(ObservedStepTest, ANodeThatIsNotReadIsAnErrorWithItsName) {
  const Recording with_host_node = [&](CUstream stream) {
    return CuStatus(context()->api().LaunchHostFunc(
                        stream, [](void*) {}, nullptr),
                    "cuLaunchHostFunc");
  };
  EXPECT_THAT(Observe(with_host_node).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("node 0"), HasSubstr("host"))));
}

TEST_F(ObservedStepTest, NoArenaIsAnError) {
  ASSERT_OK_AND_ASSIGN(const Graph graph, Record(Scale("output", "input")));
  const AuditReport report = AuditGraph(*driver(), graph.get(), {});
  EXPECT_THAT(ObserveStep(*driver(), graph.get(), {}, report).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("arena")));
  EXPECT_THAT(CheckObserved(*driver(), graph.get(), {}, report, {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("arena")));
}

TEST_F(ObservedStepTest, EdgesThatCannotBeReadAreTheDriversError) {
  ASSERT_OK_AND_ASSIGN(
      const Graph graph,
      Record(InOrder({Scale("scratch", "input"), Scale("output", "scratch")})));
  const ArenaView view = arena().view();
  const AuditScope scope = Scope(view);
  const AuditReport report = AuditGraph(*driver(), graph.get(), scope);
  const auto faulting = FaultingDriver::Wrap(driver());
  for (const int64_t nth : {1, 2}) {
    faulting->FailCall(nth, CUDA_ERROR_UNKNOWN, "cuGraphGetEdges");
    const absl::Status status =
        ObserveStep(*faulting->driver(), graph.get(), scope, report).status();
    EXPECT_EQ(CuCallOf(status), "cuGraphGetEdges") << status;
  }
  faulting->Disarm();
  EXPECT_OK(ObserveStep(*faulting->driver(), graph.get(), scope, report));
}

TEST_F(ObservedStepTest, TheSameStepRecordedAgainAgrees) {
  const Recording forked =
      Fork(Scale("scratch", "input"), Scale("output", "scratch"),
           Scale("state", "scratch", 8));
  ASSERT_OK_AND_ASSIGN(const StepDag step, Observe(forked));
  EXPECT_OK(Check(forked, step));
}

TEST_F(ObservedStepTest, AStepThatChangedIsFound) {
  const Recording first = Scale("scratch", "input");
  const Recording second = Scale("output", "scratch");
  const Recording third = Scale("state", "scratch", 8);
  ASSERT_OK_AND_ASSIGN(const StepDag step, Observe(Fork(first, second, third)));
  EXPECT_THAT(Check(InOrder({first, second}), step),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("3 operations"), HasSubstr("2 nodes"))));
  EXPECT_THAT(Check(InOrder({first, second, third}), step),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("only the step"), HasSubstr("edge"))));
  EXPECT_THAT(Check(Fork(first, Scale("output", "input"), third), step),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("'input'"), HasSubstr("does not use"))));
  EXPECT_THAT(
      Check(Fork(first, Scale("scratch", "scratch"), third), step),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("'output'"), HasSubstr("names no address"))));
  StepDag more = step;
  more.ops[0].accesses.push_back({.buffer = "counter"});
  EXPECT_THAT(
      Check(Fork(first, second, third), more),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("'counter'"), HasSubstr("names no address"))));
}

TEST_F(ObservedStepTest, AnExtraEdgeOfTheGraphIsFound) {
  const Recording first = Scale("scratch", "input");
  const Recording second = Scale("output", "scratch");
  ASSERT_OK_AND_ASSIGN(StepDag step, Observe(InOrder({first, second})));
  step.edges.clear();
  EXPECT_THAT(
      Check(InOrder({first, second}), step),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("only the graph"), HasSubstr("full edge"))));
}

}  // namespace
}  // namespace permafrost
