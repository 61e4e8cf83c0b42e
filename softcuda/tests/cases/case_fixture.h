// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_TESTS_CASES_CASE_FIXTURE_H_
#define SOFTCUDA_TESTS_CASES_CASE_FIXTURE_H_

#include <cuda.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "marked_lines.h"
#include "runtime_fixture.h"
#include "softcuda/control.h"

extern "C" const unsigned char softcuda_case_kernels_image[];

namespace softcuda {

/// Runs statements in a process of their own, whose context they end with the
/// code; what it printed matches the pattern.
#define EXPECT_ENDS_CONTEXT(code, statements, pattern)    \
  EXPECT_EXIT(                                            \
      {                                                   \
        softcuda_set_quiet(0);                            \
        statements;                                       \
        std::_Exit(cuCtxSynchronize() == (code) ? 0 : 1); \
      },                                                  \
      ::testing::ExitedWithCode(0), pattern)

/// The kernels of case_kernels.cu, two non-blocking streams, and device memory
/// and graphs that go with the test. All options are at their defaults.
class DriverCases : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    ASSERT_OK(cuModuleLoadData(&module_, softcuda_case_kernels_image));
    ASSERT_OK(cuStreamCreate(&other_, CU_STREAM_NON_BLOCKING));
  }

  void TearDown() override {
    EXPECT_OK(cuCtxSynchronize());
    softcuda_enable_initcheck(0);
    softcuda_enable_racecheck(0);
    for (const auto& [option, value] : {std::pair{"hostcheck", "0"},
                                        {"late_work", "0"},
                                        {"poison", "off"},
                                        {"address_reuse", "round"},
                                        {"driver_version", "13000"}}) {
      EXPECT_OK(softcuda_set_option(option, value));
    }
    for (CUgraphExec exec : execs_) EXPECT_OK(cuGraphExecDestroy(exec));
    for (CUgraph graph : graphs_) EXPECT_OK(cuGraphDestroy(graph));
    for (CUdeviceptr memory : memory_) EXPECT_OK(cuMemFree(memory));
    EXPECT_OK(cuStreamDestroy(other_));
    EXPECT_OK(cuModuleUnload(module_));
    RuntimeTest::TearDown();
  }

  /// Device memory that nobody has written.
  CUdeviceptr NewBytes(size_t bytes) {
    CUdeviceptr memory = 0;
    EXPECT_OK(cuMemAlloc(&memory, bytes));
    memory_.push_back(memory);
    return memory;
  }
  CUdeviceptr NewInts(const std::vector<int>& values) {
    const CUdeviceptr memory = NewBytes(values.size() * 4);
    EXPECT_OK(cuMemcpyHtoD(memory, values.data(), values.size() * 4));
    EXPECT_OK(cuCtxSynchronize());
    return memory;
  }
  CUdeviceptr NewInts(size_t count, int value) {
    return NewInts(std::vector<int>(count, value));
  }
  template <typename T = int>
  std::vector<T> Read(CUdeviceptr from, size_t count) {
    std::vector<T> values(count);
    EXPECT_OK(cuCtxSynchronize());
    EXPECT_OK(cuMemcpyDtoH(values.data(), from, count * sizeof(T)));
    return values;
  }

  CUfunction Function(const char* name) {
    CUfunction function = nullptr;
    EXPECT_OK(cuModuleGetFunction(&function, module_, name));
    return function;
  }
  /// Launches with arguments of the kernel's own types.
  template <typename... Args>
  CUresult Launch(CUstream stream, const char* kernel, unsigned int grid,
                  unsigned int block, Args... args) {
    void* params[] = {static_cast<void*>(&args)...};
    return cuLaunchKernel(Function(kernel), grid, 1, 1, block, 1, 1, 0, stream,
                          params, nullptr);
  }

  /// `later` waits for what `earlier` holds now.
  void Order(CUstream earlier, CUstream later) {
    CUevent event = nullptr;
    ASSERT_OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    ASSERT_OK(cuEventRecord(event, earlier));
    ASSERT_OK(cuStreamWaitEvent(later, event, 0));
    ASSERT_OK(cuEventDestroy(event));
  }

  /// The graph of what `body` enqueues in `stream_`; destroyed with the test.
  template <typename Body>
  CUgraph Capture(const Body& body) {
    EXPECT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
    body();
    CUgraph graph = nullptr;
    EXPECT_OK(cuStreamEndCapture(stream_, &graph));
    if (graph != nullptr) graphs_.push_back(graph);
    return graph;
  }
  CUgraphExec Instantiate(CUgraph graph, unsigned int flags = 0) {
    CUgraphExec exec = nullptr;
    EXPECT_OK(cuGraphInstantiate(&exec, graph, flags));
    if (exec != nullptr) execs_.push_back(exec);
    return exec;
  }
  void Replay(CUgraphExec exec) {
    EXPECT_OK(cuGraphLaunch(exec, stream_));
    EXPECT_OK(cuStreamSynchronize(stream_));
  }
  static size_t NodeCount(CUgraph graph) {
    size_t count = 0;
    EXPECT_OK(cuGraphGetNodes(graph, nullptr, &count));
    return count;
  }
  static CUstreamCaptureStatus StatusOf(CUstream stream) {
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    EXPECT_OK(cuStreamIsCapturing(stream, &status));
    return status;
  }
  /// Ends the stream's capture, which is broken.
  static void EndBroken(CUstream stream) {
    CUgraph graph = nullptr;
    EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
              cuStreamEndCapture(stream, &graph));
    EXPECT_EQ(graph, nullptr);
    EXPECT_EQ(StatusOf(stream), CU_STREAM_CAPTURE_STATUS_NONE);
  }

  template <typename Body>
  void OnOtherThread(const Body& body) {
    std::thread([&] {
      EXPECT_OK(cuCtxSetCurrent(context_));
      body();
      EXPECT_OK(cuCtxSetCurrent(nullptr));
    }).join();
  }

  static std::string LineOf(const char* mark) {
    const std::string line = testing::MarkedLine(mark);
    EXPECT_NE(line, "") << mark;
    return line;
  }

  CUmodule module_ = nullptr;
  CUstream other_ = nullptr;
  std::vector<CUdeviceptr> memory_;
  std::vector<CUgraph> graphs_;
  std::vector<CUgraphExec> execs_;
};

}  // namespace softcuda

#endif  // SOFTCUDA_TESTS_CASES_CASE_FIXTURE_H_
