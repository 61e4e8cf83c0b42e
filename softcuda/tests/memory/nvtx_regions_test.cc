// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

// A program's NVTX calls, through NVIDIA's client headers, reach memcheck's
// tables; malformed ones do no harm.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nvtx3/nvToolsExtMem.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "check/report.h"
#include "memory/address_space.h"

extern "C" int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t table);
extern "C" int InitializeInjectionNvtxExtension(nvtxExtModuleInfo_t* module);

namespace softcuda::memory {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

template <typename Desc>
Desc MakeDesc() {
  Desc desc = {};
  desc.extCompatID = NVTX_EXT_COMPATID_MEM;
  desc.structSize = sizeof(Desc);
  return desc;
}

class NvtxRegionsTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kBytes = 4096;

  static void SetUpTestSuite() {
    // A tool in the environment would be asked first.
    unsetenv("NVTX_INJECTION64_PATH");
    InitializeInjectionNvtx2_fnptr = &InitializeInjectionNvtx2;
    InitializeInjectionNvtxExtension_fnptr = &InitializeInjectionNvtxExtension;
  }
  void SetUp() override {
    check::Reporter::Get().set_quiet(true);
    check::Reporter::Get().TakeTexts();
    ASSERT_EQ(space_.Allocate(kBytes, &base_), CUDA_SUCCESS);
  }
  void TearDown() override {
    EXPECT_EQ(space_.regions().heap_count(), 0);
    EXPECT_EQ(space_.Free(base_), CUDA_SUCCESS);
  }

  static void* Pointer(uint64_t address) {
    return reinterpret_cast<void*>(address);
  }
  nvtxMemHeapHandle_t Register(const char* name, uint64_t base,
                               uint64_t bytes) {
    const nvtxMemVirtualRangeDesc_t range = {bytes, Pointer(base)};
    auto desc = MakeDesc<nvtxMemHeapDesc_t>();
    desc.usage = NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR;
    desc.type = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
    desc.typeSpecificDescSize = sizeof range;
    desc.typeSpecificDesc = &range;
    desc.messageType = NVTX_MESSAGE_TYPE_ASCII;
    desc.message.ascii = name;
    return nvtxMemHeapRegister(nullptr, &desc);
  }
  std::vector<nvtxMemRegionHandle_t> AddRegions(
      nvtxMemHeapHandle_t heap,
      const std::vector<nvtxMemVirtualRangeDesc_t>& ranges) {
    std::vector<nvtxMemRegionHandle_t> handles(ranges.size());
    auto batch = MakeDesc<nvtxMemRegionsRegisterBatch_t>();
    batch.regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
    batch.heap = heap;
    batch.regionCount = ranges.size();
    batch.regionDescElementSize = sizeof ranges[0];
    batch.regionDescElements = ranges.data();
    batch.regionHandleElementsOut = handles.data();
    nvtxMemRegionsRegister(nullptr, &batch);
    return handles;
  }
  static void Name(nvtxMemRegionHandle_t region, const char* name) {
    nvtxMemRegionNameDesc_t element = {};
    element.regionRefType = NVTX_MEM_REGION_REF_TYPE_HANDLE;
    element.nameType = NVTX_MESSAGE_TYPE_ASCII;
    element.region.handle = region;
    element.name.ascii = name;
    auto batch = MakeDesc<nvtxMemRegionsNameBatch_t>();
    batch.regionCount = 1;
    batch.regionElementSize = sizeof element;
    batch.regionElements = &element;
    nvtxMemRegionsName(nullptr, &batch);
  }
  static void Assign(uint64_t region, uint32_t flags) {
    nvtxMemPermissionsAssignRegionDesc_t element = {};
    element.flags = flags;
    element.regionRefType = NVTX_MEM_REGION_REF_TYPE_POINTER;
    element.region.pointer = Pointer(region);
    auto batch = MakeDesc<nvtxMemPermissionsAssignBatch_t>();
    batch.regionCount = 1;
    batch.regionElementSize = sizeof element;
    batch.regionElements = &element;
    nvtxMemPermissionsAssign(nullptr, &batch);
  }
  Access AccessAt(uint64_t address) {
    Interval interval;
    EXPECT_TRUE(space_.snapshot()->Resolve(address, &interval));
    return interval.access;
  }
  std::vector<std::string> Reports() {
    return check::Reporter::Get().TakeTexts();
  }

