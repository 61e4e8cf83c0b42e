// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Captured graphs of an arena that sleeps and wakes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "permafrost/capture/capture_all.h"
#include "permafrost/driver/handles.h"
#include "permafrost/driver/status.h"
#include "tests/capture/capture_fixture.h"

namespace permafrost {
namespace {

using ::permafrost::testing::CaptureTest;
using ::permafrost::testing::kRowFloats;
using ::permafrost::testing::StatusIs;
using ::permafrost::testing::TestKernels;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr auto kPrecondition = absl::StatusCode::kFailedPrecondition;
constexpr int64_t kBytes = 4 * kRowFloats * 4;
constexpr int32_t kFloats = 4 * kRowFloats;

BufferSize Size(const char* name, int64_t bytes, Lifetime lifetime,
                const char* tag) {
  BufferSize size;
  size.name = name;
  size.bytes = bytes;
  size.element = ElementType::kF32;
  size.lifetime = lifetime;
  size.tag = tag;
  size.sleep = DefaultSleepPolicy(lifetime);
  return size;
}

// output = input * table-factor, with the counter raised by one: the counter is
// state, the table is written once, scratch and output each step.
class SleepTest : public CaptureTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(CaptureTest::SetUp());
    ASSERT_OK_AND_ASSIGN(
        ArenaPlan plan,
        PlanArena({Size("table", kBytes, Lifetime::kConstant, "tables"),
                   Size("scratch", kBytes, Lifetime::kPerLayer, "step"),
                   Size("output", kBytes, Lifetime::kPerStep, "step"),
                   Size("other", kBytes, Lifetime::kPerStep, "other"),
                   Size("counter", 64, Lifetime::kState, "state")},
                  {}));
    ASSERT_OK_AND_ASSIGN(Arena arena,
                         Arena::Create(context(), std::move(plan)));
    Write(Place(arena.view(), "table"), std::vector<float>(kFloats, 2.0f));
    Write(Place(arena.view(), "counter"), std::vector<float>(16, 0.0f));
    Write(Place(arena.view(), "scratch"), std::vector<float>(kFloats, 0.0f));
    ASSERT_OK_AND_ASSIGN(frozen_, std::move(arena).Freeze());
  }

  void TearDown() override {
    graph_.reset();
    frozen_.reset();
    CaptureTest::TearDown();
  }

  static DevicePtr Place(const ArenaView& view, const char* name) {
    return view.Find(name)->base;
  }
  DevicePtr Place(const char* name) const {
    return Place(frozen_->view(), name);
  }

  // scratch = table * 3, output = scratch * 2, counter += 1.
  absl::Status Step(CUstream stream) const {
    PERMAFROST_RETURN_IF_ERROR(kernels().Scale(stream, Place("scratch"),
                                               Place("table"), kFloats, 3.0f));
    PERMAFROST_RETURN_IF_ERROR(kernels().Scale(
        stream, Place("output"), Place("scratch"), kFloats, 2.0f));
    return kernels().Count(stream, Place("counter"));
  }

  absl::StatusOr<std::unique_ptr<CapturedGraph>> AdoptStep(
      const std::vector<ExternalRegion>& externals = {},
      const AuditPolicy& policy = {}) {
    PERMAFROST_ASSIGN_OR_RETURN(
        Graph recorded, Record([&](CUstream stream) { return Step(stream); }));
    return Adopt(std::move(recorded), externals, policy);
  }

  absl::StatusOr<std::unique_ptr<CapturedGraph>> Adopt(
      Graph recorded, const std::vector<ExternalRegion>& externals = {},
      const AuditPolicy& policy = {}) {
    AuditScope scope;
    scope.signatures = &kernels().signatures();
    scope.externals = externals;
    return CapturedGraph::Adopt(*frozen_, lane(), Bucket{4},
                                std::move(recorded), scope, policy);
  }

  int64_t Counter() const {
    int64_t value = -1;
    EXPECT_EQ(api().MemcpyDtoHAsync(&value, Place("counter").value(), 8,
                                    lane().stream()),
              CUDA_SUCCESS);
    EXPECT_OK(lane().Drain());
    return value;
  }

  FrozenArena& frozen() { return *frozen_; }

  std::optional<FrozenArena> frozen_;
  std::unique_ptr<CapturedGraph> graph_;
};

