// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/capture/capture_all.h"

#include <gtest/gtest.h>

#include <vector>

#include "permafrost/capture/arena_checksum.h"
#include "permafrost/driver/faulting_driver.h"
#include "permafrost/driver/status.h"
#include "tests/capture/capture_fixture.h"

namespace permafrost {
namespace {

using ::permafrost::testing::CaptureTest;
using ::permafrost::testing::MakeCopyStep;
using ::permafrost::testing::MakeScaleStep;
using ::permafrost::testing::MakeTestPlan;
using ::permafrost::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

using CaptureAllTest = CaptureTest;

TEST_F(CaptureAllTest, OneGraphABucketFoundByRows) {
  ASSERT_OK(Prepare(MakeScaleStep(kernels()), {{8}, {2}, {4}}));
  ASSERT_OK_AND_ASSIGN(const GraphSet set, Capture());
  ASSERT_EQ(set.size(), 3u);
  for (const auto& [rows, rung] : std::vector<std::pair<int64_t, int64_t>>{
           {0, 2}, {2, 2}, {3, 4}, {5, 8}, {8, 8}}) {
    ASSERT_OK_AND_ASSIGN(const CapturedGraph* graph, set.Find(rows));
    EXPECT_EQ(graph->bucket().rows, rung);
  }
  EXPECT_THAT(set.Find(9),
              StatusIs(absl::StatusCode::kOutOfRange,
                       AllOf(HasSubstr("9 rows"), HasSubstr("last rung 8"))));
  EXPECT_EQ(set.counters().captures, 3);
  EXPECT_EQ(set.counters().recaptures, 0);
}

TEST_F(CaptureAllTest, ABucketThatWasNotWarmedIsRefusedByName) {
  ASSERT_OK(Prepare(MakeCopyStep(context()), {{2}, {4}}));
  CaptureOptions options;
  options.buckets = {{2}, {8}};
  EXPECT_THAT(Capture(options),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("8 rows"), HasSubstr("not warmed"))));
  options.buckets = {{4}};
  ASSERT_OK_AND_ASSIGN(const GraphSet set, Capture(options));
  EXPECT_EQ(set.size(), 1u);
}

template <typename AnyArena>
concept IsCaptured = requires(const AnyArena& arena, const WarmSet& warm_set,
                              const Lane& lane) {
  CaptureAll(arena, warm_set, lane);
};

// The compiler refuses it: an arena whose buffers may still move is of another
// type.
TEST_F(CaptureAllTest, B01AnArenaThatIsNotFrozenCannotBeCaptured) {
  EXPECT_TRUE(IsCaptured<FrozenArena>);
  EXPECT_FALSE(IsCaptured<Arena>);
}

TEST_F(CaptureAllTest, AWarmSetOfAnotherArenaIsRefused) {
  ASSERT_OK(Prepare(MakeCopyStep(context())));
  ASSERT_OK_AND_ASSIGN(Arena other, Arena::Create(context(), MakeTestPlan()));
  ASSERT_OK_AND_ASSIGN(const FrozenArena frozen, std::move(other).Freeze());
  EXPECT_THAT(CaptureAll(frozen, warm_set(), lane()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("warm up on the arena that is frozen")));
}

TEST_F(CaptureAllTest, TheErrorOfAStepNamesItsBucket) {
  bool fail = false;
  const Step copy = MakeCopyStep(context());
  ASSERT_OK(Prepare([&](const StepContext& step) -> absl::Status {
    if (fail && step.bucket.rows == 4) return absl::AbortedError("no luck");
    return copy(step);
  }));
  fail = true;
  const int64_t handles = soft() ? soft()->live_handles() : 0;
  EXPECT_THAT(Capture(), StatusIs(absl::StatusCode::kAborted,
                                  AllOf(HasSubstr("bucket of 4 rows"),
                                        HasSubstr("lane 'decode'"),
                                        HasSubstr("no luck"))));
  // The graph of 2 rows was made and went again, its lease too.
  if (soft()) {
    EXPECT_EQ(soft()->live_handles(), handles);
  }
  fail = false;
  EXPECT_OK(Capture());
}

