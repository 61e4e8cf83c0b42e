// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Pools and stream-ordered memory beyond the contract: accounting, reuse, and
// what is told of memory used outside its life.
#include <atomic>
#include <cstdlib>

#include "runtime_fixture.h"

namespace softcuda {
namespace {

class PoolTest : public RuntimeTest {
 protected:
  void SetUp() override {
    RuntimeTest::SetUp();
    ASSERT_OK(cuDeviceGetDefaultMemPool(&default_pool_, 0));
    CUmemPoolProps props = {};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.maxSize = 64 * kMiB;
    ASSERT_OK(cuMemPoolCreate(&pool_, &props));
    bytes_before_ = softcuda_live_bytes();
  }
  void TearDown() override {
    gate_ = 1;
    EXPECT_OK(cuStreamSynchronize(stream_));
    if (pool_ != nullptr) {
      EXPECT_OK(cuMemPoolDestroy(pool_));
    }
    EXPECT_EQ(softcuda_live_bytes(), bytes_before_) << "leaked device memory";
    softcuda_set_device_memory(size_t{80} << 30);
    RuntimeTest::TearDown();
  }

  CUdeviceptr Allocate(size_t bytes) {
    CUdeviceptr memory = 0;
    EXPECT_OK(cuMemAllocFromPoolAsync(&memory, bytes, pool_, stream_));
    return memory;
  }
  cuuint64_t Attribute(CUmemPool_attribute attribute) {
    cuuint64_t value = 0;
    EXPECT_OK(cuMemPoolGetAttribute(pool_, attribute, &value));
    return value;
  }
  void SetThreshold(cuuint64_t bytes) {
    EXPECT_OK(cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                                    &bytes));
  }
  // Holds the stream until gate_ is set.
  void Hold() {
    gate_ = 0;
    EXPECT_OK(cuLaunchHostFunc(
        stream_,
        [](void* gate) {
          while (static_cast<std::atomic<int>*>(gate)->load() == 0) {
          }
        },
        &gate_));
  }

