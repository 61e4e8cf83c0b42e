// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Stream-ordered memory and pools: assertions 146 to 148.
#include "contract_api.h"

namespace permafrost::contract {
namespace {

class PoolContract : public ContractTest {
 protected:
  void SetUp() override {
    ContractTest::SetUp();
    stream_ = NewStream(kNonBlocking);
    CUmemPoolProps props = {};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.location.id = device;
    ASSERT_CU_OK(cu.MemPoolCreate(&pool_, &props));
  }
  void TearDown() override {
    if (pool_ != nullptr) {
      EXPECT_CU_OK(cu.MemPoolDestroy(pool_));
    }
    ContractTest::TearDown();
  }

  template <typename T>
  T Attribute(CUmemPool_attribute attribute) {
    T value = 99;
    EXPECT_CU_OK(cu.MemPoolGetAttribute(pool_, attribute, &value));
    return value;
  }

  CUstream stream_ = nullptr;
  CUmemoryPool pool_ = nullptr;
};

TEST_F(PoolContract, A146_FreeingTwiceOrNothing) {
  CUdeviceptr memory = 0;
  ASSERT_CU_OK(cu.MemAllocAsync(&memory, 4096, stream_));
  EXPECT_CU_OK(LaunchFill(stream_, memory, 7, 1024));
  std::vector<uint32_t> values(1024);
  EXPECT_CU_OK(cu.MemcpyDtoHAsync(values.data(), memory, 4096, stream_));
  EXPECT_CU_OK(cu.MemFreeAsync(memory, stream_));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.MemFreeAsync(memory, stream_));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.MemFreeAsync(0, stream_));
  EXPECT_CU_OK(cu.StreamSynchronize(stream_));
  EXPECT_EQ(values, std::vector<uint32_t>(1024, 7));
}

TEST_F(PoolContract, A147_AttributesOfAFreshPool) {
  EXPECT_EQ(Attribute<int>(CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES), 1);
  EXPECT_EQ(Attribute<int>(CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC), 1);
  EXPECT_EQ(Attribute<int>(CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES),
            1);
  EXPECT_EQ(Attribute<cuuint64_t>(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD), 0u);
  cuuint64_t five = 5;
  EXPECT_CU(
      CUDA_ERROR_INVALID_VALUE,
      cu.MemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &five));
}

TEST_F(PoolContract, A148_TheDefaultPoolStays) {
  CUmemoryPool pool = nullptr;
  ASSERT_CU_OK(cu.DeviceGetDefaultMemPool(&pool, device));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.MemPoolDestroy(pool));
}

}  // namespace
}  // namespace permafrost::contract
