// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

//
// Every driver call of an arena's life fails once, and fails for good.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "permafrost/driver/status.h"
#include "tests/arena/memory/arena_fixture.h"

namespace permafrost {
namespace {

using ::permafrost::testing::IsOk;
using ::permafrost::testing::kSmallPlanBytes;
using ::permafrost::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::Not;

// A pop that fails has nobody to report to: the work was done.
constexpr char kUnreportedCall[] = "cuCtxPopCurrent";

class ArenaFaultsTest : public ::permafrost::testing::ArenaTest {
 protected:
  // Runs `path` with its n-th call failing, for every n it has, and checks
  // that a failure is reported as that call's. `after` runs with the failed
  // status and all calls passing again. Returns the calls of the path.
  template <typename Path, typename After>
  std::vector<std::string> FailEachCallOnce(Path path, After after) {
    std::vector<std::string> calls;
    for (int64_t n = 1;; ++n) {
      SCOPED_TRACE(absl::StrCat("call ", n, " fails once"));
      faulting().FailCall(n);
      const absl::Status status = path();
      const std::string failed = faulting().last_failed_call();
      faulting().Disarm();
      DropStrayContexts();
      if (failed.empty()) {
        EXPECT_OK(status);
        after(status);
        return calls;
      }
      calls.push_back(failed);
      if (failed == kUnreportedCall) {
        EXPECT_OK(status);
      } else {
        EXPECT_EQ(CuCallOf(status), failed) << status;
      }
      after(status);
    }
  }