  AddressSpace& space_ = AddressSpace::Get();
  uint64_t base_ = 0;
};

TEST_F(NvtxRegionsTest, TwoBuffersOfASlabAreToldApart) {
  const nvtxMemHeapHandle_t heap = Register("slab", base_, kBytes);
  const auto regions =
      AddRegions(heap, {{256, Pointer(base_)}, {512, Pointer(base_ + 512)}});
  Name(regions[0], "first");
  Name(regions[1], "second");
  Interval interval;
  ASSERT_TRUE(space_.snapshot()->Resolve(base_ + 255, &interval));
  EXPECT_TRUE(interval.Contains(base_, 256));
  EXPECT_FALSE(interval.Contains(base_ + 255, 2)) << "one byte too far";
  EXPECT_EQ(AccessAt(base_ + 256), Access::kNone);
  EXPECT_EQ(AccessAt(base_ + 512), Access::kReadWrite);
  EXPECT_EQ(space_.snapshot()->Describe(base_ + 256, 1),
            "1 byte past the end of 'first' (256 bytes) and 256 bytes before "
            "'second', in heap 'slab'");
  nvtxMemHeapUnregister(nullptr, heap);
  EXPECT_EQ(AccessAt(base_ + 256), Access::kReadWrite) << "back to the driver";
  EXPECT_THAT(Reports(), ElementsAre());
}

TEST_F(NvtxRegionsTest, RegionsResizeResetAndGo) {
  const nvtxMemHeapHandle_t heap = Register("slab", base_, kBytes);
  AddRegions(heap, {{256, Pointer(base_)}, {256, Pointer(base_ + 1024)}});
  const nvtxMemVirtualRangeDesc_t larger = {300, Pointer(base_)};
  auto resize = MakeDesc<nvtxMemRegionsResizeBatch_t>();
  resize.regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
  resize.regionDescCount = 1;
  resize.regionDescElementSize = sizeof larger;
  resize.regionDescElements = &larger;
  nvtxMemRegionsResize(nullptr, &resize);
  EXPECT_EQ(AccessAt(base_ + 299), Access::kReadWrite);
  EXPECT_EQ(AccessAt(base_ + 300), Access::kNone);

  nvtxMemRegionRef_t ref;
  ref.pointer = Pointer(base_);
  auto unregister = MakeDesc<nvtxMemRegionsUnregisterBatch_t>();
  unregister.refType = NVTX_MEM_REGION_REF_TYPE_POINTER;
  unregister.refCount = 1;
  unregister.refElementSize = sizeof ref;
  unregister.refElements = &ref;
  nvtxMemRegionsUnregister(nullptr, &unregister);
  EXPECT_EQ(AccessAt(base_), Access::kNone);
  EXPECT_THAT(Reports(), ElementsAre());
  nvtxMemRegionsUnregister(nullptr, &unregister);
  EXPECT_THAT(Reports(), ElementsAre(HasSubstr("no region starts at")));

  nvtxMemHeapReset(nullptr, heap);
  EXPECT_EQ(AccessAt(base_), Access::kReadWrite);
  nvtxMemHeapUnregister(nullptr, heap);
}

TEST_F(NvtxRegionsTest, PermissionsCloseAndReopenARegion) {
  const nvtxMemHeapHandle_t heap = Register("slab", base_, kBytes);
  AddRegions(heap, {{256, Pointer(base_)}});
  Assign(base_, NVTX_MEM_PERMISSIONS_REGION_FLAGS_READ);
  EXPECT_EQ(AccessAt(base_), Access::kRead);
  Assign(base_, NVTX_MEM_PERMISSIONS_REGION_FLAGS_NONE);
  EXPECT_EQ(AccessAt(base_), Access::kNone);
  EXPECT_THAT(space_.snapshot()->Describe(base_, 4),
              HasSubstr("closed through NVTX permissions"));
  Assign(base_, NVTX_MEM_PERMISSIONS_REGION_FLAGS_READ |
                    NVTX_MEM_PERMISSIONS_REGION_FLAGS_WRITE);
  EXPECT_EQ(AccessAt(base_), Access::kReadWrite);
  Assign(base_, NVTX_MEM_PERMISSIONS_REGION_FLAGS_NONE);
  Assign(base_, NVTX_MEM_PERMISSIONS_REGION_FLAGS_RESET);
  EXPECT_EQ(AccessAt(base_), Access::kReadWrite);
  EXPECT_NE(nvtxMemPermissionsCreate(nullptr, 0), nullptr)
      << "null would be the process-wide permissions";
  nvtxMemHeapUnregister(nullptr, heap);
}

