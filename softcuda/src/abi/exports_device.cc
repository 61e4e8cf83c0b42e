// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Initialisation, errors and the device.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "abi/cuda_abi.h"
#include "check/settings.h"
#include "exec/device_limits.h"
#include "memory/address_space.h"
#include "runtime/call.h"
#include "runtime/error_names.h"

using softcuda::check::Settings;
using softcuda::runtime::Api;
using softcuda::runtime::Call;
using softcuda::runtime::FindDevice;

namespace {

constexpr char kDeviceName[] = "softcuda (software driver)";

struct AttributeRow {
  int attribute;
  int value;
};

// What a device of compute capability 9.0 answers, except for what softcuda
// does not have. Attributes that are not listed are 0: absent or meaningless.
constexpr AttributeRow kAttributes[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, softcuda::kMaxThreadsPerBlock},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, softcuda::kMaxBlockDimXy},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, softcuda::kMaxBlockDimXy},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, softcuda::kMaxBlockDimZ},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, softcuda::kMaxGridDimX},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, softcuda::kMaxGridDimYz},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, softcuda::kMaxGridDimYz},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK,
     softcuda::kDefaultSharedBytes},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 0x7FFFFFFF},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1000000},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
    {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, softcuda::kMultiprocessors},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 1000000},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 64},
    {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 50 << 20},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
     softcuda::kMaxThreadsPerMultiprocessor},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
     softcuda::kSharedBytesPerMultiprocessor},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR,
     softcuda::kRegistersPerMultiprocessor},
    {CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, 2},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
     softcuda::kMaxSharedBytes},
    {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR,
     softcuda::kMaxBlocksPerMultiprocessor},
    {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK,
     softcuda::kReservedSharedBytes},
    {CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT, 1},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 1},
    {CU_DEVICE_ATTRIBUTE_NUMA_ID, -1},
};

// Attributes that this toolkit knows end here.
constexpr int kLastAttribute = CU_DEVICE_ATTRIBUTE_MAX - 1;

bool Exists(Call& call, CUdevice device) {
  return FindDevice(call.runtime(), device) != nullptr;
}

// As CUDA writes it: domain, bus, device, function.
std::string PciBusId(CUdevice device) {
  char text[16];
  std::snprintf(text, sizeof text, "0000:%02x:00.0",
                static_cast<unsigned>(device));
  return text;
}

// Copies what fits, with a NUL behind it.
void CopyText(const std::string& text, char* out, int length) {
  const size_t copied = std::min(static_cast<size_t>(length) - 1, text.size());
  std::memcpy(out, text.data(), copied);
  out[copied] = '\0';
}

CUresult GetUuid(CUuuid* uuid, CUdevice device) {
  Call call(Api::kDeviceGetUuid);
  if (!call.ok()) return call.result();
  if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!Exists(call, device)) return CUDA_ERROR_INVALID_DEVICE;
  std::memcpy(uuid->bytes, "softcuda-device0", sizeof(uuid->bytes));
  uuid->bytes[sizeof(uuid->bytes) - 1] = static_cast<char>('0' + device);
  return CUDA_SUCCESS;
}

// What one device may do with another one's memory.
CUresult GetPeerAttribute(int* value, CUdevice_P2PAttribute attribute,
                          CUdevice from, CUdevice to) {
  Call call(Api::kDeviceGetP2PAttribute);
  if (!call.ok()) return call.result();
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!Exists(call, from) || !Exists(call, to) || from == to) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  switch (attribute) {
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
      *value = 1;
      return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_ACCESS_SUPPORTED:
      *value = 0;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// Lets the current context's kernels reach another one's allocations, or not.
CUresult ChangePeerAccess(Api api, CUcontext peer, unsigned int flags,
                          bool enable) {
  Call call(api);
  if (!call.ok()) return call.result();
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  const auto* const device = call.FindDevice(peer);
  if (device == nullptr) return call.result();
  if (peer == nullptr || device == &call.device()) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  if (softcuda::memory::AddressSpace::Get().SetPeerAccess(
          call.device().ordinal, device->ordinal, enable)) {
    return CUDA_SUCCESS;
  }
  return enable ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
                : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuInit(unsigned int flags) {
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  (void)Settings::Get();  // reads the environment
  auto& runtime = softcuda::runtime::TheRuntime();
  const softcuda::runtime::Lock lock(runtime.mutex);
  if (runtime.devices.empty()) return CUDA_ERROR_NO_DEVICE;
  runtime.initialized = true;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDriverGetVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = Settings::Get().driver_version();
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
  if (!Exists(call, ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetCount(int* count) {
  Call call(Api::kDeviceGetCount);
  if (!call.ok()) return call.result();
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<int>(call.runtime().devices.size());
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetName(char* name, int length, CUdevice device) {
  Call call(Api::kDeviceGetName);
  if (!call.ok()) return call.result();
  if (name == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (!Exists(call, device)) return CUDA_ERROR_INVALID_DEVICE;
  CopyText(kDeviceName, name, length);
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
  if (!Exists(call, device)) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = softcuda::memory::AddressSpace::Get().device_bytes(device);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetAttribute(int* value, CUdevice_attribute attribute,
                                      CUdevice device) {
  Call call(Api::kDeviceGetAttribute);
  if (!call.ok()) return call.result();
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!Exists(call, device)) return CUDA_ERROR_INVALID_DEVICE;
  const int capability = Settings::Get().compute_capability();
  if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) {
    *value = capability / 10;
    return CUDA_SUCCESS;
  }
  if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR) {
    *value = capability % 10;
    return CUDA_SUCCESS;
  }
  const int number = static_cast<int>(attribute);
  if (number < 1 || number > kLastAttribute) return CUDA_ERROR_INVALID_VALUE;
  const auto* const row = std::find_if(
      std::begin(kAttributes), std::end(kAttributes),
      [&](const AttributeRow& r) { return r.attribute == number; });
  *value = row == std::end(kAttributes) ? 0 : row->value;
  if (attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID) *value = device;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetPCIBusId(char* id, int length, CUdevice device) {
  Call call(Api::kDeviceGetPCIBusId);
  if (!call.ok()) return call.result();
  if (id == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (!Exists(call, device)) return CUDA_ERROR_INVALID_DEVICE;
  CopyText(PciBusId(device), id, length);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetByPCIBusId(CUdevice* device, const char* id) {
  Call call(Api::kDeviceGetByPCIBusId);
  if (!call.ok()) return call.result();
  if (device == nullptr || id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& candidate : call.runtime().devices) {
    if (PciBusId(candidate->ordinal) != id) continue;
    *device = candidate->ordinal;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

CUresult CUDAAPI cuDeviceCanAccessPeer(int* can, CUdevice device,
                                       CUdevice peer) {
  Call call(Api::kDeviceCanAccessPeer);
  if (!call.ok()) return call.result();
  if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!Exists(call, device) || !Exists(call, peer)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  *can = device == peer ? 0 : 1;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetP2PAttribute(int* value,
                                         CUdevice_P2PAttribute attribute,
                                         CUdevice from, CUdevice to) {
  return GetPeerAttribute(value, attribute, from, to);
}

CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags) {
  return ChangePeerAccess(Api::kCtxEnablePeerAccess, peer, flags, true);
}
CUresult CUDAAPI cuCtxDisablePeerAccess(CUcontext peer) {
  return ChangePeerAccess(Api::kCtxDisablePeerAccess, peer, 0, false);
}

}  // extern "C"
