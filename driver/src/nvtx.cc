// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include "permafrost/driver/nvtx.h"

#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtMem.h>

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "nvtx_hooks.h"

namespace permafrost {
namespace internal {

void OfferNvtxListener(void* library) {
  static std::mutex* const mutex = new std::mutex;
  const std::lock_guard<std::mutex> lock(*mutex);
  const auto base = reinterpret_cast<NvtxInitializeInjectionNvtxFunc_t>(
      dlsym(library, "InitializeInjectionNvtx2"));
  const auto extension = reinterpret_cast<NvtxExtInitializeInjectionFunc_t>(
      dlsym(library, "InitializeInjectionNvtxExtension"));
  if (base == nullptr || extension == nullptr) return;
  // A listener that was linked into the program keeps its place.
  if (InitializeInjectionNvtx2_fnptr != nullptr ||
      InitializeInjectionNvtxExtension_fnptr != nullptr) {
    return;
  }
  InitializeInjectionNvtx2_fnptr = base;
  InitializeInjectionNvtxExtension_fnptr = extension;
}

}  // namespace internal

namespace {

// NVTX_MEM_HEAP_HANDLE_NO_TOOL, which the header spells as a C cast.
constexpr intptr_t kNoTool = -1;

// The library's own domain, so that tools can tell its names from others'.
nvtxDomainHandle_t Domain() {
  static const nvtxDomainHandle_t domain = nvtxDomainCreateA("permafrost");
  return domain;
}

const void* AsPointer(DevicePtr ptr) {
  return reinterpret_cast<const void*>(ptr.value());
}

nvtxMemVirtualRangeDesc_t RangeDesc(DevicePtr base, int64_t bytes) {
  nvtxMemVirtualRangeDesc_t desc{};
  desc.size = static_cast<size_t>(bytes);
  desc.ptr = AsPointer(base);
  return desc;
}

nvtxMemHeapHandle_t HeapHandle(void* heap) {
  return static_cast<nvtxMemHeapHandle_t>(heap);
}

}  // namespace

NvtxHeap NvtxHeap::Register(const Driver& /*driver*/, absl::string_view name,
                            DevicePtr base, int64_t bytes) {
  const std::string name_text(name);
  const nvtxMemVirtualRangeDesc_t range = RangeDesc(base, bytes);
  nvtxMemHeapDesc_t desc{};
  desc.extCompatID = NVTX_EXT_COMPATID_MEM;
  desc.structSize = sizeof(desc);
  desc.usage = NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR;
  desc.type = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
  desc.typeSpecificDescSize = sizeof(range);
  desc.typeSpecificDesc = &range;
  desc.messageType = NVTX_MESSAGE_TYPE_ASCII;
  desc.message.ascii = name_text.c_str();
  const nvtxMemHeapHandle_t handle = nvtxMemHeapRegister(Domain(), &desc);
  NvtxHeap heap;
  // Null names the whole process's memory, and never a heap of ours.
  if (handle != nullptr && reinterpret_cast<intptr_t>(handle) != kNoTool) {
    heap.heap_ = handle;
  }
  return heap;
}

NvtxHeap::NvtxHeap(NvtxHeap&& other) noexcept
    : heap_(std::exchange(other.heap_, nullptr)),
      regions_(std::move(other.regions_)) {}

NvtxHeap& NvtxHeap::operator=(NvtxHeap&& other) noexcept {
  if (this != &other) {
    Unregister();
    heap_ = std::exchange(other.heap_, nullptr);
    regions_ = std::move(other.regions_);
  }
  return *this;
}

NvtxHeap::~NvtxHeap() { Unregister(); }

void NvtxHeap::AddRegions(absl::Span<const NamedRange> ranges) {
  if (!active()) return;
  std::vector<nvtxMemVirtualRangeDesc_t> descs;
  std::vector<nvtxMemRegionNameDesc_t> names;
  for (const NamedRange& range : ranges) {
    if (range.bytes <= 0) continue;
    descs.push_back(RangeDesc(range.base, range.bytes));
    nvtxMemRegionNameDesc_t name{};
    name.regionRefType = NVTX_MEM_REGION_REF_TYPE_POINTER;
    name.nameType = NVTX_MESSAGE_TYPE_ASCII;
    name.region.pointer = AsPointer(range.base);
    name.name.ascii = range.name.c_str();
    names.push_back(name);
    regions_.push_back(range.base);
  }
  if (descs.empty()) return;

  nvtxMemRegionsRegisterBatch_t batch{};
  batch.extCompatID = NVTX_EXT_COMPATID_MEM;
  batch.structSize = sizeof(batch);
  batch.regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
  batch.heap = HeapHandle(heap_);
  batch.regionCount = descs.size();
  batch.regionDescElementSize = sizeof(descs[0]);
  batch.regionDescElements = descs.data();
  nvtxMemRegionsRegister(Domain(), &batch);

  nvtxMemRegionsNameBatch_t name_batch{};
  name_batch.extCompatID = NVTX_EXT_COMPATID_MEM;
  name_batch.structSize = sizeof(name_batch);
  name_batch.regionCount = names.size();
  name_batch.regionElementSize = sizeof(names[0]);
  name_batch.regionElements = names.data();
  nvtxMemRegionsName(Domain(), &name_batch);
}

void NvtxHeap::RemoveRegions(absl::Span<const DevicePtr> bases) {
  if (!active()) return;
  std::vector<nvtxMemRegionRef_t> refs;
  for (const DevicePtr base : bases) {
    const auto region = std::find(regions_.begin(), regions_.end(), base);
    if (region == regions_.end()) continue;
    regions_.erase(region);
    nvtxMemRegionRef_t& ref = refs.emplace_back();
    ref.pointer = AsPointer(base);
  }
  if (refs.empty()) return;
  nvtxMemRegionsUnregisterBatch_t batch{};
  batch.extCompatID = NVTX_EXT_COMPATID_MEM;
  batch.structSize = sizeof(batch);
  batch.refType = NVTX_MEM_REGION_REF_TYPE_POINTER;
  batch.refCount = refs.size();
  batch.refElementSize = sizeof(refs[0]);
  batch.refElements = refs.data();
  nvtxMemRegionsUnregister(Domain(), &batch);
}

void NvtxHeap::Unregister() {
  if (!active()) return;
  RemoveRegions(std::vector<DevicePtr>(regions_));
  nvtxMemHeapUnregister(Domain(), HeapHandle(heap_));
  heap_ = nullptr;
}

}  // namespace permafrost
