// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_TESTS_CHECK_CHECK_FIXTURE_H_
#define SOFTCUDA_TESTS_CHECK_CHECK_FIXTURE_H_

#include <cuda.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "marked_lines.h"
#include "runtime_fixture.h"
#include "softcuda/control.h"

extern "C" const unsigned char softcuda_check_kernels_image[];

namespace softcuda {

/// The kernels of check_kernels.cu, two streams, and the racecheck switched on.
class CheckTest : public RuntimeTest {
 protected:
  static constexpr int kInts = 256;
  static constexpr size_t kBytes = kInts * 4;

  void SetUp() override {
    RuntimeTest::SetUp();
    ASSERT_OK(cuModuleLoadData(&module_, softcuda_check_kernels_image));
    ASSERT_OK(cuStreamCreate(&other_, CU_STREAM_NON_BLOCKING));
    for (CUdeviceptr* buffer : {&a_, &b_, &c_}) {
      ASSERT_OK(cuMemAlloc(buffer, kBytes));
      ASSERT_OK(cuMemsetD32(*buffer, 0, kInts));
    }
    ASSERT_OK(cuCtxSynchronize());
    softcuda_enable_racecheck(1);
  }

  void TearDown() override {
    EXPECT_OK(cuCtxSynchronize());
    softcuda_enable_racecheck(0);
    for (CUdeviceptr buffer : {a_, b_, c_}) EXPECT_OK(cuMemFree(buffer));
    EXPECT_OK(cuStreamDestroy(other_));
    EXPECT_OK(cuModuleUnload(module_));
    RuntimeTest::TearDown();
  }

  CUfunction Function(const char* name) {
    CUfunction function = nullptr;
    EXPECT_OK(cuModuleGetFunction(&function, module_, name));
    return function;
  }

  /// One block of 128 threads for each 128 numbers.
  void Fill(CUstream stream, CUdeviceptr out, int n = kInts, int value = 7) {
    void* params[] = {&out, &n, &value};
    Launch(stream, "k_fill", n, params);
  }
  void Add(CUstream stream, CUdeviceptr in, CUdeviceptr out, int n = kInts) {
    void* params[] = {&in, &out, &n};
    Launch(stream, "k_add", n, params);
  }
  void Launch(CUstream stream, const char* kernel, int n, void** params) {
    EXPECT_OK(cuLaunchKernel(Function(kernel),
                             static_cast<unsigned>((n + 127) / 128), 1, 1, 128,
                             1, 1, 0, stream, params, nullptr));
  }

  /// `later` waits for what `earlier` holds now.
  void Order(CUstream earlier, CUstream later) {
    CUevent event = nullptr;
    ASSERT_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    ASSERT_OK(cuEventRecord(event, earlier));
    ASSERT_OK(cuStreamWaitEvent(later, event, 0));
    ASSERT_OK(cuEventDestroy(event));
  }

  /// Captures what `body` enqueues in `stream_`, and launches it `times` times.
  template <typename Body>
  void CaptureAndRun(const Body& body, int times = 1) {
    ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
    body();
    CUgraph graph = nullptr;
    ASSERT_OK(cuStreamEndCapture(stream_, &graph));
    CUgraphExec exec = nullptr;
    ASSERT_OK(cuGraphInstantiate(&exec, graph, 0));
    for (int k = 0; k < times; ++k) ASSERT_OK(cuGraphLaunch(exec, stream_));
    ASSERT_OK(cuStreamSynchronize(stream_));
    ASSERT_OK(cuGraphExecDestroy(exec));
    ASSERT_OK(cuGraphDestroy(graph));
  }

  static std::string LineOf(const char* mark) {
    const std::string line = testing::MarkedLine(mark);
    EXPECT_NE(line, "") << mark;
    return line;
  }

  CUmodule module_ = nullptr;
  CUstream other_ = nullptr;
  CUdeviceptr a_ = 0;
  CUdeviceptr b_ = 0;
  CUdeviceptr c_ = 0;
};

}  // namespace softcuda

#endif  // SOFTCUDA_TESTS_CHECK_CHECK_FIXTURE_H_
