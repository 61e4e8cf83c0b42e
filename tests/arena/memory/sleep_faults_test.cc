// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

//
// Every driver call of Sleep, Wake and the release of a sleeping arena fails
// once, and fails for good, so that undo calls fail too.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/arena/memory/sleep_fixture.h"

namespace permafrost {
namespace {

using ::permafrost::testing::IsOk;
using ::permafrost::testing::kKeptBytes;
using ::permafrost::testing::kSleepPlanBytes;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kSegments = 5;

// A pop that fails has nobody to report to: the work was done.
constexpr char kUnreportedCall[] = "cuCtxPopCurrent";

class SleepFaultsTest : public ::permafrost::testing::SleepTest {
 protected:
  void Make() {
    arena_.reset();
    ASSERT_OK_AND_ASSIGN(arena_, CreateSleeper());
  }
  void TearDown() override {
    arena_.reset();
    SleepTest::TearDown();
  }
  FrozenArena& arena() { return *arena_; }

  bool HasRemains() { return arena().live_bytes() > 0; }

  // After a failure with all calls passing again, whatever the state: the next
  // calls finish, and nothing that was to be kept is lost.
  void ExpectRecovers(bool by_sleep) {
    if (by_sleep && (HasRemains() || !IsAllAsleep(arena()))) {
      EXPECT_OK(arena().Sleep());
      ExpectAsleep(arena());
    }
    const std::vector<SegmentStatus> segments = arena().segments();
    const bool any_asleep =
        std::any_of(segments.begin(), segments.end(),
                    [](const SegmentStatus& one) { return one.is_asleep; });
    if (any_asleep) {
      EXPECT_OK(arena().Wake());
      if (IsWhollyWoken(segments)) ExpectWokenByPolicy(arena());
    }
    for (const char* name : {"tables", "state", "more_state"}) {
      ExpectPattern(arena(), name);
    }
    EXPECT_OK(arena().VerifyStable());
    EXPECT_EQ(arena().live_bytes(), kSleepPlanBytes);
  }

  std::optional<FrozenArena> arena_;

