// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Several devices: contexts, memory and captures of their own, and access to
// each other's memory.
#include <atomic>
#include <cstdlib>

#include "runtime_fixture.h"

namespace softcuda {
namespace {

constexpr int kDevices = 3;
constexpr size_t kGranule = size_t{2} << 20;

constexpr char kStorePtx[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry k_store(.param .u64 k_store_0)
{
  .reg .b64 %rd<2>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [k_store_0];
  mov.u32 %r1, 42;
  st.global.u32 [%rd1], %r1;
  ret;
}
)";

class DevicesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";
    softcuda_set_quiet(1);
    // Only the first test of a process comes before cuInit.
    (void)softcuda_set_device_count(kDevices);
    ASSERT_OK(cuInit(0));
    for (int i = 0; i < kDevices; ++i) {
      ASSERT_OK(cuDevicePrimaryCtxRetain(&contexts_[i], i));
    }
    UseDevice(0);
  }
  void TearDown() override {
    UseDevice(-1);
    for (int i = 0; i < kDevices; ++i) {
      EXPECT_OK(cuDevicePrimaryCtxRelease(i));
    }
    EXPECT_EQ(softcuda_live_bytes(), 0);
    EXPECT_EQ(softcuda_live_handles(), 0);
  }

  void UseDevice(int device) {
    EXPECT_OK(cuCtxSetCurrent(device < 0 ? nullptr : contexts_[device]));
  }
  static CUmemAllocationProp MemoryOn(int device) {
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = device;
    return properties;
  }
  static CUmemAccessDesc Grant(int device, CUmemAccess_flags flags) {
    CUmemAccessDesc descriptor = {};
    descriptor.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    descriptor.location.id = device;
    descriptor.flags = flags;
    return descriptor;
  }
  // Stores 42 from a kernel of the current context.
  static CUresult Store(CUdeviceptr address) {
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    EXPECT_OK(cuModuleLoadData(&module, kStorePtx));
    EXPECT_OK(cuModuleGetFunction(&function, module, "k_store"));
    void* params[] = {&address};
    EXPECT_OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, params,
                             nullptr));
    const CUresult result = cuCtxSynchronize();
    if (result == CUDA_SUCCESS) {
      EXPECT_OK(cuModuleUnload(module));
    }
    return result;
  }
  static uint32_t Word(CUdeviceptr address) {
    uint32_t word = 0;
    EXPECT_OK(cuMemcpyDtoH(&word, address, sizeof word));
    return word;
  }

  CUcontext contexts_[kDevices] = {};
};

TEST_F(DevicesTest, AreCountedAndDiffer) {
  int count = 0;
  EXPECT_OK(cuDeviceGetCount(&count));
  EXPECT_EQ(count, kDevices);
  EXPECT_CU(CUDA_ERROR_ILLEGAL_STATE, softcuda_set_device_count(1));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, softcuda_set_device_count(-1));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, softcuda_set_device_count(17));
  EXPECT_NE(contexts_[0], contexts_[1]);
  CUuuid first = {};
  CUuuid second = {};
  EXPECT_OK(cuDeviceGetUuid(&first, 0));
  EXPECT_OK(cuDeviceGetUuid(&second, 1));
  EXPECT_NE(std::string(first.bytes, 16), std::string(second.bytes, 16));
  char id[16] = {};
  CUdevice device = 0;
  EXPECT_OK(cuDeviceGetPCIBusId(id, sizeof id, 2));
  EXPECT_OK(cuDeviceGetByPCIBusId(&device, id));
  EXPECT_EQ(device, 2);
  UseDevice(1);
  EXPECT_OK(cuCtxGetDevice(&device));
  EXPECT_EQ(device, 1);
}

