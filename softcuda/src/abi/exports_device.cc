// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Initialisation, errors and the device.
#include <algorithm>
#include <cstring>

#include "abi/cuda_abi.h"
#include "memory/address_space.h"
#include "runtime/call.h"
#include "runtime/device_limits.h"
#include "runtime/error_names.h"

using softcuda::runtime::Api;
using softcuda::runtime::Call;

namespace {

constexpr char kDeviceName[] = "softcuda (software driver)";
constexpr char kPciBusId[] = "0000:00:00.0";

struct AttributeRow {
  int attribute;
  int value;
};

// What a device of compute capability 9.0 answers, except for what softcuda
// does not have. Attributes that are not listed are 0: absent or meaningless.
constexpr AttributeRow kAttributes[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
     softcuda::runtime::kMaxThreadsPerBlock},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, softcuda::runtime::kMaxBlockDimXy},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, softcuda::runtime::kMaxBlockDimXy},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, softcuda::runtime::kMaxBlockDimZ},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, softcuda::runtime::kMaxGridDimX},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, softcuda::runtime::kMaxGridDimYz},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, softcuda::runtime::kMaxGridDimYz},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK,
     softcuda::runtime::kDefaultSharedBytes},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 0x7FFFFFFF},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1000000},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
    {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
     softcuda::runtime::kMultiprocessors},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 1000000},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 64},
    {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 50 << 20},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
     softcuda::runtime::kMaxThreadsPerMultiprocessor},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
     softcuda::runtime::kComputeCapability / 10},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
     softcuda::runtime::kComputeCapability % 10},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
     softcuda::runtime::kSharedBytesPerMultiprocessor},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR,
     softcuda::runtime::kRegistersPerMultiprocessor},
    {CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, 2},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
     softcuda::runtime::kMaxSharedBytes},
    {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR,
     softcuda::runtime::kMaxBlocksPerMultiprocessor},
    {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK,
     softcuda::runtime::kReservedSharedBytes},
    {CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT, 1},
    {CU_DEVICE_ATTRIBUTE_NUMA_ID, -1},
};

// Attributes that this toolkit knows end here.
constexpr int kLastAttribute = CU_DEVICE_ATTRIBUTE_MAX - 1;

CUresult CheckDevice(CUdevice device) {
  return device == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult GetUuid(CUuuid* uuid, CUdevice device) {
  Call call(Api::kDeviceGetUuid);
  if (!call.ok()) return call.result();
  if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (CheckDevice(device) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_DEVICE;
  std::memcpy(uuid->bytes, "softcuda-device0", sizeof(uuid->bytes));
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuInit(unsigned int flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  softcuda::runtime::TheRuntime().initialized = true;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = softcuda::runtime::kDriverVersion;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGetErrorName(CUresult error, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *text = softcuda::runtime::ErrorName(error);
  return *text == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult CUDAAPI cuGetErrorString(CUresult error, const char** text) {
  if (text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *text = softcuda::runtime::ErrorText(error);
  return *text == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGet(CUdevice* device, int ordinal) {
  Call call(Api::kDeviceGet);
  if (!call.ok()) return call.result();
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (ordinal != 0) return CUDA_ERROR_INVALID_DEVICE;
  *device = 0;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetCount(int* count) {
  Call call(Api::kDeviceGetCount);
  if (!call.ok()) return call.result();
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = 1;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetName(char* name, int length, CUdevice device) {
  Call call(Api::kDeviceGetName);
  if (!call.ok()) return call.result();
  if (name == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (CheckDevice(device) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_DEVICE;
  const size_t copied =
      std::min(static_cast<size_t>(length), sizeof(kDeviceName)) - 1;
  std::memcpy(name, kDeviceName, copied);
  name[copied] = '\0';
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  return GetUuid(uuid, device);
}

CUresult CUDAAPI cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  return GetUuid(uuid, device);
}

CUresult CUDAAPI cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  Call call(Api::kDeviceTotalMem);
  if (!call.ok()) return call.result();
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (CheckDevice(device) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = softcuda::memory::AddressSpace::Get().device_bytes();
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetAttribute(int* value, CUdevice_attribute attribute,
                                      CUdevice device) {
  Call call(Api::kDeviceGetAttribute);
  if (!call.ok()) return call.result();
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (CheckDevice(device) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_DEVICE;
  const int number = static_cast<int>(attribute);
  if (number < 1 || number > kLastAttribute) return CUDA_ERROR_INVALID_VALUE;
  const auto* const row = std::find_if(
      std::begin(kAttributes), std::end(kAttributes),
      [&](const AttributeRow& r) { return r.attribute == number; });
  *value = row == std::end(kAttributes) ? 0 : row->value;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetPCIBusId(char* id, int length, CUdevice device) {
  Call call(Api::kDeviceGetPCIBusId);
  if (!call.ok()) return call.result();
  if (id == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (CheckDevice(device) != CUDA_SUCCESS) return CUDA_ERROR_INVALID_DEVICE;
  const size_t copied =
      std::min(static_cast<size_t>(length), sizeof(kPciBusId)) - 1;
  std::memcpy(id, kPciBusId, copied);
  id[copied] = '\0';
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetByPCIBusId(CUdevice* device, const char* id) {
  Call call(Api::kDeviceGetByPCIBusId);
  if (!call.ok()) return call.result();
  if (device == nullptr || id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (std::strcmp(id, kPciBusId) != 0) return CUDA_ERROR_INVALID_DEVICE;
  *device = 0;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceCanAccessPeer(int* can, CUdevice device,
                                       CUdevice peer) {
  Call call(Api::kDeviceCanAccessPeer);
  if (!call.ok()) return call.result();
  if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (CheckDevice(device) != CUDA_SUCCESS ||
      CheckDevice(peer) != CUDA_SUCCESS) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  *can = 0;
  return CUDA_SUCCESS;
}

}  // extern "C"
