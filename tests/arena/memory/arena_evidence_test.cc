// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <utility>

#include "tests/arena/memory/arena_fixture.h"

namespace permafrost {
namespace {

using ::permafrost::testing::kSmallPlanBytes;
using ::permafrost::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ArenaEvidenceTest : public ::permafrost::testing::ArenaTest {};
PERMAFROST_ON_BOTH_MEMORIES(ArenaEvidenceTest);

TEST_P(ArenaEvidenceTest, ReadBackTellsWhatTheDriverHas) {
  ASSERT_OK_AND_ASSIGN(const FrozenArena arena, CreateFrozen());
  ASSERT_OK_AND_ASSIGN(const ArenaEvidence evidence, arena.ReadBack());
  EXPECT_EQ(evidence.fingerprint, arena.fingerprint());
  ASSERT_EQ(evidence.buffers.size(), 4u);  // the absent one has no memory
  std::set<uint64_t> blocks;
  for (const BufferEvidence& buffer : evidence.buffers) {
    ASSERT_OK_AND_ASSIGN(const BufferRef planned,
                         arena.view().Find(buffer.name));
    EXPECT_EQ(buffer.base, planned.base);
    EXPECT_EQ(buffer.bytes, planned.bytes);
    EXPECT_TRUE(buffer.mapped);
    EXPECT_LE(buffer.mapping_base, buffer.base);
    EXPECT_GE(buffer.mapping_base + buffer.mapping_bytes,
              buffer.base + buffer.bytes);
    EXPECT_NE(buffer.block_id, 0u);
    blocks.insert(buffer.block_id);
  }
  // One block of memory for each of the two segments, or one for all.
  EXPECT_EQ(blocks.size(), GetParam() ? 2u : 1u);
}

TEST_P(ArenaEvidenceTest, FingerprintsTellArenasApart) {
  ASSERT_OK_AND_ASSIGN(const FrozenArena a, CreateFrozen());
  ASSERT_OK_AND_ASSIGN(const FrozenArena b, CreateFrozen());
  EXPECT_NE(a.fingerprint(), b.fingerprint());
}

TEST_P(ArenaEvidenceTest, AnUntouchedArenaIsStable) {
  ASSERT_OK_AND_ASSIGN(const FrozenArena arena, CreateFrozen());
  for (int i = 0; i < 3; ++i) EXPECT_OK(arena.VerifyStable());
}

// A driver that answers one question about pointers falsely, when told to.
CUpointer_attribute lie_about = CU_POINTER_ATTRIBUTE_CONTEXT;
uint64_t lie_offset = 0;
PFN_cuPointerGetAttribute_v4000 honest_pointer_get_attribute = nullptr;

CUresult LyingPointerGetAttribute(void* data, CUpointer_attribute attribute,
                                  CUdeviceptr pointer) {
  const CUresult result =
      honest_pointer_get_attribute(data, attribute, pointer);
  if (attribute == lie_about) *static_cast<uint64_t*>(data) += lie_offset;
  return result;
}

TEST_P(ArenaEvidenceTest, EachPartOfTheEvidenceIsComparedAndNamed) {
  DriverApi api = driver()->api();
  honest_pointer_get_attribute = api.PointerGetAttribute;
  api.PointerGetAttribute = &LyingPointerGetAttribute;
  ASSERT_OK_AND_ASSIGN(const ContextRef lying,
                       Context::RetainPrimary(Driver::WithApi(driver(), api)));
  ASSERT_OK_AND_ASSIGN(
      Arena arena,
      Arena::Create(lying, ::permafrost::testing::SmallPlan(), Options()));
  ASSERT_OK_AND_ASSIGN(const FrozenArena frozen, std::move(arena).Freeze());
  const struct {
    CUpointer_attribute mapped;
    CUpointer_attribute allocated;
    const char* text;
  } cases[] = {{CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID,
                CU_POINTER_ATTRIBUTE_BUFFER_ID, "memory block id was"},
               {CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR,
                CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, "address was"},
               {CU_POINTER_ATTRIBUTE_MAPPING_SIZE,
                CU_POINTER_ATTRIBUTE_RANGE_SIZE, "mapping size was"}};
  lie_offset = 256;
  for (const auto& one : cases) {
    lie_about = GetParam() ? one.mapped : one.allocated;
    EXPECT_THAT(frozen.VerifyStable(),
                StatusIs(absl::StatusCode::kInternal,
                         AllOf(HasSubstr("'scratch'"), HasSubstr(one.text),
                               HasSubstr("4 of 4 buffers"))));
  }
  lie_about = CU_POINTER_ATTRIBUTE_CONTEXT;
  EXPECT_OK(frozen.VerifyStable());
}

// Tests of memory that changes for real: only a mapping can change in place.
class ArenaRemapTest : public ::permafrost::testing::ArenaTest {
 protected:
  void SetUp() override {
    ArenaTest::SetUp();
    if (HasFatalFailure()) return;
    retain_handle_ = reinterpret_cast<PFN_cuMemRetainAllocationHandle_v11000>(
        driver()->FindSymbol("cuMemRetainAllocationHandle"));
    ASSERT_NE(retain_handle_, nullptr);
  }

