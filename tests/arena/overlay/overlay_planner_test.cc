// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "arena/overlay/step_builder.h"
#include "permafrost/arena/overlay.h"
#include "support/status_matchers.h"

namespace permafrost {
namespace {

using ::permafrost::testing::AsLine;
using ::permafrost::testing::kInvalid;
using ::permafrost::testing::Line;
using ::permafrost::testing::Op;
using ::permafrost::testing::Size;
using ::permafrost::testing::StatusIs;
using ::permafrost::testing::Step;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr PlanOptions kFine = {.granularity_bytes = 256};

/// a, b and c are needed one after the other.
StepDag Relay() {
  return Line({Op("make_a", {}, {"a"}), Op("use_a", {"a"}, {}),
               Op("make_b", {}, {"b"}), Op("use_b", {"b"}, {}),
               Op("make_c", {}, {"c"}), Op("use_c", {"c"}, {})});
}

std::vector<BufferSize> RelaySizes() {
  return {Size("a", 1000), Size("b", 2000), Size("c", 512)};
}

int64_t OffsetOf(const OverlaidPlan& plan, const std::string& name) {
  return plan.plan.Find(name)->offset_bytes;
}

std::string ReasonOf(const OverlaidPlan& plan, const std::string& name) {
  for (const KeptApart& kept : plan.kept_apart) {
    if (kept.buffer == name) return kept.reason;
  }
  return "";
}

void ExpectGood(const OverlaidPlan& plan, const std::vector<StepDag>& steps) {
  EXPECT_OK(ValidatePlan(plan.plan));
  ASSERT_OK_AND_ASSIGN(const std::vector<OverlayFinding> findings,
                       VerifyOverlayOfLane(plan.plan, steps));
  for (const OverlayFinding& finding : findings) {
    ADD_FAILURE() << finding.message;
  }
  EXPECT_GE(plan.bytes_on, plan.bound_bytes);
  EXPECT_LE(plan.bytes_on, plan.bytes_off);
}

TEST(OverlayPlannerTest, BuffersOfDifferentTimesLieOverEachOther) {
  ASSERT_OK_AND_ASSIGN(const OverlaidPlan plan,
                       PlanArenaWithOverlay(RelaySizes(), kFine, {Relay()}));
  ExpectGood(plan, {Relay()});
  EXPECT_EQ(plan.bytes_off, 1024 + 2048 + 512);
  EXPECT_EQ(plan.bytes_on, 2048);
  EXPECT_EQ(plan.bound_bytes, 2048);
  EXPECT_EQ(plan.pinned_bytes, 0);
  EXPECT_THAT(plan.kept_apart, IsEmpty());
  EXPECT_EQ(plan.plan.options().overlay, Overlay::kOn);
  EXPECT_THAT(plan.plan.Find("a")->shares_with, ElementsAre("b", "c"));
  EXPECT_THAT(plan.plan.Find("b")->shares_with, ElementsAre("a", "c"));
  EXPECT_EQ(plan.plan.total_bytes(), 2048);
  EXPECT_EQ(plan.plan.buffer_bytes(), 2000);
  EXPECT_EQ(plan.plan.unshared_buffer_bytes(), 3512);
  EXPECT_EQ(plan.plan.rounding_bytes(), 48);
}

TEST(OverlayPlannerTest, InputAndOutputOfOneOperationLieApart) {
  const StepDag step = Line({Op("make_a", {}, {"a"}), Op("act", {"a"}, {"b"}),
                             Op("use_b", {"b"}, {})});
  ASSERT_OK_AND_ASSIGN(
      const OverlaidPlan plan,
      PlanArenaWithOverlay({Size("a", 256), Size("b", 256)}, kFine, {step}));
  ExpectGood(plan, {step});
  EXPECT_EQ(plan.bytes_on, 512);
  EXPECT_EQ(plan.bound_bytes, 512);
  EXPECT_THAT(plan.plan.Find("a")->shares_with, IsEmpty());
}

TEST(OverlayPlannerTest, DeclaredInPlaceTheyStartTogetherOrLieApart) {
  StepDag step = Line({Op("make_a", {}, {"a", "big"}), Op("act", {"a"}, {"b"}),
                       Op("use_b", {"b", "big"}, {})});
  step.ops[1].in_place = {{"b", "a"}};
  ASSERT_OK_AND_ASSIGN(
      const OverlaidPlan plan,
      PlanArenaWithOverlay({Size("a", 512), Size("b", 768), Size("big", 4096)},
                           kFine, {step}));
  ExpectGood(plan, {step});
  EXPECT_EQ(OffsetOf(plan, "a"), OffsetOf(plan, "b"));
  EXPECT_EQ(plan.bytes_on, 4096 + 768);
  EXPECT_EQ(plan.bound_bytes, 4096 + 768);
}

TEST(OverlayPlannerTest, InPlaceIsForAnInputThatIsNeededNoMore) {
  StepDag step = Line({Op("make_a", {}, {"a"}), Op("act", {"a"}, {"b"}),
                       Op("use_both", {"a", "b"}, {})});
  step.ops[1].in_place = {{"a", "b"}};
  ASSERT_OK_AND_ASSIGN(
      const OverlaidPlan plan,
      PlanArenaWithOverlay({Size("a", 256), Size("b", 256)}, kFine, {step}));
  ExpectGood(plan, {step});
  EXPECT_EQ(plan.bytes_on, 512);
}

TEST(OverlayPlannerTest, ConcurrentBranchesLieApart) {
  const StepDag forked =
      Step({Op("fork", {}, {"x"}), Op("left", {"x"}, {"a"}),
            Op("right", {"x"}, {"b"}), Op("join", {"a", "b"}, {"y"})},
           {{0, 1}, {0, 2}, {1, 3}, {2, 3}});
  std::vector<BufferSize> sizes = {Size("x", 256), Size("a", 256),
                                   Size("b", 256), Size("y", 256)};
  ASSERT_OK_AND_ASSIGN(const OverlaidPlan plan,
                       PlanArenaWithOverlay(sizes, kFine, {forked}));
  ExpectGood(plan, {forked});
  EXPECT_EQ(plan.bytes_on, 768);
  EXPECT_EQ(OffsetOf(plan, "x"), OffsetOf(plan, "y"));
}

TEST(OverlayPlannerTest, APlanFromIssueOrderIsUnsafeOnTheFork) {
  // In a line, what the side stream reads is over before the main one writes.
  const StepDag forked =
      Step({Op("make_a", {}, {"a"}), Op("side", {"a"}, {"s"}),
            Op("main", {}, {"b"}), Op("join", {"b", "s"}, {})},
           {{0, 1}, {0, 2}, {1, 3}, {2, 3}});
  const std::vector<BufferSize> sizes = {Size("a", 4096), Size("b", 4096),
                                         Size("s", 256)};
  ASSERT_OK_AND_ASSIGN(const OverlaidPlan from_line,
                       PlanArenaWithOverlay(sizes, kFine, {AsLine(forked)}));
  ExpectGood(from_line, {AsLine(forked)});
  ASSERT_OK_AND_ASSIGN(const std::vector<OverlayFinding> findings,
                       VerifyOverlay(from_line.plan, forked));
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_THAT(findings[0].message,
              AllOf(HasSubstr("'a'"), HasSubstr("'b'"), HasSubstr("'side'"),
                    HasSubstr("'main'")));
  ASSERT_OK_AND_ASSIGN(const OverlaidPlan from_fork,
                       PlanArenaWithOverlay(sizes, kFine, {forked}));
  ExpectGood(from_fork, {forked});
}

TEST(OverlayPlannerTest, AProgrammaticEdgeIsWorthItsWait) {
  StepDag step = Relay();
  step.edges[1].kind = EdgeKind::kProgrammatic;
  ASSERT_OK_AND_ASSIGN(const OverlaidPlan without,
                       PlanArenaWithOverlay(RelaySizes(), kFine, {step}));
  ExpectGood(without, {step});
  EXPECT_EQ(without.bytes_on, 1024 + 2048);
  step.ops[2].waits_on_grid_dependency = true;
  ASSERT_OK_AND_ASSIGN(const OverlaidPlan with,
                       PlanArenaWithOverlay(RelaySizes(), kFine, {step}));
  ExpectGood(with, {step});
  EXPECT_EQ(with.bytes_on, 2048);
}

TEST(OverlayPlannerTest, OneAddressANameForAllOfItsRanges) {
  // a is needed before and after b, not during.
  const StepDag step = Line({Op("w0", {}, {"a"}), Op("w1", {}, {"b"}),
                             Op("w2", {}, {"a"}), Op("w3", {}, {"b"})});
  ASSERT_OK_AND_ASSIGN(
      const OverlaidPlan plan,
      PlanArenaWithOverlay({Size("a", 256), Size("b", 512)}, kFine, {step}));
  ExpectGood(plan, {step});
  EXPECT_EQ(plan.bytes_on, 512);
}

TEST(OverlayPlannerTest, TheBoundKnowsConflictsOfDifferentMoments) {
  // Two of the three are needed at any moment, and with one address each they
  // need the bytes of three.
  const StepDag step = Line({Op("w0", {}, {"a", "b"}), Op("w1", {}, {"b", "c"}),
                             Op("w2", {}, {"c", "a"})});
  ASSERT_OK_AND_ASSIGN(
      const OverlaidPlan plan,
      PlanArenaWithOverlay({Size("a", 256), Size("b", 256), Size("c", 256)},
                           kFine, {step}));
  ExpectGood(plan, {step});
  EXPECT_EQ(plan.bytes_on, 768);
  EXPECT_EQ(plan.bound_bytes, 768);
}

TEST(OverlayPlannerTest, WhatMustNotShareIsKeptApartWithItsReason) {
  StepDag step = Relay();
  step.ops.push_back(Op("state", {"carried"}, {"logits", "norm"}));
  step = AsLine(step);
  std::vector<BufferSize> sizes = RelaySizes();
  sizes.push_back(Size("logits", 256));
  sizes.back().toucher = Toucher::kDeviceWritesHostReads;
  sizes.push_back(Size("norm", 256));
  sizes.back().lifetime = Lifetime::kConstant;
  sizes.push_back(Size("carried", 256));
  sizes.push_back(Size("unused", 256));
  sizes.push_back(Size("window", 256));
  sizes.back().sleep = SleepPolicy::kStay;
  ASSERT_OK_AND_ASSIGN(const OverlaidPlan plan,
                       PlanArenaWithOverlay(sizes, kFine, {step}));
  ExpectGood(plan, {step});
  EXPECT_EQ(plan.pinned_bytes, 5 * 256);
  EXPECT_EQ(plan.bytes_on, 5 * 256 + 2048);
  EXPECT_EQ(plan.bound_bytes, plan.bytes_on);
  EXPECT_THAT(ReasonOf(plan, "logits"), HasSubstr("host"));
  EXPECT_THAT(ReasonOf(plan, "norm"), HasSubstr("constant"));
  EXPECT_THAT(ReasonOf(plan, "carried"),
              AllOf(HasSubstr("'state'"), HasSubstr("earlier replay")));
  EXPECT_THAT(ReasonOf(plan, "unused"), HasSubstr("no step accesses it"));
  EXPECT_THAT(ReasonOf(plan, "window"), HasSubstr("registered outside"));
  for (const KeptApart& kept : plan.kept_apart) {
    EXPECT_THAT(plan.plan.Find(kept.buffer)->shares_with, IsEmpty())
        << kept.buffer;
  }
}

TEST(OverlayPlannerTest, EveryLifetimeThatOutlivesTheStepIsKeptApart) {
  for (const Lifetime lifetime :
       {Lifetime::kConstant, Lifetime::kHostWritten, Lifetime::kPersistentSlab,
        Lifetime::kInitOnce, Lifetime::kState}) {
    std::vector<BufferSize> sizes = RelaySizes();
    sizes[1].lifetime = lifetime;
    ASSERT_OK_AND_ASSIGN(const OverlaidPlan plan,
                         PlanArenaWithOverlay(sizes, kFine, {Relay()}));
    EXPECT_EQ(plan.pinned_bytes, 2048) << LifetimeName(lifetime);
    EXPECT_EQ(plan.bytes_on, 1024 + 2048) << LifetimeName(lifetime);
  }
}

TEST(OverlayPlannerTest, OptionsKeepBuffersApartAndFixTheirPlaces) {
  OverlayOptions options;
  options.keep_apart = {"a"};
  options.fixed = {{.buffer = "c", .offset_in_segment_bytes = 1024}};
  ASSERT_OK_AND_ASSIGN(
      const OverlaidPlan plan,
      PlanArenaWithOverlay(RelaySizes(), kFine, {Relay()}, options));
  ExpectGood(plan, {Relay()});
  EXPECT_EQ(OffsetOf(plan, "a"), 0);
  EXPECT_EQ(OffsetOf(plan, "c"), 1024);
  EXPECT_EQ(OffsetOf(plan, "b"), 1536);
  EXPECT_EQ(plan.pinned_bytes, 1024 + 512);
  EXPECT_EQ(plan.bound_bytes, 1024 + 512 + 2048);
}

TEST(OverlayPlannerTest, FixedPlacesThatCannotBeAreRefused) {
  const auto plan_with = [](std::vector<FixedPlace> fixed) {
    return PlanArenaWithOverlay(RelaySizes(), kFine, {Relay()},
                                {.fixed = std::move(fixed)})
        .status();
  };
  EXPECT_OK(plan_with({{"a", 0}, {"c", 1024}}));
  EXPECT_THAT(plan_with({{"a", 0}, {"c", 768}}),
              StatusIs(kInvalid, AllOf(HasSubstr("'a'"), HasSubstr("'c'"))));
  EXPECT_THAT(plan_with({{"a", 256}, {"c", 0}}),
              StatusIs(kInvalid, AllOf(HasSubstr("'a'"), HasSubstr("'c'"))));
  EXPECT_THAT(plan_with({{"a", 0}, {"c", 0}}),
              StatusIs(kInvalid, AllOf(HasSubstr("'a'"), HasSubstr("'c'"))));
  EXPECT_THAT(plan_with({{"a", 100}}), StatusIs(kInvalid, HasSubstr("100")));
  EXPECT_THAT(plan_with({{"a", -256}}), StatusIs(kInvalid, HasSubstr("-256")));
  EXPECT_THAT(plan_with({{"a", 0}, {"a", 0}}),
              StatusIs(kInvalid, HasSubstr("twice")));
  EXPECT_THAT(plan_with({{"d", 0}}), StatusIs(kInvalid, HasSubstr("'d'")));
  EXPECT_THAT(
      plan_with({{"a", std::numeric_limits<int64_t>::max() / 256 * 256}}),
      StatusIs(kInvalid, HasSubstr("2^63-1")));
}

TEST(OverlayPlannerTest, OptionsThatNameNoPresentBufferAreRefused) {
  std::vector<BufferSize> sizes = RelaySizes();
  sizes.push_back({.name = "slab", .gate_reason = "no experts"});
  EXPECT_THAT(
      PlanArenaWithOverlay(sizes, kFine, {Relay()}, {.keep_apart = {"zz"}}),
      StatusIs(kInvalid, HasSubstr("'zz'")));
  EXPECT_THAT(
      PlanArenaWithOverlay(sizes, kFine, {Relay()}, {.keep_apart = {"slab"}}),
      StatusIs(kInvalid, HasSubstr("no experts")));
  EXPECT_THAT(
      PlanArenaWithOverlay(sizes, kFine, {Relay()}, {.max_placements = 0}),
      StatusIs(kInvalid, HasSubstr("max_placements")));
}

TEST(OverlayPlannerTest, AccessesToAbsentBuffersAreLeftOut) {
  StepDag step = Relay();
  step.ops[2].accesses.push_back({.buffer = "slab", .access = Access::kRead});
  std::vector<BufferSize> sizes = RelaySizes();
  sizes.push_back({.name = "slab", .gate_reason = "no experts"});
  ASSERT_OK_AND_ASSIGN(const OverlaidPlan plan,
                       PlanArenaWithOverlay(sizes, kFine, {step}));
  ExpectGood(plan, {step});
  EXPECT_EQ(plan.bytes_on, 2048);
  EXPECT_FALSE(plan.plan.Find("slab")->is_present());
}

TEST(OverlayPlannerTest, AnUnknownNameIsRefusedUnlessItIsSaidToBeOutside) {
  StepDag step = Relay();
  step.ops[2].accesses.push_back({.buffer = "kv", .access = Access::kRead});
  EXPECT_THAT(
      PlanArenaWithOverlay(RelaySizes(), kFine, {step}),
      StatusIs(kInvalid, AllOf(HasSubstr("'make_b'"), HasSubstr("'kv'"))));
  EXPECT_OK(
      PlanArenaWithOverlay(RelaySizes(), kFine, {step}, {.outside = {"kv"}}));
}

TEST(OverlayPlannerTest, OverlayStaysInsideASegment) {
  std::vector<BufferSize> sizes = RelaySizes();
  sizes[1].tag = "kept";
  ASSERT_OK_AND_ASSIGN(
      const OverlaidPlan plan,
      PlanArenaWithOverlay(sizes, {.granularity_bytes = 4096}, {Relay()}));
  ExpectGood(plan, {Relay()});
  EXPECT_EQ(plan.plan.segments().size(), 2u);
  EXPECT_EQ(OffsetOf(plan, "a"), 0);
  EXPECT_EQ(OffsetOf(plan, "c"), 0);
  EXPECT_EQ(OffsetOf(plan, "b"), 4096);
  EXPECT_EQ(plan.bytes_on, 1024 + 2048);
  EXPECT_EQ(plan.bound_bytes, 1024 + 2048);
  EXPECT_EQ(plan.plan.total_bytes(), 8192);
}

TEST(OverlayPlannerTest, GuardsAreCountedAndKept) {
  const PlanOptions guarded = {.granularity_bytes = 256, .guard_bytes = 512};
  ASSERT_OK_AND_ASSIGN(const OverlaidPlan plan,
                       PlanArenaWithOverlay(RelaySizes(), guarded, {Relay()}));
  ExpectGood(plan, {Relay()});
  EXPECT_EQ(plan.bytes_off, 1536 + 2560 + 1024);
  EXPECT_EQ(plan.bytes_on, 2560);
  // Two that cannot share keep the guard between them.
  const StepDag both = Line({Op("w", {}, {"a", "b"}), Op("x", {}, {"c"})});
  ASSERT_OK_AND_ASSIGN(const OverlaidPlan apart,
                       PlanArenaWithOverlay(RelaySizes(), guarded, {both}));
  ExpectGood(apart, {both});
  EXPECT_EQ(apart.bytes_on, 1536 + 2560);
  EXPECT_EQ(apart.plan.buffer_bytes() + apart.plan.guard_total_bytes() +
                apart.plan.rounding_bytes(),
            apart.plan.total_bytes());
}

TEST(OverlayPlannerTest, APlanCoversEveryStepOfItsLane) {
  // Apart in time in one graph, not in the other.
  StepDag other = Line({Op("w", {}, {"a", "b"}), Op("r", {"a", "b"}, {})});
  other.name = "prefill";
  ASSERT_OK_AND_ASSIGN(
      const OverlaidPlan plan,
      PlanArenaWithOverlay(RelaySizes(), kFine, {Relay(), other}));
  ExpectGood(plan, {Relay(), other});
  EXPECT_EQ(plan.bytes_on, 1024 + 2048);
  EXPECT_EQ(plan.bound_bytes, 1024 + 2048);

  // What only one of them uses is free in the other.
  StepDag alone = Line({Op("w", {}, {"d"}), Op("r", {"d"}, {})});
  std::vector<BufferSize> sizes = RelaySizes();
  sizes.push_back(Size("d", 4096));
  ASSERT_OK_AND_ASSIGN(const OverlaidPlan shared,
                       PlanArenaWithOverlay(sizes, kFine, {Relay(), alone}));
  ExpectGood(shared, {Relay(), alone});
  EXPECT_EQ(shared.bytes_on, 4096);

  // A value that one graph hands to the other stays.
  StepDag reader = Line({Op("r", {"c"}, {"b"})});
  ASSERT_OK_AND_ASSIGN(
      const OverlaidPlan handed,
      PlanArenaWithOverlay(RelaySizes(), kFine, {Relay(), reader}));
  ExpectGood(handed, {Relay(), reader});
  EXPECT_THAT(ReasonOf(handed, "c"), HasSubstr("earlier replay"));
  EXPECT_EQ(handed.bytes_on, 512 + 2048);
}

TEST(OverlayPlannerTest, StepsThatSayNothingOrTooLittleAreRefused) {
  EXPECT_THAT(PlanArenaWithOverlay(RelaySizes(), kFine, {}),
              StatusIs(kInvalid, HasSubstr("no steps")));
  EXPECT_THAT(PlanArenaWithOverlay(RelaySizes(), kFine,
                                   {Step({Op("x", {}, {"a"})}, {{0, 0}})}),
              StatusIs(kInvalid, HasSubstr("edge")));
  EXPECT_THAT(PlanArena(RelaySizes(), {.overlay = Overlay::kOn}),
              StatusIs(kInvalid, HasSubstr("PlanArenaWithOverlay")));
  EXPECT_THAT(PlanArenaWithOverlay(RelaySizes(), {.guard_bytes = 1}, {Relay()}),
              StatusIs(kInvalid, HasSubstr("guard_bytes")));
  EXPECT_THAT(
      PlanArenaWithOverlay({Size("a", 1), Size("a", 1)}, kFine, {Relay()}),
      StatusIs(kInvalid, HasSubstr("twice")));
}

TEST(OverlayPlannerTest, SizesBeyondAllBoundsAreRefused) {
  std::vector<BufferSize> sizes = RelaySizes();
  sizes[0].bytes = std::numeric_limits<int64_t>::max() - 1000;
  EXPECT_THAT(PlanArenaWithOverlay(sizes, kFine, {Relay()}),
              StatusIs(kInvalid, HasSubstr("2^63-1")));
  // The sum of live ranges overflows before the sum of buffers does.
  sizes[0].bytes = std::numeric_limits<int64_t>::max() / 4;
  EXPECT_THAT(PlanArenaWithOverlay(sizes, kFine, {Relay()}),
              StatusIs(kInvalid, HasSubstr("2^63-1")));
}

}  // namespace
}  // namespace permafrost
