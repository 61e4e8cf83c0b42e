// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Memory and copies: assertions 25 to 43.
#include <algorithm>
#include <cstring>

#include "contract_api.h"

namespace permafrost::contract {
namespace {

using MemoryContract = ContractTest;

unsigned long long BufferId(const Api& cu, CUdeviceptr address) {
  unsigned long long id = 0;
  EXPECT_CU_OK(
      cu.PointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, address));
  return id;
}

CUdeviceptr AddressOf(const void* host) {
  return reinterpret_cast<CUdeviceptr>(host);
}

TEST_F(MemoryContract, A025_EmptyAllocationIsRefused) {
  CUdeviceptr memory = 0;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.MemAlloc(&memory, 0));
}

TEST_F(MemoryContract, A026_AllocationsAreAligned) {
  for (const size_t bytes :
       {size_t{1}, size_t{255}, size_t{4097}, size_t{1} << 20}) {
    CUdeviceptr memory = 0;
    ASSERT_CU_OK(cu.MemAlloc(&memory, bytes));
    EXPECT_EQ(memory % 256, 0u) << bytes;
    EXPECT_CU_OK(cu.MemFree(memory));
  }
}

TEST_F(MemoryContract, A027_OutOfMemoryLeavesNoTrace) {
  CUdeviceptr memory = 0;
  EXPECT_CU(CUDA_ERROR_OUT_OF_MEMORY, cu.MemAlloc(&memory, size_t{1} << 60));
  ASSERT_CU_OK(cu.MemAlloc(&memory, 4096));
  EXPECT_CU_OK(cu.MemFree(memory));
}

TEST_F(MemoryContract, A028_SecondFreeIsRefused) {
  CUdeviceptr memory = 0;
  ASSERT_CU_OK(cu.MemAlloc(&memory, 4096));
  EXPECT_CU_OK(cu.MemFree(memory));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.MemFree(memory));
}

TEST_F(MemoryContract, A029_FreeOfAnInteriorPointerIsRefused) {
  const CUdeviceptr words = NewWords(1024);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.MemFree(words + 256));
  EXPECT_CU_OK(cu.MemsetD32(words, 1, 1024));
  EXPECT_EQ(Read(words, 1024), std::vector<uint32_t>(1024, 1));
}

TEST_F(MemoryContract, A030_AddressRangeOfAnInteriorPointer) {
  const CUdeviceptr words = NewWords(1000);
  CUdeviceptr base = 0;
  size_t bytes = 0;
  EXPECT_CU_OK(cu.MemGetAddressRange(&base, &bytes, words + 17));
  EXPECT_EQ(base, words);
  EXPECT_EQ(bytes, 4000u);
  EXPECT_CU_OK(cu.MemGetAddressRange(nullptr, &bytes, words + 17));
  EXPECT_CU_OK(cu.MemGetAddressRange(&base, nullptr, words + 17));
}

TEST_F(MemoryContract, A031_AddressRangeOfTheStackIsNotFound) {
  int here = 0;
  CUdeviceptr base = 0;
  size_t bytes = 0;
  EXPECT_CU(CUDA_ERROR_NOT_FOUND,
            cu.MemGetAddressRange(&base, &bytes, AddressOf(&here)));
}

TEST_F(MemoryContract, A032_AllocationsAreToldApart) {
  const CUdeviceptr a = NewWords(1024);
  const CUdeviceptr b = NewWords(1024);
  EXPECT_TRUE(a + 4096 <= b || b + 4096 <= a);
  EXPECT_NE(BufferId(cu, a), BufferId(cu, b));
  CUdeviceptr memory = 0;
  ASSERT_CU_OK(cu.MemAlloc(&memory, 4096));
  const unsigned long long old_id = BufferId(cu, memory);
  ASSERT_CU_OK(cu.MemFree(memory));
  ASSERT_CU_OK(cu.MemAlloc(&memory, 4096));
  EXPECT_NE(BufferId(cu, memory), old_id);
  EXPECT_CU_OK(cu.MemFree(memory));
}

TEST_F(MemoryContract, A033_MemoryTypes) {
  unsigned int type = 0;
  EXPECT_CU_OK(cu.PointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                      NewWords(1)));
  EXPECT_EQ(type, 2u);
  EXPECT_CU_OK(cu.PointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                      AddressOf(NewPinnedWords(1))));
  EXPECT_EQ(type, 1u);
}

TEST_F(MemoryContract, A034_AttributesOfPageableMemory) {
  std::vector<int> host(16);
  CUcontext owner = nullptr;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cu.PointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT,
                                   AddressOf(host.data())));
  unsigned int type = 7;
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_CONTEXT,
                                      CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
  owner = context;
  void* values[] = {&owner, &type};
  EXPECT_CU_OK(
      cu.PointerGetAttributes(2, attributes, values, AddressOf(host.data())));
  EXPECT_EQ(owner, nullptr);
  EXPECT_EQ(type, 0u);
}

