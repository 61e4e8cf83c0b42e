// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "tests/arena/memory/arena_fixture.h"

namespace permafrost {
namespace {

using ::permafrost::testing::IsOk;
using ::permafrost::testing::kSmallPlanBytes;
using ::permafrost::testing::SmallPlan;
using ::permafrost::testing::SmallSizes;
using ::permafrost::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

class ArenaLifeTest : public ::permafrost::testing::ArenaTest {};
PERMAFROST_ON_BOTH_MEMORIES(ArenaLifeTest);

TEST_P(ArenaLifeTest, BuffersLieAtTheirPlannedOffsets) {
  ASSERT_OK_AND_ASSIGN(const Arena arena, CreateSmall());
  const ArenaView view = arena.view();
  EXPECT_FALSE(view.base().is_null());
  EXPECT_EQ(view.epoch(), 1u);
  EXPECT_FALSE(view.is_frozen());
  EXPECT_EQ(arena.live_bytes(), kSmallPlanBytes);
  for (const PlannedBuffer& planned : view.plan().buffers()) {
    if (!planned.is_present()) continue;
    ASSERT_OK_AND_ASSIGN(const BufferRef buffer, view.Find(planned.name));
    EXPECT_EQ(buffer.base - view.base(), planned.offset_bytes);
    EXPECT_EQ(buffer.bytes, planned.bytes);
    EXPECT_EQ(buffer.base.value() % 256, 0u);
  }
}

TEST_P(ArenaLifeTest, EveryByteOfEveryBufferCanBeWrittenAndReadBack) {
  ASSERT_OK_AND_ASSIGN(const Arena arena, CreateSmall());
  ASSERT_OK_AND_ASSIGN(const BufferRef scratch, arena.view().Find("scratch"));
  ASSERT_OK_AND_ASSIGN(const BufferRef cache, arena.view().Find("cache"));
  {
    const Context::Scope scope = context()->MakeCurrent();
    ASSERT_EQ(api().MemsetD8(scratch.base.value(), 0x11,
                             static_cast<size_t>(scratch.bytes)),
              CUDA_SUCCESS);
    ASSERT_EQ(api().MemsetD8(cache.base.value(), 0x22,
                             static_cast<size_t>(cache.bytes)),
              CUDA_SUCCESS);
    ASSERT_EQ(api().CtxSynchronize(), CUDA_SUCCESS);
  }
  EXPECT_THAT(ReadDevice(scratch.base, scratch.bytes), Each(0x11));
  EXPECT_THAT(ReadDevice(cache.base, cache.bytes), Each(0x22));
}

TEST_P(ArenaLifeTest, OnlyConstantAndInitOnceBuffersAreZeroed) {
  faulting().ResetCounts();
  ASSERT_OK_AND_ASSIGN(const Arena arena, CreateSmall());
  EXPECT_EQ(faulting().calls("cuMemsetD8Async"), 2);
  EXPECT_EQ(faulting().calls("cuStreamSynchronize"), 1);
  for (const char* name : {"tables", "counters"}) {
    ASSERT_OK_AND_ASSIGN(const BufferRef buffer, arena.view().Find(name));
    EXPECT_THAT(ReadDevice(buffer.base, buffer.bytes), Each(0)) << name;
  }
}

TEST_P(ArenaLifeTest, UnknownAndAbsentBuffersAreErrorsThatSayWhich) {
  ASSERT_OK_AND_ASSIGN(const Arena arena, CreateSmall());
  EXPECT_THAT(arena.view().Find("scratchy"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("'scratchy'")));
  EXPECT_THAT(arena.view().Find("absent"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("'absent'"),
                             HasSubstr("the model has no such part"))));
}

TEST_P(ArenaLifeTest, AskingForMoreThanABufferHoldsNamesBothAndTheOption) {
  ASSERT_OK_AND_ASSIGN(const Arena arena, CreateSmall());
  const ArenaView view = arena.view();
  EXPECT_OK(view.CheckFits("tables", 5000));
  EXPECT_OK(view.CheckFits("tables", 0));
  EXPECT_THAT(
      view.CheckFits("tables", 5001),
      StatusIs(absl::StatusCode::kResourceExhausted,
               AllOf(HasSubstr("'tables'"), HasSubstr("5001 bytes"),
                     HasSubstr("holds 5000"), HasSubstr("max_batch_tokens"))));
  EXPECT_THAT(view.CheckFits("tables", -1),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(view.CheckFits("nope", 1), StatusIs(absl::StatusCode::kNotFound));
}

TEST_P(ArenaLifeTest, TheOptionIsTheOneThatSizesTheBuffer) {
  std::vector<BufferSize> sizes = SmallSizes();
  sizes[0].sized_by = "max_batch_size, max_seq_len";
  sizes[1].sized_by = "";
  ASSERT_OK_AND_ASSIGN(ArenaPlan plan, PlanArena(sizes, PlanOptions{}));
  ASSERT_OK_AND_ASSIGN(const Arena arena,
                       Arena::Create(context(), std::move(plan), Options()));
  EXPECT_THAT(arena.view().CheckFits("scratch", int64_t{1} << 40),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("ServingLimits::max_batch_size"),
                             HasSubstr("ServingLimits::max_seq_len"),
                             Not(HasSubstr("max_batch_tokens")))));
  EXPECT_THAT(arena.view().CheckFits("tables", 5001),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("the model's config"),
                             Not(HasSubstr("ServingLimits")))));
}