TEST_F(DevicesTest, HaveMemoryOfTheirOwn) {
  EXPECT_OK(static_cast<CUresult>(softcuda_set_memory_of_device(1, kGranule)));
  size_t free = 0;
  size_t total = 0;
  UseDevice(1);
  EXPECT_OK(cuMemGetInfo(&free, &total));
  EXPECT_EQ(total, kGranule);
  EXPECT_EQ(free, kGranule);
  CUdeviceptr memory = 0;
  EXPECT_OK(cuMemAlloc(&memory, kGranule));
  CUmemGenericAllocationHandle handle = 0;
  CUmemAllocationProp properties = MemoryOn(1);
  EXPECT_CU(CUDA_ERROR_OUT_OF_MEMORY,
            cuMemCreate(&handle, kGranule, &properties, 0));
  int ordinal = -1;
  EXPECT_OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                  memory));
  EXPECT_EQ(ordinal, 1);
  CUcontext owner = nullptr;
  EXPECT_OK(
      cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, memory));
  EXPECT_EQ(owner, contexts_[1]);
  UseDevice(0);
  EXPECT_OK(cuMemGetInfo(&free, &total));
  EXPECT_EQ(free, total);
  EXPECT_OK(cuMemFree(memory));
  EXPECT_OK(static_cast<CUresult>(
      softcuda_set_memory_of_device(1, size_t{80} << 30)));
  EXPECT_EQ(softcuda_set_memory_of_device(3, 1), CUDA_ERROR_INVALID_DEVICE);
  properties = MemoryOn(3);
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE,
            cuMemCreate(&handle, kGranule, &properties, 0));
}

TEST_F(DevicesTest, ResettingOneLeavesTheOthers) {
  CUdeviceptr memory = 0;
  CUstream stream = nullptr;
  EXPECT_OK(cuMemAlloc(&memory, 64));
  EXPECT_OK(cuStreamCreate(&stream, 0));
  UseDevice(1);
  CUdeviceptr theirs = 0;
  EXPECT_OK(cuMemAlloc(&theirs, 64));
  EXPECT_OK(cuDevicePrimaryCtxReset(1));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuMemFree(theirs));
  EXPECT_OK(cuMemFree(memory));
  EXPECT_OK(cuStreamDestroy(stream));
}

TEST_F(DevicesTest, StreamsEventsAndFunctionsStayInTheirContext) {
  CUstream stream = nullptr;
  CUevent event = nullptr;
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  EXPECT_OK(cuStreamCreate(&stream, 0));
  CUdevice device = -1;
  EXPECT_OK(cuStreamGetDevice(stream, &device));
  EXPECT_EQ(device, 0);
  UseDevice(1);
  EXPECT_OK(cuEventCreate(&event, 0));
  EXPECT_CU(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(event, stream));
  EXPECT_OK(cuEventRecord(event, nullptr));
  EXPECT_OK(cuStreamWaitEvent(stream, event, 0)) << "waits may cross devices";
  EXPECT_OK(cuModuleLoadData(&module, kStorePtx));
  EXPECT_OK(cuModuleGetFunction(&function, module, "k_store"));
  CUdeviceptr none = 0;
  void* params[] = {&none};
  EXPECT_CU(
      CUDA_ERROR_INVALID_HANDLE,
      cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, nullptr));
  EXPECT_OK(cuModuleUnload(module));
  EXPECT_OK(cuEventDestroy(event));
  EXPECT_OK(cuStreamDestroy(stream));
}

TEST_F(DevicesTest, WaitingForOneDoesNotWaitForAnother) {
  static std::atomic<int> gate{0};
  gate = 0;
  UseDevice(1);
  EXPECT_OK(cuLaunchHostFunc(
      nullptr,
      [](void*) {
        while (gate.load() == 0) {
        }
      },
      nullptr));
  EXPECT_CU(CUDA_ERROR_NOT_READY, cuStreamQuery(nullptr));
  UseDevice(0);
  EXPECT_OK(cuStreamQuery(nullptr));
  EXPECT_OK(cuCtxSynchronize());
  gate = 1;
  UseDevice(1);
  EXPECT_OK(cuCtxSynchronize());
}