TEST_F(NvtxRegionsTest, RefusedHandlesAreIgnoredQuietly) {
  const nvtxMemHeapHandle_t heap = Register("slab", base_, kBytes);
  const nvtxMemHeapHandle_t overlapping = Register("again", base_, 64);
  EXPECT_THAT(Reports(), ElementsAre(HasSubstr("overlaps heap 'slab'")));
  AddRegions(overlapping, {{64, Pointer(base_)}});
  nvtxMemHeapReset(nullptr, overlapping);
  nvtxMemHeapUnregister(nullptr, overlapping);
  const auto outside = AddRegions(heap, {{64, Pointer(base_ + kBytes)}});
  EXPECT_THAT(Reports(), ElementsAre(HasSubstr("leaves heap 'slab'")));
  Name(outside[0], "outside");
  EXPECT_THAT(Reports(), ElementsAre());
  nvtxMemHeapUnregister(nullptr, heap);
}

TEST_F(NvtxRegionsTest, NamesArePlainAndBounded) {
  const nvtxMemHeapHandle_t heap =
      Register(std::string(100000, 'h').c_str(), base_, kBytes);
  const auto regions = AddRegions(heap, {{64, Pointer(base_)}});
  Name(regions[0], "two\nlines\x7f\x80");
  EXPECT_EQ(space_.snapshot()->Describe(base_, 1),
            "two?lines??+0x0 (64 bytes)");
  EXPECT_LT(space_.snapshot()->Describe(base_ + 64, 1).size(), 400u);

  nvtxMemRegionNameDesc_t wide = {};
  wide.regionRefType = NVTX_MEM_REGION_REF_TYPE_POINTER;
  wide.nameType = NVTX_MESSAGE_TYPE_UNICODE;
  wide.region.pointer = Pointer(base_);
  wide.name.unicode = L"wide \x263A";
  auto batch = MakeDesc<nvtxMemRegionsNameBatch_t>();
  batch.regionCount = 1;
  batch.regionElementSize = sizeof wide;
  batch.regionElements = &wide;
  nvtxMemRegionsName(nullptr, &batch);
  EXPECT_EQ(space_.snapshot()->Describe(base_, 1), "wide ?+0x0 (64 bytes)");
  nvtxMemHeapUnregister(nullptr, heap);
}

TEST_F(NvtxRegionsTest, LargerElementsOfALaterHeaderAreRead) {
  struct Later {
    nvtxMemVirtualRangeDesc_t known;
    uint64_t unknown;
  };
  const Later ranges[] = {{{64, Pointer(base_)}, 1},
                          {{64, Pointer(base_ + 128)}, 2}};
  const nvtxMemHeapHandle_t heap = Register("slab", base_, kBytes);
  auto batch = MakeDesc<nvtxMemRegionsRegisterBatch_t>();
  batch.structSize += 8;
  batch.regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
  batch.heap = heap;
  batch.regionCount = 2;
  batch.regionDescElementSize = sizeof(Later);
  batch.regionDescElements = ranges;
  nvtxMemRegionsRegister(nullptr, &batch);
  EXPECT_THAT(Reports(), ElementsAre());
  EXPECT_EQ(AccessAt(base_ + 128), Access::kReadWrite);
  EXPECT_EQ(AccessAt(base_ + 64), Access::kNone);
  nvtxMemHeapUnregister(nullptr, heap);
}

