// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

// The tool's side of NVTX: programs that describe their sub-allocators through
// nvToolsExtMem.h tell softcuda's memcheck about them. Whatever arrives is
// checked before it is used; what is wrong becomes a misuse report, since NVTX
// calls return nothing.

#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExtMem.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "check/report.h"
#include "memory/address_space.h"
#include "memory/regions.h"

namespace {

using softcuda::memory::Access;
using softcuda::memory::RegionTable;

constexpr size_t kLongestName = 256;

RegionTable& Regions() {
  return softcuda::memory::AddressSpace::Get().regions();
}

void Complain(const char* call, const std::string& what) {
  softcuda::check::Report report;
  report.check = "misuse";
  report.what = std::string(call) + ": " + what;
  softcuda::check::Reporter::Get().Add(std::move(report));
}

// Handles are base addresses, so a region may be named by either.
template <typename Handle>
Handle HandleOf(uint64_t base) {
  return reinterpret_cast<Handle>(base);  // NOLINT(performance-no-int-to-ptr)
}

// The header's NO_TOOL macros, whose casts C++ rejects: what a refused
// registration returns, and every call ignores.
template <typename Handle>
Handle Refused() {
  return HandleOf<Handle>(~uint64_t{0});
}

char Printable(unsigned long c) {
  return c >= 0x20 && c < 0x7F ? static_cast<char>(c) : '?';
}

// A name in plain ASCII, cut at kLongestName. Registered strings are unknown
// here, because nobody registers strings with a tool that has no use for them.
std::string NameOf(uint32_t type, const nvtxMessageValue_t& value) {
  std::string name;
  if (type == NVTX_MESSAGE_TYPE_ASCII && value.ascii != nullptr) {
    for (const char* c = value.ascii; *c != '\0' && name.size() < kLongestName;
         ++c) {
      name += Printable(static_cast<unsigned char>(*c));
    }
  } else if (type == NVTX_MESSAGE_TYPE_UNICODE && value.unicode != nullptr) {
    for (const wchar_t* c = value.unicode;
         *c != L'\0' && name.size() < kLongestName; ++c) {
      name += Printable(static_cast<unsigned long>(*c));
    }
  }
  return name;
}

// A struct is taken if it is at least as large as the one known here.
template <typename Desc>
bool IsUsable(const char* call, const Desc* desc) {
  if (desc == nullptr) {
    Complain(call, "got no description");
    return false;
  }
  if (desc->extCompatID != NVTX_EXT_COMPATID_MEM ||
      desc->structSize < sizeof(Desc)) {
    Complain(call, "got a description of compatibility id " +
                       std::to_string(desc->extCompatID) + " and size " +
                       std::to_string(desc->structSize) + ", want " +
                       std::to_string(NVTX_EXT_COMPATID_MEM) +
                       " and at least " + std::to_string(sizeof(Desc)));
    return false;
  }
  return true;
}

// The elements of a batch, each at least an Element and all of one size.
template <typename Element>
class Elements {
 public:
  static std::optional<Elements> Of(const char* call, const void* first,
                                    size_t count, size_t element_bytes) {
    size_t bytes = 0;
    if ((first == nullptr && count != 0) || element_bytes < sizeof(Element) ||
        __builtin_mul_overflow(count, element_bytes, &bytes)) {
      Complain(call, "got " + std::to_string(count) + " elements of " +
                         std::to_string(element_bytes) +
                         " bytes, want elements of at least " +
                         std::to_string(sizeof(Element)) + " at an address");
      return std::nullopt;
    }
    return Elements(static_cast<const char*>(first), count, element_bytes);
  }

  size_t size() const { return count_; }
  Element operator[](size_t i) const {
    Element element;
    std::memcpy(&element, first_ + i * element_bytes_, sizeof element);
    return element;
  }

 private:
  Elements(const char* first, size_t count, size_t element_bytes)
      : first_(first), count_(count), element_bytes_(element_bytes) {}