TEST_P(ArenaLifeTest, TwoArenasShareNoAddress) {
  ASSERT_OK_AND_ASSIGN(const Arena a, CreateSmall());
  ASSERT_OK_AND_ASSIGN(const Arena b, CreateSmall());
  const DevicePtr low = std::min(a.view().base(), b.view().base());
  const DevicePtr high = std::max(a.view().base(), b.view().base());
  EXPECT_GE(high - low, kSmallPlanBytes);
}

TEST_P(ArenaLifeTest, FreezingKeepsAddressesAndEmptiesTheArena) {
  ASSERT_OK_AND_ASSIGN(Arena arena, CreateSmall());
  const ArenaView before = arena.view();
  const DevicePtr base = before.base();
  ASSERT_OK_AND_ASSIGN(const FrozenArena frozen, std::move(arena).Freeze());
  EXPECT_EQ(frozen.view().base(), base);
  EXPECT_TRUE(frozen.view().is_frozen());
  EXPECT_TRUE(before.is_frozen());
  EXPECT_EQ(frozen.epoch(), 1u);
  EXPECT_EQ(frozen.live_bytes(), kSmallPlanBytes);
  // NOLINTBEGIN(bugprone-use-after-move): what the freeze left
  EXPECT_EQ(arena.live_bytes(), 0);
  EXPECT_OK(arena.Release());
  EXPECT_THAT(std::move(arena).Freeze(),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  // NOLINTEND(bugprone-use-after-move)
  EXPECT_EQ(frozen.live_bytes(), kSmallPlanBytes);
}

TEST_P(ArenaLifeTest, AfterReleaseEveryUseIsAnErrorAndReleaseIsANoOp) {
  ASSERT_OK_AND_ASSIGN(FrozenArena arena, CreateFrozen());
  const FrozenArena copy = arena;
  const ArenaView view = arena.view();
  EXPECT_OK(arena.Release());
  ExpectNothingLeft();

  EXPECT_THAT(
      view.Find("scratch"),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("released")));
  EXPECT_TRUE(view.base().is_null());
  EXPECT_FALSE(view.is_frozen());
  EXPECT_THAT(copy.TakeLease("late"),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(copy.ReadBack(), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(copy.VerifyStable(),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_EQ(copy.live_bytes(), 0);
  faulting().ResetCounts();
  EXPECT_OK(arena.Release());
  EXPECT_EQ(faulting().calls(), 0);
}

TEST_P(ArenaLifeTest, AnArenaReleasedBeforeTheFreezeCannotBeFrozen) {
  ASSERT_OK_AND_ASSIGN(Arena arena, CreateSmall());
  EXPECT_OK(arena.Release());
  ExpectNothingLeft();
  EXPECT_THAT(
      std::move(arena).Freeze(),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("released")));
}

TEST_P(ArenaLifeTest, TheLastHandleTakesTheMemoryAlongAndViewsFindNothing) {
  std::optional<ArenaView> view;
  {
    ASSERT_OK_AND_ASSIGN(const FrozenArena arena, CreateFrozen());
    view.emplace(arena.view());
    const FrozenArena copy = arena;
    EXPECT_OK(view->Find("scratch"));
  }
  ExpectNothingLeft();
  EXPECT_THAT(view->Find("scratch"), Not(IsOk()));
}

TEST_P(ArenaLifeTest, AssigningOverAnArenaGivesItsMemoryBack) {
  ASSERT_OK_AND_ASSIGN(Arena a, CreateSmall());
  const ArenaView old = a.view();
  ASSERT_OK_AND_ASSIGN(Arena b, CreateSmall());
  a = std::move(b);
  EXPECT_THAT(old.Find("scratch"), Not(IsOk()));
  EXPECT_EQ(a.live_bytes(), kSmallPlanBytes);
  if (soft().has_value()) {
    EXPECT_EQ(LiveBytes(), bytes_before() + kSmallPlanBytes);
  }
}

TEST_P(ArenaLifeTest, ADeviceTooSmallIsRefusedBeforeAnyMemoryIsTaken) {
  PERMAFROST_NEEDS_SOFTCUDA();
  ASSERT_OK_AND_ASSIGN(const int64_t total, context()->TotalMemoryBytes());
  constexpr int64_t kTooLittle = kSmallPlanBytes - 1;
  soft()->SetDeviceMemoryBytes(bytes_before() + kTooLittle);
  faulting().ResetCounts();
  const absl::StatusOr<Arena> arena = CreateSmall();
  soft()->SetDeviceMemoryBytes(total);
  EXPECT_THAT(
      arena,
      StatusIs(absl::StatusCode::kResourceExhausted,
               AllOf(HasSubstr("needs 6291456 bytes, 6291455 are free"),
                     HasSubstr("'scratch' 2097252, 'cache' 70000, 'tables' "
                               "5000"),
                     HasSubstr("max_batch_tokens"))));
  for (const char* call : {"cuMemAddressReserve", "cuMemCreate", "cuMemMap",
                           "cuMemSetAccess", "cuMemAlloc", "cuStreamCreate"}) {
    EXPECT_EQ(faulting().calls(call), 0) << call;
  }
}

TEST_P(ArenaLifeTest, ADeviceThatIsExactlyLargeEnoughIsTaken) {
  PERMAFROST_NEEDS_SOFTCUDA();
  ASSERT_OK_AND_ASSIGN(const int64_t total, context()->TotalMemoryBytes());
  soft()->SetDeviceMemoryBytes(bytes_before() + kSmallPlanBytes);
  const absl::StatusOr<Arena> arena = CreateSmall();
  soft()->SetDeviceMemoryBytes(total);
  EXPECT_OK(arena);
}

TEST_P(ArenaLifeTest, AGranularityTheDeviceDoesNotDivideIsRefused) {
  ASSERT_OK_AND_ASSIGN(
      ArenaPlan plan,
      PlanArena(SmallSizes(), PlanOptions{.granularity_bytes = 3 << 20}));
  const absl::StatusOr<Arena> arena =
      Arena::Create(context(), std::move(plan), Options());
  if (GetParam()) {
    EXPECT_THAT(arena, StatusIs(absl::StatusCode::kFailedPrecondition,
                                AllOf(HasSubstr("3145728 bytes"),
                                      HasSubstr("granularity_bytes = "))));
  } else {
    EXPECT_OK(arena);  // one allocation has no granularity
  }
}

TEST_P(ArenaLifeTest, AnInvalidPlanIsRefusedWithoutADriverCall) {
  PlannedBuffer low = SmallPlan().buffers()[0];
  PlannedBuffer high = low;
  high.name = "overlapping";
  const ArenaPlan plan = ArenaPlan::FromParts(
      {low, high}, {{low.tag, 0, int64_t{4} << 20}}, int64_t{4} << 20, {});
  faulting().ResetCounts();
  EXPECT_THAT(
      Arena::Create(context(), plan, Options()),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("overlapping")));
  EXPECT_EQ(faulting().calls(), 0);
}

TEST_P(ArenaLifeTest, ABlockingCaptureRefusesCreateAndReleaseAndSurvives) {
  ASSERT_OK_AND_ASSIGN(FrozenArena arena, CreateFrozen());
  CUstream stream = nullptr;
  {
    const Context::Scope scope = context()->MakeCurrent();
    ASSERT_EQ(api().StreamCreate(&stream, CU_STREAM_DEFAULT), CUDA_SUCCESS);
    ASSERT_EQ(api().StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED),
              CUDA_SUCCESS);
  }
  EXPECT_THAT(CreateSmall(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                      HasSubstr("end the capture first")));
  EXPECT_THAT(arena.Release(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                        HasSubstr("end the capture first")));
  EXPECT_OK(arena.view().Find("scratch"));

  const Context::Scope scope = context()->MakeCurrent();
  CUgraph graph = nullptr;
  EXPECT_EQ(api().StreamEndCapture(stream, &graph), CUDA_SUCCESS);
  ASSERT_NE(graph, nullptr);
  EXPECT_EQ(api().GraphDestroy(graph), CUDA_SUCCESS);
  EXPECT_EQ(api().StreamDestroy(stream), CUDA_SUCCESS);
  EXPECT_OK(arena.Release());
}

TEST_P(ArenaLifeTest, AHandleThatEndsDuringACaptureLeavesItAlone) {
  CUstream stream = nullptr;
  {
    ASSERT_OK_AND_ASSIGN(const Arena arena, CreateSmall());
    const Context::Scope scope = context()->MakeCurrent();
    ASSERT_EQ(api().StreamCreate(&stream, CU_STREAM_DEFAULT), CUDA_SUCCESS);
    ASSERT_EQ(api().StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED),
              CUDA_SUCCESS);
  }
  EXPECT_EQ(Arena::abandoned_bytes(), kSmallPlanBytes);
  EXPECT_THAT(Arena::ReclaimAbandoned(),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  {
    const Context::Scope scope = context()->MakeCurrent();
    CUgraph graph = nullptr;
    EXPECT_EQ(api().StreamEndCapture(stream, &graph), CUDA_SUCCESS);
    EXPECT_EQ(api().GraphDestroy(graph), CUDA_SUCCESS);
    EXPECT_EQ(api().StreamDestroy(stream), CUDA_SUCCESS);
  }
  EXPECT_OK(Arena::ReclaimAbandoned());
}

}  // namespace
}  // namespace permafrost
