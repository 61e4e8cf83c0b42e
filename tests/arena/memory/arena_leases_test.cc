// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <thread>
#include <utility>

#include "tests/arena/memory/arena_fixture.h"

namespace permafrost {
namespace {

using ::permafrost::testing::kSmallPlanBytes;
using ::permafrost::testing::StatusIs;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

class ArenaLeasesTest : public ::permafrost::testing::ArenaTest {};
PERMAFROST_ON_BOTH_MEMORIES(ArenaLeasesTest);

TEST_P(ArenaLeasesTest, ReleaseIsRefusedWhileLeasesAreOutAndNamesThem) {
  ASSERT_OK_AND_ASSIGN(FrozenArena arena, CreateFrozen());
  ASSERT_OK_AND_ASSIGN(std::optional<Lease> eight,
                       arena.TakeLease("graph of rung 8"));
  ASSERT_OK_AND_ASSIGN(std::optional<Lease> sixteen,
                       arena.TakeLease("graph of rung 16"));
  EXPECT_EQ(eight->holder(), "graph of rung 8");
  faulting().ResetCounts();
  EXPECT_THAT(
      arena.Release(),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(HasSubstr("2 leases"), HasSubstr("'graph of rung 8'"),
                     HasSubstr("'graph of rung 16'"))));
  EXPECT_EQ(faulting().calls(), 0);
  EXPECT_OK(arena.VerifyStable());

  eight.reset();
  EXPECT_THAT(arena.Release(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                        AllOf(HasSubstr("'graph of rung 16'"),
                                              Not(HasSubstr("rung 8")))));
  sixteen.reset();
  EXPECT_OK(arena.Release());
}

TEST_P(ArenaLeasesTest, ALeaseKeepsTheMemoryWhenTheHandlesAreGone) {
  std::optional<Lease> lease;
  std::optional<ArenaView> view;
  {
    ASSERT_OK_AND_ASSIGN(const FrozenArena arena, CreateFrozen());
    view.emplace(arena.view());
    ASSERT_OK_AND_ASSIGN(lease, arena.TakeLease("graph"));
  }
  if (soft().has_value()) {
    EXPECT_EQ(LiveBytes(), bytes_before() + kSmallPlanBytes);
  }
  ASSERT_OK_AND_ASSIGN(const BufferRef tables, view->Find("tables"));
  EXPECT_THAT(ReadDevice(tables.base, tables.bytes), Each(0));

  lease.reset();
  ExpectNothingLeft();
  EXPECT_THAT(view->Find("tables"),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_P(ArenaLeasesTest, MovingALeaseMovesThePromise) {
  ASSERT_OK_AND_ASSIGN(FrozenArena arena, CreateFrozen());
  ASSERT_OK_AND_ASSIGN(Lease first, arena.TakeLease("first"));
  ASSERT_OK_AND_ASSIGN(Lease second, arena.TakeLease("second"));
  {
    const Lease moved = std::move(first);
    EXPECT_EQ(moved.holder(), "first");
    EXPECT_THAT(arena.Release(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                          HasSubstr("2 leases")));
  }
  ASSERT_OK_AND_ASSIGN(Lease third, arena.TakeLease("third"));
  second = std::move(third);
  EXPECT_THAT(arena.Release(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("1 leases"), HasSubstr("'third'"))));
  { const Lease gone = std::move(second); }
  EXPECT_OK(arena.Release());
}

TEST_P(ArenaLeasesTest, TheLastLeaseMayEndOnAThreadWithoutAContext) {
  std::optional<Lease> lease;
  {
    ASSERT_OK_AND_ASSIGN(const FrozenArena arena, CreateFrozen());
    ASSERT_OK_AND_ASSIGN(lease, arena.TakeLease("graph"));
  }
  std::thread([&lease] { lease.reset(); }).join();
  ExpectNothingLeft();
}

TEST_P(ArenaLeasesTest, LeasesComeAndGoOnManyThreads) {
  ASSERT_OK_AND_ASSIGN(FrozenArena arena, CreateFrozen());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([arena] {
      for (int i = 0; i < 100; ++i) {
        const absl::StatusOr<Lease> lease = arena.TakeLease("thread");
        EXPECT_OK(lease);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_OK(arena.Release());
}

}  // namespace
}  // namespace permafrost