  const char* first_;
  size_t count_;
  size_t element_bytes_;
};

bool IsVirtualAddress(const char* call, uint32_t type) {
  if (type == NVTX_MEM_TYPE_VIRTUAL_ADDRESS) return true;
  Complain(call, "got memory type " + std::to_string(type) +
                     ", want virtual addresses");
  return false;
}

// The base address that a reference stands for. Nothing for a region that was
// refused at registration, which has been reported then.
std::optional<uint64_t> BaseOf(const char* call, uint32_t type,
                               const nvtxMemRegionRef_t& ref) {
  if (type != NVTX_MEM_REGION_REF_TYPE_POINTER &&
      type != NVTX_MEM_REGION_REF_TYPE_HANDLE) {
    Complain(call, "got region reference type " + std::to_string(type));
    return std::nullopt;
  }
  if (ref.handle == Refused<nvtxMemRegionHandle_t>()) return std::nullopt;
  return reinterpret_cast<uint64_t>(ref.pointer);
}

void ComplainUnknownRegion(const char* call, uint64_t base) {
  Complain(call, "no region starts at address " + std::to_string(base));
}

nvtxMemHeapHandle_t HeapRegister(nvtxDomainHandle_t,
                                 const nvtxMemHeapDesc_t* desc) {
  constexpr const char* kCall = "nvtxMemHeapRegister";
  if (!IsUsable(kCall, desc) || !IsVirtualAddress(kCall, desc->type)) {
    return Refused<nvtxMemHeapHandle_t>();
  }
  if (desc->usage != NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR &&
      desc->usage != NVTX_MEM_HEAP_USAGE_TYPE_LAYOUT) {
    Complain(kCall, "got usage " + std::to_string(desc->usage));
    return Refused<nvtxMemHeapHandle_t>();
  }
  const auto range = Elements<nvtxMemVirtualRangeDesc_t>::Of(
      kCall, desc->typeSpecificDesc, 1, desc->typeSpecificDescSize);
  if (!range) return Refused<nvtxMemHeapHandle_t>();
  const nvtxMemVirtualRangeDesc_t span = (*range)[0];
  const std::optional<uint64_t> heap = Regions().RegisterHeap(
      NameOf(desc->messageType, desc->message),
      reinterpret_cast<uint64_t>(span.ptr), span.size,
      desc->usage == NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR
          ? RegionTable::Usage::kSubAllocator
          : RegionTable::Usage::kLayout);
  return heap ? HandleOf<nvtxMemHeapHandle_t>(*heap)
              : Refused<nvtxMemHeapHandle_t>();
}

void HeapUnregister(nvtxDomainHandle_t, nvtxMemHeapHandle_t heap) {
  if (heap == Refused<nvtxMemHeapHandle_t>()) return;
  if (!Regions().UnregisterHeap(reinterpret_cast<uint64_t>(heap))) {
    Complain("nvtxMemHeapUnregister", "got an unknown heap");
  }
}

void HeapReset(nvtxDomainHandle_t, nvtxMemHeapHandle_t heap) {
  if (heap == Refused<nvtxMemHeapHandle_t>()) return;
  if (!Regions().ResetHeap(reinterpret_cast<uint64_t>(heap))) {
    Complain("nvtxMemHeapReset", "got an unknown heap");
  }
}

void RegionsRegister(nvtxDomainHandle_t,
                     const nvtxMemRegionsRegisterBatch_t* desc) {
  constexpr const char* kCall = "nvtxMemRegionsRegister";
  if (!IsUsable(kCall, desc) || !IsVirtualAddress(kCall, desc->regionType)) {
    return;
  }
  if (desc->heap == Refused<nvtxMemHeapHandle_t>()) return;
  const auto ranges = Elements<nvtxMemVirtualRangeDesc_t>::Of(
      kCall, desc->regionDescElements, desc->regionCount,
      desc->regionDescElementSize);
  if (!ranges) return;
  const uint64_t heap = reinterpret_cast<uint64_t>(desc->heap);
  for (size_t i = 0; i < ranges->size(); ++i) {
    const nvtxMemVirtualRangeDesc_t span = (*ranges)[i];
    const uint64_t base = reinterpret_cast<uint64_t>(span.ptr);
    const bool added = Regions().AddRegion(heap, base, span.size);
    if (desc->regionHandleElementsOut != nullptr) {
      desc->regionHandleElementsOut[i] =
          added ? HandleOf<nvtxMemRegionHandle_t>(base)
                : Refused<nvtxMemRegionHandle_t>();
    }
  }
}

void RegionsResize(nvtxDomainHandle_t,
                   const nvtxMemRegionsResizeBatch_t* desc) {
  constexpr const char* kCall = "nvtxMemRegionsResize";
  if (!IsUsable(kCall, desc) || !IsVirtualAddress(kCall, desc->regionType)) {
    return;
  }
  const auto ranges = Elements<nvtxMemVirtualRangeDesc_t>::Of(
      kCall, desc->regionDescElements, desc->regionDescCount,
      desc->regionDescElementSize);
  if (!ranges) return;
  for (size_t i = 0; i < ranges->size(); ++i) {
    const nvtxMemVirtualRangeDesc_t span = (*ranges)[i];
    // A refusal is reported by the table, with its reason.
    (void)Regions().ResizeRegion(reinterpret_cast<uint64_t>(span.ptr),
                                 span.size);
  }
}

void RegionsUnregister(nvtxDomainHandle_t,
                       const nvtxMemRegionsUnregisterBatch_t* desc) {
  constexpr const char* kCall = "nvtxMemRegionsUnregister";
  if (!IsUsable(kCall, desc)) return;
  const auto refs = Elements<nvtxMemRegionRef_t>::Of(
      kCall, desc->refElements, desc->refCount, desc->refElementSize);
  if (!refs) return;
  for (size_t i = 0; i < refs->size(); ++i) {
    const auto base = BaseOf(kCall, desc->refType, (*refs)[i]);
    if (base && !Regions().RemoveRegion(*base)) {
      ComplainUnknownRegion(kCall, *base);
    }
  }
}

void RegionsName(nvtxDomainHandle_t, const nvtxMemRegionsNameBatch_t* desc) {
  constexpr const char* kCall = "nvtxMemRegionsName";
  if (!IsUsable(kCall, desc)) return;
  const auto names = Elements<nvtxMemRegionNameDesc_t>::Of(
      kCall, desc->regionElements, desc->regionCount, desc->regionElementSize);
  if (!names) return;
  for (size_t i = 0; i < names->size(); ++i) {
    const nvtxMemRegionNameDesc_t element = (*names)[i];
    const auto base = BaseOf(kCall, element.regionRefType, element.region);
    if (base &&
        !Regions().NameRegion(*base, NameOf(element.nameType, element.name))) {
      ComplainUnknownRegion(kCall, *base);
    }
  }
}

void PermissionsAssign(nvtxDomainHandle_t,
                       const nvtxMemPermissionsAssignBatch_t* desc) {
  constexpr const char* kCall = "nvtxMemPermissionsAssign";
  if (!IsUsable(kCall, desc)) return;
  // Only permissions that hold for every kernel are supported.
  if (desc->permissions != nullptr) return;
  const auto regions = Elements<nvtxMemPermissionsAssignRegionDesc_t>::Of(
      kCall, desc->regionElements, desc->regionCount, desc->regionElementSize);
  if (!regions) return;
  for (size_t i = 0; i < regions->size(); ++i) {
    const nvtxMemPermissionsAssignRegionDesc_t element = (*regions)[i];
    const auto base = BaseOf(kCall, element.regionRefType, element.region);
    if (!base) continue;
    constexpr uint32_t kWrites = NVTX_MEM_PERMISSIONS_REGION_FLAGS_WRITE |
                                 NVTX_MEM_PERMISSIONS_REGION_FLAGS_ATOMIC;
    std::optional<Access> access;
    if ((element.flags & NVTX_MEM_PERMISSIONS_REGION_FLAGS_RESET) == 0) {
      if ((element.flags & kWrites) != 0) {
        access = Access::kReadWrite;
      } else if ((element.flags & NVTX_MEM_PERMISSIONS_REGION_FLAGS_READ) !=
                 0) {
        access = Access::kRead;
      } else {
        access = Access::kNone;
      }
    }
    if (!Regions().SetRegionAccess(*base, access)) {
      ComplainUnknownRegion(kCall, *base);
    }
  }
}

// A null handle would mean the process-wide permissions.
nvtxMemPermissionsHandle_t PermissionsCreate(nvtxDomainHandle_t, int32_t) {
  return Refused<nvtxMemPermissionsHandle_t>();
}

template <typename Function>
void SetSlot(const nvtxExtModuleSegment_t& segment, size_t slot,
             Function* function) {
  if (slot < segment.slotCount) {
    segment.functionSlots[slot] = reinterpret_cast<intptr_t>(function);
  }
}

}  // namespace

