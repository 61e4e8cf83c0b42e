// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Each case lays two buffers over each other in a plan made by hand, and has a
// twin in which the same overlay is safe.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "arena/overlay/step_builder.h"
#include "permafrost/arena/overlay.h"
#include "support/status_matchers.h"

namespace permafrost {
namespace {

using ::permafrost::testing::AsLine;
using ::permafrost::testing::Line;
using ::permafrost::testing::Op;
using ::permafrost::testing::StatusIs;
using ::permafrost::testing::Step;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ArenaPlan PlanOf(std::vector<PlannedBuffer> buffers) {
  for (PlannedBuffer& buffer : buffers) buffer.tag = "step";
  return ArenaPlan::FromParts(
      std::move(buffers), {{.tag = "step", .bytes = 4096}}, 4096,
      {.granularity_bytes = 4096, .overlay = Overlay::kOn});
}

/// `a` [0, 512) and `b` [256, 768) share 256 bytes; `c` lies apart.
ArenaPlan Overlapping() {
  return PlanOf({{.name = "a", .offset_bytes = 0, .bytes = 512},
                 {.name = "b", .offset_bytes = 256, .bytes = 512},
                 {.name = "c", .offset_bytes = 1024, .bytes = 512}});
}

std::vector<OverlayFinding> Findings(const ArenaPlan& plan,
                                     const StepDag& step) {
  const absl::StatusOr<std::vector<OverlayFinding>> findings =
      VerifyOverlay(plan, step);
  EXPECT_OK(findings.status());
  return findings.value_or(std::vector<OverlayFinding>());
}

void ExpectSafe(const ArenaPlan& plan, const StepDag& step) {
  for (const OverlayFinding& finding : Findings(plan, step)) {
    ADD_FAILURE() << finding.message;
  }
}

void ExpectOneFinding(const ArenaPlan& plan, const StepDag& step,
                      const std::string& first_op, const std::string& second_op,
                      const ::testing::Matcher<const std::string&>& message) {
  const std::vector<OverlayFinding> findings = Findings(plan, step);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].step, "step");
  EXPECT_THAT(findings[0].message, AllOf(HasSubstr("'a' [0, 512)"),
                                         HasSubstr("'b' [256, 768)"), message));
  EXPECT_EQ(findings[0].first_op, first_op);
  EXPECT_EQ(findings[0].second_op, second_op);
}

/// The main stream writes `b` while a side stream still reads `a`.
StepDag Forked() {
  return Step({Op("make_a", {}, {"a"}), Op("shared_expert", {"a"}, {"c"}),
               Op("routed_down", {}, {"b"}), Op("join", {"b", "c"}, {})},
              {{0, 1}, {0, 2}, {1, 3}, {2, 3}});
}

TEST(OverlayVerifierTest, IssueOrderCallsSafeWhatTheForkDoesNot) {
  ExpectSafe(Overlapping(), AsLine(Forked()));
  ExpectOneFinding(Overlapping(), Forked(), "shared_expert", "routed_down",
                   HasSubstr("no path of edges"));
}

TEST(OverlayVerifierTest, TheForkIsSafeOnceItJoinsBeforeTheWrite) {
  StepDag step = Forked();
  step.edges.push_back({.from = 1, .to = 2});
  ExpectSafe(Overlapping(), step);
}

TEST(OverlayVerifierTest, AProgrammaticEdgeOrdersMemoryOnlyWithAWait) {
  StepDag step = Line({Op("make_a", {}, {"a"}), Op("use_a", {"a"}, {"c"}),
                       Op("make_b", {}, {"b"}), Op("use_b", {"b", "c"}, {})});
  ExpectSafe(Overlapping(), step);
  step.edges[1].kind = EdgeKind::kProgrammatic;
  // make_b waits for nothing, so not even make_a is known to be done.
  ExpectOneFinding(Overlapping(), step, "make_a", "make_b",
                   HasSubstr("no path of edges"));
  step.ops[2].waits_on_grid_dependency = true;
  ExpectSafe(Overlapping(), step);
  step.edges[1].kind = EdgeKind::kLaunchOrder;
  EXPECT_EQ(Findings(Overlapping(), step).size(), 1u);
}

