// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_TESTS_RUNTIME_RUNTIME_FIXTURE_H_
#define SOFTCUDA_TESTS_RUNTIME_RUNTIME_FIXTURE_H_

#include <cuda.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "softcuda/control.h"

namespace softcuda {

inline constexpr size_t kMiB = size_t{1} << 20;

#define EXPECT_CU(code, call) \
  EXPECT_EQ(static_cast<int>(call), static_cast<int>(code))
#define ASSERT_CU(code, call) \
  ASSERT_EQ(static_cast<int>(call), static_cast<int>(code))
#define EXPECT_OK(call) EXPECT_CU(CUDA_SUCCESS, call)
#define ASSERT_OK(call) ASSERT_CU(CUDA_SUCCESS, call)

/// A current primary context and a stream. A test leaves no object behind and
/// no report that it did not ask for.
class RuntimeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    softcuda_set_quiet(1);
    ASSERT_OK(cuInit(0));
    ASSERT_OK(cuDevicePrimaryCtxRetain(&context_, 0));
    ASSERT_OK(cuCtxSetCurrent(context_));
    handles_before_ = softcuda_live_handles();
    TakeReports();
    ASSERT_OK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
  }

  void TearDown() override {
    softcuda_set_schedule_seed(0);
    softcuda_set_execution(1);
    EXPECT_OK(cuStreamDestroy(stream_));
    EXPECT_OK(cuCtxSynchronize());
    EXPECT_EQ(TakeReports(), "") << "a report that the test did not take";
    EXPECT_EQ(softcuda_live_handles(), handles_before_) << "leaked objects";
    EXPECT_OK(cuCtxSetCurrent(nullptr));
    EXPECT_OK(cuDevicePrimaryCtxRelease(0));
  }

  /// The reports since the last call, one a line.
  static std::string TakeReports() {
    std::string text(softcuda_take_reports(nullptr, 0), '\0');
    if (!text.empty()) softcuda_take_reports(text.data(), text.size());
    return text;
  }

  static CUgraphNode AddHostNode(CUgraph graph, CUhostFn function, void* data,
                                 const std::vector<CUgraphNode>& behind = {}) {
    const CUDA_HOST_NODE_PARAMS params = {function, data};
    CUgraphNode node = nullptr;
    EXPECT_OK(cuGraphAddHostNode(&node, graph, behind.data(), behind.size(),
                                 &params));
    return node;
  }

  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  int64_t handles_before_ = 0;
};

}  // namespace softcuda

#endif  // SOFTCUDA_TESTS_RUNTIME_RUNTIME_FIXTURE_H_