/// NVTX calls this for its core functions: names of threads, ranges and marks.
/// softcuda wants none of them, but attaches, so that NVTX goes on to the
/// extensions.
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    const void* (*get_export_table)(uint32_t)) {
  return get_export_table != nullptr ? 1 : 0;
}

/// NVTX calls this once for each extension; the memory extension is taken.
/// Returns 0 for others, whose functions NVTX then makes no-ops.
extern "C" __attribute__((visibility("default"))) int
InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t* module) {
  if (module == nullptr || module->structSize < sizeof(nvtxExtModuleInfo_t) ||
      module->moduleId != NVTX_EXT_MODULEID_MEM ||
      module->compatId != NVTX_EXT_COMPATID_MEM ||
      module->segments == nullptr) {
    return 0;
  }
  constexpr size_t kMemorySegment = 1;
  bool attached = false;
  for (size_t i = 0; i < module->segmentsCount; ++i) {
    const nvtxExtModuleSegment_t& segment = module->segments[i];
    if (segment.segmentId != kMemorySegment ||
        segment.functionSlots == nullptr) {
      continue;
    }
    SetSlot(segment, NVTX3EXT_CBID_nvtxMemHeapRegister, &HeapRegister);
    SetSlot(segment, NVTX3EXT_CBID_nvtxMemHeapUnregister, &HeapUnregister);
    SetSlot(segment, NVTX3EXT_CBID_nvtxMemHeapReset, &HeapReset);
    SetSlot(segment, NVTX3EXT_CBID_nvtxMemRegionsRegister, &RegionsRegister);
    SetSlot(segment, NVTX3EXT_CBID_nvtxMemRegionsResize, &RegionsResize);
    SetSlot(segment, NVTX3EXT_CBID_nvtxMemRegionsUnregister,
            &RegionsUnregister);
    SetSlot(segment, NVTX3EXT_CBID_nvtxMemRegionsName, &RegionsName);
    SetSlot(segment, NVTX3EXT_CBID_nvtxMemPermissionsAssign,
            &PermissionsAssign);
    SetSlot(segment, NVTX3EXT_CBID_nvtxMemPermissionsCreate,
            &PermissionsCreate);
    attached = true;
  }
  return attached ? 1 : 0;
}