 private:
  static bool IsWhollyWoken(const std::vector<SegmentStatus>& before) {
    return std::all_of(before.begin(), before.end(),
                       [](const SegmentStatus& one) { return one.is_asleep; });
  }
};
PERMAFROST_ON_MAPPED_MEMORY(SleepFaultsTest);

TEST_P(SleepFaultsTest, ASleepThatFailsOnceIsAwakeAsBeforeOrFinishedByTheNext) {
  std::vector<std::string> calls;
  for (int64_t n = 1;; ++n) {
    Make();
    faulting().FailCall(n);
    const absl::Status status = arena().Sleep();
    const std::string failed = faulting().last_failed_call();
    faulting().Disarm();
    DropStrayContexts();
    SCOPED_TRACE(
        absl::StrCat("call ", n, ", ", failed, ": ", status.ToString()));
    if (failed.empty() || failed == kUnreportedCall) {
      EXPECT_OK(status);
      ExpectAsleep(arena());
    } else if (std::count(calls.begin(), calls.end(), "cuMemUnmap") ==
               kSegments) {
      // Every mapping is gone: the point of no return.
      EXPECT_EQ(CuCallOf(status), failed);
      EXPECT_TRUE(IsAllAsleep(arena()));
      EXPECT_TRUE(HasRemains());
      EXPECT_OK(arena().VerifyStable());
      EXPECT_OK(arena().Sleep());
      ExpectAsleep(arena());
    } else {
      EXPECT_EQ(CuCallOf(status), failed);
      ExpectAwakeAsBefore(arena());
      EXPECT_OK(arena().Sleep());
      ExpectAsleep(arena());
    }
    EXPECT_OK(arena().Wake());
    ExpectWokenByPolicy(arena());
    EXPECT_EQ(arena().host_bytes(), 0);
    if (HasFailure() || failed.empty()) break;
    calls.push_back(failed);
  }
  for (const char* call :
       {"cuCtxPushCurrent", "cuStreamIsCapturing", "cuPointerGetAttribute",
        "cuMemHostAlloc", "cuStreamCreate", "cuMemcpyDtoHAsync",
        "cuStreamSynchronize", "cuStreamDestroy", "cuMemUnmap",
        "cuMemRelease"}) {
    EXPECT_THAT(calls, Contains(call));
  }
}

TEST_P(SleepFaultsTest, ASleepWhoseUndoFailsTooLosesNothingAndIsFinished) {
  for (int64_t n = 1;; ++n) {
    Make();
    faulting().FailFrom(n);
    const absl::Status status = arena().Sleep();
    const std::string failed = faulting().last_failed_call();
    faulting().Disarm();
    DropStrayContexts();
    SCOPED_TRACE(absl::StrCat("calls fail from ", n, ", ", failed, ": ",
                              status.ToString()));
    ExpectRecovers(/*by_sleep=*/n % 2 == 0);
    if (HasFailure() || failed.empty()) break;
  }
}

TEST_P(SleepFaultsTest, APartlyFailedUndoLeavesThatPartAsleepAndSaysSo) {
  Make();
  // The second unmapping fails, and so does mapping the first part again.
  DriverApi api = driver()->api();
  static PFN_cuMemUnmap_v10020 unmap = nullptr;
  static PFN_cuMemMap_v10020 map = nullptr;
  static int unmaps = 0;
  static bool armed = false;
  unmap = api.MemUnmap;
  map = api.MemMap;
  api.MemUnmap = [](CUdeviceptr base, size_t bytes) -> CUresult {
    if (armed && ++unmaps == 2) return CUDA_ERROR_UNKNOWN;
    return unmap(base, bytes);
  };
  api.MemMap = [](CUdeviceptr base, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle,
                  unsigned long long flags) -> CUresult {
    if (armed) return CUDA_ERROR_OUT_OF_MEMORY;
    return map(base, bytes, offset, handle, flags);
  };
  ASSERT_OK_AND_ASSIGN(const ContextRef faulty,
                       Context::RetainPrimary(Driver::WithApi(driver(), api)));
  ASSERT_OK_AND_ASSIGN(ArenaPlan plan,
                       PlanArena(::permafrost::testing::SleepSizes(), {}));
  ASSERT_OK_AND_ASSIGN(Arena created, Arena::Create(faulty, std::move(plan)));
  ASSERT_OK_AND_ASSIGN(arena_, std::move(created).Freeze());
  ASSERT_OK(arena().SetRestoreHook(
      "slab", [](const BufferRef&, CUstream) { return absl::OkStatus(); }));
  Fill(arena());

  armed = true;
  const absl::Status status = arena().Sleep();
  armed = false;
  EXPECT_EQ(CuCallOf(status), "cuMemUnmap");
  EXPECT_THAT(std::string(status.message()), HasSubstr("parts stay asleep"));
  EXPECT_TRUE(arena().segments()[0].is_asleep);
  EXPECT_THAT(arena().view().Find("scratch"), Not(IsOk()));
  for (const char* name : {"tables", "counters", "state", "slab"}) {
    ExpectPattern(arena(), name);
  }
  EXPECT_EQ(arena().live_bytes(), kSleepPlanBytes);
  EXPECT_OK(arena().VerifyStable());
  EXPECT_OK(arena().Wake());
  // Its memory was never given back, so even scratch is as it was.
  ExpectAwakeAsBefore(arena());
}

TEST_P(SleepFaultsTest, AWakeThatFailsOnceIsAsleepAsBefore) {
  std::vector<std::string> calls;
  for (int64_t n = 1;; ++n) {
    Make();
    ASSERT_OK(arena().Sleep());
    faulting().FailCall(n);
    const absl::Status status = arena().Wake();
    const std::string failed = faulting().last_failed_call();
    faulting().Disarm();
    DropStrayContexts();
    SCOPED_TRACE(
        absl::StrCat("call ", n, ", ", failed, ": ", status.ToString()));
    if (status.ok()) {
      // The work was done; what could not be freed is the host copy.
      EXPECT_TRUE(failed.empty() || failed == kUnreportedCall ||
                  arena().host_bytes() > 0);
      EXPECT_EQ(arena().epoch(), 2u);
    } else {
      EXPECT_EQ(CuCallOf(status), failed);
      EXPECT_EQ(arena().epoch(), 1u);
      ExpectAsleep(arena());
      EXPECT_OK(arena().Wake());
      EXPECT_EQ(arena().host_bytes(), 0);
    }
    ExpectWokenByPolicy(arena());
    EXPECT_OK(arena().Sleep());
    ExpectAsleep(arena());
    if (HasFailure() || failed.empty()) break;
    calls.push_back(failed);
  }
  for (const char* call :
       {"cuMemGetInfo", "cuMemCreate", "cuMemMap", "cuMemSetAccess",
        "cuMemcpyHtoDAsync", "cuMemsetD8Async", "cuMemcpyDtoHAsync",
        "cuMemHostAlloc", "cuMemFreeHost", "cuStreamSynchronize",
        "cuStreamDestroy", "cuPointerGetAttribute"}) {
    EXPECT_THAT(calls, Contains(call));
  }
}

TEST_P(SleepFaultsTest, AWakeWhoseUndoFailsTooKeepsWhatWasKept) {
  int64_t most_left_bytes = 0;
  for (int64_t n = 1;; ++n) {
    Make();
    ASSERT_OK(arena().Sleep());
    faulting().FailFrom(n);
    const absl::Status status = arena().Wake();
    const std::string failed = faulting().last_failed_call();
    faulting().Disarm();
    DropStrayContexts();
    SCOPED_TRACE(absl::StrCat("calls fail from ", n, ", ", failed, ": ",
                              status.ToString()));
    if (!status.ok()) {
      EXPECT_TRUE(IsAllAsleep(arena()));
      EXPECT_GE(arena().host_bytes(), kKeptBytes);
      EXPECT_EQ(LiveBytes(), bytes_before() + arena().live_bytes());
      EXPECT_OK(arena().VerifyStable());
      most_left_bytes = std::max(most_left_bytes, arena().live_bytes());
      if (HasRemains()) {
        EXPECT_THAT(
            std::string(status.message()),
            HasSubstr(absl::StrCat(arena().live_bytes(), " bytes could not")));
      }
    }
    ExpectRecovers(/*by_sleep=*/n % 2 == 0);
    if (HasFailure() || failed.empty()) break;
  }
  EXPECT_EQ(most_left_bytes, kSleepPlanBytes);
}

TEST_P(SleepFaultsTest, AFailedReleaseOfASleepingArenaIsFinishedByTheNext) {
  for (const bool for_good : {false, true}) {
    for (int64_t n = 1;; ++n) {
      Make();
      ASSERT_OK(arena().Sleep());
      for_good ? faulting().FailFrom(n) : faulting().FailCall(n);
      const absl::Status status = arena().Release();
      const std::string failed = faulting().last_failed_call();
      faulting().Disarm();
      DropStrayContexts();
      SCOPED_TRACE(
          absl::StrCat("call ", n, ", ", failed, ": ", status.ToString()));
      EXPECT_EQ(LiveBytes(), bytes_before() + arena().live_bytes());
      EXPECT_OK(arena().Release());
      EXPECT_EQ(arena().host_bytes(), 0);
      ExpectNothingLeft();
      if (HasFailure() || failed.empty()) break;
    }
  }
}

TEST_P(SleepFaultsTest, ASleepingArenaThatNobodyHoldsGivesAllBack) {
  for (int64_t n = 1;; ++n) {
    Make();
    ASSERT_OK(arena().Sleep());
    faulting().FailFrom(n);
    arena_.reset();
    const std::string failed = faulting().last_failed_call();
    faulting().Disarm();
    DropStrayContexts();
    EXPECT_OK(Arena::ReclaimAbandoned());
    ExpectNothingLeft();
    if (HasFailure() || failed.empty()) break;
  }
}

}  // namespace
}  // namespace permafrost