TEST_F(SleepTest, B115ReplayIsRefusedUntilAllThatTheGraphTouchesIsAwake) {
  ASSERT_OK_AND_ASSIGN(graph_, AdoptStep());
  ASSERT_OK(graph_->Replay());
  for (const char* tag : {"tables", "step", "state"}) {
    ASSERT_OK(frozen().Sleep({.tags = {tag}}));
    EXPECT_THAT(graph_->Replay(),
                StatusIs(kPrecondition,
                         AllOf(HasSubstr("graph of 4 rows on lane 'decode'"),
                               HasSubstr(std::string("segment '") + tag + "'"),
                               HasSubstr("asleep"))));
    ASSERT_OK(frozen().Wake());
    ASSERT_OK(graph_->Replay());
  }
  // What it does not touch may sleep.
  ASSERT_OK(frozen().Sleep({.tags = {"other"}}));
  ASSERT_OK(graph_->Replay());
  EXPECT_EQ(graph_->replays(), 5);
  EXPECT_THAT(Read(Place("output"), kFloats), Each(12.0f));
  EXPECT_EQ(Counter(), 5);
}

TEST_F(SleepTest, B115EveryGraphOfTheArenaIsRefused) {
  ASSERT_OK_AND_ASSIGN(graph_, AdoptStep());
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<CapturedGraph> draft, AdoptStep());
  ASSERT_OK(frozen().Sleep());
  EXPECT_THAT(graph_->Replay(), StatusIs(kPrecondition));
  EXPECT_THAT(draft->Replay(), StatusIs(kPrecondition));
  ASSERT_OK(frozen().Wake());
  EXPECT_OK(graph_->Replay());
  EXPECT_OK(draft->Replay());
  EXPECT_EQ(Counter(), 2);
}

TEST_F(SleepTest, SleepDrainsTheLaneOfEachGraph) {
  ASSERT_OK_AND_ASSIGN(graph_, AdoptStep());
  for (int i = 0; i < 20; ++i) ASSERT_OK(graph_->Replay());
  ASSERT_OK(frozen().Sleep());
  ASSERT_OK(frozen().Wake());
  EXPECT_EQ(Counter(), 20);
}

TEST_F(SleepTest, AGraphThatNamesWhatIsAsleepIsAFinding) {
  ASSERT_OK_AND_ASSIGN(Graph recorded,
                       Record([&](CUstream stream) { return Step(stream); }));
  ASSERT_OK(frozen().Sleep({.tags = {"state"}}));
  EXPECT_THAT(Adopt(std::move(recorded)),
              StatusIs(kPrecondition,
                       AllOf(HasSubstr("'counter'"), HasSubstr("asleep"))));
  ASSERT_OK(frozen().Wake());
  EXPECT_OK(AdoptStep());
}

TEST_F(SleepTest, AnAllowedFindingMakesTheGraphWatchEverything) {
  ASSERT_OK_AND_ASSIGN(Graph recorded, Record([&](CUstream stream) {
                         return kernels().Opaque(stream, Place("output"));
                       }));
  AuditPolicy policy;
  policy.Allow(FindingKind::kOpaqueParameter)
      .Allow(FindingKind::kPossibleAddress);
  ASSERT_OK_AND_ASSIGN(graph_, Adopt(std::move(recorded), {}, policy));
  ASSERT_OK(frozen().Sleep({.tags = {"other"}}));
  EXPECT_THAT(graph_->Replay(), StatusIs(kPrecondition, HasSubstr("'other'")));
  ASSERT_OK(frozen().Wake());
  EXPECT_OK(graph_->Replay());
}

