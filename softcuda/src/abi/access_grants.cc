// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "abi/access_grants.h"

namespace softcuda::abi {

CUresult ReadGrants(const CUmemAccessDesc* descriptors, size_t count,
                    std::vector<memory::AccessGrant>* grants) {
  // One for each device and some said twice; more is a wild number.
  constexpr size_t kMostDescriptors = size_t{4} * memory::kMaxDevices;
  if (descriptors == nullptr || count == 0 || count > kMostDescriptors) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  grants->clear();
  for (size_t i = 0; i < count; ++i) {
    const CUmemAccessDesc& descriptor = descriptors[i];
    if (descriptor.location.type == CU_MEM_LOCATION_TYPE_HOST ||
        descriptor.location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA) {
      return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (descriptor.location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    const int device = descriptor.location.id;
    if (device < 0 || device >= memory::AddressSpace::Get().device_count()) {
      return CUDA_ERROR_INVALID_DEVICE;
    }
    switch (descriptor.flags) {
      case CU_MEM_ACCESS_FLAGS_PROT_NONE:
      case CU_MEM_ACCESS_FLAGS_PROT_READ:
      case CU_MEM_ACCESS_FLAGS_PROT_READWRITE:
        grants->push_back(
            {device, static_cast<memory::Access>(descriptor.flags)});
        break;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return CUDA_SUCCESS;
}

}  // namespace softcuda::abi