  // As above, with every call from the n-th on failing; `calls` is the path's.
  template <typename Path, typename After>
  void FailEachCallForGood(const std::vector<std::string>& calls, Path path,
                           After after) {
    for (size_t n = 0; n < calls.size(); ++n) {
      SCOPED_TRACE(absl::StrCat("calls fail from ", n + 1, ", ", calls[n]));
      faulting().FailFrom(static_cast<int64_t>(n) + 1);
      const absl::Status status = path();
      faulting().Disarm();
      DropStrayContexts();
      size_t reported = n;
      while (reported < calls.size() && calls[reported] == kUnreportedCall) {
        ++reported;
      }
      if (reported == calls.size()) {
        EXPECT_OK(status);
      } else {
        EXPECT_EQ(CuCallOf(status), calls[reported]) << status;
      }
      after(status);
    }
  }
};
PERMAFROST_ON_BOTH_MEMORIES(ArenaFaultsTest);

TEST_P(ArenaFaultsTest, CreateUndoesWhatItDidAtEveryFailingCall) {
  std::optional<Arena> arena;
  const auto create = [&]() -> absl::Status {
    PERMAFROST_ASSIGN_OR_RETURN(arena, CreateSmall());
    return absl::OkStatus();
  };
  const std::vector<std::string> calls =
      FailEachCallOnce(create, [&](const absl::Status&) {
        arena.reset();
        ExpectNothingLeft();
      });
  EXPECT_THAT(calls, Contains(GetParam() ? "cuMemSetAccess" : "cuMemAlloc"));
  EXPECT_THAT(calls, Contains("cuMemsetD8Async"));
  EXPECT_THAT(calls, Contains("cuStreamSynchronize"));

  int64_t most_abandoned_bytes = 0;
  FailEachCallForGood(calls, create, [&](const absl::Status& status) {
    arena.reset();
    const int64_t abandoned_bytes = Arena::abandoned_bytes();
    if (abandoned_bytes > 0) {
      EXPECT_THAT(std::string(status.message()),
                  AllOf(HasSubstr(absl::StrCat(abandoned_bytes, " bytes")),
                        HasSubstr("ReclaimAbandoned")));
    }
    most_abandoned_bytes = std::max(most_abandoned_bytes, abandoned_bytes);
    EXPECT_OK(Arena::ReclaimAbandoned());
    ExpectNothingLeft();
  });
  EXPECT_EQ(most_abandoned_bytes, kSmallPlanBytes);
}

TEST_P(ArenaFaultsTest, AFailedFreezeLeavesAnArenaThatCanBeFrozen) {
  ASSERT_OK_AND_ASSIGN(Arena arena, CreateSmall());
  std::optional<FrozenArena> frozen;
  const auto freeze = [&]() -> absl::Status {
    PERMAFROST_ASSIGN_OR_RETURN(frozen, std::move(arena).Freeze());
    return absl::OkStatus();
  };
  const auto check = [&](const absl::Status& status) {
    // NOLINTBEGIN(bugprone-use-after-move): a failed freeze leaves the arena
    if (status.ok()) {
      EXPECT_OK(frozen->VerifyStable());
      frozen.reset();
      absl::StatusOr<Arena> another = CreateSmall();
      ASSERT_OK(another);
      arena = *std::move(another);
    } else {
      EXPECT_FALSE(arena.view().is_frozen());
      EXPECT_EQ(arena.live_bytes(), kSmallPlanBytes);
    }
    // NOLINTEND(bugprone-use-after-move)
  };
  const std::vector<std::string> calls = FailEachCallOnce(freeze, check);
  EXPECT_THAT(calls.size(), Gt(8u));
  FailEachCallForGood(calls, freeze, check);
  EXPECT_OK(std::move(arena).Freeze());
}

TEST_P(ArenaFaultsTest, AFailedReleaseIsFinishedByTheNext) {
  std::optional<FrozenArena> arena;
  const auto make = [&] {
    absl::StatusOr<FrozenArena> made = CreateFrozen();
    ASSERT_OK(made);
    arena.emplace(*made);
  };
  make();
  const auto release = [&] { return arena->Release(); };
  const auto finish = [&](const absl::Status&) {
    if (soft().has_value()) {
      EXPECT_EQ(LiveBytes(), bytes_before() + arena->live_bytes());
    }
    EXPECT_OK(arena->Release());
    EXPECT_EQ(arena->live_bytes(), 0);
    EXPECT_THAT(arena->view().Find("cache"), Not(IsOk()));
    arena.reset();
    ExpectNothingLeft();
    make();
  };
  const std::vector<std::string> calls = FailEachCallOnce(release, finish);
  if (GetParam()) {
    EXPECT_THAT(calls, Contains("cuMemUnmap").Times(2));
    EXPECT_THAT(calls, Contains("cuMemRelease").Times(2));
    EXPECT_THAT(calls, Contains("cuMemAddressFree"));
  } else {
    EXPECT_THAT(calls, Contains("cuMemFree"));
  }
  FailEachCallForGood(calls, release, finish);
}

TEST_P(ArenaFaultsTest, WhatTheLastHandleCannotGiveBackIsReclaimed) {
  std::optional<Arena> arena;
  const auto make = [&] {
    absl::StatusOr<Arena> made = CreateSmall();
    ASSERT_OK(made);
    arena.emplace(*std::move(made));
  };
  int64_t most_abandoned_bytes = 0;
  for (int64_t n = 1;; ++n) {
    SCOPED_TRACE(absl::StrCat("calls fail from ", n));
    make();
    faulting().FailFrom(n);
    arena.reset();
    const std::string failed = faulting().last_failed_call();
    faulting().Disarm();
    DropStrayContexts();
    most_abandoned_bytes =
        std::max(most_abandoned_bytes, Arena::abandoned_bytes());
    EXPECT_OK(Arena::ReclaimAbandoned());
    ExpectNothingLeft();
    if (failed.empty()) break;
  }
  EXPECT_EQ(most_abandoned_bytes, kSmallPlanBytes);
}

TEST_P(ArenaFaultsTest, LiveBytesTellWhatARefusedUndoLeft) {
  ASSERT_OK_AND_ASSIGN(FrozenArena arena, CreateFrozen());
  const char* call = GetParam() ? "cuMemUnmap" : "cuMemFree";
  // The slab of 2 MiB is the last of two segments, and so the first to go.
  faulting().FailCall(1, CUDA_ERROR_UNKNOWN, call);
  EXPECT_THAT(arena.Release(),
              StatusIs(absl::StatusCode::kInternal, HasSubstr(call)));
  EXPECT_EQ(arena.live_bytes(),
            GetParam() ? int64_t{2} << 20 : int64_t{6} << 20);
  EXPECT_OK(arena.Release());
  EXPECT_EQ(arena.live_bytes(), 0);
}

TEST_P(ArenaFaultsTest, AReleaseThatCouldNotBeginLeavesTheArenaUsable) {
  ASSERT_OK_AND_ASSIGN(FrozenArena arena, CreateFrozen());
  faulting().FailCall(1, CUDA_ERROR_UNKNOWN, "cuCtxSynchronize");
  EXPECT_THAT(arena.Release(), StatusIs(absl::StatusCode::kInternal,
                                        HasSubstr("cuCtxSynchronize")));
  EXPECT_OK(arena.view().Find("cache"));
  EXPECT_OK(arena.VerifyStable());
  EXPECT_OK(arena.Release());
}

}  // namespace
}  // namespace permafrost