TEST_F(NvtxRegionsTest, MalformedCallsAreReportedAndChangeNothing) {
  nvtxMemHeapRegister(nullptr, nullptr);
  nvtxMemRegionsRegister(nullptr, nullptr);
  nvtxMemRegionsResize(nullptr, nullptr);
  nvtxMemRegionsUnregister(nullptr, nullptr);
  nvtxMemRegionsName(nullptr, nullptr);
  nvtxMemPermissionsAssign(nullptr, nullptr);
  EXPECT_THAT(Reports(), SizeIs(6));

  const nvtxMemVirtualRangeDesc_t range = {kBytes, Pointer(base_)};
  auto good = MakeDesc<nvtxMemHeapDesc_t>();
  good.usage = NVTX_MEM_HEAP_USAGE_TYPE_SUB_ALLOCATOR;
  good.type = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
  good.typeSpecificDescSize = sizeof range;
  good.typeSpecificDesc = &range;
  std::vector<nvtxMemHeapDesc_t> bad(7, good);
  bad[0].extCompatID = 0x0201;
  bad[1].structSize = 8;
  bad[2].usage = NVTX_MEM_HEAP_USAGE_UNKNOWN;
  bad[3].type = NVTX_MEM_TYPE_UNKNOWN;
  bad[4].typeSpecificDescSize = 8;
  bad[5].typeSpecificDesc = nullptr;
  const nvtxMemVirtualRangeDesc_t empty = {0, Pointer(base_)};
  bad[6].typeSpecificDesc = &empty;
  for (const auto& desc : bad) nvtxMemHeapRegister(nullptr, &desc);
  EXPECT_THAT(Reports(), SizeIs(7));
  EXPECT_EQ(space_.regions().heap_count(), 0);

  const nvtxMemHeapHandle_t heap = nvtxMemHeapRegister(nullptr, &good);
  auto batch = MakeDesc<nvtxMemRegionsRegisterBatch_t>();
  batch.regionType = NVTX_MEM_TYPE_VIRTUAL_ADDRESS;
  batch.heap = heap;
  batch.regionCount = ~size_t{0};
  batch.regionDescElementSize = sizeof range;
  batch.regionDescElements = &range;
  nvtxMemRegionsRegister(nullptr, &batch);
  batch.regionCount = 1;
  batch.regionDescElementSize = 4;
  nvtxMemRegionsRegister(nullptr, &batch);
  batch.regionDescElementSize = sizeof range;
  batch.regionDescElements = nullptr;
  nvtxMemRegionsRegister(nullptr, &batch);
  EXPECT_THAT(Reports(), SizeIs(3));
  EXPECT_TRUE(space_.regions().pieces()->empty());
  nvtxMemHeapUnregister(nullptr, heap);
}

TEST_F(NvtxRegionsTest, TheExtensionIsTakenOnlyInTheFormThatIsKnown) {
  intptr_t slots[NVTX3EXT_CBID_nvtxMemPermissionsCreate + 1] = {};
  nvtxExtModuleSegment_t segment = {1, 4, slots};
  nvtxExtModuleInfo_t good = {};
  good.structSize = sizeof good;
  good.moduleId = NVTX_EXT_MODULEID_MEM;
  good.compatId = NVTX_EXT_COMPATID_MEM;
  good.segmentsCount = 1;
  good.segments = &segment;
  EXPECT_EQ(InitializeInjectionNvtxExtension(nullptr), 0);
  std::vector<nvtxExtModuleInfo_t> bad(5, good);
  bad[0].structSize = 4;
  bad[1].moduleId = 99;
  bad[2].compatId = 0x0201;
  bad[3].segments = nullptr;
  bad[4].segmentsCount = 0;
  for (auto& module : bad) {
    EXPECT_EQ(InitializeInjectionNvtxExtension(&module), 0);
  }
  EXPECT_EQ(slots[0], 0);
  EXPECT_EQ(InitializeInjectionNvtxExtension(&good), 1);
  EXPECT_NE(slots[NVTX3EXT_CBID_nvtxMemRegionsRegister], 0);
  EXPECT_EQ(slots[NVTX3EXT_CBID_nvtxMemRegionsResize], 0)
      << "beyond the four slots that the client has";
}

}  // namespace
}  // namespace softcuda::memory