TEST_F(SleepTest, AnExternalRegionThatSleptOrMovedIsRefusedUntilRevalidated) {
  ASSERT_OK_AND_ASSIGN(DeviceBuffer weights,
                       DeviceBuffer::Allocate(context(), kBytes));
  Write(weights.ptr(), std::vector<float>(kFloats, 5.0f));
  const auto state = std::make_shared<ExternalRegionState>();
  const std::vector<ExternalRegion> externals = {
      {"weights", weights.ptr(), kBytes, Access::kRead, state}};
  ASSERT_OK_AND_ASSIGN(Graph recorded, Record([&](CUstream stream) {
                         return kernels().Scale(stream, Place("output"),
                                                weights.ptr(), kFloats, 2.0f);
                       }));
  ASSERT_OK_AND_ASSIGN(graph_, Adopt(std::move(recorded), externals));
  // One that does not touch the region.
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<CapturedGraph> other,
                       AdoptStep(externals));
  ASSERT_OK(graph_->Replay());

  state->MarkAsleep();
  EXPECT_FALSE(state->is_awake());
  EXPECT_THAT(graph_->Replay(),
              StatusIs(kPrecondition, HasSubstr("region 'weights'")));
  EXPECT_THAT(graph_->Revalidate(),
              StatusIs(kPrecondition, HasSubstr("'weights' is asleep")));
  EXPECT_OK(other->Replay());
  state->MarkAwake(/*is_other_memory=*/false);
  EXPECT_EQ(state->epoch(), 0u);
  EXPECT_OK(graph_->Replay());

  state->MarkAsleep();
  state->MarkAwake(/*is_other_memory=*/true);
  EXPECT_EQ(state->epoch(), 1u);
  EXPECT_THAT(graph_->Replay(),
              StatusIs(kPrecondition, HasSubstr("Revalidate()")));
  ASSERT_OK(graph_->Revalidate());
  EXPECT_OK(graph_->Replay());
  state->MarkRemapped();
  EXPECT_EQ(state->epoch(), 2u);
  EXPECT_THAT(graph_->Replay(), StatusIs(kPrecondition));
  // Memory that is not there does not pass.
  ASSERT_OK(lane().Drain());
  ASSERT_OK(weights.Destroy());
  EXPECT_THAT(graph_->Revalidate(),
              StatusIs(kPrecondition,
                       AllOf(HasSubstr("k_scale"), HasSubstr("'weights'"))));
  EXPECT_THAT(Read(Place("output"), kFloats), Each(10.0f));
}

TEST_F(SleepTest, ARegionThatIsAsleepAtTheAuditIsAFinding) {
  ASSERT_OK_AND_ASSIGN(const DeviceBuffer weights,
                       DeviceBuffer::Allocate(context(), kBytes));
  const auto state = std::make_shared<ExternalRegionState>();
  ASSERT_OK_AND_ASSIGN(Graph recorded, Record([&](CUstream stream) {
                         return kernels().Scale(stream, Place("output"),
                                                weights.ptr(), kFloats, 2.0f);
                       }));
  state->MarkAsleep();
  EXPECT_THAT(Adopt(std::move(recorded),
                    {{"weights", weights.ptr(), kBytes, Access::kRead, state}}),
              StatusIs(kPrecondition,
                       AllOf(HasSubstr("asleep"), HasSubstr("'weights'"))));
}

TEST_F(SleepTest, B114WhatIsWrittenOnceSurvivesAndResultsAreEqual) {
  PERMAFROST_NEEDS_SOFTCUDA();
  soft()->EnableInitcheck(true);
  soft()->TakeReports();
  ASSERT_OK_AND_ASSIGN(graph_, AdoptStep());
  ASSERT_OK(graph_->Replay());
  const std::vector<float> before = Read(Place("output"), kFloats);
  ASSERT_OK(frozen().Sleep());
  ASSERT_OK(frozen().Wake());
  ASSERT_OK(graph_->Replay());
  EXPECT_EQ(Read(Place("output"), kFloats), before);
  EXPECT_EQ(Counter(), 2);
  EXPECT_THAT(soft()->TakeReports(), IsEmpty());

  // A step that reads what sleep discarded, and nothing wrote since.
  ASSERT_OK_AND_ASSIGN(Graph recorded, Record([&](CUstream stream) {
                         return kernels().Scale(stream, Place("output"),
                                                Place("scratch"), kFloats,
                                                2.0f);
                       }));
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<CapturedGraph> reader,
                       Adopt(std::move(recorded)));
  ASSERT_OK(frozen().Sleep());
  ASSERT_OK(frozen().Wake());
  ASSERT_OK(reader->Replay());
  ASSERT_OK(lane().Drain());
  soft()->EnableInitcheck(false);
  EXPECT_THAT(soft()->TakeReports(),
              Contains(AllOf(HasSubstr("initcheck"), HasSubstr("scratch"))));
}

