// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include "mapping_properties.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "permafrost/driver/status.h"

namespace permafrost::internal {
namespace {

struct HandleTypeRow {
  CUmemAllocationHandleType type;
  CUdevice_attribute support;
  const char* name;
};

constexpr HandleTypeRow kHandleTypes[] = {
    {CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
     CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
     "POSIX file descriptors"},
    {CU_MEM_HANDLE_TYPE_FABRIC,
     CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, "fabric handles"},
};

CUmemAccessDesc ReadWriteFor(CUdevice device) {
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return access;
}

absl::Status NotSupported(const Context& context, absl::string_view option,
                          absl::string_view what) {
  return absl::UnimplementedError(
      absl::StrCat("arena options: ", option, ": device ", context.ordinal(),
                   " has no ", what, "; leave the option out on this device"));
}

absl::Status CheckSupport(const Context& context, CUdevice_attribute attribute,
                          absl::string_view option, absl::string_view what) {
  PERMAFROST_ASSIGN_OR_RETURN(const int supported,
                              context.DeviceAttribute(attribute));
  if (supported == 0) return NotSupported(context, option, what);
  return absl::OkStatus();
}

absl::Status CheckHandleTypes(const Context& context,
                              CUmemAllocationHandleType types) {
  auto unknown = static_cast<unsigned>(types);
  for (const HandleTypeRow& row : kHandleTypes) {
    const auto type = static_cast<unsigned>(row.type);
    if ((unknown & type) == 0) continue;
    unknown &= ~type;
    PERMAFROST_RETURN_IF_ERROR(
        CheckSupport(context, row.support, "shareable_handle_types", row.name));
  }
  if (unknown == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "arena options: shareable_handle_types: got ", static_cast<int>(types),
      ", limit CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR and "
      "CU_MEM_HANDLE_TYPE_FABRIC"));
}

absl::StatusOr<CUdevice> CheckedPeer(const Context& context, int ordinal) {
  const DriverApi& api = context.api();
  const std::string what =
      absl::StrCat("arena options: peers: device ", ordinal);
  CUdevice peer = 0;
  PERMAFROST_RETURN_IF_ERROR(
      CuStatus(api.DeviceGet(&peer, ordinal), "cuDeviceGet", what));
  int can_access = 0;
  PERMAFROST_RETURN_IF_ERROR(
      CuStatus(api.DeviceCanAccessPeer(&can_access, peer, context.device()),
               "cuDeviceCanAccessPeer", what));
  int has_vmm = 0;
  PERMAFROST_RETURN_IF_ERROR(CuStatus(
      api.DeviceGetAttribute(
          &has_vmm, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
          peer),
      "cuDeviceGetAttribute", what));
  if (can_access == 0 || has_vmm == 0) {
    return absl::UnimplementedError(absl::StrCat(
        what, " cannot reach memory of device ", context.ordinal(), " (",
        can_access == 0 ? "no peer access between them"
                        : "it has no virtual memory management",
        "); leave it out of ArenaOptions::peers"));
  }
  return peer;
}

}  // namespace

absl::StatusOr<MappingProperties> MakeMappingProperties(
    const Context& context, const ArenaOptions& options) {
  MappingProperties properties;
  properties.memory.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.memory.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.memory.location.id = context.device();
  PERMAFROST_RETURN_IF_ERROR(
      CheckHandleTypes(context, options.shareable_handle_types));
  properties.memory.requestedHandleTypes = options.shareable_handle_types;
  if (options.rdma_capable) {
    PERMAFROST_RETURN_IF_ERROR(CheckSupport(
        context, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
        "rdma_capable", "GPUDirect RDMA for mapped memory"));
    properties.memory.allocFlags.gpuDirectRDMACapable = 1;
  }
  properties.access.push_back(ReadWriteFor(context.device()));
  for (size_t i = 0; i < options.peers.size(); ++i) {
    const int ordinal = options.peers[i];
    const bool is_repeated =
        std::count(options.peers.begin(),
                   options.peers.begin() + static_cast<std::ptrdiff_t>(i),
                   ordinal) > 0;
    if (is_repeated || ordinal == context.ordinal()) {
      return absl::InvalidArgumentError(
          absl::StrCat("arena options: peers: device ", ordinal,
                       is_repeated ? " is there twice" : " is the arena's own",
                       "; name each other device once"));
    }
    PERMAFROST_ASSIGN_OR_RETURN(const CUdevice peer,
                                CheckedPeer(context, ordinal));
    properties.access.push_back(ReadWriteFor(peer));
  }
  return properties;
}

absl::Status CheckNeedsNoMapping(const ArenaOptions& options) {
  const char* const option =
      !options.peers.empty() ? "peers"
      : options.shareable_handle_types != CU_MEM_HANDLE_TYPE_NONE
          ? "shareable_handle_types"
      : options.rdma_capable ? "rdma_capable"
                             : nullptr;
  if (option == nullptr) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(
      "arena options: ", option,
      ": only mapped memory can have it, and this arena's comes from one "
      "cuMemAlloc; use ArenaOptions::use_vmm on a device that has virtual "
      "memory management"));
}

}  // namespace permafrost::internal
