// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/capture/lane.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "permafrost/driver/faulting_driver.h"
#include "permafrost/driver/handles.h"
#include "tests/capture/capture_fixture.h"

namespace permafrost {
namespace {

using ::permafrost::testing::DriverTest;
using ::permafrost::testing::StatusIs;
using ::testing::HasSubstr;

class LaneTest : public DriverTest {};
using LaneDeathTest = LaneTest;

TEST_F(LaneTest, NeedsAName) {
  EXPECT_THAT(Lane::Create(context(), ""),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(LaneTest, CopiesShareTheStreamUntilTheLastGoes) {
  PERMAFROST_NEEDS_SOFTCUDA();
  const int64_t handles = soft()->live_handles();
  {
    std::optional<Lane> first;
    ASSERT_OK_AND_ASSIGN(first, Lane::Create(context(), "decode"));
    const Lane second = *first;
    EXPECT_EQ(second, *first);
    EXPECT_EQ(second.stream(), first->stream());
    first.reset();
    EXPECT_OK(second.Drain());
    EXPECT_EQ(soft()->live_handles(), handles + 1);
  }
  EXPECT_EQ(soft()->live_handles(), handles);
}

TEST_F(LaneTest, DrainWaitsForTheWork) {
  const Context::Scope scope = context()->MakeCurrent();
  ASSERT_OK_AND_ASSIGN(const Lane lane, Lane::Create(context(), "decode"));
  ASSERT_OK_AND_ASSIGN(const DeviceBuffer memory,
                       DeviceBuffer::Allocate(context(), 4));
  uint32_t value = 0;
  ASSERT_EQ(api().MemsetD32Async(memory.get(), 42, 1, lane.stream()),
            CUDA_SUCCESS);
  ASSERT_EQ(
      api().MemcpyDtoHAsync(&value, memory.get(), sizeof(value), lane.stream()),
      CUDA_SUCCESS);
  EXPECT_OK(lane.Drain());
  EXPECT_EQ(value, 42u);
}

// The memory that copies write to may go when it returns.
TEST_F(LaneTest, SettleWaitsForTheWorkAlsoWhenAWaitFails) {
  PERMAFROST_NEEDS_SOFTCUDA();
  const auto faulting = FaultingDriver::Wrap(driver());
  ASSERT_OK_AND_ASSIGN(const ContextRef context,
                       Context::RetainPrimary(faulting->driver()));
  const Context::Scope scope = context->MakeCurrent();
  ASSERT_OK_AND_ASSIGN(const Lane lane, Lane::Create(context, "decode"));
  ASSERT_OK_AND_ASSIGN(const DeviceBuffer memory,
                       DeviceBuffer::Allocate(context, 4));
  ASSERT_TRUE(soft()->SetOption("late_work", "1"));
  for (const bool settles : {false, true}) {
    uint32_t value = 0;
    ASSERT_EQ(api().MemsetD32Async(memory.get(), 42, 1, lane.stream()),
              CUDA_SUCCESS);
    ASSERT_EQ(api().MemcpyDtoHAsync(&value, memory.get(), sizeof(value),
                                    lane.stream()),
              CUDA_SUCCESS);
    faulting->FailCall(1, CUDA_ERROR_LAUNCH_FAILED, "cuStreamSynchronize");
    EXPECT_THAT(
        settles ? lane.Settle() : lane.Drain(),
        StatusIs(absl::StatusCode::kInternal, HasSubstr("lane 'decode'")));
    EXPECT_EQ(value, settles ? 42u : 0u);
    EXPECT_OK(lane.Drain());
  }
  ASSERT_TRUE(soft()->SetOption("late_work", "0"));
}

TEST_F(LaneTest, AFailedDrainNamesTheLane) {
  const auto faulting = FaultingDriver::Wrap(driver());
  ASSERT_OK_AND_ASSIGN(const ContextRef context,
                       Context::RetainPrimary(faulting->driver()));
  ASSERT_OK_AND_ASSIGN(const Lane lane, Lane::Create(context, "decode"));
  faulting->FailCall(1, CUDA_ERROR_LAUNCH_FAILED, "cuStreamSynchronize");
  EXPECT_THAT(lane.Drain(), StatusIs(absl::StatusCode::kInternal,
                                     HasSubstr("lane 'decode'")));
  EXPECT_OK(lane.Drain());
}

#ifdef PERMAFROST_CHECKED
TEST_F(LaneDeathTest, TwoThreadsInsideAreFound) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        const Lane lane = *Lane::Create(context(), "decode");
        const Lane::Use use(lane);
        std::thread other([&] { const Lane::Use second(lane); });
        other.join();
      },
      "two threads are inside calls on one lane");
}
#endif

TEST_F(LaneTest, OneThreadMayNest) {
  ASSERT_OK_AND_ASSIGN(const Lane lane, Lane::Create(context(), "decode"));
  {
    const Lane::Use outer(lane);
    const Lane::Use inner(lane);
    EXPECT_OK(lane.Drain());
  }
  // Taken in turns the lane may change threads.
  std::thread other([&] { EXPECT_OK(lane.Drain()); });
  other.join();
}

}  // namespace
}  // namespace permafrost
