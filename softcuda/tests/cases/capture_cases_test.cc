// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Reports about work that a capture forbids, misses or runs at once.
#include "case_fixture.h"

namespace softcuda {
namespace {

using ::testing::HasSubstr;

using CaptureCases = DriverCases;

TEST_F(CaptureCases, B08_AnAllocationInACaptureBreaksIt) {
  CUdeviceptr memory = 0x5a;
  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  const int64_t bytes = softcuda_live_bytes();
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc(&memory, 4096));
  EXPECT_EQ(memory, CUdeviceptr{0x5a});
  EXPECT_EQ(softcuda_live_bytes(), bytes);
  EndBroken(stream_);
}

TEST_F(CaptureCases, B43_TooMuchSharedMemoryIsRefusedAtCapture) {
  constexpr unsigned int kLarge = 64 << 10;
  CUdeviceptr out = NewInts(1, 0);
  int count = kLarge / 4;
  void* params[] = {&out, &count};
  const CUfunction function = Function("c_dynamic_shared");
  const auto launch = [&] {
    return cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, kLarge, stream_, params,
                          nullptr);
  };
  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_THAT(static_cast<int>(launch()),
              ::testing::AnyOf(CUDA_ERROR_INVALID_VALUE,
                               CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES));
  EndBroken(stream_);
  // The attribute, set beforehand, is all that it takes.
  ASSERT_OK(cuFuncSetAttribute(
      function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kLarge));
  Replay(Instantiate(Capture([&] { EXPECT_OK(launch()); })));
  EXPECT_EQ(Read(out, 1)[0], count - 1);
}

TEST_F(CaptureCases, B75_AValueCheckOnTheHostBreaksACapture) {
  const CUdeviceptr flag = NewInts(1, 1);
  int value = 0;
  EXPECT_OK(cuMemcpyDtoH(&value, flag, 4));
  EXPECT_EQ(value, 1);
  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
            cuMemcpyDtoH(&value, flag, 4));
  EndBroken(stream_);
}

TEST_F(CaptureCases, B81_ALegacyLaunchBreaksABlockingCapture) {
  CUstream blocking = nullptr;
  ASSERT_OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
  const CUdeviceptr out = NewInts(64, 0);
  const int64_t kernels = softcuda_kernels_executed();
  ASSERT_OK(cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
            Launch(nullptr, "c_fill", 1, 64, out, 64, 5));
  EndBroken(blocking);
  EXPECT_EQ(softcuda_kernels_executed(), kernels);
  EXPECT_OK(cuStreamDestroy(blocking));
}

TEST_F(CaptureCases, B81_ALegacyLaunchBesideANonBlockingCaptureRunsAtOnce) {
  const CUdeviceptr out = NewInts(64, 0);
  const int64_t kernels = softcuda_kernels_executed();
  const CUgraph graph =
      Capture([&] { EXPECT_OK(Launch(nullptr, "c_fill", 1, 64, out, 64, 5)); });
  EXPECT_EQ(NodeCount(graph), 0u) << "the graph misses the launch";
  EXPECT_EQ(Read(out, 64), std::vector<int>(64, 5));
  EXPECT_EQ(softcuda_kernels_executed(), kernels + 1)
      << "which shows in the count of launches";
}

TEST_F(CaptureCases, B82_AThreadsModeIsItsOwnUntilItIsPutBack) {
  const auto allocate = [&] {
    CUdeviceptr memory = 0;
    const CUresult result = cuMemAlloc(&memory, 64);
    if (memory != 0) memory_.push_back(memory);
    return result;
  };
  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  EXPECT_OK(cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
  EXPECT_OK(allocate());
  EXPECT_EQ(StatusOf(stream_), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  EXPECT_OK(cuThreadExchangeStreamCaptureMode(&mode));
  EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
  // The other thread never changed its mode.
  OnOtherThread(
      [&] { EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, allocate()); });
  EndBroken(stream_);
}

TEST_F(CaptureCases, B85_AnEventFromBeforeTheCaptureIsRefused) {
  CUevent event = nullptr;
  ASSERT_OK(cuEventCreate(&event, 0));
  ASSERT_OK(cuEventRecord(event, other_));
  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
            cuStreamWaitEvent(stream_, event, 0));
  EndBroken(stream_);
  EXPECT_OK(cuEventDestroy(event));
}

TEST_F(CaptureCases, B85_AnEventFromInsideJoins) {
  const CUdeviceptr a = NewInts(64, 0);
  const CUdeviceptr b = NewInts(64, 0);
  const CUgraph graph = Capture([&] {
    EXPECT_OK(Launch(stream_, "c_fill", 1, 64, a, 64, 3));
    Order(stream_, other_);
    EXPECT_EQ(StatusOf(other_), CU_STREAM_CAPTURE_STATUS_ACTIVE);
    EXPECT_OK(Launch(other_, "c_add", 1, 64, a, b, 64, 1));
    Order(other_, stream_);
  });
  EXPECT_EQ(NodeCount(graph), 2u);
  Replay(Instantiate(graph));
  EXPECT_EQ(Read(b, 64), std::vector<int>(64, 4));
}

TEST_F(CaptureCases, B87_ForkedWorkIsRecordedAndNotRun) {
  const CUdeviceptr a = NewInts(64, 0);
  const int64_t kernels = softcuda_kernels_executed();
  const CUgraph graph = Capture([&] {
    Order(stream_, other_);
    EXPECT_OK(Launch(other_, "c_fill", 1, 64, a, 64, 3));
    Order(other_, stream_);
  });
  EXPECT_EQ(softcuda_kernels_executed(), kernels);
  EXPECT_EQ(NodeCount(graph), 1u);
}

