// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// What is still there when the primary context ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "runtime_fixture.h"

extern "C" const unsigned char softcuda_check_kernels_image[];

namespace softcuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class LeaksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    softcuda_set_quiet(1);
    ASSERT_OK(cuInit(0));
    ASSERT_OK(softcuda_set_option("leakcheck", "1"));
    Take();
  }
  void TearDown() override {
    EXPECT_OK(softcuda_set_option("leakcheck", "0"));
    EXPECT_EQ(Take(), "");
  }

  static std::string Take() {
    std::string text(softcuda_take_reports(nullptr, 0), '\0');
    if (!text.empty()) softcuda_take_reports(text.data(), text.size());
    return text;
  }

  /// The reports of a context's end, behind `body`.
  static std::string EndAfter(const std::function<void()>& body) {
    CUcontext context = nullptr;
    EXPECT_OK(cuDevicePrimaryCtxRetain(&context, 0));
    EXPECT_OK(cuCtxSetCurrent(context));
    body();
    EXPECT_OK(cuCtxSetCurrent(nullptr));
    EXPECT_OK(cuDevicePrimaryCtxRelease(0));
    return Take();
  }
};

TEST_F(LeaksTest, AnAllocationIsReported) {
  EXPECT_THAT(EndAfter([] {
                CUdeviceptr address = 0;
                EXPECT_OK(cuMemAlloc(&address, 4096));
              }),
              AllOf(HasSubstr("leakcheck: device allocation"),
                    HasSubstr("(4096 bytes) is still there")));
}

TEST_F(LeaksTest, PinnedMemoryIsReported) {
  EXPECT_THAT(EndAfter([] {
                void* address = nullptr;
                EXPECT_OK(cuMemAllocHost(&address, 100));
              }),
              HasSubstr("leakcheck: pinned host memory"));
}

TEST_F(LeaksTest, AStreamIsReported) {
  EXPECT_THAT(EndAfter([] {
                CUstream stream = nullptr;
                EXPECT_OK(cuStreamCreate(&stream, 0));
              }),
              HasSubstr("leakcheck: stream 0x"));
}

TEST_F(LeaksTest, AnEventIsReported) {
  EXPECT_THAT(EndAfter([] {
                CUevent event = nullptr;
                EXPECT_OK(cuEventCreate(&event, 0));
              }),
              HasSubstr("leakcheck: event 0x"));
}

TEST_F(LeaksTest, AModuleIsReported) {
  EXPECT_THAT(
      EndAfter([] {
        CUmodule module = nullptr;
        EXPECT_OK(cuModuleLoadData(&module, softcuda_check_kernels_image));
      }),
      HasSubstr("leakcheck: module 0x"));
}

TEST_F(LeaksTest, GraphsAreReported) {
  CUgraph graph = nullptr;
  EXPECT_THAT(EndAfter([&] {
                CUgraphExec exec = nullptr;
                EXPECT_OK(cuGraphCreate(&graph, 0));
                EXPECT_OK(cuGraphInstantiate(&exec, graph, 0));
              }),
              AllOf(HasSubstr("leakcheck: graph 0x"),
                    HasSubstr("leakcheck: executable graph 0x")));
  // Graphs belong to no context and outlive it.
  EXPECT_OK(cuGraphDestroy(graph));
}

TEST_F(LeaksTest, AResetReportsToo) {
  CUcontext context = nullptr;
  CUdeviceptr address = 0;
  ASSERT_OK(cuDevicePrimaryCtxRetain(&context, 0));
  ASSERT_OK(cuCtxSetCurrent(context));
  ASSERT_OK(cuMemAlloc(&address, 1));
  EXPECT_OK(cuDevicePrimaryCtxReset(0));
  EXPECT_THAT(Take(), HasSubstr("(1 byte) is still there"));
  EXPECT_OK(cuCtxSetCurrent(nullptr));
  EXPECT_OK(cuDevicePrimaryCtxRelease(0));
}

TEST_F(LeaksTest, WhoClearsUpIsNotReported) {
  EXPECT_EQ(
      EndAfter([] {
        CUdeviceptr address = 0;
        void* host = nullptr;
        CUstream stream = nullptr;
        CUevent event = nullptr;
        CUmodule module = nullptr;
        CUfunction function = nullptr;
        CUgraph graph = nullptr;
        CUgraphExec exec = nullptr;
        EXPECT_OK(cuMemAlloc(&address, 4096));
        EXPECT_OK(cuMemAllocHost(&host, 100));
        EXPECT_OK(cuStreamCreate(&stream, 0));
        EXPECT_OK(cuEventCreate(&event, 0));
        EXPECT_OK(cuModuleLoadData(&module, softcuda_check_kernels_image));
        EXPECT_OK(cuModuleGetFunction(&function, module, "k_fill"));
        EXPECT_OK(cuGraphCreate(&graph, 0));
        EXPECT_OK(cuGraphInstantiate(&exec, graph, 0));
        EXPECT_OK(cuGraphExecDestroy(exec));
        EXPECT_OK(cuGraphDestroy(graph));
        EXPECT_OK(cuModuleUnload(module));
        EXPECT_OK(cuEventDestroy(event));
        EXPECT_OK(cuStreamDestroy(stream));
        EXPECT_OK(cuMemFreeHost(host));
        EXPECT_OK(cuMemFree(address));
      }),
      "");
}

TEST_F(LeaksTest, SwitchedOffItSaysNothing) {
  EXPECT_OK(softcuda_set_option("leakcheck", "0"));
  EXPECT_EQ(EndAfter([] {
              CUdeviceptr address = 0;
              EXPECT_OK(cuMemAlloc(&address, 4096));
            }),
            "");
}

}  // namespace
}  // namespace softcuda
