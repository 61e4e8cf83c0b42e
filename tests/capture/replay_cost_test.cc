// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// What one replay costs on our side: one driver call, and not one allocation.
// Both are counted, and both counters are shown to count.

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "permafrost/driver/faulting_driver.h"
#include "permafrost/driver/status.h"
#include "tests/capture/capture_fixture.h"
#include "tests/capture/counting_new.h"

namespace permafrost {
namespace {

using ::permafrost::testing::MakeCopyStep;
using ::permafrost::testing::MakeTestPlan;
using ::permafrost::testing::ThreadAllocations;

constexpr int kReplays = 1000;

// The end of an entry point's path on our side. Counting there keeps what the
// driver below allocates out of the count.
int64_t allocations_at_launch = 0;
CUresult CUDAAPI CountingLaunch(CUgraphExec, CUstream) {
  allocations_at_launch = ThreadAllocations();
  return CUDA_SUCCESS;
}

class ReplayCostTest : public testing::DriverTest {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(DriverTest::SetUp());
    faulting_ = FaultingDriver::Wrap(driver());
  }

  // A captured copy step on a driver.
  void Capture(const DriverRef& on) {
    ASSERT_OK_AND_ASSIGN(context_, Context::RetainPrimary(on));
    scope_.emplace(*context_);
    ASSERT_OK_AND_ASSIGN(lane_, Lane::Create(context_, "decode"));
    ASSERT_OK_AND_ASSIGN(Arena arena, Arena::Create(context_, MakeTestPlan()));
    ASSERT_OK_AND_ASSIGN(const WarmSet warm,
                         WarmUp(arena, *lane_, MakeCopyStep(context_), {{8}}));
    ASSERT_OK_AND_ASSIGN(arena_, std::move(arena).Freeze());
    ASSERT_OK_AND_ASSIGN(set_, CaptureAll(*arena_, warm, *lane_));
  }

  void TearDown() override {
    set_.reset();
    if (arena_) {
      EXPECT_OK(arena_->Release());
    }
    arena_.reset();
    lane_.reset();
    scope_.reset();
  }

  FaultingDriver& faulting() { return *faulting_; }
  GraphSet& set() { return *set_; }
  const Lane& lane() const { return *lane_; }

 private:
  std::unique_ptr<FaultingDriver> faulting_;
  ContextRef context_;
  std::optional<Context::Scope> scope_;
  std::optional<Lane> lane_;
  std::optional<FrozenArena> arena_;
  std::optional<GraphSet> set_;
};

TEST_F(ReplayCostTest, AThousandReplaysAreAThousandDriverCalls) {
  ASSERT_NO_FATAL_FAILURE(Capture(faulting().driver()));
  ASSERT_OK(set()[0].Replay());
  ASSERT_OK(lane().Drain());
  faulting().ResetCounts();
  int failed = 0;
  for (int i = 0; i < kReplays; ++i) failed += !set()[0].Replay().ok();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(faulting().calls(), kReplays);
  EXPECT_EQ(faulting().calls("cuGraphLaunch"), kReplays);
  EXPECT_OK(lane().Drain());
}

TEST_F(ReplayCostTest, OneDriverCallTooManyIsSeenByTheSameCount) {
  ASSERT_NO_FATAL_FAILURE(Capture(faulting().driver()));
  faulting().ResetCounts();
  for (int i = 0; i < kReplays; ++i) ASSERT_OK(set()[0].Replay());
  ASSERT_OK(lane().Drain());
  EXPECT_GT(faulting().calls(), kReplays);
}

TEST_F(ReplayCostTest, AThousandReplaysAllocateNothing) {
  DriverApi table = driver()->api();
  table.GraphLaunch = &CountingLaunch;
  ASSERT_NO_FATAL_FAILURE(Capture(Driver::WithApi(driver(), table)));
  const int64_t before = ThreadAllocations();
  int failed = 0;
  for (int i = 0; i < kReplays; ++i) failed += !set()[0].Replay().ok();
  const int64_t after = ThreadAllocations();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(after - before, 0);
  EXPECT_EQ(allocations_at_launch - before, 0);
}

TEST_F(ReplayCostTest, AnAllocationBetweenReplaysIsSeenByTheSameCount) {
  DriverApi table = driver()->api();
  table.GraphLaunch = &CountingLaunch;
  ASSERT_NO_FATAL_FAILURE(Capture(Driver::WithApi(driver(), table)));
  const int64_t before = ThreadAllocations();
  int failed = 0;
  size_t planted_bytes = 0;
  for (int i = 0; i < kReplays; ++i) {
    failed += !set()[0].Replay().ok();
    if (i == kReplays / 2) planted_bytes += std::string(100, 'x').size();
  }
  const int64_t after = ThreadAllocations();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(planted_bytes, 100u);
  EXPECT_EQ(after - before, 1);
}

}  // namespace
}  // namespace permafrost