  std::atomic<int> gate_{1};
  CUmemoryPool pool_ = nullptr;
  CUmemoryPool default_pool_ = nullptr;
  int64_t bytes_before_ = 0;
};

TEST_F(PoolTest, AccountsUsedAndReservedBytes) {
  const CUdeviceptr memory = Allocate(5000);
  EXPECT_EQ(Attribute(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 5000u);
  EXPECT_EQ(Attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 8192u);
  EXPECT_EQ(softcuda_live_bytes(), bytes_before_ + 8192);
  EXPECT_OK(cuMemFreeAsync(memory, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(Attribute(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0u);
  EXPECT_EQ(Attribute(CU_MEMPOOL_ATTR_USED_MEM_HIGH), 5000u);
  EXPECT_EQ(Attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0u)
      << "a wait releases what lies above the threshold of 0";
  cuuint64_t zero = 0;
  EXPECT_OK(cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
  EXPECT_EQ(Attribute(CU_MEMPOOL_ATTR_USED_MEM_HIGH), 0u);
}

TEST_F(PoolTest, ThresholdKeepsMemoryForReuseAndTrimGivesItBack) {
  SetThreshold(kMiB);
  const CUdeviceptr memory = Allocate(4096);
  EXPECT_OK(cuMemFreeAsync(memory, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(Attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 4096u);
  EXPECT_OK(cuMemPoolTrimTo(pool_, 4096));
  EXPECT_EQ(Attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 4096u);
  EXPECT_EQ(Allocate(4096), memory) << "cached memory is taken first";
  EXPECT_OK(cuMemFreeAsync(memory, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_OK(cuMemPoolTrimTo(pool_, 0));
  EXPECT_EQ(Attribute(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0u);
}

TEST_F(PoolTest, ReusedMemoryIsAnotherBuffer) {
  SetThreshold(kMiB);
  uint64_t first = 0;
  uint64_t second = 0;
  CUdeviceptr memory = Allocate(4096);
  EXPECT_OK(
      cuPointerGetAttribute(&first, CU_POINTER_ATTRIBUTE_BUFFER_ID, memory));
  EXPECT_OK(cuMemFreeAsync(memory, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  memory = Allocate(4096);
  EXPECT_OK(
      cuPointerGetAttribute(&second, CU_POINTER_ATTRIBUTE_BUFFER_ID, memory));
  EXPECT_NE(first, second);
  CUmemoryPool owner = nullptr;
  EXPECT_OK(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
                                  memory));
  EXPECT_EQ(owner, pool_);
  EXPECT_OK(cuMemFreeAsync(memory, stream_));
}

// A device that is full but for what the stream is about to free.
TEST_F(PoolTest, FreesAheadInTheStreamMakeRoom) {
  softcuda_set_device_memory(static_cast<size_t>(bytes_before_) + 3 * kMiB);
  Hold();
  const CUdeviceptr first = Allocate(2 * kMiB);
  CUdeviceptr second = 0;
  EXPECT_CU(CUDA_ERROR_OUT_OF_MEMORY,
            cuMemAllocFromPoolAsync(&second, 2 * kMiB, pool_, stream_));
  EXPECT_OK(cuMemFreeAsync(first, stream_));
  EXPECT_OK(cuMemAllocFromPoolAsync(&second, 2 * kMiB, pool_, stream_));
  EXPECT_OK(cuMemsetD8Async(second, 1, 2 * kMiB, stream_));
  EXPECT_OK(cuMemFreeAsync(second, stream_));
}

TEST_F(PoolTest, SizeLimitOfThePool) {
  CUdeviceptr memory = 0;
  EXPECT_CU(CUDA_ERROR_OUT_OF_MEMORY,
            cuMemAllocFromPoolAsync(&memory, 65 * kMiB, pool_, stream_));
  EXPECT_CU(CUDA_ERROR_OUT_OF_MEMORY,
            cuMemAllocAsync(&memory, size_t{1} << 60, stream_));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemAllocAsync(&memory, 0, stream_));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemAllocAsync(nullptr, 8, stream_));
}

TEST_F(PoolTest, BothFreesTakeBothKindsOfMemory) {
  const CUdeviceptr pooled = Allocate(4096);
  EXPECT_OK(cuMemFree(pooled));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(pooled, stream_));
  CUdeviceptr plain = 0;
  EXPECT_OK(cuMemAlloc(&plain, 4096));
  Hold();
  EXPECT_OK(cuMemsetD8Async(plain, 1, 4096, stream_));
  EXPECT_OK(cuMemFreeAsync(plain, stream_));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemFree(plain));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(plain, 1, 1));
}

TEST_F(PoolTest, DestroyedPoolLivesUntilItsLastAllocation) {
  const CUdeviceptr memory = Allocate(4096);
  EXPECT_OK(cuMemPoolDestroy(pool_));
  CUdeviceptr more = 0;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuMemAllocFromPoolAsync(&more, 4096, pool_, stream_));
  EXPECT_NE(TakeReports().find("memory pool handle"), std::string::npos);
  pool_ = nullptr;
  EXPECT_OK(cuMemsetD8Async(memory, 1, 4096, stream_));
  EXPECT_OK(cuMemFreeAsync(memory, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(softcuda_live_bytes(), bytes_before_);
}

TEST_F(PoolTest, CurrentPoolCanBeSetAndFallsBack) {
  CUmemoryPool pool = nullptr;
  EXPECT_OK(cuDeviceGetMemPool(&pool, 0));
  EXPECT_EQ(pool, default_pool_);
  EXPECT_OK(cuDeviceSetMemPool(0, pool_));
  EXPECT_OK(cuDeviceGetMemPool(&pool, 0));
  EXPECT_EQ(pool, pool_);
  CUdeviceptr memory = 0;
  EXPECT_OK(cuMemAllocAsync(&memory, 100, stream_));
  EXPECT_EQ(Attribute(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 100u);
  EXPECT_OK(cuMemFreeAsync(memory, stream_));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_OK(cuMemPoolDestroy(pool_));
  pool_ = nullptr;
  EXPECT_OK(cuDeviceGetMemPool(&pool, 0));
  EXPECT_EQ(pool, default_pool_);
  EXPECT_CU(CUDA_ERROR_INVALID_DEVICE, cuDeviceGetMemPool(&pool, 7));
}

TEST_F(PoolTest, BadPropertiesAreRefused) {
  CUmemPoolProps props = {};
  CUmemoryPool pool = nullptr;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemPoolCreate(&pool, &props));
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  props.location.id = 9;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemPoolCreate(&pool, &props));
  props.location.id = 0;
  props.reserved[53] = 1;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemPoolCreate(&pool, &props));
  props.reserved[53] = 0;
  props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  EXPECT_CU(CUDA_ERROR_NOT_SUPPORTED, cuMemPoolCreate(&pool, &props));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemPoolCreate(nullptr, &props));
}

using PoolDeathTest = PoolTest;

// Two streams with no order between them, or one.
void UseFromAnotherStream(bool ordered) {
  static std::atomic<int> gate{0};
  softcuda_set_quiet(1);
  CUstream first = nullptr;
  CUstream second = nullptr;
  CUevent event = nullptr;
  CUdeviceptr memory = 0;
  cuStreamCreate(&first, CU_STREAM_NON_BLOCKING);
  cuStreamCreate(&second, CU_STREAM_NON_BLOCKING);
  cuEventCreate(&event, 0);
  cuLaunchHostFunc(
      first,
      [](void*) {
        while (gate.load() == 0) {
        }
      },
      nullptr);
  cuMemAllocAsync(&memory, 64, first);
  cuEventRecord(event, first);
  if (ordered) {
    gate = 1;
    cuStreamWaitEvent(second, event, 0);
  }
  cuMemsetD8Async(memory, 1, 64, second);
  const CUresult result = cuStreamSynchronize(second);
  gate = 1;
  std::string text(softcuda_take_reports(nullptr, 0), '\0');
  softcuda_take_reports(text.data(), text.size());
  const bool told =
      text.find("not allocated yet in stream order") != std::string::npos;
  std::_Exit(ordered ? (result == CUDA_SUCCESS && !told ? 0 : 1)
                     : (result == CUDA_ERROR_ILLEGAL_ADDRESS && told ? 0 : 1));
}

TEST_F(PoolDeathTest, UseBeforeTheAllocationInStreamOrderIsFound) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(UseFromAnotherStream(false), ::testing::ExitedWithCode(0), "");
}

TEST_F(PoolDeathTest, UseBehindTheAllocationInStreamOrderIsClean) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(UseFromAnotherStream(true), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace softcuda
