// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include "permafrost/driver/faulting_driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "permafrost/driver/driver.h"
#include "tests/support/status_matchers.h"

namespace permafrost {
namespace {

// Calls that reached the driver below.
int synchronizes = 0;
int releases = 0;

CUresult CountSynchronize() {
  ++synchronizes;
  return CUDA_SUCCESS;
}

CUresult CountRelease(CUmemGenericAllocationHandle handle) {
  ++releases;
  return handle == 7 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

class FaultingDriverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(
        const DriverRef base,
        Driver::Load({DriverChoice::Select::kPath, FAKE_DRIVER_PATH}));
    DriverApi api = base->api();
    api.CtxSynchronize = &CountSynchronize;
    api.MemRelease = &CountRelease;
    base_ = Driver::WithApi(base, api);
    faulting_ = FaultingDriver::Wrap(base_);
    synchronizes = 0;
    releases = 0;
  }

  const DriverApi& api() const { return faulting_->driver()->api(); }

  DriverRef base_;
  std::unique_ptr<FaultingDriver> faulting_;
};

TEST_F(FaultingDriverTest, UnarmedPassesArgumentsResultsAndCounts) {
  EXPECT_EQ(api().MemRelease(7), CUDA_SUCCESS);
  EXPECT_EQ(api().MemRelease(8), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(api().CtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(releases, 2);
  EXPECT_EQ(faulting_->calls(), 3);
  EXPECT_EQ(faulting_->calls("cuMemRelease"), 2);
  EXPECT_EQ(faulting_->calls("cuMemMap"), 0);
  EXPECT_EQ(faulting_->last_failed_call(), "");
  faulting_->ResetCounts();
  EXPECT_EQ(faulting_->calls(), 0);
}

TEST_F(FaultingDriverTest, NthCallFailsOnceAndDoesNotReachTheDriver) {
  faulting_->FailCall(2, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(api().MemRelease(7), CUDA_SUCCESS);
  EXPECT_EQ(api().CtxSynchronize(), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(api().CtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(synchronizes, 1);
  EXPECT_EQ(faulting_->calls(), 3);
  EXPECT_EQ(faulting_->last_failed_call(), "cuCtxSynchronize");
}

TEST_F(FaultingDriverTest, CountsFromTheMomentItIsArmed) {
  EXPECT_EQ(api().MemRelease(7), CUDA_SUCCESS);
  faulting_->FailCall(1, CUDA_ERROR_UNKNOWN);
  faulting_->ResetCounts();
  EXPECT_EQ(api().MemRelease(7), CUDA_ERROR_UNKNOWN);
}

TEST_F(FaultingDriverTest, NamedEntryCountsOnlyItsOwnCalls) {
  faulting_->FailCall(2, CUDA_ERROR_UNKNOWN, "cuMemRelease");
  EXPECT_EQ(api().CtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(api().MemRelease(7), CUDA_SUCCESS);
  EXPECT_EQ(api().CtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(api().MemRelease(7), CUDA_ERROR_UNKNOWN);
  EXPECT_EQ(api().MemRelease(7), CUDA_SUCCESS);
}

TEST_F(FaultingDriverTest, FailFromFailsAllThatFollowUntilDisarmed) {
  faulting_->FailFrom(2, CUDA_ERROR_UNKNOWN);
  EXPECT_EQ(api().MemRelease(7), CUDA_SUCCESS);
  EXPECT_EQ(api().MemRelease(7), CUDA_ERROR_UNKNOWN);
  EXPECT_EQ(api().CtxSynchronize(), CUDA_ERROR_UNKNOWN);
  faulting_->Disarm();
  EXPECT_EQ(api().CtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(faulting_->last_failed_call(), "cuCtxSynchronize");
}

TEST_F(FaultingDriverTest, FailFromANamedEntrySparesTheOthers) {
  faulting_->FailFrom(1, CUDA_ERROR_UNKNOWN, "cuMemRelease");
  EXPECT_EQ(api().MemRelease(7), CUDA_ERROR_UNKNOWN);
  EXPECT_EQ(api().CtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(api().MemRelease(7), CUDA_ERROR_UNKNOWN);
}

TEST_F(FaultingDriverTest, ExactlyOneOfManyThreadsFails) {
  constexpr int kThreads = 4;
  constexpr int kCallsEach = 1000;
  DriverApi counting = base_->api();
  counting.CtxSynchronize = [] { return CUDA_SUCCESS; };
  faulting_.reset();
  faulting_ = FaultingDriver::Wrap(Driver::WithApi(base_, counting));
  faulting_->FailCall(kThreads * kCallsEach / 2, CUDA_ERROR_UNKNOWN);
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, &failures] {
      for (int i = 0; i < kCallsEach; ++i) {
        if (api().CtxSynchronize() != CUDA_SUCCESS) ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 1);
  EXPECT_EQ(faulting_->calls("cuCtxSynchronize"), kThreads * kCallsEach);
}

TEST_F(FaultingDriverTest, AfterItsEndCallsGoStraightThrough) {
  faulting_->FailFrom(1, CUDA_ERROR_UNKNOWN);
  const DriverRef driver = faulting_->driver();
  faulting_.reset();
  EXPECT_EQ(driver->api().CtxSynchronize(), CUDA_SUCCESS);
}

using FaultingDriverDeathTest = FaultingDriverTest;

TEST_F(FaultingDriverDeathTest, ASecondOneAborts) {
  EXPECT_DEATH(FaultingDriver::Wrap(base_), "one FaultingDriver");
}

TEST_F(FaultingDriverDeathTest, AnUnknownEntryAborts) {
  EXPECT_DEATH(faulting_->FailCall(1, CUDA_ERROR_UNKNOWN, "cuMemMapp"),
               "no such entry point");
}

}  // namespace
}  // namespace permafrost
