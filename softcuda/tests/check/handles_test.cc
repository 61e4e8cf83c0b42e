// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Handles that are used after their end.
#include "check_fixture.h"

namespace softcuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class HandlesTest : public CheckTest {};

TEST_F(HandlesTest, ADestroyedStreamIsReported) {
  CUstream stream = nullptr;
  ASSERT_OK(cuStreamCreate(&stream, 0));
  ASSERT_OK(cuStreamDestroy(stream));
  EXPECT_NE(cuStreamSynchronize(stream), CUDA_SUCCESS);
  EXPECT_THAT(TakeReports(), AllOf(HasSubstr("misuse: cuStreamSynchronize"),
                                   HasSubstr("destroyed")));
}

TEST_F(HandlesTest, ADestroyedEventIsReported) {
  CUevent event = nullptr;
  ASSERT_OK(cuEventCreate(&event, 0));
  ASSERT_OK(cuEventDestroy(event));
  EXPECT_NE(cuEventRecord(event, stream_), CUDA_SUCCESS);
  EXPECT_THAT(TakeReports(), AllOf(HasSubstr("misuse: cuEventRecord"),
                                   HasSubstr("destroyed")));
}

TEST_F(HandlesTest, AnExecutableGraphAfterItsEndIsReported) {
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  ASSERT_OK(cuGraphCreate(&graph, 0));
  ASSERT_OK(cuGraphInstantiate(&exec, graph, 0));
  ASSERT_OK(cuGraphExecDestroy(exec));
  EXPECT_NE(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  EXPECT_THAT(TakeReports(), AllOf(HasSubstr("misuse: cuGraphLaunch"),
                                   HasSubstr("destroyed")));
  ASSERT_OK(cuGraphDestroy(graph));
  EXPECT_NE(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
  EXPECT_THAT(TakeReports(), HasSubstr("misuse: cuGraphInstantiate"));
}

TEST_F(HandlesTest, AKernelOfAnUnloadedModuleIsReported) {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  ASSERT_OK(cuModuleLoadData(&module, softcuda_check_kernels_image));
  ASSERT_OK(cuModuleGetFunction(&function, module, "k_fill"));
  ASSERT_OK(cuModuleUnload(module));
  void* params[] = {nullptr, nullptr, nullptr};
  EXPECT_NE(
      cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream_, params, nullptr),
      CUDA_SUCCESS);
  EXPECT_THAT(TakeReports(), AllOf(HasSubstr("misuse: cuLaunchKernel"),
                                   HasSubstr("function")));
}

TEST_F(HandlesTest, AGraphWhoseModuleIsUnloadedIsReportedAtItsLaunch) {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  ASSERT_OK(cuModuleLoadData(&module, softcuda_check_kernels_image));
  ASSERT_OK(cuModuleGetFunction(&function, module, "k_fill"));
  ASSERT_OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL));
  int n = 1;
  void* params[] = {&a_, &n, &n};
  EXPECT_OK(
      cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream_, params, nullptr));
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  ASSERT_OK(cuStreamEndCapture(stream_, &graph));
  ASSERT_OK(cuGraphInstantiate(&exec, graph, 0));
  ASSERT_OK(cuModuleUnload(module));
  EXPECT_OK(cuGraphLaunch(exec, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_THAT(TakeReports(), HasSubstr("misuse: cuGraphLaunch: the module"));
  EXPECT_OK(cuGraphExecDestroy(exec));
  EXPECT_OK(cuGraphDestroy(graph));
}

TEST_F(HandlesTest, GarbageIsReported) {
  EXPECT_NE(cuStreamSynchronize(reinterpret_cast<CUstream>(uint64_t{0x1234})),
            CUDA_SUCCESS);
  EXPECT_THAT(TakeReports(), HasSubstr("misuse: cuStreamSynchronize"));
}

TEST_F(HandlesTest, LiveHandlesAreSilent) {
  CUevent event = nullptr;
  ASSERT_OK(cuEventCreate(&event, 0));
  EXPECT_OK(cuEventRecord(event, stream_));
  EXPECT_OK(cuEventSynchronize(event));
  EXPECT_OK(cuEventDestroy(event));
  EXPECT_EQ(TakeReports(), "");
}

}  // namespace
}  // namespace softcuda