TEST_F(CaptureCases, B87_WaitingForAPlainEventDoesNotBeginACapture) {
  CUevent event = nullptr;
  ASSERT_OK(cuEventCreate(&event, 0));
  ASSERT_OK(cuEventRecord(event, other_));
  CUstream waiter = nullptr;
  ASSERT_OK(cuStreamCreate(&waiter, CU_STREAM_NON_BLOCKING));
  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_OK(cuStreamWaitEvent(waiter, event, 0));
  EXPECT_EQ(StatusOf(waiter), CU_STREAM_CAPTURE_STATUS_NONE);
  EXPECT_EQ(StatusOf(stream_), CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CUgraph graph = nullptr;
  EXPECT_OK(cuStreamEndCapture(stream_, &graph));
  EXPECT_OK(cuGraphDestroy(graph));
  EXPECT_OK(cuStreamDestroy(waiter));
  EXPECT_OK(cuEventDestroy(event));
}

TEST_F(CaptureCases, B87_ABrokenCaptureLeavesNothingBehind) {
  const CUdeviceptr a = NewInts(64, 0);
  CUgraph broken = nullptr;
  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  Order(stream_, other_);
  EXPECT_OK(Launch(other_, "c_fill", 1, 64, a, 64, 9));
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
            cuStreamEndCapture(stream_, &broken));
  for (CUstream stream : {stream_, other_}) {
    EXPECT_EQ(StatusOf(stream), CU_STREAM_CAPTURE_STATUS_NONE);
    EXPECT_OK(Launch(stream, "c_fill", 1, 64, a, 64, 2));
    EXPECT_OK(cuStreamSynchronize(stream));
  }
  EXPECT_EQ(NodeCount(Capture([&] {
              EXPECT_OK(Launch(stream_, "c_fill", 1, 64, a, 64, 1));
            })),
            1u);
  EXPECT_EQ(Read(a, 64), std::vector<int>(64, 2));
}

TEST_F(CaptureCases, B87_AWaitBetweenTwoCapturesBreaksBoth) {
  CUevent event = nullptr;
  ASSERT_OK(cuEventCreate(&event, 0));
  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  ASSERT_OK(cuStreamBeginCapture(other_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  ASSERT_OK(cuEventRecord(event, other_));
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_MERGE,
            cuStreamWaitEvent(stream_, event, 0));
  EndBroken(stream_);
  EndBroken(other_);
  EXPECT_OK(cuEventDestroy(event));
}

TEST_F(CaptureCases, B87_AnIdleStreamCannotWaitForADeadCapture) {
  CUevent event = nullptr;
  ASSERT_OK(cuEventCreate(&event, 0));
  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  ASSERT_OK(cuEventRecord(event, stream_));
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
            cuStreamSynchronize(stream_));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuStreamWaitEvent(other_, event, 0));
  EXPECT_EQ(StatusOf(other_), CU_STREAM_CAPTURE_STATUS_NONE);
  EndBroken(stream_);
  EXPECT_OK(cuEventDestroy(event));
}

// What ran before the capture is not in it, and cannot be waited for in it.
TEST_F(CaptureCases, B90_PendingWorkIsSynchronisedBeforeACapture) {
  const CUdeviceptr a = NewInts(64, 0);
  const CUdeviceptr b = NewInts(64, 0);
  ASSERT_OK(softcuda_set_option("late_work", "1"));
  EXPECT_OK(Launch(other_, "c_fill", 1, 64, a, 64, 3));
  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamSynchronize(other_));
  EndBroken(stream_);
  EXPECT_OK(cuStreamSynchronize(other_));
  const CUgraph graph =
      Capture([&] { EXPECT_OK(Launch(stream_, "c_add", 1, 64, a, b, 64, 1)); });
  EXPECT_EQ(NodeCount(graph), 1u);
  Replay(Instantiate(graph));
  EXPECT_EQ(Read(b, 64), std::vector<int>(64, 4));
}

TEST_F(CaptureCases, B93_TheGraphOfABrokenCaptureIsGone) {
  CUgraph graph = nullptr;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  ASSERT_OK(cuStreamGetCaptureInfo(stream_, &status, nullptr, &graph, nullptr,
                                   nullptr, nullptr));
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
            cuStreamSynchronize(stream_));
  EndBroken(stream_);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(graph));
  EXPECT_THAT(TakeReports(), HasSubstr("misuse: cuGraphDestroy: graph handle"));
  const CUdeviceptr a = NewInts(64, 0);
  Replay(Instantiate(
      Capture([&] { EXPECT_OK(Launch(stream_, "c_fill", 1, 64, a, 64, 8)); })));
  EXPECT_EQ(Read(a, 64), std::vector<int>(64, 8));
}

TEST_F(CaptureCases, B103_CopiesAndMemsetsOfNothingAreNoNodes) {
  const CUdeviceptr a = NewInts(64, 0);
  const CUgraph graph = Capture([&] {
    EXPECT_OK(cuMemcpyDtoDAsync(a, a + 128, 0, stream_));
    EXPECT_OK(cuMemsetD32Async(a, 1, 0, stream_));
  });
  EXPECT_EQ(NodeCount(graph), 0u);
  EXPECT_THAT(TakeReports(), HasSubstr("a memset of no bytes in a capture"));
  EXPECT_OK(cuMemsetD32Async(a, 1, 0, stream_));
}

}  // namespace
}  // namespace softcuda
