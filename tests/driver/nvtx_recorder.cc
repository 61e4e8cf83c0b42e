// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

//
// An NVTX listener that writes down what it is told about memory heaps.

#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtMem.h>

#include <string>

namespace {

// The handle given out; any address that is neither null nor -1 would do.
int heap_object;

std::string& Log() {
  static std::string* const log = new std::string;
  return *log;
}

nvtxMemHeapHandle_t HeapRegister(nvtxDomainHandle_t /*domain*/,
                                 nvtxMemHeapDesc_t const* desc) {
  const auto* range =
      static_cast<const nvtxMemVirtualRangeDesc_t*>(desc->typeSpecificDesc);
  Log() += std::string("heap ") + desc->message.ascii + " usage " +
           std::to_string(desc->usage) + " " +
           std::to_string(reinterpret_cast<uintptr_t>(range->ptr)) + "+" +
           std::to_string(range->size) + ";";
  return reinterpret_cast<nvtxMemHeapHandle_t>(&heap_object);
}

void HeapUnregister(nvtxDomainHandle_t /*domain*/, nvtxMemHeapHandle_t heap) {
  Log() += reinterpret_cast<int*>(heap) == &heap_object ? "heap gone;"
                                                        : "wrong heap;";
}

void RegionsRegister(nvtxDomainHandle_t /*domain*/,
                     nvtxMemRegionsRegisterBatch_t const* batch) {
  const auto* ranges =
      static_cast<const nvtxMemVirtualRangeDesc_t*>(batch->regionDescElements);
  Log() += "regions";
  for (size_t i = 0; i < batch->regionCount; ++i) {
    Log() += " " + std::to_string(reinterpret_cast<uintptr_t>(ranges[i].ptr)) +
             "+" + std::to_string(ranges[i].size);
  }
  Log() += ";";
}

void RegionsName(nvtxDomainHandle_t /*domain*/,
                 nvtxMemRegionsNameBatch_t const* batch) {
  Log() += "names";
  for (size_t i = 0; i < batch->regionCount; ++i) {
    Log() += std::string(" ") + batch->regionElements[i].name.ascii;
  }
  Log() += ";";
}

void RegionsUnregister(nvtxDomainHandle_t /*domain*/,
                       nvtxMemRegionsUnregisterBatch_t const* batch) {
  Log() += std::to_string(batch->refCount) + " regions gone;";
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) const char* NvtxRecorderLog() {
  return Log().c_str();
}

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t /*get_export_table*/) {
  return 1;
}

__attribute__((visibility("default"))) int InitializeInjectionNvtxExtension(
    nvtxExtModuleInfo_t* module) {
  if (module->moduleId != NVTX_EXT_MODULEID_MEM) return 0;
  intptr_t* slots = module->segments[0].functionSlots;
  const auto set = [slots](int slot, auto* function) {
    slots[slot] = reinterpret_cast<intptr_t>(function);
  };
  set(NVTX3EXT_CBID_nvtxMemHeapRegister, &HeapRegister);
  set(NVTX3EXT_CBID_nvtxMemHeapUnregister, &HeapUnregister);
  set(NVTX3EXT_CBID_nvtxMemRegionsRegister, &RegionsRegister);
  set(NVTX3EXT_CBID_nvtxMemRegionsName, &RegionsName);
  set(NVTX3EXT_CBID_nvtxMemRegionsUnregister, &RegionsUnregister);
  return 1;
}

}  // extern "C"
