// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Virtual memory management: assertions 44 to 56.
#include "contract_api.h"

namespace permafrost::contract {
namespace {

class VmmContract : public ContractTest {
 protected:
  void SetUp() override {
    ContractTest::SetUp();
    prop_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop_.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop_.location.id = device;
    ASSERT_CU_OK(cu.MemGetAllocationGranularity(
        &granularity_, &prop_, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    ASSERT_CU_OK(
        cu.MemAddressReserve(&base_, 4 * granularity_, granularity_, 0, 0));
  }

  void TearDown() override {
    if (mapped_bytes_ > 0) {
      EXPECT_CU_OK(cu.MemUnmap(base_, mapped_bytes_));
    }
    for (const auto handle : handles_) EXPECT_CU_OK(cu.MemRelease(handle));
    if (base_ != 0) {
      EXPECT_CU_OK(cu.MemAddressFree(base_, 4 * granularity_));
    }
    ContractTest::TearDown();
  }

  CUmemGenericAllocationHandle NewHandle(size_t granules) {
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_CU_OK(cu.MemCreate(&handle, granules * granularity_, &prop_, 0));
    handles_.push_back(handle);
    return handle;
  }

  // Maps at the reservation's start.
  void Map(size_t granules, CUmemGenericAllocationHandle handle) {
    ASSERT_CU_OK(cu.MemMap(base_, granules * granularity_, 0, handle, 0));
    mapped_bytes_ = granules * granularity_;
  }

  CUresult Allow(size_t bytes, CUmemAccess_flags flags) {
    CUmemAccessDesc access = {};
    access.location = prop_.location;
    access.flags = flags;
    return cu.MemSetAccess(base_, bytes, &access, 1);
  }

  CUmemAllocationProp prop_ = {};
  size_t granularity_ = 0;
  CUdeviceptr base_ = 0;
  size_t mapped_bytes_ = 0;
  std::vector<CUmemGenericAllocationHandle> handles_;
};

TEST_F(VmmContract, A044_GranularitiesFitEachOther) {
  size_t recommended = 0;
  ASSERT_CU_OK(cu.MemGetAllocationGranularity(
      &recommended, &prop_, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  EXPECT_EQ(granularity_ & (granularity_ - 1), 0u);
  EXPECT_EQ(recommended % granularity_, 0u);
}

TEST_F(VmmContract, A045_UnalignedAndEmptyHandlesAreRefused) {
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cu.MemCreate(&handle, granularity_ - 1, &prop_, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.MemCreate(&handle, 0, &prop_, 0));
}

TEST_F(VmmContract, A046_ReservationsAreAligned) {
  EXPECT_EQ(base_ % granularity_, 0u);
}

TEST_F(VmmContract, A047_BadReservationsAreRefused) {
  CUdeviceptr address = 0;
  EXPECT_CU_ANY(cu.MemAddressReserve(&address, granularity_, 3, 0, 0), 1, 2);
  EXPECT_CU_ANY(cu.MemAddressReserve(&address, 4095, 0, 0, 0), 1, 2);
}

TEST_F(VmmContract, A048_MappedMemoryOutlivesItsHandle) {
  CUmemGenericAllocationHandle handle = 0;
  ASSERT_CU_OK(cu.MemCreate(&handle, granularity_, &prop_, 0));
  Map(1, handle);
  ASSERT_CU_OK(Allow(granularity_, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  ASSERT_CU_OK(cu.MemRelease(handle));
  ASSERT_CU_OK(cu.MemsetD32(base_, 8, 1024));
  EXPECT_EQ(Read(base_, 1024), std::vector<uint32_t>(1024, 8));
}

TEST_F(VmmContract, A049_MappingOverAMappingIsRefused) {
  Map(1, NewHandle(1));
  EXPECT_CU_FAILS(cu.MemMap(base_, granularity_, 0, NewHandle(1), 0));
}

TEST_F(VmmContract, A050_AccessToUnmappedMemoryIsRefused) {
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            Allow(granularity_, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
}

TEST_F(VmmContract, A051_UnmappingHalfAMappingIsRefused) {
  Map(2, NewHandle(2));
  ASSERT_CU_OK(Allow(2 * granularity_, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.MemUnmap(base_, granularity_));
  ASSERT_CU_OK(cu.MemsetD32(base_, 3, 64));
  EXPECT_EQ(Read(base_, 64), std::vector<uint32_t>(64, 3));
}

TEST_F(VmmContract, A052_AnotherHandleAtTheSameAddress) {
  Map(1, NewHandle(1));
  ASSERT_CU_OK(Allow(granularity_, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  ASSERT_CU_OK(cu.MemsetD32(base_, 3, 64));
  ASSERT_CU_OK(cu.CtxSynchronize());
  ASSERT_CU_OK(cu.MemUnmap(base_, granularity_));
  mapped_bytes_ = 0;
  Map(1, NewHandle(1));
  ASSERT_CU_OK(Allow(granularity_, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  ASSERT_CU_OK(cu.MemsetD32(base_, 4, 64));
  EXPECT_EQ(Read(base_, 64), std::vector<uint32_t>(64, 4));
}

TEST_F(VmmContract, A053_FreeingPartOfAReservationIsRefused) {
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cu.MemAddressFree(base_, 2 * granularity_));
}

TEST_F(VmmContract, A054_RangeAttributesDescribeTheReservation) {
  Map(1, NewHandle(1));
  ASSERT_CU_OK(Allow(granularity_, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  CUdeviceptr start = 0;
  size_t bytes = 0;
  EXPECT_CU_OK(cu.PointerGetAttribute(
      &start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, base_ + 4096));
  EXPECT_CU_OK(cu.PointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
                                      base_ + 4096));
  EXPECT_EQ(start, base_);
  EXPECT_EQ(bytes, 4 * granularity_);
  // "A boolean", of a width that is not documented: room for any.
  uint64_t mapped = 0;
  EXPECT_CU_OK(cu.PointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED,
                                      base_ + 4096));
  EXPECT_EQ(mapped, 1u);
  EXPECT_CU_OK(cu.PointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED,
                                      base_ + 2 * granularity_));
  EXPECT_EQ(mapped, 0u);
}

TEST_F(VmmContract, A055_CopyIntoMemoryWithoutAccessIsRefused) {
  Map(1, NewHandle(1));
  uint32_t value = 1;
  EXPECT_CU_FAILS(cu.MemcpyHtoD(base_, &value, 4));
  EXPECT_CU_OK(cu.CtxSynchronize());
}

TEST_F(VmmContract, A056_TheHandleOfAnAddress) {
  const CUmemGenericAllocationHandle handle = NewHandle(1);
  Map(1, handle);
  CUmemGenericAllocationHandle found = 0;
  ASSERT_CU_OK(cu.MemRetainAllocationHandle(
      &found, reinterpret_cast<void*>(base_ + 4096)));
  EXPECT_EQ(found, handle);
  EXPECT_CU_OK(cu.MemRelease(found));
}

}  // namespace
}  // namespace permafrost::contract