TEST_F(CaptureAllTest, FindingsOfTheAuditStopBeforeInstantiate) {
  ASSERT_OK_AND_ASSIGN(const DeviceBuffer stray,
                       DeviceBuffer::Allocate(context(), 4096));
  ASSERT_OK(Prepare([&](const StepContext& step) {
    return kernels().Scale(step.stream, step.arena.Find("output")->base,
                           stray.ptr(), 16, 1.0f);
  }));
  const int64_t handles = soft() ? soft()->live_handles() : 0;
  EXPECT_THAT(
      Capture(),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("graph of 2 rows"), HasSubstr("foreign address"),
                     HasSubstr("k_scale"), HasSubstr("'src'"))));
  if (soft()) {
    EXPECT_EQ(soft()->live_handles(), handles);
  }
  CaptureOptions options;
  options.externals = {{"weights", stray.ptr(), 4096, Access::kRead, 0}};
  EXPECT_OK(Capture(options));
}

TEST_F(CaptureAllTest, AnEmptyStepIsRefused) {
  ASSERT_OK(Prepare([](const StepContext&) { return absl::OkStatus(); }));
  EXPECT_THAT(Capture(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                  HasSubstr("empty graph")));
}

// The step does a part of its work on a stream that does not capture: that part
// runs once, at capture, and never again.
TEST_F(CaptureAllTest, WorkThatRanDuringCaptureIsFound) {
  ASSERT_OK_AND_ASSIGN(const Stream side, Stream::Create(context()));
  bool stray = false;
  const Step copy = MakeCopyStep(context());
  ASSERT_OK(Prepare([&](const StepContext& step) -> absl::Status {
    if (stray) {
      PERMAFROST_RETURN_IF_ERROR(
          CuStatus(api().MemsetD8Async(step.arena.Find("scratch")->base.value(),
                                       0x77, 64, side.get()),
                   "cuMemsetD8Async"));
      PERMAFROST_RETURN_IF_ERROR(side.Synchronize());
    }
    return copy(step);
  }));
  CaptureOptions options;
  options.mode = CaptureMode::kRelaxed;  // the mode that hides such things
  options.verify_capture_ran_nothing = true;
  EXPECT_OK(Capture(options));
  stray = true;
  EXPECT_THAT(Capture(options),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("buffer 'scratch' changed")));
}

TEST_F(CaptureAllTest, ChecksumsTellWhichBufferChanged) {
  ASSERT_OK(Prepare(MakeCopyStep(context())));
  ASSERT_OK_AND_ASSIGN(const ArenaChecksum before,
                       ComputeArenaChecksum(arena().view(), lane()));
  ASSERT_OK_AND_ASSIGN(const ArenaChecksum same,
                       ComputeArenaChecksum(arena().view(), lane()));
  EXPECT_EQ(before, same);
  EXPECT_EQ(before.FirstDifference(same), "");
  EXPECT_EQ(before.entries.size(), 5u);
  ASSERT_EQ(api().MemsetD8Async(Buffer("state").base.value() + 63, 1, 1,
                                lane().stream()),
            CUDA_SUCCESS);
  ASSERT_OK_AND_ASSIGN(const ArenaChecksum after,
                       ComputeArenaChecksum(arena().view(), lane()));
  EXPECT_EQ(before.FirstDifference(after), "state");
}

TEST_F(CaptureAllTest, AllModesCapture) {
  ASSERT_OK(Prepare(MakeCopyStep(context())));
  for (const CaptureMode mode : {CaptureMode::kThreadLocal,
                                 CaptureMode::kGlobal, CaptureMode::kRelaxed}) {
    CaptureOptions options;
    options.mode = mode;
    EXPECT_OK(Capture(options)) << CaptureModeName(mode);
  }
}

}  // namespace
}  // namespace permafrost
