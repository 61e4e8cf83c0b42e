// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Buffers laid over each other that two branches of a graph use at a time: the
// verifier refuses them, and forced past it, softcuda's racecheck sees them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "permafrost/arena/arena_plan.h"
#include "permafrost/arena/overlay.h"
#include "permafrost/capture/observed_step.h"
#include "permafrost/driver/status.h"
#include "tests/capture/capture_fixture.h"

namespace permafrost {
namespace {

using ::permafrost::testing::CaptureTest;
using ::permafrost::testing::Floats;
using ::permafrost::testing::kBufferBytes;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Bucket kBucket = {8};

class OverlayRaceTest : public CaptureTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(CaptureTest::SetUp());
    PERMAFROST_NEEDS_SOFTCUDA();
    soft()->SetQuiet(true);
    soft()->EnableRacecheck(true);
    ASSERT_OK_AND_ASSIGN(side_, Stream::Create(context()));
    ASSERT_OK_AND_ASSIGN(fork_, Event::Create(context()));
    ASSERT_OK_AND_ASSIGN(join_, Event::Create(context()));
  }
  void TearDown() override {
    if (soft()) soft()->EnableRacecheck(false);
    CaptureTest::TearDown();
  }

  // The five buffers one behind the other, and a place for `b` of one's choice.
  static ArenaPlan Plan(const char* b_lies_on) {
    std::vector<BufferSize> sizes;
    for (const char* name : {"input", "a", "b", "c", "output"}) {
      BufferSize size;
      size.name = name;
      size.bytes = kBufferBytes;
      size.lifetime = Lifetime::kPerLayer;
      size.tag = "step";
      sizes.push_back(std::move(size));
    }
    absl::StatusOr<ArenaPlan> apart = PlanArena(std::move(sizes), {});
    EXPECT_OK(apart);
    if (std::string(b_lies_on) == "b") return *std::move(apart);
    std::vector<PlannedBuffer> buffers = apart->buffers();
    for (PlannedBuffer& buffer : buffers) {
      if (buffer.name == "b") {
        buffer.offset_bytes = apart->Find(b_lies_on)->offset_bytes;
        buffer.shares_with = {b_lies_on};
      } else if (buffer.name == b_lies_on) {
        buffer.shares_with = {"b"};
      }
    }
    PlanOptions options = apart->options();
    options.overlay = Overlay::kOn;
    return ArenaPlan::FromParts(std::move(buffers), apart->segments(),
                                apart->total_bytes(), options);
  }

  absl::Status Scale(CUstream stream, const char* to, const char* from) const {
    return kernels().Scale(stream, Buffer(to).base, Buffer(from).base,
                           Floats(kBucket), 2.0F);
  }

  // a = 2 input in one branch and b = 2 input in the other; joined, c = 2 a and
  // output = 2 b.
  absl::Status Fork(CUstream stream) const {
    const DriverApi& cuda = api();
    PERMAFROST_RETURN_IF_ERROR(
        CuStatus(cuda.EventRecord(fork_.get(), stream), "cuEventRecord"));
    PERMAFROST_RETURN_IF_ERROR(
        CuStatus(cuda.StreamWaitEvent(side_.get(), fork_.get(), 0),
                 "cuStreamWaitEvent"));
    PERMAFROST_RETURN_IF_ERROR(Scale(stream, "a", "input"));
    PERMAFROST_RETURN_IF_ERROR(Scale(stream, "c", "a"));
    PERMAFROST_RETURN_IF_ERROR(Scale(side_.get(), "b", "input"));
    PERMAFROST_RETURN_IF_ERROR(Scale(side_.get(), "output", "b"));
    PERMAFROST_RETURN_IF_ERROR(
        CuStatus(cuda.EventRecord(join_.get(), side_.get()), "cuEventRecord"));
    return CuStatus(cuda.StreamWaitEvent(stream, join_.get(), 0),
                    "cuStreamWaitEvent");
  }