TEST_F(SleepTest, B11OtherMemoryTakenMeanwhileChangesNoResult) {
  ASSERT_OK_AND_ASSIGN(graph_, AdoptStep());
  ASSERT_OK(graph_->Replay());
  const std::vector<float> before = Read(Place("output"), kFloats);
  std::vector<DeviceBuffer> taken;
  for (int round = 0; round < 4; ++round) {
    ASSERT_OK(frozen().Sleep());
    // Memory and addresses that others take while the arena sleeps.
    ASSERT_OK_AND_ASSIGN(DeviceBuffer other,
                         DeviceBuffer::Allocate(context(), int64_t{2} << 20));
    if (round % 2 == 0) taken.push_back(std::move(other));
    ASSERT_OK(frozen().Wake());
    ASSERT_OK(graph_->Replay());
    EXPECT_EQ(Read(Place("output"), kFloats), before);
    EXPECT_EQ(Counter(), round + 2);
  }
}

TEST_F(SleepTest, B12ABackupIsABufferOfItsOwnThatReplaysLeaveAlone) {
  ASSERT_OK_AND_ASSIGN(graph_, AdoptStep());
  ASSERT_OK(graph_->Replay());
  const ArenaView view = frozen().view();
  ASSERT_OK_AND_ASSIGN(const BufferRef backup, view.Find("other"));
  for (const PlannedBuffer& planned : view.plan().buffers()) {
    if (planned.name == "other") continue;
    ASSERT_OK_AND_ASSIGN(const BufferRef buffer, view.Find(planned.name));
    EXPECT_TRUE(buffer.base + buffer.bytes <= backup.base ||
                backup.base + backup.bytes <= buffer.base)
        << planned.name;
  }
  const auto copy = [&](DevicePtr to, DevicePtr from) {
    ASSERT_EQ(
        api().MemcpyDtoDAsync(to.value(), from.value(), 64, lane().stream()),
        CUDA_SUCCESS);
    ASSERT_OK(lane().Drain());
  };
  copy(backup.base, Place("counter"));
  for (int i = 0; i < 10; ++i) ASSERT_OK(graph_->Replay());
  EXPECT_EQ(Counter(), 11);
  copy(Place("counter"), backup.base);
  EXPECT_EQ(Counter(), 1);
}

TEST_F(SleepTest, B14ReleaseIsRefusedWhileAGraphExistsAndReplayAfterItsEnd) {
  ASSERT_OK_AND_ASSIGN(graph_, AdoptStep());
  EXPECT_THAT(frozen().Release(),
              StatusIs(kPrecondition, HasSubstr("graph of 4 rows")));
  ASSERT_OK(frozen().Sleep());
  EXPECT_THAT(frozen().Release(), StatusIs(kPrecondition));
  ASSERT_OK(graph_->Destroy());
  EXPECT_OK(frozen().Release());
  EXPECT_THAT(graph_->Replay(), StatusIs(kPrecondition));
}

TEST_F(SleepTest, B118TenThousandStepsWithSleepAndWakeBetween) {
  constexpr int kSteps = 10000;
  constexpr int kStepsAwake = 10;
  ASSERT_OK_AND_ASSIGN(graph_, AdoptStep());
  const uint64_t fingerprint = frozen().fingerprint();
  uint64_t sleeps = 0;
  for (int step = 1; step <= kSteps; ++step) {
    ASSERT_OK(graph_->Replay());
    if (step % kStepsAwake != 0) continue;
    // Different every time, so that a step that did not run shows.
    const float factor = static_cast<float>(step % 97 + 1);
    Write(Place("table"), std::vector<float>(kFloats, factor));
    ASSERT_OK(frozen().Sleep());
    ASSERT_OK(frozen().Wake());
    ++sleeps;
    ASSERT_OK(graph_->Replay());
    ASSERT_EQ(Read(Place("output"), kFloats),
              std::vector<float>(kFloats, factor * 6.0f));
    ASSERT_EQ(frozen().epoch(), 1 + sleeps);
    if (step % 1000 == 0) {
      ASSERT_OK_AND_ASSIGN(const ArenaEvidence now, frozen().ReadBack());
      ASSERT_EQ(now.fingerprint, fingerprint);
      ASSERT_OK(frozen().VerifyStable());
      ASSERT_OK(graph_->VerifyNodes());
    }
  }
  EXPECT_EQ(frozen().fingerprint(), fingerprint);
  EXPECT_EQ(Counter(), kSteps + static_cast<int64_t>(sleeps));
  EXPECT_EQ(graph_->replays(), kSteps + static_cast<int64_t>(sleeps));
}

}  // namespace
}  // namespace permafrost
