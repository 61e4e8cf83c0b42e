// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Host memory that changes, or goes, while a copy has yet to read it. Work is
// done late, so that what the host does behind the call comes first.
#include <cstring>
#include <vector>

#include "check_fixture.h"

namespace softcuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

void DoNothing(void*) {}

class HostMemoryCheckTest : public CheckTest {
 protected:
  void SetUp() override {
    CheckTest::SetUp();
    softcuda_enable_racecheck(0);
    ASSERT_OK(softcuda_set_option("hostcheck", "1"));
    ASSERT_OK(softcuda_set_option("late_work", "1"));
    void* host = nullptr;
    ASSERT_OK(cuMemAllocHost(&host, kBytes));
    host_ = static_cast<int*>(host);
    std::memset(host_, 0, kBytes);
  }
  void TearDown() override {
    EXPECT_OK(cuCtxSynchronize());
    if (host_ != nullptr) {
      EXPECT_OK(cuMemFreeHost(host_));
    }
    EXPECT_OK(softcuda_set_option("hostcheck", "0"));
    EXPECT_OK(softcuda_set_option("late_work", "0"));
    CheckTest::TearDown();
  }
  int* host_ = nullptr;
};

TEST_F(HostMemoryCheckTest, APinnedSourceChangedTooEarlyIsReported) {
  EXPECT_OK(cuMemcpyHtoDAsync(a_, host_, kBytes, stream_));
  host_[3] = 1;
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_THAT(TakeReports(),
              AllOf(HasSubstr("hostcheck: the host changed the source"),
                    HasSubstr("cuMemcpyHtoDAsync")));
}

TEST_F(HostMemoryCheckTest, APinnedSourceChangedAfterAWaitIsSilent) {
  EXPECT_OK(cuMemcpyHtoDAsync(a_, host_, kBytes, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  host_[3] = 1;
  EXPECT_OK(cuMemcpyHtoDAsync(a_, host_, kBytes, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(TakeReports(), "");
}

// A pageable source is taken during the call.
TEST_F(HostMemoryCheckTest, APageableSourceMayChangeAtOnce) {
  std::vector<int> source(kInts, 1);
  EXPECT_OK(cuMemcpyHtoDAsync(a_, source.data(), kBytes, stream_));
  source[0] = 2;
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(TakeReports(), "");
}

TEST_F(HostMemoryCheckTest, TheSourceOfAGraphsNodeIsWatchedFromItsLaunch) {
  std::vector<int> source(kInts, 1);
  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_OK(cuMemcpyHtoDAsync(a_, source.data(), kBytes, stream_));
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  ASSERT_OK(cuStreamEndCapture(stream_, &graph));
  ASSERT_OK(cuGraphInstantiate(&exec, graph, 0));
  source[1] = 5;  // before the launch: the replay's own business
  EXPECT_OK(cuGraphLaunch(exec, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(TakeReports(), "");
  EXPECT_OK(cuGraphLaunch(exec, stream_));
  source[1] = 6;
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_THAT(TakeReports(), AllOf(HasSubstr("hostcheck: "),
                                   HasSubstr("cuGraphLaunch, graph node 0")));
  EXPECT_OK(cuGraphExecDestroy(exec));
  EXPECT_OK(cuGraphDestroy(graph));
}

TEST_F(HostMemoryCheckTest, WhatTheDeviceWritesThereIsSilent) {
  EXPECT_OK(cuMemsetD32Async(b_, 9, kInts, stream_));
  EXPECT_OK(cuMemcpyDtoHAsync(host_, b_, kBytes, stream_));
  EXPECT_OK(cuMemcpyHtoDAsync(a_, host_, kBytes, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  // A kernel that writes through the device's address.
  Fill(stream_, reinterpret_cast<CUdeviceptr>(host_));
  EXPECT_OK(cuMemcpyHtoDAsync(a_, host_, kBytes, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_OK(cuLaunchHostFunc(stream_, DoNothing, nullptr));
  EXPECT_OK(cuMemcpyHtoDAsync(a_, host_, kBytes, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(TakeReports(), "");
}

TEST_F(HostMemoryCheckTest, PinnedMemoryFreedTooEarlyIsReported) {
  EXPECT_OK(cuMemcpyHtoDAsync(a_, host_, kBytes, stream_));
  EXPECT_OK(cuMemFreeHost(host_));
  host_ = nullptr;
  EXPECT_THAT(TakeReports(),
              HasSubstr("hostcheck: cuMemFreeHost of memory that a copy"));
}

TEST_F(HostMemoryCheckTest, RegisteredMemoryLetGoTooEarlyIsReported) {
  std::vector<int> memory(4096, 1);
  ASSERT_OK(cuMemHostRegister(memory.data(), memory.size() * 4, 0));
  EXPECT_OK(cuMemcpyHtoDAsync(a_, memory.data(), kBytes, stream_));
  EXPECT_OK(cuMemHostUnregister(memory.data()));
  EXPECT_THAT(TakeReports(), HasSubstr("hostcheck: cuMemHostUnregister"));
}

TEST_F(HostMemoryCheckTest, MemoryFreedAfterAWaitIsSilent) {
  EXPECT_OK(cuMemcpyHtoDAsync(a_, host_, kBytes, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_OK(cuMemFreeHost(host_));
  host_ = nullptr;
  EXPECT_EQ(TakeReports(), "");
}

TEST_F(HostMemoryCheckTest, ACapturedAddressOnTheStackIsReported) {
  int on_stack[4] = {};
  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_OK(cuMemcpyHtoDAsync(a_, on_stack, sizeof on_stack, stream_));
  CUgraph graph = nullptr;
  ASSERT_OK(cuStreamEndCapture(stream_, &graph));
  EXPECT_OK(cuGraphDestroy(graph));
  EXPECT_THAT(TakeReports(),
              HasSubstr("hostcheck: cuMemcpyHtoDAsync: the node keeps an "
                        "address on the stack"));
}

}  // namespace
}  // namespace softcuda
