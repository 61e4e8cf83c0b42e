// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Stream-ordered allocation and memory pools.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "abi/access_grants.h"
#include "abi/cuda_abi.h"
#include "memory/address_space.h"
#include "runtime/answers.h"
#include "runtime/call.h"
#include "runtime/capture.h"
#include "runtime/graph_memory.h"

using softcuda::abi::ReadGrants;
using softcuda::memory::AccessGrant;
using softcuda::memory::AddressSpace;
using softcuda::memory::Pool;
using softcuda::runtime::Answer;
using softcuda::runtime::Api;
using softcuda::runtime::Call;
using softcuda::runtime::Device;
using softcuda::runtime::FindDevice;
using softcuda::runtime::IsDefaultPool;
using softcuda::runtime::MemAllocOp;
using softcuda::runtime::MemFreeOp;

namespace {

std::shared_ptr<Pool> AddPool(Call& call, const CUmemPoolProps& props) {
  auto pool = AddressSpace::Get().CreatePool(props);
  pool->handle = call.runtime().pools.Add(pool);
  return pool;
}

const std::shared_ptr<Pool>& DefaultPool(Call& call, Device& device) {
  if (device.default_pool == nullptr) {
    CUmemPoolProps props = {};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.location.id = device.ordinal;
    device.default_pool = AddPool(call, props);
    if (device.current_pool == nullptr) {
      device.current_pool = device.default_pool;
    }
  }
  return device.default_pool;
}

const std::shared_ptr<Pool>& CurrentPool(Call& call, Device& device) {
  if (device.current_pool == nullptr) DefaultPool(call, device);
  return device.current_pool;
}

CUresult CheckProps(Call& call, const CUmemPoolProps& props) {
  const auto* const reserved = props.reserved;
  if (props.allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      props.win32SecurityAttributes != nullptr ||
      std::any_of(reserved, reserved + sizeof props.reserved,
                  [](unsigned char byte) { return byte != 0; })) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  switch (props.location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      if (FindDevice(call.runtime(), props.location.id) == nullptr) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      break;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      softcuda::runtime::ReportUnsupported(call.name(), "pools of host memory");
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  if (props.handleTypes != CU_MEM_HANDLE_TYPE_NONE) {
    softcuda::runtime::ReportUnsupported(call.name(),
                                         "pools that can be exported");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return CUDA_SUCCESS;
}

// A call that asks about or sets a pool of a place.
CUresult FindPlace(Call& call, const CUmemLocation* location,
                   CUmemAllocationType type, Device** device) {
  if (location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool managed = type == CU_MEM_ALLOCATION_TYPE_MANAGED;
  const bool host = location->type == CU_MEM_LOCATION_TYPE_HOST ||
                    location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
  if ((type != CU_MEM_ALLOCATION_TYPE_PINNED && !managed) ||
      (location->type != CU_MEM_LOCATION_TYPE_DEVICE && !host)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (managed || host) {
    softcuda::runtime::ReportUnsupported(
        call.name(), "pools of host memory and of managed memory");
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  *device = FindDevice(call.runtime(), location->id);
  return *device != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult SetCurrentPool(Call& call, Device& device, CUmemoryPool handle) {
  const auto pool = call.Find(handle);
  if (pool == nullptr) return call.Fail();
  if (pool->device != device.ordinal) return CUDA_ERROR_INVALID_VALUE;
  DefaultPool(call, device);
  device.current_pool = pool;
  return CUDA_SUCCESS;
}

// The other devices that a pool is open to, as a node's parameters name them.
std::vector<CUmemAccessDesc> PeerAccess(Call& call, const Pool& pool) {
  std::vector<CUmemAccessDesc> access;
  for (const auto& device : call.runtime().devices) {
    if (device->ordinal == pool.device ||
        AddressSpace::Get().GetPoolAccess(pool, device->ordinal) !=
            softcuda::memory::Access::kReadWrite) {
      continue;
    }
    CUmemAccessDesc descriptor = {};
    descriptor.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    descriptor.location.id = device->ordinal;
    descriptor.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    access.push_back(descriptor);
  }
  return access;
}

CUresult Allocate(Call& call, const std::shared_ptr<Pool>& pool,
                  CUdeviceptr* address, size_t bytes) {
  if (address == nullptr) return call.Fail(CUDA_ERROR_INVALID_VALUE);
  if (bytes == 0) {
    const CUresult code = CodeOf(Answer::kEmptyAllocationCode);
    if (code != CUDA_SUCCESS) return call.Fail(code);
    *address = 0;
    return CUDA_SUCCESS;
  }
  MemAllocOp operation;
  if (call.capturing()) {
    CUDA_MEM_ALLOC_NODE_PARAMS params = {};
    params.poolProps = pool->props;
    params.poolProps.maxSize = 0;
    const std::vector<CUmemAccessDesc> access = PeerAccess(call, *pool);
    params.accessDescs = access.data();
    params.accessDescCount = access.size();
    params.bytesize = bytes;
    const CUresult made = MakeGraphAllocation(
        call.runtime(), *call.stream().capture->graph, &params, &operation);
    if (made != CUDA_SUCCESS) return call.Fail(made);
    *address = params.dptr;
    call.Issue(CU_GRAPH_NODE_TYPE_MEM_ALLOC, std::move(operation));
    return CUDA_SUCCESS;
  }
  const CUresult result = AddressSpace::Get().AllocateFromPool(
      pool, bytes, call.stream().id, &operation.address, &operation.serial);
  if (result != CUDA_SUCCESS) return call.Fail(result);
  *address = operation.address;
  call.Issue(CU_GRAPH_NODE_TYPE_MEM_ALLOC, operation);
  return CUDA_SUCCESS;
}

CUresult AllocAsync(CUdeviceptr* address, size_t bytes, CUstream stream,
                    bool per_thread) {
  Call call(Api::kMemAllocAsync, stream, per_thread);
  if (!call.ok()) return call.result();
  Device& device = DeviceAt(call.runtime(), call.stream().device);
  return Allocate(call, CurrentPool(call, device), address, bytes);
}

CUresult AllocFromPoolAsync(CUdeviceptr* address, size_t bytes,
                            CUmemoryPool handle, CUstream stream,
                            bool per_thread) {
  Call call(Api::kMemAllocFromPoolAsync, stream, per_thread);
  if (!call.ok()) return call.result();
  const auto pool = call.Find(handle);
  if (pool == nullptr) return call.Fail();
  return Allocate(call, pool, address, bytes);
}

CUresult FreeAsync(CUdeviceptr address, CUstream stream, bool per_thread) {
  Call call(Api::kMemFreeAsync, stream, per_thread);
  if (!call.ok()) return call.result();
  MemFreeOp operation;
  if (call.capturing()) {
    const CUresult made = MakeGraphFree(
        call.runtime(), *call.stream().capture->graph, address, &operation);
    if (made != CUDA_SUCCESS) {
      if (Says(Answer::kForeignFreeInCaptureInvalidates)) {
        Invalidate(*call.stream().capture);
      }
      return CodeOf(Answer::kForeignFreeInCaptureCode);
    }
    call.Issue(CU_GRAPH_NODE_TYPE_MEM_FREE, std::move(operation));
    return CUDA_SUCCESS;
  }
  operation.address = address;
  const CUresult result = AddressSpace::Get().BeginFree(
      address, call.stream().id, &operation.serial);
  if (result != CUDA_SUCCESS) return call.Fail(result);
  call.Issue(CU_GRAPH_NODE_TYPE_MEM_FREE, operation);
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr* address, size_t bytes,
                                 CUstream stream) {
  return AllocAsync(address, bytes, stream, false);
}
CUresult CUDAAPI cuMemAllocAsync_ptsz(CUdeviceptr* address, size_t bytes,
                                      CUstream stream) {
  return AllocAsync(address, bytes, stream, true);
}
CUresult CUDAAPI cuMemAllocFromPoolAsync(CUdeviceptr* address, size_t bytes,
                                         CUmemoryPool pool, CUstream stream) {
  return AllocFromPoolAsync(address, bytes, pool, stream, false);
}
CUresult CUDAAPI cuMemAllocFromPoolAsync_ptsz(CUdeviceptr* address,
                                              size_t bytes, CUmemoryPool pool,
                                              CUstream stream) {
  return AllocFromPoolAsync(address, bytes, pool, stream, true);
}
CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  return FreeAsync(address, stream, false);
}
CUresult CUDAAPI cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream) {
  return FreeAsync(address, stream, true);
}

CUresult CUDAAPI cuMemPoolCreate(CUmemoryPool* handle,
                                 const CUmemPoolProps* props) {
  Call call(Api::kMemPoolCreate);
  if (!call.ok()) return call.result();
  if (handle == nullptr || props == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = CheckProps(call, *props);
  if (result != CUDA_SUCCESS) return result;
  *handle = AddPool(call, *props)->handle;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolDestroy(CUmemoryPool handle) {
  Call call(Api::kMemPoolDestroy);
  if (!call.ok()) return call.result();
  const auto pool = call.Find(handle);
  if (pool == nullptr) return call.Fail();
  if (IsDefaultPool(call.runtime(), *pool)) return CUDA_ERROR_INVALID_VALUE;
  Device& device = DeviceAt(call.runtime(), pool->device);
  if (device.current_pool == pool) device.current_pool = device.default_pool;
  call.runtime().pools.Erase(handle);
  AddressSpace::Get().DestroyPool(pool);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolTrimTo(CUmemoryPool handle, size_t keep_bytes) {
  Call call(Api::kMemPoolTrimTo);
  if (!call.ok()) return call.result();
  const auto pool = call.Find(handle);
  if (pool == nullptr) return call.Fail();
  AddressSpace::Get().TrimPool(*pool, keep_bytes);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolSetAttribute(CUmemoryPool handle,
                                       CUmemPool_attribute attribute,
                                       void* value) {
  Call call(Api::kMemPoolSetAttribute);
  if (!call.ok()) return call.result();
  const auto pool = call.Find(handle);
  if (pool == nullptr) return call.Fail();
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return AddressSpace::Get().SetPoolAttribute(*pool, attribute, value);
}

CUresult CUDAAPI cuMemPoolGetAttribute(CUmemoryPool handle,
                                       CUmemPool_attribute attribute,
                                       void* value) {
  Call call(Api::kMemPoolGetAttribute);
  if (!call.ok()) return call.result();
  const auto pool = call.Find(handle);
  if (pool == nullptr) return call.Fail();
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return AddressSpace::Get().GetPoolAttribute(*pool, attribute, value);
}

CUresult CUDAAPI cuMemPoolSetAccess(CUmemoryPool handle,
                                    const CUmemAccessDesc* descriptors,
                                    size_t count) {
  Call call(Api::kMemPoolSetAccess);
  if (!call.ok()) return call.result();
  const auto pool = call.Find(handle);
  if (pool == nullptr) return call.Fail();
  std::vector<AccessGrant> grants;
  const CUresult result = ReadGrants(descriptors, count, &grants);
  if (result == CUDA_ERROR_NOT_SUPPORTED) {
    softcuda::runtime::ReportUnsupported(call.name(),
                                         "access rights of the host");
  }
  if (result != CUDA_SUCCESS) return result;
  return AddressSpace::Get().SetPoolAccess(*pool, grants);
}

CUresult CUDAAPI cuMemPoolGetAccess(CUmemAccess_flags* flags,
                                    CUmemoryPool handle,
                                    CUmemLocation* location) {
  Call call(Api::kMemPoolGetAccess);
  if (!call.ok()) return call.result();
  const auto pool = call.Find(handle);
  if (pool == nullptr) return call.Fail();
  if (flags == nullptr || location == nullptr ||
      location->type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (FindDevice(call.runtime(), location->id) == nullptr) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  *flags = static_cast<CUmemAccess_flags>(
      AddressSpace::Get().GetPoolAccess(*pool, location->id));
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetDefaultMemPool(CUmemoryPool* pool,
                                           CUdevice ordinal) {
  Call call(Api::kDeviceGetDefaultMemPool);
  if (!call.ok()) return call.result();
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Device* const device = FindDevice(call.runtime(), ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *pool = DefaultPool(call, *device)->handle;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice ordinal) {
  Call call(Api::kDeviceGetMemPool);
  if (!call.ok()) return call.result();
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Device* const device = FindDevice(call.runtime(), ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *pool = CurrentPool(call, *device)->handle;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceSetMemPool(CUdevice ordinal, CUmemoryPool pool) {
  Call call(Api::kDeviceSetMemPool);
  if (!call.ok()) return call.result();
  Device* const device = FindDevice(call.runtime(), ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  return SetCurrentPool(call, *device, pool);
}

CUresult CUDAAPI cuMemGetDefaultMemPool(CUmemoryPool* pool,
                                        CUmemLocation* location,
                                        CUmemAllocationType type) {
  Call call(Api::kMemGetDefaultMemPool);
  if (!call.ok()) return call.result();
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Device* device = nullptr;
  const CUresult result = FindPlace(call, location, type, &device);
  if (result == CUDA_SUCCESS) *pool = DefaultPool(call, *device)->handle;
  return result;
}

CUresult CUDAAPI cuMemGetMemPool(CUmemoryPool* pool, CUmemLocation* location,
                                 CUmemAllocationType type) {
  Call call(Api::kMemGetMemPool);
  if (!call.ok()) return call.result();
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Device* device = nullptr;
  const CUresult result = FindPlace(call, location, type, &device);
  if (result == CUDA_SUCCESS) *pool = CurrentPool(call, *device)->handle;
  return result;
}

CUresult CUDAAPI cuMemSetMemPool(CUmemLocation* location,
                                 CUmemAllocationType type, CUmemoryPool pool) {
  Call call(Api::kMemSetMemPool);
  if (!call.ok()) return call.result();
  Device* device = nullptr;
  const CUresult result = FindPlace(call, location, type, &device);
  return result == CUDA_SUCCESS ? SetCurrentPool(call, *device, pool) : result;
}

}  // extern "C"
