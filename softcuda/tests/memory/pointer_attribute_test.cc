// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include <cuda.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "driver_fixture.h"

namespace softcuda {
namespace {

class PointerAttributeTest : public DriverTest {};

TEST_F(PointerAttributeTest, OfADeviceAllocation) {
  const CUdeviceptr base = Allocate(1000);
  const CUdeviceptr inside = base + 17;
  EXPECT_EQ(Attribute<CUcontext>(CU_POINTER_ATTRIBUTE_CONTEXT, inside),
            context_);
  EXPECT_EQ(Attribute<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, inside),
            unsigned{CU_MEMORYTYPE_DEVICE});
  EXPECT_EQ(Attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_DEVICE_POINTER, inside),
            inside);
  void* host = &host;
  EXPECT_EQ(
      cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, inside),
      CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(host, &host) << "an error must not touch the output";
  EXPECT_EQ(Attribute<int>(CU_POINTER_ATTRIBUTE_MAPPED, inside), 1);
  EXPECT_EQ(Attribute<int>(CU_POINTER_ATTRIBUTE_IS_MANAGED, inside), 0);
  EXPECT_EQ(Attribute<int>(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, inside), 0);
  EXPECT_EQ(
      Attribute<int>(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, inside),
      1);
  EXPECT_EQ(
      Attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, inside),
      base);
  EXPECT_EQ(Attribute<size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, inside), 1000u);
  EXPECT_EQ(
      Attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, inside),
      base);
  EXPECT_EQ(Attribute<size_t>(CU_POINTER_ATTRIBUTE_MAPPING_SIZE, inside),
            1000u);
  EXPECT_EQ(
      Attribute<CUmemoryPool>(CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, inside),
      nullptr);
  EXPECT_EQ(Attribute<int>(CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, inside),
            int{CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
  EXPECT_NE(Attribute<uint64_t>(CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, inside),
            0u);
  EXPECT_EQ(cuMemFree(base), CUDA_SUCCESS);
}

TEST_F(PointerAttributeTest, BlockIdsAreNeverUsedAgain) {
  const CUdeviceptr a = Allocate(64);
  const CUdeviceptr b = Allocate(64);
  const auto id_a =
      Attribute<uint64_t>(CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, a);
  const auto id_b =
      Attribute<uint64_t>(CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, b);
  EXPECT_NE(id_a, id_b);
  EXPECT_EQ(cuMemFree(a), CUDA_SUCCESS);
  const CUdeviceptr c = Allocate(64);
  const auto id_c =
      Attribute<uint64_t>(CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, c);
  EXPECT_NE(id_c, id_a);
  EXPECT_NE(id_c, id_b);
  EXPECT_EQ(cuMemFree(b), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(c), CUDA_SUCCESS);
}

TEST_F(PointerAttributeTest, ReservedAddressesHaveARangeAndNoMemory) {
  CUdeviceptr base = 0;
  ASSERT_EQ(cuMemAddressReserve(&base, 4 * kGranule, 0, 0, 0), CUDA_SUCCESS);
  CUmemGenericAllocationHandle handle = 0;
  const CUmemAllocationProp properties = DeviceMemory();
  ASSERT_EQ(cuMemCreate(&handle, kGranule, &properties, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemMap(base + kGranule, kGranule, 0, handle, 0), CUDA_SUCCESS);

  const CUdeviceptr mapped = base + kGranule + 5;
  const CUdeviceptr tail = base + 3 * kGranule;
  for (const CUdeviceptr address : {mapped, tail}) {
    EXPECT_EQ(
        Attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address),
        base);
    EXPECT_EQ(Attribute<size_t>(CU_POINTER_ATTRIBUTE_RANGE_SIZE, address),
              4 * kGranule);
  }
  EXPECT_EQ(Attribute<int>(CU_POINTER_ATTRIBUTE_MAPPED, mapped), 1);
  EXPECT_EQ(Attribute<int>(CU_POINTER_ATTRIBUTE_MAPPED, tail), 0);
  EXPECT_EQ(
      Attribute<CUdeviceptr>(CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, mapped),
      base + kGranule);
  EXPECT_EQ(Attribute<size_t>(CU_POINTER_ATTRIBUTE_MAPPING_SIZE, mapped),
            kGranule);
  uint64_t value = 77;
  for (const CUpointer_attribute attribute :
       {CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, CU_POINTER_ATTRIBUTE_MAPPING_SIZE,
        CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_BUFFER_ID}) {
    EXPECT_EQ(cuPointerGetAttribute(&value, attribute, tail),
              CUDA_ERROR_INVALID_VALUE);
  }
  EXPECT_EQ(value, 77u);
  // No access yet, so no kernel can use the address.
  EXPECT_EQ(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                  mapped),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Attribute<int>(CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, mapped), 0);
  EXPECT_EQ(
      Attribute<int>(CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, mapped),
      0);

  CUdeviceptr mapped_base = 0;
  size_t mapped_bytes = 0;
  EXPECT_EQ(cuMemGetAddressRange(&mapped_base, &mapped_bytes, mapped),
            CUDA_SUCCESS);
  EXPECT_EQ(mapped_base, base + kGranule);
  EXPECT_EQ(mapped_bytes, kGranule);
  EXPECT_EQ(cuMemGetAddressRange(&mapped_base, nullptr, tail),
            CUDA_ERROR_NOT_FOUND);

  EXPECT_EQ(cuMemUnmap(base + kGranule, kGranule), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(base, 4 * kGranule), CUDA_SUCCESS);
}

