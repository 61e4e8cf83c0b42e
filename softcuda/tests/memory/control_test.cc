// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

// The control ABI, and the NVTX entry points that the library exports.

#include <cuda.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nvtx3/nvToolsExtMem.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "driver_fixture.h"

extern "C" int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t table);
extern "C" int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t* module);

namespace softcuda {
namespace {

using ::testing::HasSubstr;

class ControlTest : public DriverTest {
 protected:
  static std::string TakeReports() {
    std::string text(softcuda_take_reports(nullptr, 0), '\0');
    EXPECT_EQ(softcuda_take_reports(text.data(), text.size()), text.size());
    return text;
  }
  void SetUp() override {
    DriverTest::SetUp();
    TakeReports();
  }

  // A heap that leaves the address space, which is worth a report.
  static void RegisterBadHeap() {
    unsetenv("NVTX_INJECTION64_PATH");
    InitializeInjectionNvtx2_fnptr = &InitializeInjectionNvtx2;
    InitializeInjectionNvtxExtension_fnptr = &InitializeInjectionNvtxExtension;
    nvtxMemVirtualRangeDesc_t range = {
        ~size_t{0}, reinterpret_cast<void*>(uintptr_t{4096})};
    nvtxMemHeapDesc_t heap = {};
    heap.extCompatID = NVTX_EXT_COMPATID_MEM;
    heap.structSize = sizeof heap;
    heap.usage = NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR;
    heap.type = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
    heap.typeSpecificDescSize = sizeof range;
    heap.typeSpecificDesc = &range;
    heap.messageType = NVTX_MESSAGE_TYPE_ASCII;
    heap.message.ascii = "endless";
    nvtxMemHeapRegister(nullptr, &heap);
  }
};

TEST_F(ControlTest, VersionIsTheHeaders) {
  EXPECT_EQ(softcuda_control_version(), SOFTCUDA_CONTROL_VERSION);
}

TEST_F(ControlTest, ReportsAreCountedAndTakenOnce) {
  EXPECT_EQ(softcuda_take_reports(nullptr, 0), 0u);
  const int64_t before = softcuda_report_count();
  RegisterBadHeap();
  EXPECT_EQ(softcuda_report_count(), before + 1);
  const size_t needed = softcuda_take_reports(nullptr, 0);
  ASSERT_GT(needed, 0u);
  std::string small(needed - 1, 'x');
  EXPECT_EQ(softcuda_take_reports(small.data(), small.size()), needed);
  EXPECT_EQ(small, std::string(needed - 1, 'x'))
      << "nothing is written that does not fit";
  EXPECT_THAT(TakeReports(), HasSubstr("misuse: NVTX heap 'endless'"));
  EXPECT_EQ(softcuda_take_reports(nullptr, 0), 0u);
  EXPECT_EQ(softcuda_report_count(), before + 1) << "taken, but counted";
}

TEST_F(ControlTest, OnlyMappedDeviceMemoryCanBeUndefined) {
  const CUdeviceptr address = Allocate(100);
  EXPECT_EQ(softcuda_mark_undefined(address, 100), CUDA_SUCCESS);
  EXPECT_EQ(softcuda_mark_undefined(address, 101), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(softcuda_mark_undefined(0, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(softcuda_mark_undefined(address + 10, ~size_t{0}),
            CUDA_ERROR_INVALID_VALUE);
  void* host = nullptr;
  ASSERT_EQ(cuMemAllocHost(&host, 64), CUDA_SUCCESS);
  EXPECT_EQ(softcuda_mark_undefined(reinterpret_cast<CUdeviceptr>(host), 64),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFreeHost(host), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(address), CUDA_SUCCESS);
}

TEST_F(ControlTest, LiveHandlesCountEachKind) {
  const CUdeviceptr memory = Allocate(64);
  EXPECT_EQ(softcuda_live_handles(), handles_before_ + 1);
  CUdeviceptr base = 0;
  ASSERT_EQ(cuMemAddressReserve(&base, kGranule, 0, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(softcuda_live_handles(), handles_before_ + 2);
  CUmemGenericAllocationHandle handle = 0;
  const CUmemAllocationProp properties = DeviceMemory();
  ASSERT_EQ(cuMemCreate(&handle, kGranule, &properties, 0), CUDA_SUCCESS);
  EXPECT_EQ(softcuda_live_handles(), handles_before_ + 3);
  ASSERT_EQ(cuMemMap(base, kGranule, 0, handle, 0), CUDA_SUCCESS);
  EXPECT_EQ(softcuda_live_handles(), handles_before_ + 4);
  CUstream stream = nullptr;
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  EXPECT_EQ(softcuda_live_handles(), handles_before_ + 5);
  EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(softcuda_live_handles(), handles_before_ + 3);
  EXPECT_EQ(cuMemUnmap(base, kGranule), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(base, kGranule), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(memory), CUDA_SUCCESS);
}

}  // namespace
}  // namespace softcuda
