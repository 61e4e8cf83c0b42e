// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

// Virtual memory management: the rules for cuMemAddressReserve and its family.

#include <cuda.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <vector>

#include "driver_fixture.h"

namespace softcuda {
namespace {

class VmmTest : public DriverTest {
 protected:
  CUdeviceptr Reserve(size_t bytes) {
    CUdeviceptr address = 0;
    EXPECT_EQ(cuMemAddressReserve(&address, bytes, 0, 0, 0), CUDA_SUCCESS);
    return address;
  }
  CUmemGenericAllocationHandle Create(size_t bytes) {
    CUmemGenericAllocationHandle handle = 0;
    const CUmemAllocationProp properties = DeviceMemory();
    EXPECT_EQ(cuMemCreate(&handle, bytes, &properties, 0), CUDA_SUCCESS);
    return handle;
  }
  static CUresult Fill(CUdeviceptr address, unsigned char value,
                       size_t bytes = kGranule) {
    const CUresult result = cuMemsetD8(address, value, bytes);
    return result != CUDA_SUCCESS ? result : cuCtxSynchronize();
  }
  static int ByteAt(CUdeviceptr address) {
    unsigned char byte = 0;
    EXPECT_EQ(cuMemcpyDtoH(&byte, address, 1), CUDA_SUCCESS);
    return byte;
  }
  static constexpr CUmemAccess_flags kReadWrite =
      CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
};

TEST_F(VmmTest, GranularityIsAPowerOfTwo) {
  const CUmemAllocationProp properties = DeviceMemory();
  size_t minimum = 0;
  size_t recommended = 0;
  ASSERT_EQ(cuMemGetAllocationGranularity(&minimum, &properties,
                                          CU_MEM_ALLOC_GRANULARITY_MINIMUM),
            CUDA_SUCCESS);
  ASSERT_EQ(cuMemGetAllocationGranularity(&recommended, &properties,
                                          CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
            CUDA_SUCCESS);
  EXPECT_EQ(minimum, kGranule);
  EXPECT_EQ(recommended % minimum, 0u);
  size_t untouched = 5;
  // As a C program may call it: the option is just a number.
  const auto with_number =
      reinterpret_cast<CUresult (*)(size_t*, const CUmemAllocationProp*, int)>(
          &cuMemGetAllocationGranularity);
  EXPECT_EQ(with_number(&untouched, &properties, 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemGetAllocationGranularity(&untouched, nullptr,
                                          CU_MEM_ALLOC_GRANULARITY_MINIMUM),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemGetAllocationGranularity(nullptr, &properties,
                                          CU_MEM_ALLOC_GRANULARITY_MINIMUM),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(untouched, 5u);
}

TEST_F(VmmTest, CreateRefusesBadSizesAndProperties) {
  const CUmemAllocationProp good = DeviceMemory();
  CUmemGenericAllocationHandle handle = 99;
  const auto create = [&](size_t bytes, const CUmemAllocationProp& properties) {
    return cuMemCreate(&handle, bytes, &properties, 0);
  };
  EXPECT_EQ(create(0, good), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(create(kGranule - 1, good), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(create(kGranule + 4096, good), CUDA_ERROR_INVALID_VALUE);
  CUmemAllocationProp bad = good;
  bad.type = CU_MEM_ALLOCATION_TYPE_INVALID;
  EXPECT_EQ(create(kGranule, bad), CUDA_ERROR_INVALID_VALUE);
  bad = good;
  bad.location.type = CU_MEM_LOCATION_TYPE_INVALID;
  EXPECT_EQ(create(kGranule, bad), CUDA_ERROR_INVALID_VALUE);
  for (const int id : {-1, 1}) {
    bad = good;
    bad.location.id = id;
    EXPECT_EQ(create(kGranule, bad), CUDA_ERROR_INVALID_VALUE);
  }
  EXPECT_EQ(cuMemCreate(nullptr, kGranule, &good, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemCreate(&handle, kGranule, nullptr, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemCreate(&handle, kGranule, &good, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(create(size_t{1} << 60, good), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(handle, 99u) << "an error must not touch the output";
}

TEST_F(VmmTest, HandlesKeepTheirProperties) {
  CUmemAllocationProp properties = DeviceMemory();
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.allocFlags.gpuDirectRDMACapable = 1;
  CUmemGenericAllocationHandle handle = 0;
  ASSERT_EQ(cuMemCreate(&handle, kGranule, &properties, 0), CUDA_SUCCESS);
  CUmemAllocationProp back = {};
  EXPECT_EQ(cuMemGetAllocationPropertiesFromHandle(&back, handle),
            CUDA_SUCCESS);
  EXPECT_EQ(back.type, properties.type);
  EXPECT_EQ(back.location.type, properties.location.type);
  EXPECT_EQ(back.requestedHandleTypes, properties.requestedHandleTypes);
  EXPECT_EQ(back.allocFlags.gpuDirectRDMACapable, 1);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(cuMemGetAllocationPropertiesFromHandle(&back, handle),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(VmmTest, ReserveTakesWholePagesAndPowersOfTwo) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  CUdeviceptr address = 0;
  for (const size_t alignment : {kGranule, 16 * kGranule, 512 * kGranule}) {
    ASSERT_EQ(cuMemAddressReserve(&address, 4 * kGranule, alignment, 0, 0),
              CUDA_SUCCESS);
    EXPECT_EQ(address % alignment, 0u);
    EXPECT_EQ(cuMemAddressFree(address, 4 * kGranule), CUDA_SUCCESS);
  }
  address = 1;
  EXPECT_EQ(cuMemAddressReserve(&address, kGranule, 3, 0, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressReserve(&address, page - 1, 0, 0, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressReserve(&address, 0, 0, 0, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressReserve(&address, kGranule, 0, 1, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressReserve(&address, kGranule, 0, 0, 1),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressReserve(nullptr, kGranule, 0, 0, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressReserve(&address, size_t{1} << 50, 0, 0, 0),
            CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemAddressReserve(&address, kGranule, size_t{1} << 62, 0, 0),
            CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(address, 1u);
}

TEST_F(VmmTest, AHintIsTakenWhenTheAddressIsFree) {
  const CUdeviceptr first = Reserve(kGranule);
  ASSERT_EQ(cuMemAddressFree(first, kGranule), CUDA_SUCCESS);
  CUdeviceptr again = 0;
  ASSERT_EQ(cuMemAddressReserve(&again, kGranule, 0, first, 0), CUDA_SUCCESS);
  EXPECT_EQ(again, first);
  CUdeviceptr other = 0;
  ASSERT_EQ(cuMemAddressReserve(&other, kGranule, 0, first, 0), CUDA_SUCCESS);
  EXPECT_NE(other, first) << "only a hint";
  EXPECT_EQ(cuMemAddressFree(again, kGranule), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(other, kGranule), CUDA_SUCCESS);
}

TEST_F(VmmTest, AddressFreeTakesTheWholeUnmappedReservation) {
  const CUdeviceptr base = Reserve(2 * kGranule);
  EXPECT_EQ(cuMemAddressFree(base, kGranule), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressFree(base, 3 * kGranule), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressFree(base + kGranule, kGranule),
            CUDA_ERROR_INVALID_VALUE);
  const auto handle = Create(kGranule);
  ASSERT_EQ(cuMemMap(base + kGranule, kGranule, 0, handle, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(base, 2 * kGranule), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemUnmap(base + kGranule, kGranule), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(base, 2 * kGranule), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(base, 2 * kGranule), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
}

TEST_F(VmmTest, MemoryLivesUntilHandleAndMappingsAreGone) {
  const CUdeviceptr base = Reserve(kGranule);
  const auto handle = Create(kGranule);
  ASSERT_EQ(cuMemMap(base, kGranule, 0, handle, 0), CUDA_SUCCESS);
  ASSERT_EQ(SetAccess(base, kGranule, kReadWrite), CUDA_SUCCESS);
  ASSERT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(Fill(base, 0x5A), CUDA_SUCCESS) << "released while mapped";
  EXPECT_EQ(ByteAt(base + kGranule - 1), 0x5A);
  EXPECT_EQ(softcuda_live_bytes(),
            bytes_before_ + static_cast<int64_t>(kGranule));
  EXPECT_EQ(cuMemMap(base, kGranule, 0, handle, 0), CUDA_ERROR_INVALID_VALUE)
      << "the handle is gone";
  ASSERT_EQ(cuMemUnmap(base, kGranule), CUDA_SUCCESS);
  EXPECT_EQ(softcuda_live_bytes(), bytes_before_);
  EXPECT_EQ(cuMemAddressFree(base, kGranule), CUDA_SUCCESS);
}

TEST_F(VmmTest, MapNeedsAFreePlaceInAReservation) {
  const CUdeviceptr base = Reserve(4 * kGranule);
  const auto handle = Create(2 * kGranule);
  EXPECT_EQ(cuMemMap(base + 4096, kGranule, 0, handle, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMap(base, kGranule / 2, 0, handle, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMap(base, 0, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMap(base, 3 * kGranule, 0, handle, 0),
            CUDA_ERROR_INVALID_VALUE)
      << "more than the handle has";
  EXPECT_EQ(cuMemMap(base, kGranule, kGranule, handle, 0),
            CUDA_ERROR_INVALID_VALUE)
      << "offset must be 0";
  EXPECT_EQ(cuMemMap(base, kGranule, 0, handle, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMap(base, kGranule, 0, handle + 1, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMap(base + 3 * kGranule, 2 * kGranule, 0, handle, 0),
            CUDA_ERROR_INVALID_VALUE)
      << "leaves the reservation";
  EXPECT_EQ(cuMemMap(base + 8 * kGranule, kGranule, 0, handle, 0),
            CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuMemMap(base + kGranule, 2 * kGranule, 0, handle, 0),
            CUDA_SUCCESS);
  for (size_t granule = 0; granule < 3; ++granule) {
    EXPECT_EQ(cuMemMap(base + granule * kGranule, 2 * kGranule, 0, handle, 0),
              CUDA_ERROR_INVALID_VALUE)
        << "taken, from granule " << granule;
  }
  EXPECT_EQ(cuMemUnmap(base + kGranule, 2 * kGranule), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(base, 4 * kGranule), CUDA_SUCCESS);
}

TEST_F(VmmTest, AccessStartsAtNoneAndIsSetForWholeMappings) {
  const CUdeviceptr base = Reserve(4 * kGranule);
  const auto handle = Create(2 * kGranule);
  EXPECT_EQ(SetAccess(base, kGranule, kReadWrite), CUDA_ERROR_INVALID_VALUE)
      << "not mapped";
  ASSERT_EQ(cuMemMap(base, 2 * kGranule, 0, handle, 0), CUDA_SUCCESS);
  const char byte = 1;
  EXPECT_EQ(cuMemcpyHtoD(base, &byte, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(SetAccess(base, 2 * kGranule + 1, kReadWrite),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(SetAccess(base, 2 * kGranule - 1, kReadWrite),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(SetAccess(base, kGranule, kReadWrite), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(SetAccess(base, 3 * kGranule, kReadWrite),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(SetAccess(base, 0, kReadWrite), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(SetAccess(base, 2 * kGranule, static_cast<CUmemAccess_flags>(2)),
            CUDA_ERROR_INVALID_VALUE);
  CUmemAccessDesc descriptor = {};
  descriptor.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  descriptor.flags = kReadWrite;
  EXPECT_EQ(cuMemSetAccess(base, 2 * kGranule, &descriptor, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemSetAccess(base, 2 * kGranule, nullptr, 1),
            CUDA_ERROR_INVALID_VALUE);
  descriptor.location.id = 1;
  EXPECT_EQ(cuMemSetAccess(base, 2 * kGranule, &descriptor, 1),
            CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuMemcpyHtoD(base, &byte, 1), CUDA_ERROR_INVALID_VALUE)
      << "a refused call grants nothing";

  ASSERT_EQ(SetAccess(base, 2 * kGranule, kReadWrite), CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyHtoD(base, &byte, 1), CUDA_SUCCESS);
  ASSERT_EQ(SetAccess(base, 2 * kGranule, CU_MEM_ACCESS_FLAGS_PROT_READ),
            CUDA_SUCCESS);
  EXPECT_EQ(cuMemcpyHtoD(base, &byte, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(ByteAt(base), 1);
  CUmemLocation location = {};
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  unsigned long long flags = 77;
  EXPECT_EQ(cuMemGetAccess(&flags, &location, base + 5), CUDA_SUCCESS);
  EXPECT_EQ(flags, unsigned{CU_MEM_ACCESS_FLAGS_PROT_READ});
  EXPECT_EQ(cuMemGetAccess(&flags, &location, base + 3 * kGranule),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemGetAccess(nullptr, &location, base), CUDA_ERROR_INVALID_VALUE);

  EXPECT_EQ(cuMemUnmap(base, 2 * kGranule), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(base, 4 * kGranule), CUDA_SUCCESS);
}

TEST_F(VmmTest, UnmapTakesWholeMappingsOnly) {
  const CUdeviceptr base = Reserve(4 * kGranule);
  const auto wide = Create(2 * kGranule);
  const auto narrow = Create(kGranule);
  ASSERT_EQ(cuMemMap(base, 2 * kGranule, 0, wide, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemMap(base + 2 * kGranule, kGranule, 0, narrow, 0),
            CUDA_SUCCESS);
  ASSERT_EQ(SetAccess(base, 3 * kGranule, kReadWrite), CUDA_SUCCESS)
      << "one call for two neighbours";
  EXPECT_EQ(cuMemUnmap(base, kGranule), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemUnmap(base + kGranule, kGranule), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemUnmap(base + kGranule, 2 * kGranule),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemUnmap(base, 4 * kGranule), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(Fill(base, 0x11, 3 * kGranule), CUDA_SUCCESS)
      << "the mappings still work";
  EXPECT_EQ(cuMemUnmap(base, 3 * kGranule), CUDA_SUCCESS);
  EXPECT_EQ(cuMemUnmap(base, 3 * kGranule), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemRelease(wide), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(narrow), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(base, 4 * kGranule), CUDA_SUCCESS);
}

TEST_F(VmmTest, AliasesShareTheirBytes) {
  const CUdeviceptr a = Reserve(kGranule);
  const CUdeviceptr b = Reserve(kGranule);
  const auto handle = Create(kGranule);
  for (const CUdeviceptr address : {a, b}) {
    ASSERT_EQ(cuMemMap(address, kGranule, 0, handle, 0), CUDA_SUCCESS);
    ASSERT_EQ(SetAccess(address, kGranule, kReadWrite), CUDA_SUCCESS);
  }
  ASSERT_EQ(Fill(a, 0xC3), CUDA_SUCCESS);
  EXPECT_EQ(ByteAt(b + kGranule - 1), 0xC3);
  EXPECT_EQ(softcuda_live_bytes(),
            bytes_before_ + static_cast<int64_t>(kGranule))
      << "one physical block";
  EXPECT_EQ(Attribute<uint64_t>(CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, a),
            Attribute<uint64_t>(CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, b));
  ASSERT_EQ(cuMemUnmap(a, kGranule), CUDA_SUCCESS);
  EXPECT_EQ(ByteAt(b), 0xC3) << "the other mapping keeps the memory";
  EXPECT_EQ(cuMemUnmap(b, kGranule), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(a, kGranule), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(b, kGranule), CUDA_SUCCESS);
}

TEST_F(VmmTest, RemappingKeepsTheAddressAndChangesTheBlock) {
  const CUdeviceptr base = Reserve(kGranule);
  const auto first = Create(kGranule);
  ASSERT_EQ(cuMemMap(base, kGranule, 0, first, 0), CUDA_SUCCESS);
  ASSERT_EQ(SetAccess(base, kGranule, kReadWrite), CUDA_SUCCESS);
  ASSERT_EQ(Fill(base, 0x77), CUDA_SUCCESS);
  const auto first_id =
      Attribute<uint64_t>(CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, base);
  ASSERT_EQ(cuMemUnmap(base, kGranule), CUDA_SUCCESS);

  const auto second = Create(kGranule);
  ASSERT_EQ(cuMemMap(base, kGranule, 0, second, 0), CUDA_SUCCESS);
  const char byte = 1;
  EXPECT_EQ(cuMemcpyHtoD(base, &byte, 1), CUDA_ERROR_INVALID_VALUE)
      << "a new mapping needs access anew";
  ASSERT_EQ(SetAccess(base, kGranule, kReadWrite), CUDA_SUCCESS);
  EXPECT_NE(ByteAt(base), 0x77) << "other memory";
  EXPECT_NE(Attribute<uint64_t>(CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, base),
            first_id);
  ASSERT_EQ(cuMemUnmap(base, kGranule), CUDA_SUCCESS);

  ASSERT_EQ(cuMemMap(base, kGranule, 0, first, 0), CUDA_SUCCESS);
  ASSERT_EQ(SetAccess(base, kGranule, kReadWrite), CUDA_SUCCESS);
  EXPECT_EQ(ByteAt(base), 0x77) << "the first block kept its bytes";
  EXPECT_EQ(Attribute<uint64_t>(CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, base),
            first_id);
  EXPECT_EQ(cuMemUnmap(base, kGranule), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(first), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(second), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(base, kGranule), CUDA_SUCCESS);
}

TEST_F(VmmTest, RetainGivesTheHandleThatMapped) {
  const CUdeviceptr base = Reserve(kGranule);
  const auto handle = Create(kGranule);
  CUmemGenericAllocationHandle retained = 0;
  EXPECT_EQ(
      cuMemRetainAllocationHandle(&retained, reinterpret_cast<void*>(base)),
      CUDA_ERROR_INVALID_VALUE)
      << "not mapped";
  ASSERT_EQ(cuMemMap(base, kGranule, 0, handle, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  ASSERT_EQ(cuMemRetainAllocationHandle(&retained,
                                        reinterpret_cast<void*>(base + 12345)),
            CUDA_SUCCESS);
  EXPECT_EQ(retained, handle);
  ASSERT_EQ(cuMemUnmap(base, kGranule), CUDA_SUCCESS);
  EXPECT_EQ(softcuda_live_bytes(),
            bytes_before_ + static_cast<int64_t>(kGranule))
      << "the retained reference keeps the memory";
  EXPECT_EQ(cuMemRelease(retained), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(base, kGranule), CUDA_SUCCESS);

  const CUdeviceptr plain = Allocate(64);
  EXPECT_EQ(
      cuMemRetainAllocationHandle(&retained, reinterpret_cast<void*>(plain)),
      CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree(plain), CUDA_SUCCESS);
}

TEST_F(VmmTest, ManyHandlesNeedNoFileDescriptors) {
  constexpr size_t kCount = 300;
  const CUdeviceptr base = Reserve(kCount * kGranule);
  std::vector<CUmemGenericAllocationHandle> handles;
  for (size_t i = 0; i < kCount; ++i) {
    handles.push_back(Create(kGranule));
    ASSERT_EQ(cuMemMap(base + i * kGranule, kGranule, 0, handles[i], 0),
              CUDA_SUCCESS);
  }
  ASSERT_EQ(SetAccess(base, kCount * kGranule, kReadWrite), CUDA_SUCCESS);
  // A copy may run over mappings that touch.
  EXPECT_EQ(cuMemsetD8(base + kGranule - 8, 0x42, 16), CUDA_SUCCESS);
  EXPECT_EQ(ByteAt(base + kGranule + 7), 0x42);
  EXPECT_EQ(cuMemUnmap(base, kCount * kGranule), CUDA_SUCCESS);
  for (const auto handle : handles) {
    EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  }
  EXPECT_EQ(cuMemAddressFree(base, kCount * kGranule), CUDA_SUCCESS);
}

}  // namespace
}  // namespace softcuda