TEST_F(MemoryContract, A035_DeviceMemoryHasNoHostPointer) {
  void* host = nullptr;
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cu.PointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER,
                                   NewWords(1)));
}

TEST_F(MemoryContract, A036_PinnedMemoryIsSharedWithKernels) {
  const CUstream stream = NewStream(kNonBlocking);
  uint32_t* const pinned = NewPinnedWords(64);
  CUdeviceptr alias = 0;
  EXPECT_CU_OK(cu.PointerGetAttribute(
      &alias, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, AddressOf(pinned)));
  EXPECT_EQ(alias, AddressOf(pinned));
  ASSERT_CU_OK(LaunchFill(stream, alias, 9, 64));
  ASSERT_CU_OK(cu.StreamSynchronize(stream));
  EXPECT_TRUE(std::all_of(pinned, pinned + 64,
                          [](uint32_t value) { return value == 9; }));
}

TEST_F(MemoryContract, A037_FreeHostOfForeignMemoryIsRefused) {
  std::vector<char> host(4096);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.MemFreeHost(host.data()));
}

TEST_F(MemoryContract, A038_MemsetsStopWhereTheyShould) {
  const CUstream stream = NewStream(kNonBlocking);
  const CUdeviceptr words = NewWords(16);
  uint32_t* const pinned = NewPinnedWords(16);
  ASSERT_CU_OK(cu.MemsetD32Async(words + 4, 0x11223344, 3, stream));
  ASSERT_CU_OK(cu.MemsetD16Async(words + 18, 0x5566, 3, stream));
  ASSERT_CU_OK(cu.MemsetD8Async(words + 33, 0x77, 5, stream));
  ASSERT_CU_OK(cu.MemcpyDtoHAsync(pinned, words, 64, stream));
  ASSERT_CU_OK(cu.StreamSynchronize(stream));
  unsigned char expected[64] = {};
  for (size_t i = 4; i < 16; i += 4) {
    const uint32_t value = 0x11223344;
    std::memcpy(expected + i, &value, 4);
  }
  for (size_t i = 18; i < 24; i += 2) {
    const uint16_t value = 0x5566;
    std::memcpy(expected + i, &value, 2);
  }
  std::memset(expected + 33, 0x77, 5);
  EXPECT_EQ(std::memcmp(pinned, expected, 64), 0);
}

TEST_F(MemoryContract, A039_MisalignedMemsetIsRefused) {
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cu.MemsetD32(NewWords(4) + 2, 1, 1));
}

TEST_F(MemoryContract, A040_CopyToPageableMemoryIsCompleteOnReturn) {
  const CUdeviceptr words = NewWords(4096);
  ASSERT_CU_OK(LaunchFill(nullptr, words, 21, 4096));
  std::vector<uint32_t> host(4096);
  ASSERT_CU_OK(cu.MemcpyDtoH(host.data(), words, 4096 * 4));
  EXPECT_EQ(host, std::vector<uint32_t>(4096, 21));
}

TEST_F(MemoryContract, A041_CopyFromPageableMemoryTakesItAtOnce) {
  const CUdeviceptr words = NewWords(4096);
  std::vector<uint32_t> host(4096, 1);
  ASSERT_CU_OK(cu.MemcpyHtoD(words, host.data(), 4096 * 4));
  std::fill(host.begin(), host.end(), 2);
  EXPECT_EQ(Read(words, 4096), std::vector<uint32_t>(4096, 1));
}

TEST_F(MemoryContract, A042_StreamOrderHoldsBetweenCopyAndKernel) {
  const CUstream stream = NewStream(kNonBlocking);
  const CUdeviceptr a = NewWords(256);
  const CUdeviceptr b = NewWords(256);
  ASSERT_CU_OK(LaunchFill(stream, a, 4, 256));
  ASSERT_CU_OK(cu.MemcpyDtoDAsync(b, a, 1024, stream));
  ASSERT_CU_OK(LaunchAdd(stream, b, 1, 256));
  EXPECT_EQ(Read(b, 256), std::vector<uint32_t>(256, 5));
}

TEST_F(MemoryContract, A043_CopyPastTheEndIsRefused) {
  const CUdeviceptr words = NewWords(256);
  std::vector<char> host(1024);
  EXPECT_CU_FAILS(cu.MemcpyHtoD(words + (size_t{64} << 20), host.data(), 1024));
  EXPECT_CU_OK(cu.CtxSynchronize());
}

}  // namespace
}  // namespace permafrost::contract