// As was seen on two GPUs: a capture is out of reach for calls on another
// device that would break it on its own.
TEST_F(DevicesTest, CapturesAreOutOfReachOfOtherDevices) {
  CUstream stream = nullptr;
  CUgraph graph = nullptr;
  EXPECT_OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
  EXPECT_OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  UseDevice(1);
  CUdeviceptr memory = 0;
  EXPECT_OK(cuMemAlloc(&memory, 64));
  EXPECT_OK(cuMemsetD8(memory, 1, 64));
  EXPECT_OK(cuCtxSynchronize());
  EXPECT_OK(cuMemFree(memory));
  EXPECT_OK(cuStreamEndCapture(stream, &graph));
  EXPECT_OK(cuGraphDestroy(graph));
  EXPECT_OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
            cuCtxSynchronize_v2(contexts_[0]));
  EXPECT_CU(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
            cuStreamEndCapture(stream, &graph));
  EXPECT_OK(cuStreamDestroy(stream));
}

TEST_F(DevicesTest, MappingsAreOpenToTheDevicesThatSetAccessNames) {
  CUdeviceptr base = 0;
  CUmemGenericAllocationHandle handle = 0;
  const CUmemAllocationProp properties = MemoryOn(1);
  ASSERT_OK(cuMemAddressReserve(&base, kGranule, 0, 0, 0));
  ASSERT_OK(cuMemCreate(&handle, kGranule, &properties, 0));
  ASSERT_OK(cuMemMap(base, kGranule, 0, handle, 0));
  ASSERT_OK(cuMemRelease(handle));
  const CUmemAccessDesc grants[] = {
      Grant(1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE),
      Grant(0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE),
      Grant(2, CU_MEM_ACCESS_FLAGS_PROT_READ)};
  ASSERT_OK(cuMemSetAccess(base, kGranule, grants, 3));
  const CUmemAccessDesc nowhere = Grant(7, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  EXPECT_CU(CUDA_ERROR_INVALID_DEVICE,
            cuMemSetAccess(base, kGranule, &nowhere, 1));
  unsigned long long flags = 0;
  CUmemLocation location = {CU_MEM_LOCATION_TYPE_DEVICE, {2}};
  EXPECT_OK(cuMemGetAccess(&flags, &location, base));
  EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READ);
  EXPECT_OK(Store(base)) << "a kernel on device 0 writes device 1's memory";
  EXPECT_EQ(Word(base), 42u);
  EXPECT_OK(cuMemUnmap(base, kGranule));
  EXPECT_OK(cuMemAddressFree(base, kGranule));
}

TEST_F(DevicesTest, PeerAccessOpensAllocations) {
  int can = 0;
  EXPECT_OK(cuDeviceCanAccessPeer(&can, 0, 1));
  EXPECT_EQ(can, 1);
  EXPECT_OK(cuDeviceCanAccessPeer(&can, 1, 1));
  EXPECT_EQ(can, 0);
  UseDevice(1);
  CUdeviceptr memory = 0;
  EXPECT_OK(cuMemAlloc(&memory, 64));
  UseDevice(0);
  EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT, cuCtxEnablePeerAccess(contexts_[0], 0));
  EXPECT_CU(CUDA_ERROR_INVALID_VALUE, cuCtxEnablePeerAccess(contexts_[1], 1));
  EXPECT_OK(cuCtxEnablePeerAccess(contexts_[1], 0));
  EXPECT_CU(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED,
            cuCtxEnablePeerAccess(contexts_[1], 0));
  EXPECT_OK(Store(memory));
  EXPECT_EQ(Word(memory), 42u);
  EXPECT_OK(cuCtxDisablePeerAccess(contexts_[1]));
  EXPECT_CU(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED,
            cuCtxDisablePeerAccess(contexts_[1]));
  EXPECT_OK(cuMemFree(memory));
}

