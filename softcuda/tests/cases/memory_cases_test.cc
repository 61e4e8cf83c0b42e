// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Reports about sizes, addresses beyond 32 bits, and contents of fresh memory.
#include <cmath>

#include "case_fixture.h"

namespace softcuda {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using MemoryCases = DriverCases;

// Nothing behind the last byte: no slack of an allocator hides a size that is
// short.
TEST_F(MemoryCases, B51_TheByteBehindABufferIsOutOfReach) {
  for (const size_t rows :
       std::vector<size_t>{1, 2, 3, 7, 8, 9, 127, 128, 129}) {
    const size_t bytes = rows * 37;
    const CUdeviceptr scratch = NewBytes(bytes);
    EXPECT_OK(Launch(stream_, "c_store_byte", 1, 1, scratch,
                     static_cast<unsigned long long>(bytes - 1)));
    EXPECT_OK(cuStreamSynchronize(stream_));
    EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemsetD8(scratch, 0, bytes + 1));
    EXPECT_ENDS_CONTEXT(CUDA_ERROR_ILLEGAL_ADDRESS,
                        Launch(stream_, "c_store_byte", 1, 1, scratch,
                               static_cast<unsigned long long>(bytes)),
                        "memcheck: write of 1 byte .*: 1 byte past the end of "
                        "device allocation [0-9]+ \\(" +
                            std::to_string(bytes) + " bytes\\)");
  }
  EXPECT_EQ(TakeReports(), "");
}

// A buffer of gigabytes costs what is touched; a row far inside is reached, and
// the address that a 32-bit product would give stays as it was.
class WideCases : public DriverCases {
 protected:
  static constexpr uint64_t k2Pow31 = uint64_t{1} << 31;
  static constexpr uint64_t k2Pow32 = uint64_t{1} << 32;

  void ExpectRowReached(unsigned int row, unsigned int stride) {
    const uint64_t offset = uint64_t{row} * stride;
    ASSERT_GT(offset, k2Pow31);
    const int64_t committed = softcuda_committed_bytes();
    CUdeviceptr base = 0;
    ASSERT_OK(cuMemAlloc(&base, offset + stride));
    const uint64_t wrapped = offset % k2Pow32;
    EXPECT_OK(cuMemsetD8(base + wrapped, 0, 1));
    EXPECT_OK(cuMemsetD8(base + offset, 0, 1));
    EXPECT_OK(cuCtxSynchronize());
    EXPECT_OK(Launch(stream_, "c_store_in_row", 1, 1, base, row, stride));
    EXPECT_OK(cuStreamSynchronize(stream_));
    EXPECT_EQ(Read<uint8_t>(base + offset, 1)[0], 0x5a);
    if (wrapped != offset) {
      EXPECT_EQ(Read<uint8_t>(base + wrapped, 1)[0], 0);
    }
    EXPECT_LE(softcuda_committed_bytes() - committed, int64_t{8} << 20);
    EXPECT_OK(cuMemFree(base));
  }
  // Where the product is an int, the store lands below the buffer.
  void ExpectIntIsFound(unsigned int row, unsigned int stride) {
    const CUdeviceptr base = NewBytes(uint64_t{row} * stride + stride);
    EXPECT_ENDS_CONTEXT(
        CUDA_ERROR_ILLEGAL_ADDRESS,
        Launch(stream_, "f_store_in_row_int", 1, 1, base, row, stride),
        "memcheck: write of 1 byte .*kernel f_store_in_row_int");
  }
};

TEST_F(WideCases, B56_PagesBeyond32BitsAreReached) {
  constexpr unsigned int kStride = 480 * 576;
  ExpectRowReached(7768, kStride);
  ExpectIntIsFound(7768, kStride);
}

TEST_F(WideCases, B57_BlocksBeyond32BitsAreReached) {
  ExpectRowReached(2066, 1039680);
  ExpectIntIsFound(2066, 1039680);
}

TEST_F(WideCases, B58_RowsBeyond32BitsAreReached) {
  ExpectRowReached(299594, 7168);
  ExpectIntIsFound(299594, 7168);
}

TEST_F(WideCases, B59_AnIndexWidenedTooLateHitsAnotherRow) {
  constexpr unsigned int kRow = 599187;
  constexpr unsigned int kStride = 7168;
  ExpectRowReached(kRow, kStride);
  const uint64_t wrapped = uint64_t{kRow} * kStride % k2Pow32;
  const CUdeviceptr base = NewBytes(uint64_t{kRow} * kStride + kStride);
  EXPECT_OK(cuMemsetD8(base + wrapped, 0, 1));
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_OK(Launch(stream_, "f_store_in_row_late", 1, 1, base, kRow, kStride));
  EXPECT_OK(cuStreamSynchronize(stream_));
  EXPECT_EQ(Read<uint8_t>(base + wrapped, 1)[0], 0x5a)
      << "the guard at the wrapped address tells";
}

