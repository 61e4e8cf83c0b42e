// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

// cuPointerGetAttribute and cuPointerGetAttributes.

#include <cstdint>
#include <cstring>

#include "abi/cuda_abi.h"
#include "memory/address_space.h"
#include "runtime/context.h"
#include "runtime/policy.h"

namespace {

using softcuda::memory::Access;
using softcuda::memory::AddressSpace;
using softcuda::memory::PointerInfo;
using softcuda::memory::RangeKind;
using softcuda::runtime::Api;
using softcuda::runtime::Enter;

// Bytes that an attribute's value takes, 0 for an attribute that does not
// exist. A boolean is an int.
size_t ValueBytes(CUpointer_attribute attribute) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
      return sizeof(CUDA_POINTER_ATTRIBUTE_P2P_TOKENS);
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      return 8;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      return 4;
  }
  return 0;
}

// The value of an attribute as a number. False where the attribute means
// nothing for this address.
bool ReadAttribute(CUpointer_attribute attribute, CUdeviceptr address,
                   const PointerInfo& info, uint64_t* value) {
  const bool is_host = info.kind == RangeKind::kPinnedHost;
  // What can be said of reserved addresses without memory.
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *value = info.range_base;
      return info.mapped || info.in_reservation;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *value = info.range_bytes;
      return info.mapped || info.in_reservation;
    case CU_POINTER_ATTRIBUTE_MAPPED:
      *value = info.mapped ? 1 : 0;
      return info.mapped || info.in_reservation;
    default:
      break;
  }
  if (!info.mapped) return false;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *value = reinterpret_cast<uint64_t>(
          softcuda::runtime::PrimaryContextHandle(info.device));
      return true;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *value = is_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      return true;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *value = address;
      return info.access != Access::kNone;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      *value = address;
      return is_host;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      *value = info.buffer_id;
      return true;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      *value = info.handle_types;
      return true;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      *value = info.kind == RangeKind::kDeviceAlloc ? 1 : 0;
      return true;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      *value = info.rdma_capable ? 1 : 0;
      return true;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      *value = static_cast<uint64_t>(info.access);
      return true;
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      *value = info.bytes;
      return true;
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      *value = info.base;
      return true;
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      *value = info.block_id;
      return true;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *value = static_cast<uint64_t>(info.device);
      return true;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      *value = reinterpret_cast<uint64_t>(info.pool);
      return true;
    // Nothing here is managed, compressed or kept in step with copies.
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      *value = 0;
      return true;
    default:
      return false;
  }
}

// Little-endian hosts only, as all that run CUDA are: the low bytes come first.
void WriteValue(void* data, uint64_t value, size_t bytes) {
  std::memset(data, 0, bytes);
  std::memcpy(data, &value, bytes < sizeof value ? bytes : sizeof value);
}

}  // namespace

CUresult CUDAAPI cuPointerGetAttribute(void* data,
                                       CUpointer_attribute attribute,
                                       CUdeviceptr ptr) {
  if (const CUresult r = Enter(Api::kPointerGetAttribute)) return r;
  const size_t bytes = ValueBytes(attribute);
  if (data == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  uint64_t value = 0;
  if (!ReadAttribute(attribute, ptr, AddressSpace::Get().Query(ptr), &value)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  WriteValue(data, value, bytes);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuPointerGetAttributes(unsigned int numAttributes,
                                        CUpointer_attribute* attributes,
                                        void** data, CUdeviceptr ptr) {
  if (const CUresult r = Enter(Api::kPointerGetAttributes)) return r;
  if (numAttributes == 0 || attributes == nullptr || data == nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (unsigned int i = 0; i < numAttributes; ++i) {
    if (data[i] == nullptr || ValueBytes(attributes[i]) == 0) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  const PointerInfo info = AddressSpace::Get().Query(ptr);
  for (unsigned int i = 0; i < numAttributes; ++i) {
    uint64_t value = 0;
    if (!ReadAttribute(attributes[i], ptr, info, &value)) value = 0;
    WriteValue(data[i], value, ValueBytes(attributes[i]));
  }
  return CUDA_SUCCESS;
}