TEST_F(DevicesTest, CopiesCrossDevices) {
  CUdeviceptr here = 0;
  CUdeviceptr there = 0;
  EXPECT_OK(cuMemAlloc(&here, 64));
  UseDevice(1);
  EXPECT_OK(cuMemAlloc(&there, 64));
  EXPECT_OK(cuMemsetD32(there, 9, 16));
  EXPECT_OK(cuMemcpyPeer(here, contexts_[0], there, contexts_[1], 64));
  EXPECT_EQ(Word(here), 9u);
  EXPECT_CU(CUDA_ERROR_INVALID_CONTEXT,
            cuMemcpyPeer(here, nullptr, there, contexts_[1], 64));
  EXPECT_OK(cuMemFree(here));
  EXPECT_OK(cuMemFree(there));
}

// Exits with 0 when a kernel on device 0 that stores to memory on device 1 ends
// its context, with a report that says why.
void StoreWithoutAccess(bool mapping) {
  softcuda_set_quiet(1);
  (void)softcuda_set_device_count(kDevices);
  CUcontext contexts[2] = {};
  cuInit(0);
  cuDevicePrimaryCtxRetain(&contexts[0], 0);
  cuDevicePrimaryCtxRetain(&contexts[1], 1);
  cuCtxSetCurrent(contexts[1]);
  CUdeviceptr memory = 0;
  if (mapping) {
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    properties.location.id = 1;
    CUmemGenericAllocationHandle handle = 0;
    cuMemCreate(&handle, kGranule, &properties, 0);
    cuMemAddressReserve(&memory, kGranule, 0, 0, 0);
    cuMemMap(memory, kGranule, 0, handle, 0);
    CUmemAccessDesc grant = {};
    grant.location = properties.location;
    grant.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    cuMemSetAccess(memory, kGranule, &grant, 1);
  } else {
    cuMemAlloc(&memory, 64);
  }
  cuCtxSetCurrent(contexts[0]);
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  cuModuleLoadData(&module, kStorePtx);
  cuModuleGetFunction(&function, module, "k_store");
  void* params[] = {&memory};
  cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr);
  const CUresult result = cuCtxSynchronize();
  std::string text(softcuda_take_reports(nullptr, 0), '\0');
  softcuda_take_reports(text.data(), text.size());
  const char* const why = mapping ? "no access set" : "without peer access";
  std::_Exit(result == CUDA_ERROR_ILLEGAL_ADDRESS &&
                     text.find(why) != std::string::npos
                 ? 0
                 : 1);
}

TEST_F(DevicesTest, StoreWithoutPeerAccessIsFound) {
  EXPECT_EXIT(StoreWithoutAccess(false), ::testing::ExitedWithCode(0), "");
}

TEST_F(DevicesTest, StoreToAMappingClosedToTheDeviceIsFound) {
  EXPECT_EXIT(StoreWithoutAccess(true), ::testing::ExitedWithCode(0), "");
}

void CountDevices(const char* option, CUresult expected, int expected_count) {
  softcuda_set_quiet(1);
  setenv("PERMAFROST_SOFTCUDA_DEVICES", option, 1);
  int count = 0;
  const CUresult result = cuInit(0);
  cuDeviceGetCount(&count);
  std::_Exit(result == expected && count == expected_count ? 0 : 1);
}

// Each in a process that has not looked at the option yet.
TEST(DeviceOptionTest, ComesFromTheEnvironment) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(CountDevices("2", CUDA_SUCCESS, 2), ::testing::ExitedWithCode(0),
              "");
  EXPECT_EXIT(CountDevices("0", CUDA_ERROR_NO_DEVICE, 0),
              ::testing::ExitedWithCode(0), "");
  EXPECT_EXIT(CountDevices("17", CUDA_SUCCESS, 1), ::testing::ExitedWithCode(0),
              "");
  EXPECT_EXIT(CountDevices("many", CUDA_SUCCESS, 1),
              ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace softcuda