TEST_F(PointerAttributeTest,
       ForeignPointersAreAnErrorOneByOneAndZerosTogether) {
  std::vector<char> mine(64);
  const auto foreign = reinterpret_cast<CUdeviceptr>(mine.data());
  CUcontext context = nullptr;
  EXPECT_EQ(
      cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT, foreign),
      CUDA_ERROR_INVALID_VALUE);
  int mapped = 7;
  EXPECT_EQ(
      cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, foreign),
      CUDA_ERROR_INVALID_VALUE);

  context = reinterpret_cast<CUcontext>(&mine);
  unsigned type = 9;
  uint64_t id = 9;
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_CONTEXT,
                                      CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                      CU_POINTER_ATTRIBUTE_BUFFER_ID};
  void* data[] = {&context, &type, &id};
  EXPECT_EQ(cuPointerGetAttributes(3, attributes, data, foreign), CUDA_SUCCESS);
  EXPECT_EQ(context, nullptr);
  EXPECT_EQ(type, 0u);
  EXPECT_EQ(id, 0u);
}

TEST_F(PointerAttributeTest, ManyAttributesAgreeWithOne) {
  const CUdeviceptr base = Allocate(4096);
  unsigned type = 0;
  uint64_t id = 0;
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                      CU_POINTER_ATTRIBUTE_BUFFER_ID};
  void* data[] = {&type, &id};
  EXPECT_EQ(cuPointerGetAttributes(2, attributes, data, base), CUDA_SUCCESS);
  EXPECT_EQ(type, Attribute<unsigned>(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, base));
  EXPECT_EQ(id, Attribute<uint64_t>(CU_POINTER_ATTRIBUTE_BUFFER_ID, base));
  EXPECT_EQ(cuMemFree(base), CUDA_SUCCESS);
}

TEST_F(PointerAttributeTest, BadQueriesAreRefused) {
  const CUdeviceptr base = Allocate(64);
  uint64_t value = 0;
  EXPECT_EQ(cuPointerGetAttribute(nullptr, CU_POINTER_ATTRIBUTE_CONTEXT, base),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(
      cuPointerGetAttribute(&value, static_cast<CUpointer_attribute>(0), base),
      CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(
      cuPointerGetAttribute(&value, static_cast<CUpointer_attribute>(31), base),
      CUDA_ERROR_INVALID_VALUE);
  CUpointer_attribute attributes[] = {static_cast<CUpointer_attribute>(31)};
  void* data[] = {&value};
  EXPECT_EQ(cuPointerGetAttributes(1, attributes, data, base),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuPointerGetAttributes(0, attributes, data, base),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuPointerGetAttributes(1, nullptr, data, base),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree(base), CUDA_SUCCESS);
}

TEST_F(PointerAttributeTest, BooleansTakeFourBytes) {
  const CUdeviceptr base = Allocate(64);
  unsigned char bytes[8];
  std::memset(bytes, 0xAB, sizeof bytes);
  ASSERT_EQ(cuPointerGetAttribute(bytes, CU_POINTER_ATTRIBUTE_MAPPED, base),
            CUDA_SUCCESS);
  int mapped = 0;
  std::memcpy(&mapped, bytes, sizeof mapped);
  EXPECT_EQ(mapped, 1);
  EXPECT_EQ(bytes[4], 0xAB);
  EXPECT_EQ(cuMemFree(base), CUDA_SUCCESS);
}

}  // namespace
}  // namespace softcuda