  // Puts `handle` where `old` mapping lies, as other code in the process might.
  void Remap(DevicePtr base, int64_t bytes,
             CUmemGenericAllocationHandle handle) {
    const size_t size = static_cast<size_t>(bytes);
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = context()->device();
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    ASSERT_EQ(api().MemUnmap(base.value(), size), CUDA_SUCCESS);
    ASSERT_EQ(api().MemMap(base.value(), size, 0, handle, 0), CUDA_SUCCESS);
    ASSERT_EQ(api().MemSetAccess(base.value(), size, &access, 1), CUDA_SUCCESS);
  }

  CUmemGenericAllocationHandle NewHandle(int64_t bytes) {
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = context()->device();
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(api().MemCreate(&handle, static_cast<size_t>(bytes), &prop, 0),
              CUDA_SUCCESS);
    return handle;
  }

  PFN_cuMemRetainAllocationHandle_v11000 retain_handle_ = nullptr;
};
INSTANTIATE_TEST_SUITE_P(Memory, ArenaRemapTest, ::testing::Values(true),
                         ::permafrost::testing::MemoryName);

TEST_P(ArenaRemapTest, OtherMemoryAtTheSameAddressIsFoundAndNamed) {
  ASSERT_OK_AND_ASSIGN(FrozenArena arena, CreateFrozen());
  const PlannedSegment slab = arena.view().plan().segments()[1];
  ASSERT_EQ(slab.tag, "slab");
  const DevicePtr base = arena.view().base() + slab.offset_bytes;
  {
    const Context::Scope scope = context()->MakeCurrent();
    const CUmemGenericAllocationHandle other = NewHandle(slab.bytes);
    Remap(base, slab.bytes, other);
    ASSERT_EQ(api().MemRelease(other), CUDA_SUCCESS);
  }
  EXPECT_EQ(arena.view().base() + slab.offset_bytes, base);
  EXPECT_THAT(
      arena.VerifyStable(),
      StatusIs(
          absl::StatusCode::kInternal,
          AllOf(HasSubstr("'counters'"), HasSubstr("memory block id was"),
                HasSubstr("2 of 4 buffers"), Not(HasSubstr("address was")))));
  EXPECT_OK(arena.Release());
}

TEST_P(ArenaRemapTest, TheSameMemoryMappedAgainIsTheCleanTwin) {
  ASSERT_OK_AND_ASSIGN(FrozenArena arena, CreateFrozen());
  const PlannedSegment slab = arena.view().plan().segments()[1];
  const DevicePtr base = arena.view().base() + slab.offset_bytes;
  {
    const Context::Scope scope = context()->MakeCurrent();
    CUmemGenericAllocationHandle same = 0;
    ASSERT_EQ(retain_handle_(&same, reinterpret_cast<void*>(base.value())),
              CUDA_SUCCESS);
    Remap(base, slab.bytes, same);
    ASSERT_EQ(api().MemRelease(same), CUDA_SUCCESS);
  }
  EXPECT_OK(arena.VerifyStable());
  EXPECT_OK(arena.Release());
}

TEST_P(ArenaRemapTest, ASegmentMappedInTwoPiecesIsFound) {
  ASSERT_OK_AND_ASSIGN(FrozenArena arena, CreateFrozen());
  const PlannedSegment step = arena.view().plan().segments()[0];
  ASSERT_EQ(step.bytes, int64_t{4} << 20);
  const DevicePtr base = arena.view().base() + step.offset_bytes;
  const int64_t half = step.bytes / 2;
  {
    const Context::Scope scope = context()->MakeCurrent();
    ASSERT_EQ(api().MemUnmap(base.value(), static_cast<size_t>(step.bytes)),
              CUDA_SUCCESS);
    for (int i = 0; i < 2; ++i) {
      const CUmemGenericAllocationHandle piece = NewHandle(half);
      ASSERT_EQ(api().MemMap((base + i * half).value(),
                             static_cast<size_t>(half), 0, piece, 0),
                CUDA_SUCCESS);
      ASSERT_EQ(api().MemRelease(piece), CUDA_SUCCESS);
    }
  }
  // 'scratch' begins in the first piece, 'tables' in the second.
  EXPECT_THAT(arena.VerifyStable(),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("'scratch'"),
                             HasSubstr("mapping size was 4194304"),
                             HasSubstr("2 of 4 buffers"))));
  EXPECT_OK(arena.Release());
}

