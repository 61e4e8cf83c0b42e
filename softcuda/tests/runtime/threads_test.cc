// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Several host threads at once. The results are checked; under a sanitizer the
// locking is too.
#include <thread>

#include "runtime_fixture.h"

namespace softcuda {
namespace {

class ThreadsTest : public RuntimeTest {
 protected:
  static constexpr int kThreads = 4;
  static constexpr unsigned int kRounds = 20;
  static constexpr size_t kWords = 256;

  void OnThreads(void (*body)(CUcontext)) {
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) threads.emplace_back(body, context_);
    for (std::thread& thread : threads) thread.join();
  }
};

TEST_F(ThreadsTest, StreamsCopiesAndEvents) {
  OnThreads([](CUcontext context) {
    ASSERT_OK(cuCtxSetCurrent(context));
    for (unsigned int round = 0; round < kRounds; ++round) {
      CUstream stream = nullptr;
      CUevent event = nullptr;
      CUdeviceptr memory = 0;
      ASSERT_OK(cuStreamCreate(&stream, round % 2));
      ASSERT_OK(cuEventCreate(&event, 0));
      ASSERT_OK(cuMemAlloc(&memory, kWords * 4));
      const auto value = uint32_t{round};
      ASSERT_OK(cuMemsetD32Async(memory, value, kWords, stream));
      ASSERT_OK(cuEventRecord(event, stream));
      std::vector<uint32_t> host(kWords, ~0u);
      ASSERT_OK(cuMemcpyDtoHAsync(host.data(), memory, kWords * 4, stream));
      ASSERT_OK(cuEventSynchronize(event));
      ASSERT_OK(cuStreamSynchronize(stream));
      EXPECT_EQ(host, std::vector<uint32_t>(kWords, value));
      ASSERT_OK(cuMemFree(memory));
      ASSERT_OK(cuEventDestroy(event));
      ASSERT_OK(cuStreamDestroy(stream));
    }
  });
}

TEST_F(ThreadsTest, CapturesAndReplays) {
  OnThreads([](CUcontext context) {
    ASSERT_OK(cuCtxSetCurrent(context));
    CUstream stream = nullptr;
    CUdeviceptr memory = 0;
    // Other threads capture: neither they nor this one may mind.
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    ASSERT_OK(cuThreadExchangeStreamCaptureMode(&mode));
    ASSERT_OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    ASSERT_OK(cuMemAlloc(&memory, kWords * 4));
    std::vector<uint32_t> host(kWords);
    for (unsigned int round = 0; round < kRounds; ++round) {
      CUgraph graph = nullptr;
      CUgraphExec exec = nullptr;
      const auto value = uint32_t{round};
      ASSERT_OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
      ASSERT_OK(cuMemsetD32Async(memory, value, kWords, stream));
      ASSERT_OK(cuMemcpyDtoHAsync(host.data(), memory, kWords * 4, stream));
      ASSERT_OK(cuStreamEndCapture(stream, &graph));
      ASSERT_OK(cuGraphInstantiate(&exec, graph, 0));
      ASSERT_OK(cuGraphDestroy(graph));
      for (int i = 0; i < 3; ++i) ASSERT_OK(cuGraphLaunch(exec, stream));
      ASSERT_OK(cuGraphExecDestroy(exec));
      ASSERT_OK(cuStreamSynchronize(stream));
      EXPECT_EQ(host, std::vector<uint32_t>(kWords, value));
    }
    ASSERT_OK(cuMemFree(memory));
    ASSERT_OK(cuStreamDestroy(stream));
  });
}

TEST_F(ThreadsTest, PerThreadStreamsAreOfTheThread) {
  static CUdeviceptr memory = 0;
  ASSERT_OK(cuMemAlloc(&memory, kThreads * kWords * 4));
  static std::atomic<int> next{0};
  next = 0;
  OnThreads([](CUcontext context) {
    ASSERT_OK(cuCtxSetCurrent(context));
    const auto number = static_cast<uint32_t>(next++);
    const CUdeviceptr mine = memory + number * kWords * 4;
    for (unsigned int round = 0; round < kRounds; ++round) {
      ASSERT_OK(cuMemsetD32Async(mine, number, kWords, CU_STREAM_PER_THREAD));
    }
    ASSERT_OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
  });
  std::vector<uint32_t> host(kThreads * kWords);
  ASSERT_OK(cuMemcpyDtoH(host.data(), memory, host.size() * 4));
  for (size_t i = 0; i < host.size(); ++i) EXPECT_EQ(host[i], i / kWords);
  EXPECT_OK(cuMemFree(memory));
}

}  // namespace
}  // namespace softcuda