  // Records the forked step on an arena of the plan.
  absl::StatusOr<Graph> RecordOn(ArenaPlan plan) {
    const Step in_a_row = [this](const StepContext& step) -> absl::Status {
      PERMAFROST_ASSIGN_OR_RETURN(const BufferRef from,
                                  step.arena.Find("input"));
      PERMAFROST_ASSIGN_OR_RETURN(const BufferRef to, step.arena.Find("a"));
      return kernels().Scale(step.stream, to.base, from.base,
                             Floats(step.bucket), 2.0F);
    };
    PERMAFROST_RETURN_IF_ERROR(
        PrepareWith(std::move(plan), in_a_row, {kBucket}));
    EXPECT_THAT(soft()->TakeReports(), IsEmpty());
    return Record([this](CUstream stream) { return Fork(stream); });
  }

  // What the verifier says of a plan for the forked step, as observed on
  // buffers apart: "a and b" for each pair that it refuses.
  std::vector<std::string> Refused(const ArenaPlan& plan) {
    absl::StatusOr<Graph> graph = RecordOn(Plan("b"));
    EXPECT_OK(graph);
    if (!graph.ok()) return {};
    const ArenaView view = arena().view();
    AuditScope scope;
    scope.arena = &view;
    scope.signatures = &kernels().signatures();
    const absl::StatusOr<StepDag> step =
        ObserveStep(*driver(), graph->get(), scope,
                    AuditGraph(*driver(), graph->get(), scope));
    EXPECT_OK(step);
    if (!step.ok()) return {};
    const absl::StatusOr<std::vector<OverlayFinding>> findings =
        VerifyOverlay(plan, *step);
    EXPECT_OK(findings);
    std::vector<std::string> pairs;
    if (!findings.ok()) return pairs;
    for (const OverlayFinding& finding : *findings) {
      pairs.push_back(finding.first_buffer + " and " + finding.second_buffer);
    }
    return pairs;
  }

  // Replays the forked step on an arena of the plan, unasked.
  std::vector<std::string> ReportsOfReplays(ArenaPlan plan) {
    absl::StatusOr<Graph> graph = RecordOn(std::move(plan));
    EXPECT_OK(graph);
    if (!graph.ok()) return {};
    absl::StatusOr<GraphExec> exec =
        GraphExec::Instantiate(context(), graph->get());
    EXPECT_OK(exec);
    if (!exec.ok()) return {};
    for (int replay = 0; replay < 3; ++replay) {
      EXPECT_OK(CuStatus(api().GraphLaunch(exec->get(), lane().stream()),
                         "cuGraphLaunch"));
    }
    EXPECT_OK(lane().Drain());
    return soft()->TakeReports();
  }

 private:
  Stream side_;
  Event fork_;
  Event join_;
};

TEST_F(OverlayRaceTest, BuffersOfTwoBranchesOverEachOtherAreReported) {
  EXPECT_THAT(Refused(Plan("a")), ElementsAre("a and b"));
  EXPECT_THAT(
      ReportsOfReplays(Plan("a")),
      Contains(AllOf(HasSubstr("racecheck"), HasSubstr("no path orders"),
                     HasSubstr("kernel k_scale"), HasSubstr("a|b"),
                     HasSubstr("graph node"))));
}

TEST_F(OverlayRaceTest, ABufferOverTheOthersResultIsReported) {
  EXPECT_THAT(Refused(Plan("c")), ElementsAre("b and c"));
  EXPECT_THAT(ReportsOfReplays(Plan("c")),
              Contains(AllOf(HasSubstr("racecheck"), HasSubstr("b|c"))));
}

TEST_F(OverlayRaceTest, BuffersApartAreSilent) {
  EXPECT_THAT(Refused(Plan("b")), IsEmpty());
  EXPECT_THAT(ReportsOfReplays(Plan("b")), IsEmpty());
}

}  // namespace
}  // namespace permafrost
