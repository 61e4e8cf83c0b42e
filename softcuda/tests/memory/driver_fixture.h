// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef SOFTCUDA_TESTS_MEMORY_DRIVER_FIXTURE_H_
#define SOFTCUDA_TESTS_MEMORY_DRIVER_FIXTURE_H_

#include <cuda.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "softcuda/control.h"

namespace softcuda {

/// A current primary context, and the rule that a test leaves nothing behind.
class DriverTest : public ::testing::Test {
 protected:
  static constexpr size_t kGranule = size_t{2} << 20;

  void SetUp() override {
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&context_, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
    softcuda_set_quiet(1);
    bytes_before_ = softcuda_live_bytes();
    handles_before_ = softcuda_live_handles();
  }

  void TearDown() override {
    EXPECT_EQ(softcuda_live_bytes(), bytes_before_) << "leaked device memory";
    EXPECT_EQ(softcuda_live_handles(), handles_before_) << "leaked handles";
    cuCtxSetCurrent(nullptr);
    EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  }

  static CUmemAllocationProp DeviceMemory() {
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = 0;
    return properties;
  }

  static CUresult SetAccess(CUdeviceptr address, size_t bytes,
                            CUmemAccess_flags flags) {
    CUmemAccessDesc descriptor = {};
    descriptor.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    descriptor.location.id = 0;
    descriptor.flags = flags;
    return cuMemSetAccess(address, bytes, &descriptor, 1);
  }

  template <typename T>
  static T Attribute(CUpointer_attribute attribute, CUdeviceptr address) {
    T value = {};
    EXPECT_EQ(cuPointerGetAttribute(&value, attribute, address), CUDA_SUCCESS)
        << "attribute " << attribute;
    return value;
  }

  static CUdeviceptr Allocate(size_t bytes) {
    CUdeviceptr address = 0;
    EXPECT_EQ(cuMemAlloc(&address, bytes), CUDA_SUCCESS);
    return address;
  }

  CUcontext context_ = nullptr;
  int64_t bytes_before_ = 0;
  int64_t handles_before_ = 0;
};

}  // namespace softcuda

#endif  // SOFTCUDA_TESTS_MEMORY_DRIVER_FIXTURE_H_
