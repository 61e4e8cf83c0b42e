// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

// The driver's memory entry points: policy, argument checks, and a call of
// AddressSpace, which knows the rules.

#include <cstdint>
#include <vector>

#include "abi/access_grants.h"
#include "memory/address_space.h"
#include "runtime/context.h"
#include "runtime/host_sources.h"
#include "runtime/policy.h"
#include "runtime/state.h"

namespace {

using softcuda::abi::ReadGrants;
using softcuda::memory::Access;
using softcuda::memory::AccessGrant;
using softcuda::memory::AddressSpace;
using softcuda::memory::RangeKind;
using softcuda::runtime::Api;
using softcuda::runtime::CurrentDevice;
using softcuda::runtime::Enter;

// Says so where a result is that softcuda does not have what was asked for.
CUresult Told(Api api, const char* what, CUresult result) {
  if (result == CUDA_ERROR_NOT_SUPPORTED) {
    softcuda::runtime::ReportUnsupported(softcuda::runtime::PolicyOf(api).name,
                                         what);
  }
  return result;
}

constexpr char kOtherMemory[] =
    "memory on the host and handles that are not file descriptors";

CUresult AllocateHost(void** address, size_t bytes) {
  if (address == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return AddressSpace::Get().AllocateHost(bytes, address, CurrentDevice());
}

// The call waits until the copies are done, so they find their source; on a
// device whose driver does not wait, they would not.
void NoteHostFree(const char* api, void* address) {
  const auto info =
      AddressSpace::Get().Query(reinterpret_cast<uint64_t>(address));
  if (!info.mapped || info.kind != RangeKind::kPinnedHost) return;
  softcuda::runtime::HostSources::Get().NoteFree(api, info.base, info.bytes);
}

}  // namespace

CUresult CUDAAPI cuMemGetInfo_v2(size_t* free, size_t* total) {
  if (const CUresult r = Enter(Api::kMemGetInfo)) return r;
  if (free == nullptr || total == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *free = AddressSpace::Get().free_bytes(CurrentDevice());
  *total = AddressSpace::Get().device_bytes(CurrentDevice());
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr* dptr, size_t bytesize) {
  if (const CUresult r = Enter(Api::kMemAlloc)) return r;
  if (dptr == nullptr) return CUDA_ERROR_INVALID_VALUE;
  uint64_t address = 0;
  const CUresult r =
      AddressSpace::Get().Allocate(bytesize, &address, CurrentDevice());
  if (r == CUDA_SUCCESS) *dptr = address;
  return r;
}

CUresult CUDAAPI cuMemFree_v2(CUdeviceptr dptr) {
  if (const CUresult r = Enter(Api::kMemFree)) return r;
  return AddressSpace::Get().Free(dptr);
}

CUresult CUDAAPI cuMemGetAddressRange_v2(CUdeviceptr* pbase, size_t* psize,
                                         CUdeviceptr dptr) {
  if (const CUresult r = Enter(Api::kMemGetAddressRange)) return r;
  uint64_t base = 0;
  uint64_t bytes = 0;
  const CUresult r = AddressSpace::Get().GetAddressRange(dptr, &base, &bytes);
  if (r != CUDA_SUCCESS) return r;
  if (pbase != nullptr) *pbase = base;
  if (psize != nullptr) *psize = bytes;
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAllocHost_v2(void** pp, size_t bytesize) {
  if (const CUresult r = Enter(Api::kMemAllocHost)) return r;
  return AllocateHost(pp, bytesize);
}

CUresult CUDAAPI cuMemHostAlloc(void** pp, size_t bytesize,
                                unsigned int flags) {
  if (const CUresult r = Enter(Api::kMemHostAlloc)) return r;
  constexpr unsigned kKnownFlags = CU_MEMHOSTALLOC_PORTABLE |
                                   CU_MEMHOSTALLOC_DEVICEMAP |
                                   CU_MEMHOSTALLOC_WRITECOMBINED;
  if ((flags & ~kKnownFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  return AllocateHost(pp, bytesize);
}

CUresult CUDAAPI cuMemFreeHost(void* p) {
  if (const CUresult r = Enter(Api::kMemFreeHost)) return r;
  NoteHostFree("cuMemFreeHost", p);
  return AddressSpace::Get().FreeHost(p);
}

CUresult CUDAAPI cuMemHostGetDevicePointer_v2(CUdeviceptr* pdptr, void* p,
                                              unsigned int flags) {
  if (const CUresult r = Enter(Api::kMemHostGetDevicePointer)) return r;
  if (pdptr == nullptr || flags != 0 || !AddressSpace::Get().IsHostPinned(p)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *pdptr = reinterpret_cast<CUdeviceptr>(p);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemHostRegister_v2(void* p, size_t bytesize,
                                      unsigned int flags) {
  if (const CUresult r = Enter(Api::kMemHostRegister)) return r;
  return Told(Api::kMemHostRegister, "I/O memory",
              AddressSpace::Get().RegisterHost(p, bytesize, flags));
}

CUresult CUDAAPI cuMemHostUnregister(void* p) {
  if (const CUresult r = Enter(Api::kMemHostUnregister)) return r;
  NoteHostFree("cuMemHostUnregister", p);
  return AddressSpace::Get().UnregisterHost(p);
}

CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr* ptr, size_t size,
                                     size_t alignment, CUdeviceptr addr,
                                     unsigned long long flags) {
  if (const CUresult r = Enter(Api::kMemAddressReserve)) return r;
  if (ptr == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  uint64_t address = 0;
  const CUresult r =
      AddressSpace::Get().Reserve(size, alignment, addr, &address);
  if (r == CUDA_SUCCESS) *ptr = address;
  return r;
}

CUresult CUDAAPI cuMemAddressFree(CUdeviceptr ptr, size_t size) {
  if (const CUresult r = Enter(Api::kMemAddressFree)) return r;
  return AddressSpace::Get().FreeReservation(ptr, size);
}

CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size,
                             const CUmemAllocationProp* prop,
                             unsigned long long flags) {
  if (const CUresult r = Enter(Api::kMemCreate)) return r;
  if (handle == nullptr || prop == nullptr || flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return Told(Api::kMemCreate, kOtherMemory,
              AddressSpace::Get().CreateHandle(size, *prop, handle));
}

CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle) {
  if (const CUresult r = Enter(Api::kMemRelease)) return r;
  return AddressSpace::Get().ReleaseHandle(handle);
}

CUresult CUDAAPI cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
                          CUmemGenericAllocationHandle handle,
                          unsigned long long flags) {
  if (const CUresult r = Enter(Api::kMemMap)) return r;
  if (offset != 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return AddressSpace::Get().Map(ptr, size, handle);
}

CUresult CUDAAPI cuMemUnmap(CUdeviceptr ptr, size_t size) {
  if (const CUresult r = Enter(Api::kMemUnmap)) return r;
  return AddressSpace::Get().Unmap(ptr, size);
}

CUresult CUDAAPI cuMemSetAccess(CUdeviceptr ptr, size_t size,
                                const CUmemAccessDesc* desc, size_t count) {
  if (const CUresult r = Enter(Api::kMemSetAccess)) return r;
  std::vector<AccessGrant> grants;
  const CUresult read = ReadGrants(desc, count, &grants);
  if (read != CUDA_SUCCESS) {
    return Told(Api::kMemSetAccess, "access rights of the host", read);
  }
  return AddressSpace::Get().SetAccess(ptr, size, grants);
}

CUresult CUDAAPI cuMemGetAccess(unsigned long long* flags,
                                const CUmemLocation* location,
                                CUdeviceptr ptr) {
  if (const CUresult r = Enter(Api::kMemGetAccess)) return r;
  if (flags == nullptr || location == nullptr ||
      location->type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (location->id < 0 || location->id >= AddressSpace::Get().device_count()) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  Access access = Access::kNone;
  const CUresult r = AddressSpace::Get().GetAccess(ptr, location->id, &access);
  if (r == CUDA_SUCCESS) *flags = static_cast<unsigned long long>(access);
  return r;
}

CUresult CUDAAPI cuMemGetAllocationGranularity(
    size_t* granularity, const CUmemAllocationProp* prop,
    CUmemAllocationGranularity_flags option) {
  if (const CUresult r = Enter(Api::kMemGetAllocationGranularity)) return r;
  if (granularity == nullptr || prop == nullptr ||
      (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
       option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const CUresult r = Told(Api::kMemGetAllocationGranularity, kOtherMemory,
                          AddressSpace::CheckProperties(*prop));
  if (r == CUDA_SUCCESS) *granularity = AddressSpace::kGranularityBytes;
  return r;
}

CUresult CUDAAPI cuMemGetAllocationPropertiesFromHandle(
    CUmemAllocationProp* prop, CUmemGenericAllocationHandle handle) {
  if (const CUresult r = Enter(Api::kMemGetAllocationPropertiesFromHandle)) {
    return r;
  }
  if (prop == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return AddressSpace::Get().HandleProperties(handle, prop);
}

CUresult CUDAAPI
cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* addr) {
  if (const CUresult r = Enter(Api::kMemRetainAllocationHandle)) return r;
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return AddressSpace::Get().RetainHandle(reinterpret_cast<uint64_t>(addr),
                                          handle);
}