TEST(OverlayVerifierTest, AWaitMustBeTheConsumersOwn) {
  StepDag step = Line({Op("make_a", {}, {"a"}), Op("use_a", {"a"}, {"c"}),
                       Op("make_b", {}, {"b"}), Op("use_b", {"b", "c"}, {})});
  step.edges[1].kind = EdgeKind::kProgrammatic;
  step.ops[1].waits_on_grid_dependency = true;
  step.ops[3].waits_on_grid_dependency = true;
  EXPECT_EQ(Findings(Overlapping(), step).size(), 1u);
}

TEST(OverlayVerifierTest, AUseBetweenWriteAndRead) {
  const std::vector<StepOp> ops = {
      Op("make_a", {}, {"a"}), Op("make_b", {}, {"b"}), Op("use_b", {"b"}, {}),
      Op("use_a", {"a"}, {})};
  ExpectOneFinding(Overlapping(), Line(ops), "use_a", "make_b",
                   HasSubstr("no operation between them overwrites it"));
  std::vector<StepOp> again = ops;
  again.insert(again.begin() + 3, Op("remake_a", {}, {"a"}));
  ExpectSafe(Overlapping(), Line(again));
}

TEST(OverlayVerifierTest, AReadOfTheOtherBetweenWriteAndReadCounts) {
  // Nothing writes b in between, but b was written before a was.
  ExpectOneFinding(Overlapping(),
                   Line({Op("make_b", {}, {"b"}), Op("make_a", {}, {"a"}),
                         Op("use_a", {"a"}, {}), Op("use_b", {"b"}, {})}),
                   "use_b", "make_a", HasSubstr("no operation between"));
}

TEST(OverlayVerifierTest, ContentOfAnEarlierReplay) {
  const StepDag reads_old =
      Line({Op("use_a", {"a"}, {}), Op("make_a", {}, {"a"}),
            Op("make_b", {}, {"b"}), Op("use_b", {"b"}, {})});
  ExpectOneFinding(Overlapping(), reads_old, "use_a", "",
                   HasSubstr("held before the step"));
  StepDag writes_part = Line({Op("part_a", {}, {"a"}), Op("use_a", {"a"}, {}),
                              Op("make_b", {}, {"b"}), Op("use_b", {"b"}, {})});
  ExpectSafe(Overlapping(), writes_part);
  writes_part.ops[0].accesses[0].overwrites = false;
  ExpectOneFinding(Overlapping(), writes_part, "part_a", "",
                   HasSubstr("held before the step"));
}

TEST(OverlayVerifierTest, InputAndOutputOfOneOperation) {
  const StepDag step = Line({Op("make_a", {}, {"a"}), Op("act", {"a"}, {"b"}),
                             Op("use_b", {"b"}, {})});
  ExpectOneFinding(Overlapping(), step, "act", "act",
                   HasSubstr("does not declare them in place"));
  StepDag declared = step;
  declared.ops[1].in_place = {{"a", "b"}};
  // Element i of one is not over element i of the other.
  ExpectOneFinding(Overlapping(), declared, "act", "act",
                   HasSubstr("from one start"));
  const ArenaPlan aligned =
      PlanOf({{.name = "a", .offset_bytes = 256, .bytes = 512},
              {.name = "b", .offset_bytes = 256, .bytes = 256}});
  ExpectSafe(aligned, declared);
  EXPECT_EQ(Findings(aligned, step).size(), 1u);
  // In place is for an input that nothing needs afterwards.
  declared.ops.push_back(Op("use_a", {"a"}, {}));
  EXPECT_EQ(Findings(aligned, AsLine(declared)).size(), 1u);
}

