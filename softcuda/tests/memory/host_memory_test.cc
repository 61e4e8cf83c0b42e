// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

// Pinned and registered host memory.

#include <cuda.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "driver_fixture.h"

namespace softcuda {
namespace {

class HostMemoryTest : public DriverTest {};

TEST_F(HostMemoryTest, PinnedMemoryHasOneAddressForBothSides) {
  void* host = nullptr;
  ASSERT_EQ(cuMemAllocHost(&host, 5000), CUDA_SUCCESS);
  std::memset(host, 3, 5000);
  CUdeviceptr device = 0;
  EXPECT_EQ(cuMemHostGetDevicePointer(&device, host, 0), CUDA_SUCCESS);
  EXPECT_EQ(device, reinterpret_cast<CUdeviceptr>(host));
  EXPECT_EQ(cuMemHostGetDevicePointer(&device, host, 1),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, device),
            device);
  EXPECT_EQ(Attribute<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device),
            unsigned{CU_MEMORYTYPE_HOST});
  EXPECT_EQ(Attribute<void*>(CU_POINTER_ATTRIBUTE_HOST_POINTER, device), host);
  EXPECT_EQ(softcuda_live_bytes(), bytes_before_) << "not device memory";
  EXPECT_EQ(softcuda_live_handles(), handles_before_ + 1);
  EXPECT_EQ(cuMemFreeHost(host), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeHost(host), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemHostGetDevicePointer(&device, host, 0),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(HostMemoryTest, BadArgumentsAreRefused) {
  void* host = nullptr;
  EXPECT_EQ(cuMemAllocHost(&host, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAllocHost(nullptr, 64), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAllocHost(&host, size_t{1} << 60), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemHostAlloc(&host, 64, 8), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(host, nullptr);
  EXPECT_EQ(cuMemHostAlloc(&host, 64, CU_MEMHOSTALLOC_PORTABLE), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeHost(static_cast<char*>(host) + 1),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFreeHost(host), CUDA_SUCCESS);
}

TEST_F(HostMemoryTest, ForeignMemoryIsNotOursToFree) {
  std::vector<char> mine(64);
  EXPECT_EQ(cuMemFreeHost(mine.data()), CUDA_ERROR_INVALID_VALUE);
  const CUdeviceptr device = Allocate(64);
  EXPECT_EQ(cuMemFreeHost(reinterpret_cast<void*>(device)),
            CUDA_ERROR_INVALID_VALUE);
  void* host = nullptr;
  ASSERT_EQ(cuMemAllocHost(&host, 64), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(reinterpret_cast<CUdeviceptr>(host)),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFreeHost(host), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(device), CUDA_SUCCESS);
}

TEST_F(HostMemoryTest, RegistrationIsForUnregisteredHostMemory) {
  std::vector<char> mine(100000);
  EXPECT_EQ(cuMemHostRegister(mine.data(), mine.size(), 0), CUDA_SUCCESS);
  EXPECT_EQ(softcuda_live_handles(), handles_before_ + 1);
  EXPECT_EQ(cuMemHostRegister(mine.data() + 10, 10, 0),
            CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  CUdeviceptr device = 0;
  EXPECT_EQ(cuMemHostGetDevicePointer(&device, mine.data(), 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeHost(mine.data()), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemHostUnregister(mine.data() + 1),
            CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  EXPECT_EQ(cuMemHostUnregister(mine.data()), CUDA_SUCCESS);
  EXPECT_EQ(cuMemHostUnregister(mine.data()),
            CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

TEST_F(HostMemoryTest, RegistrationRefusesWhatIsNotThere) {
  std::vector<char> mine(64);
  EXPECT_EQ(cuMemHostRegister(nullptr, 64, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemHostRegister(mine.data(), 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemHostRegister(mine.data(), ~size_t{0}, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemHostRegister(mine.data(), 64, 0x100),
            CUDA_ERROR_INVALID_VALUE);
  const CUdeviceptr device = Allocate(64);
  EXPECT_EQ(cuMemHostRegister(reinterpret_cast<void*>(device), 64, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree(device), CUDA_SUCCESS);
  // Pages that were given back to the host.
  void* gone = mmap(nullptr, 1 << 20, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(gone, MAP_FAILED);
  ASSERT_EQ(munmap(gone, 1 << 20), 0);
  EXPECT_EQ(cuMemHostRegister(gone, 1 << 20, 0), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace softcuda