TEST_F(MemoryCases, B101_ARefusedAllocationLeavesItsOutputAlone) {
  CUdeviceptr memory = 0x1234;
  void* host = &memory;
  CUmemGenericAllocationHandle handle = 77;
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemAlloc(&memory, 0));
  EXPECT_CU(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&memory, size_t{1} << 50));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemAllocAsync(&memory, 0, stream_));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemAllocHost(&host, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemCreate(&handle, 0, &properties, 0));
  EXPECT_EQ(memory, CUdeviceptr{0x1234});
  EXPECT_EQ(host, static_cast<void*>(&memory));
  EXPECT_EQ(handle, CUmemGenericAllocationHandle{77});
}

// One byte less than the plan is refused before anything is captured.
TEST_F(MemoryCases, B113_TheDeviceHoldsThePlanToTheByte) {
  const size_t plan[] = {772, 3076, 460036, 4194304 + 5};
  int64_t total = softcuda_live_bytes();
  for (const size_t bytes : plan) total += static_cast<int64_t>(bytes);
  for (const int64_t missing : {0, 1}) {
    softcuda_set_device_memory(static_cast<size_t>(total - missing));
    std::vector<CUdeviceptr> buffers;
    CUresult result = CUDA_SUCCESS;
    for (const size_t bytes : plan) {
      CUdeviceptr memory = 0;
      result = cuMemAlloc(&memory, bytes);
      if (result == CUDA_SUCCESS) buffers.push_back(memory);
    }
    EXPECT_CU(missing == 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY, result);
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    EXPECT_OK(cuMemGetInfo(&free_bytes, &total_bytes));
    EXPECT_EQ(free_bytes, missing == 0 ? 0 : plan[3] - 1);
    for (CUdeviceptr memory : buffers) EXPECT_OK(cuMemFree(memory));
  }
  softcuda_set_device_memory(size_t{80} << 30);
}

// Sleep keeps the address and drops the contents: a replay that counts on them
// is reported, one that writes them first is not.
TEST_F(MemoryCases, B114_ContentsLostInSleepAreReported) {
  constexpr size_t kBytes = size_t{2} << 20;
  ASSERT_OK(softcuda_set_option("poison", "0xcc"));
  softcuda_enable_initcheck(1);
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemAccessDesc access = {};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUdeviceptr table = 0;
  ASSERT_OK(cuMemAddressReserve(&table, kBytes, 0, 0, 0));
  const auto wake = [&] {
    CUmemGenericAllocationHandle handle = 0;
    ASSERT_OK(cuMemCreate(&handle, kBytes, &properties, 0));
    ASSERT_OK(cuMemMap(table, kBytes, 0, handle, 0));
    ASSERT_OK(cuMemSetAccess(table, kBytes, &access, 1));
    ASSERT_OK(cuMemRelease(handle));
  };
  const CUdeviceptr out = NewInts(64, 0);
  wake();
  EXPECT_OK(cuMemsetD32(table, 5, 64));
  EXPECT_OK(cuCtxSynchronize());
  const CUgraphExec exec = Instantiate(Capture(
      [&] { EXPECT_OK(Launch(stream_, "c_add", 1, 64, table, out, 64, 1)); }));
  Replay(exec);
  EXPECT_EQ(Read(out, 64), std::vector<int>(64, 6));
  EXPECT_EQ(TakeReports(), "");

  ASSERT_OK(cuMemUnmap(table, kBytes));
  wake();
  Replay(exec);
  EXPECT_EQ(Read(out, 64), std::vector<int>(64, static_cast<int>(0xcccccccd)));
  EXPECT_THAT(TakeReports(),
              AllOf(HasSubstr("initcheck: "), HasSubstr(LineOf("add"))));
  // The backup brings back what was written once.
  EXPECT_OK(cuMemsetD32Async(table, 5, 64, stream_));
  Replay(exec);
  EXPECT_EQ(Read(out, 64), std::vector<int>(64, 6));
  EXPECT_EQ(TakeReports(), "");
  ASSERT_OK(cuMemUnmap(table, kBytes));
  EXPECT_OK(cuMemAddressFree(table, kBytes));
}

TEST_F(MemoryCases, B137_FreshMemoryIsNotANumberWhenPoisoned) {
  ASSERT_OK(softcuda_set_option("poison", "0xff"));
  for (const float value : Read<float>(NewBytes(256), 64)) {
    EXPECT_TRUE(std::isnan(value));
  }
}

}  // namespace
}  // namespace softcuda
