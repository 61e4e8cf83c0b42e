// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Copies and memsets of rows and slices.
#include <numeric>

#include "runtime_fixture.h"

namespace softcuda {
namespace {

class CopyShapesTest : public RuntimeTest {
 protected:
  static constexpr size_t kWidth = 12;
  static constexpr size_t kHeight = 5;
  static constexpr size_t kDepth = 3;
  static constexpr size_t kPitch = 32;
  static constexpr size_t kBytes = kPitch * kHeight * kDepth;

  void SetUp() override {
    RuntimeTest::SetUp();
    ASSERT_OK(cuMemAlloc(&device_, kBytes));
    ASSERT_OK(cuMemsetD8(device_, 0xEE, kBytes));
    // The tests use a stream that does not wait for the legacy one.
    ASSERT_OK(cuCtxSynchronize());
    std::iota(host_.begin(), host_.end(), static_cast<unsigned char>(0));
  }
  void TearDown() override {
    EXPECT_OK(cuMemFree(device_));
    RuntimeTest::TearDown();
  }

  // Packed host rows to padded device rows.
  CUDA_MEMCPY3D ToDevice() {
    CUDA_MEMCPY3D copy = {};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = host_.data();
    copy.srcPitch = kWidth;
    copy.srcHeight = kHeight;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = device_;
    copy.dstPitch = kPitch;
    copy.dstHeight = kHeight;
    copy.WidthInBytes = kWidth;
    copy.Height = kHeight;
    copy.Depth = kDepth;
    return copy;
  }
  void ExpectPadded() {
    std::vector<unsigned char> device(kBytes);
    ASSERT_OK(cuMemcpyDtoH(device.data(), device_, kBytes));
    for (size_t i = 0; i < kBytes; ++i) {
      const size_t row = i / kPitch;
      const size_t column = i % kPitch;
      const auto expected = static_cast<unsigned char>(
          column < kWidth ? row * kWidth + column : 0xEE);
      ASSERT_EQ(device[i], expected) << "byte " << i;
    }
  }

  CUdeviceptr device_ = 0;
  std::vector<unsigned char> host_ =
      std::vector<unsigned char>(kWidth * kHeight * kDepth);
};

TEST_F(CopyShapesTest, PitchedCopyMovesRowsOnly) {
  const CUDA_MEMCPY3D copy = ToDevice();
  ASSERT_OK(cuMemcpy3D(&copy));
  ExpectPadded();
}

TEST_F(CopyShapesTest, PageableSourceOfAnAsyncCopyIsTakenAtOnce) {
  const CUDA_MEMCPY3D copy = ToDevice();
  ASSERT_OK(cuMemcpy3DAsync(&copy, stream_));
  std::fill(host_.begin(), host_.end(), static_cast<unsigned char>(0xAA));
  ASSERT_OK(cuStreamSynchronize(stream_));
  ExpectPadded();
}

TEST_F(CopyShapesTest, NodeKeepsItsDescription) {
  const CUDA_MEMCPY3D copy = ToDevice();
  CUgraph graph = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;
  ASSERT_OK(cuGraphCreate(&graph, 0));
  ASSERT_OK(cuGraphAddMemcpyNode(&node, graph, nullptr, 0, &copy, context_));
  CUDA_MEMCPY3D found = {};
  ASSERT_OK(cuGraphMemcpyNodeGetParams(node, &found));
  EXPECT_EQ(found.dstPitch, kPitch);
  EXPECT_EQ(found.Depth, kDepth);
  EXPECT_EQ(found.srcHost, host_.data());
  ASSERT_OK(cuGraphInstantiate(&exec, graph, 0));
  ASSERT_OK(cuGraphLaunch(exec, stream_));
  ASSERT_OK(cuStreamSynchronize(stream_));
  ExpectPadded();
  // Updates of copies with several rows are not possible.
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuGraphExecMemcpyNodeSetParams(exec, node, &copy, context_));
  EXPECT_OK(cuGraphExecDestroy(exec));
  EXPECT_OK(cuGraphDestroy(graph));
}

TEST_F(CopyShapesTest, BadShapesAreRefused) {
  CUDA_MEMCPY3D copy = ToDevice();
  copy.dstPitch = kWidth - 1;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D(&copy));
  copy = ToDevice();
  copy.Depth = kDepth + 1;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D(&copy));
  copy = ToDevice();
  copy.dstZ = ~size_t{0} / kPitch;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D(&copy));
  copy = ToDevice();
  copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  EXPECT_CU(CUDA_ERROR_NOT_SUPPORTED, cuMemcpy3D(&copy));
  copy = ToDevice();
  copy.reserved0 = &copy;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D(&copy));
}

TEST_F(CopyShapesTest, PitchedMemsetWritesRowsOnly) {
  ASSERT_OK(cuMemsetD2D32Async(device_, kPitch, 0x01020304, 2, 4, stream_));
  ASSERT_OK(cuStreamSynchronize(stream_));
  std::vector<unsigned char> device(kBytes);
  ASSERT_OK(cuMemcpyDtoH(device.data(), device_, kBytes));
  for (size_t i = 0; i < kBytes; ++i) {
    const bool inside = i % kPitch < 8 && i / kPitch < 4;
    ASSERT_EQ(device[i], inside ? 4 - i % 4 : 0xEE) << "byte " << i;
  }
}

TEST_F(CopyShapesTest, HostToHostCopyIsDoneOnReturn) {
  std::vector<unsigned char> to(host_.size());
  ASSERT_OK(cuMemcpyAsync(std::bit_cast<CUdeviceptr>(to.data()),
                          std::bit_cast<CUdeviceptr>(host_.data()),
                          host_.size(), stream_));
  EXPECT_EQ(to, host_);
}

TEST_F(CopyShapesTest, WrongSideIsRefused) {
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuMemcpyHtoD(device_, std::bit_cast<void*>(device_), 4));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuMemcpyDtoD(device_, std::bit_cast<CUdeviceptr>(host_.data()), 4));
}

}  // namespace
}  // namespace softcuda