TEST_P(ArenaRemapTest, MemoryThatIsGoneIsFoundAndNamed) {
  ASSERT_OK_AND_ASSIGN(FrozenArena arena, CreateFrozen());
  const PlannedSegment slab = arena.view().plan().segments()[1];
  const DevicePtr base = arena.view().base() + slab.offset_bytes;
  {
    const Context::Scope scope = context()->MakeCurrent();
    ASSERT_EQ(api().MemUnmap(base.value(), static_cast<size_t>(slab.bytes)),
              CUDA_SUCCESS);
  }
  EXPECT_THAT(arena.VerifyStable(),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("'counters'"),
                             HasSubstr("no memory is mapped"))));
  {
    // Give the arena back what it will unmap.
    const Context::Scope scope = context()->MakeCurrent();
    const CUmemGenericAllocationHandle other = NewHandle(slab.bytes);
    ASSERT_EQ(api().MemMap(base.value(), static_cast<size_t>(slab.bytes), 0,
                           other, 0),
              CUDA_SUCCESS);
    ASSERT_EQ(api().MemRelease(other), CUDA_SUCCESS);
  }
  EXPECT_OK(arena.Release());
}

TEST_P(ArenaRemapTest, AnArenaWhoseMemoryIsGoneCannotBeFrozen) {
  ASSERT_OK_AND_ASSIGN(Arena arena, CreateSmall());
  const PlannedSegment slab = arena.view().plan().segments()[1];
  const DevicePtr base = arena.view().base() + slab.offset_bytes;
  const Context::Scope scope = context()->MakeCurrent();
  ASSERT_EQ(api().MemUnmap(base.value(), static_cast<size_t>(slab.bytes)),
            CUDA_SUCCESS);
  EXPECT_THAT(std::move(arena).Freeze(),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("'counters'"), HasSubstr("no memory"))));
  // NOLINTBEGIN(bugprone-use-after-move): a failed freeze leaves the arena
  EXPECT_EQ(arena.live_bytes(), kSmallPlanBytes);
  const CUmemGenericAllocationHandle other = NewHandle(slab.bytes);
  ASSERT_EQ(
      api().MemMap(base.value(), static_cast<size_t>(slab.bytes), 0, other, 0),
      CUDA_SUCCESS);
  ASSERT_EQ(api().MemRelease(other), CUDA_SUCCESS);
  EXPECT_OK(arena.Release());
  // NOLINTEND(bugprone-use-after-move)
}

}  // namespace
}  // namespace permafrost
