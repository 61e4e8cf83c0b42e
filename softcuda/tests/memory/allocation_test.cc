// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

// The cuMemAlloc family.

#include <cuda.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "driver_fixture.h"

namespace softcuda {
namespace {

class AllocationTest : public DriverTest {};

TEST_F(AllocationTest, ZeroBytesAndNullOutputAreRefused) {
  CUdeviceptr address = 0x1234;
  EXPECT_EQ(cuMemAlloc(&address, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(address, 0x1234u) << "an error must not touch the output";
  EXPECT_EQ(cuMemAlloc(nullptr, 64), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(AllocationTest, AddressesAreAligned) {
  for (const size_t bytes : {size_t{1}, size_t{255}, size_t{4097}, kGranule}) {
    const CUdeviceptr address = Allocate(bytes);
    EXPECT_EQ(address % 256, 0u) << bytes;
    EXPECT_EQ(cuMemFree(address), CUDA_SUCCESS);
  }
}

TEST_F(AllocationTest, NeighboursHaveAGapBetweenThem) {
  const CUdeviceptr a = Allocate(4096);
  const CUdeviceptr b = Allocate(4096);
  const CUdeviceptr low = a < b ? a : b;
  const CUdeviceptr high = a < b ? b : a;
  EXPECT_GE(high - low, 4096 + kGranule);
  // The bytes right behind belong to nobody.
  EXPECT_EQ(cuMemGetAddressRange(nullptr, nullptr, low + 4096),
            CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(cuMemFree(a), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(b), CUDA_SUCCESS);
}

TEST_F(AllocationTest, FreeTakesBasePointersOnce) {
  const CUdeviceptr address = Allocate(4096);
  EXPECT_EQ(cuMemFree(address + 256), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemsetD8(address, 7, 4096), CUDA_SUCCESS) << "still usable";
  EXPECT_EQ(cuMemFree(address), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(address), CUDA_ERROR_INVALID_VALUE);
  int on_stack = 0;
  EXPECT_EQ(cuMemFree(reinterpret_cast<CUdeviceptr>(&on_stack)),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree(0), CUDA_SUCCESS);
}

TEST_F(AllocationTest, FreedMemoryIsOutOfReach) {
  const CUdeviceptr address = Allocate(4096);
  ASSERT_EQ(cuMemFree(address), CUDA_SUCCESS);
  std::vector<char> host(16);
  EXPECT_NE(cuMemcpyDtoH(host.data(), address, 16), CUDA_SUCCESS);
  EXPECT_EQ(cuMemGetAddressRange(nullptr, nullptr, address),
            CUDA_ERROR_NOT_FOUND);
}

TEST_F(AllocationTest, CopiesEndWhereTheAllocationEnds) {
  const CUdeviceptr address = Allocate(100);
  std::vector<char> host(101);
  EXPECT_EQ(cuMemcpyHtoD(address, host.data(), 100), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyHtoD(address, host.data(), 101), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemcpyDtoH(host.data(), address + 1, 100),
            CUDA_ERROR_INVALID_VALUE);
  constexpr size_t kFar = size_t{64} << 20;
  EXPECT_NE(cuMemcpyHtoD(address + 100 + kFar, host.data(), 1), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(address), CUDA_SUCCESS);
}

TEST_F(AllocationTest, AddressRangeIsTheAllocation) {
  const CUdeviceptr address = Allocate(1000);
  CUdeviceptr base = 0;
  size_t bytes = 0;
  EXPECT_EQ(cuMemGetAddressRange(&base, &bytes, address + 17), CUDA_SUCCESS);
  EXPECT_EQ(base, address);
  EXPECT_EQ(bytes, 1000u);
  base = 0;
  EXPECT_EQ(cuMemGetAddressRange(&base, nullptr, address + 999), CUDA_SUCCESS);
  EXPECT_EQ(base, address);
  bytes = 0;
  EXPECT_EQ(cuMemGetAddressRange(nullptr, &bytes, address), CUDA_SUCCESS);
  EXPECT_EQ(bytes, 1000u);
  int on_stack = 0;
  EXPECT_EQ(cuMemGetAddressRange(&base, &bytes,
                                 reinterpret_cast<CUdeviceptr>(&on_stack)),
            CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(cuMemFree(address), CUDA_SUCCESS);
}

TEST_F(AllocationTest, BufferIdsAreNeverUsedAgain) {
  std::vector<unsigned long long> ids;
  for (int i = 0; i < 5; ++i) {
    const CUdeviceptr address = Allocate(512);
    ids.push_back(
        Attribute<unsigned long long>(CU_POINTER_ATTRIBUTE_BUFFER_ID, address));
    ASSERT_EQ(cuMemFree(address), CUDA_SUCCESS);
  }
  for (size_t i = 1; i < ids.size(); ++i) EXPECT_GT(ids[i], ids[i - 1]);
}

// Shrinks the device for one test.
class AccountingTest : public AllocationTest {
 protected:
  void SetUp() override {
    AllocationTest::SetUp();
    ASSERT_EQ(cuMemGetInfo(&free_before_, &total_before_), CUDA_SUCCESS);
    softcuda_set_device_memory(static_cast<size_t>(bytes_before_) + kDevice);
  }
  void TearDown() override {
    softcuda_set_device_memory(total_before_);
    AllocationTest::TearDown();
  }

  static constexpr size_t kDevice = 64 * kGranule;
  size_t free_before_ = 0;
  size_t total_before_ = 0;
};

TEST_F(AccountingTest, EveryByteCounts) {
  const CUdeviceptr a = Allocate(1000);
  size_t free = 0;
  size_t total = 0;
  ASSERT_EQ(cuMemGetInfo(&free, &total), CUDA_SUCCESS);
  EXPECT_EQ(free, kDevice - 1000);
  EXPECT_EQ(softcuda_live_bytes(), bytes_before_ + 1000);
  CUdeviceptr b = 0;
  EXPECT_EQ(cuMemAlloc(&b, free + 1), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(b, 0u);
  EXPECT_EQ(cuMemAlloc(&b, free), CUDA_SUCCESS) << "the rest to the last byte";
  ASSERT_EQ(cuMemGetInfo(&free, &total), CUDA_SUCCESS);
  EXPECT_EQ(free, 0u);
  CUdeviceptr c = 0;
  EXPECT_EQ(cuMemAlloc(&c, 1), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemFree(a), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAlloc(&c, 1000), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(b), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(c), CUDA_SUCCESS);
}

TEST_F(AccountingTest, HandlesAndAllocationsShareTheDevice) {
  CUmemGenericAllocationHandle handle = 0;
  const CUmemAllocationProp properties = DeviceMemory();
  ASSERT_EQ(cuMemCreate(&handle, kDevice - kGranule, &properties, 0),
            CUDA_SUCCESS);
  CUmemGenericAllocationHandle second = 0;
  EXPECT_EQ(cuMemCreate(&second, 2 * kGranule, &properties, 0),
            CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(second, 0u);
  CUdeviceptr address = 0;
  EXPECT_EQ(cuMemAlloc(&address, kGranule + 1), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemAlloc(&address, kGranule), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(address), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
}

TEST_F(AccountingTest, AShrunkDeviceHasNoFreeBytes) {
  const CUdeviceptr address = Allocate(kGranule);
  softcuda_set_device_memory(1);
  size_t free = 1;
  size_t total = 0;
  ASSERT_EQ(cuMemGetInfo(&free, &total), CUDA_SUCCESS);
  EXPECT_EQ(free, 0u);
  EXPECT_EQ(total, 1u);
  EXPECT_EQ(cuMemFree(address), CUDA_SUCCESS);
}

TEST_F(AllocationTest, AnImpossibleSizeIsOutOfMemoryAndLeavesNoTrace) {
  CUdeviceptr address = 0;
  EXPECT_EQ(cuMemAlloc(&address, size_t{1} << 60), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemAlloc(&address, ~size_t{0}), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(address, 0u);
  address = Allocate(1);
  EXPECT_EQ(cuMemFree(address), CUDA_SUCCESS);
}

TEST_F(AllocationTest, ADeviceLargerThanTheHostCommitsPagesLazily) {
  constexpr size_t kHuge = size_t{70} << 30;
  const CUdeviceptr address = Allocate(kHuge);
  ASSERT_NE(address, 0u);
  const uint32_t word = 0xC0FFEE;
  uint32_t back = 0;
  EXPECT_EQ(cuMemcpyHtoD(address + kHuge - 4, &word, 4), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyDtoH(&back, address + kHuge - 4, 4), CUDA_SUCCESS);
  EXPECT_EQ(back, word);
  EXPECT_EQ(cuMemFree(address), CUDA_SUCCESS);
}

TEST_F(AllocationTest, WithoutAContextThereIsNoMemory) {
  ASSERT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
  CUdeviceptr address = 0;
  EXPECT_EQ(cuMemAlloc(&address, 64), CUDA_ERROR_INVALID_CONTEXT);
  ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
}

}  // namespace
}  // namespace softcuda