TEST(OverlayVerifierTest, BuffersThatOnlyTouchShareNothing) {
  const ArenaPlan plan =
      PlanOf({{.name = "a", .offset_bytes = 0, .bytes = 512},
              {.name = "b", .offset_bytes = 512, .bytes = 256},
              {.name = "absent", .gate_reason = "no experts"}});
  ExpectSafe(plan, Line({Op("x", {"a"}, {"b"}), Op("y", {"b"}, {"a"})}));
}

TEST(OverlayVerifierTest, OneBufferInsideAnother) {
  const ArenaPlan plan =
      PlanOf({{.name = "a", .offset_bytes = 0, .bytes = 1024},
              {.name = "b", .offset_bytes = 256, .bytes = 1}});
  EXPECT_EQ(Findings(plan, Line({Op("x", {}, {"a", "b"})})).size(), 1u);
}

TEST(OverlayVerifierTest, AnInvalidStepIsRefused) {
  EXPECT_THAT(VerifyOverlay(Overlapping(), Step({Op("", {}, {})}, {})),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(OverlayVerifierTest, EveryStepOfALaneCounts) {
  const StepDag safe = AsLine(Forked());
  ASSERT_OK_AND_ASSIGN(std::vector<OverlayFinding> findings,
                       VerifyOverlayOfLane(Overlapping(), {safe}));
  EXPECT_THAT(findings, IsEmpty());
  StepDag forked = Forked();
  forked.name = "prefill";
  ASSERT_OK_AND_ASSIGN(findings,
                       VerifyOverlayOfLane(Overlapping(), {safe, forked}));
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].step, "prefill");
}

TEST(OverlayVerifierTest, ABufferThatNoStepAccessesMustNotShare) {
  const StepDag only_b = Line({Op("make_b", {}, {"b"})});
  ExpectSafe(Overlapping(), only_b);
  ASSERT_OK_AND_ASSIGN(const std::vector<OverlayFinding> findings,
                       VerifyOverlayOfLane(Overlapping(), {only_b}));
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].first_buffer, "a");
  EXPECT_EQ(findings[0].second_buffer, "b");
  EXPECT_THAT(findings[0].message, HasSubstr("no step accesses it"));
  // Accessed by another graph of the lane, it is in order.
  ASSERT_OK_AND_ASSIGN(
      const std::vector<OverlayFinding> none,
      VerifyOverlayOfLane(Overlapping(),
                          {only_b, Line({Op("make_a", {}, {"a"})})}));
  EXPECT_THAT(none, IsEmpty());
}

TEST(OverlayVerifierTest, WhatOutlivesTheStepMustNotShare) {
  const StepDag step = AsLine(Forked());
  const std::pair<Lifetime, bool> lifetimes[] = {
      {Lifetime::kPerStep, true},   {Lifetime::kPerLayer, true},
      {Lifetime::kConstant, false}, {Lifetime::kHostWritten, false},
      {Lifetime::kInitOnce, false}, {Lifetime::kPersistentSlab, false},
      {Lifetime::kState, false}};
  for (const auto& [lifetime, may_share] : lifetimes) {
    SCOPED_TRACE(std::string(LifetimeName(lifetime)));
    const ArenaPlan plan = PlanOf(
        {{.name = "a", .offset_bytes = 0, .bytes = 512, .lifetime = lifetime},
         {.name = "b", .offset_bytes = 256, .bytes = 512}});
    ASSERT_OK_AND_ASSIGN(const std::vector<OverlayFinding> findings,
                         VerifyOverlayOfLane(plan, {step}));
    EXPECT_EQ(findings.empty(), may_share);
  }
  const ArenaPlan touched =
      PlanOf({{.name = "a",
               .offset_bytes = 0,
               .bytes = 512,
               .toucher = Toucher::kDeviceWritesHostReads},
              {.name = "b", .offset_bytes = 256, .bytes = 512}});
  ASSERT_OK_AND_ASSIGN(const std::vector<OverlayFinding> findings,
                       VerifyOverlayOfLane(touched, {step}));
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(findings[0].message, HasSubstr("host reads"));
}

}  // namespace
}  // namespace permafrost
