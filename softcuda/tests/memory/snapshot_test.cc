// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "memory/snapshot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace softcuda::memory {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kAlloc = 0x10000000;    // 1000 bytes
constexpr uint64_t kMapping = 0x20000000;  // two mappings of 0x1000
constexpr uint64_t kReservationBytes = 0x4000;
constexpr uint64_t kBase =
    kMapping;  // over the first mapping and half the next

// An allocation, a reservation with two mappings, and a sub-allocator's heap
// that lies over them: 'a', a gap of 64, 'b' across the mappings, the rest.
class SnapshotTest : public ::testing::Test {
 protected:
  static Range MakeRange(uint64_t begin, uint64_t bytes, RangeKind kind,
                         Access access = Access::kReadWrite) {
    Range range;
    range.begin = begin;
    range.end = begin + bytes;
    range.kind = kind;
    range.access = access;
    range.block = PhysicalBlock::CreateForForeignMemory(bytes);
    range.buffer_id = 7;
    return range;
  }

  void Build() {
    tables_.ranges = {MakeRange(kAlloc, 1000, RangeKind::kDeviceAlloc),
                      MakeRange(kMapping, 0x1000, RangeKind::kVmmMapping),
                      MakeRange(kMapping + 0x1000, 0x1000,
                                RangeKind::kVmmMapping, second_access_)};
    tables_.reservations = {{kMapping, kMapping + kReservationBytes}};
    tables_.freed = {{0x30000000, 0x30000100, "device allocation 3"}};
    regions_.RegisterHeap("arena", kBase, 0x1800,
                          RegionTable::Usage::kSubAllocator);
    AddRegion("a", kBase, 64);
    AddRegion("b", kBase + 128, 0x1000);
    tables_.pieces = regions_.pieces();
    snapshot_ = std::make_unique<Snapshot>(tables_);
  }
  void AddRegion(const std::string& name, uint64_t base, uint64_t bytes) {
    ASSERT_TRUE(regions_.AddRegion(kBase, base, bytes));
    ASSERT_TRUE(regions_.NameRegion(base, name));
  }

  Interval At(uint64_t address) {
    Interval interval;
    EXPECT_TRUE(snapshot_->Resolve(address, &interval));
    return interval;
  }
  std::string Text(uint64_t address, uint64_t bytes = 1) {
    return snapshot_->Describe(address, bytes);
  }

  Access second_access_ = Access::kReadWrite;
  Snapshot::Tables tables_;
  RegionTable regions_;
  std::unique_ptr<Snapshot> snapshot_;
};

TEST_F(SnapshotTest, IntervalsEndWhereTheAnswerChanges) {
  Build();
  const struct {
    uint64_t address, begin, end;
    Access access;
  } cases[] = {
      {kAlloc + 999, kAlloc, kAlloc + 1000, Access::kReadWrite},
      {kBase + 10, kBase, kBase + 64, Access::kReadWrite},
      {kBase + 64, kBase + 64, kBase + 128, Access::kNone},
      // 'b' is cut where the physical block changes.
      {kBase + 128, kBase + 128, kBase + 0x1000, Access::kReadWrite},
      {kBase + 0x1000, kBase + 0x1000, kBase + 0x1080, Access::kReadWrite},
      {kBase + 0x1080, kBase + 0x1080, kBase + 0x1800, Access::kNone},
      // Mapped, but behind the heap.
      {kBase + 0x1800, kBase + 0x1800, kBase + 0x2000, Access::kReadWrite},
  };
  for (const auto& c : cases) {
    const Interval interval = At(c.address);
    EXPECT_EQ(interval.begin, c.begin) << std::hex << c.address;
    EXPECT_EQ(interval.end, c.end) << std::hex << c.address;
    EXPECT_EQ(interval.access, c.access) << std::hex << c.address;
    EXPECT_TRUE(interval.Contains(c.address, 1));
    EXPECT_FALSE(interval.Contains(c.end, 1));
    EXPECT_EQ(interval.shadow, nullptr);
  }
}

TEST_F(SnapshotTest, NothingResolvesWhereNothingIs) {
  Build();
  for (const uint64_t address :
       {uint64_t{0}, kAlloc - 1, kAlloc + 1000, kMapping + 0x2000,
        uint64_t{0x30000000}, ~uint64_t{0}}) {
    Interval interval;
    EXPECT_FALSE(snapshot_->Resolve(address, &interval));
    EXPECT_FALSE(interval.Contains(address, 1));
  }
}

TEST_F(SnapshotTest, TheShadowBelongsToTheBlock) {
  Build();
  InitShadow* const shadow =
      tables_.ranges[2].block->EnsureShadow(/*starts_undefined=*/false);
  const Interval interval = At(kBase + 0x1040);
  EXPECT_EQ(interval.shadow, shadow);
  EXPECT_EQ(interval.shadow_offset, 0u);
  EXPECT_EQ(At(kBase + 0x1900).shadow_offset, 0x800u);
  EXPECT_EQ(At(kBase + 0x900).shadow, nullptr);
}

TEST_F(SnapshotTest, DescribesRegionsByName) {
  Build();
  EXPECT_EQ(Text(kBase + 16, 4), "a+0x10 (64 bytes)");
  EXPECT_EQ(Text(kBase + 62, 4),
            "a+0x3e (64 bytes), running 2 bytes past its end");
  EXPECT_EQ(Text(kBase + 64),
            "1 byte past the end of 'a' (64 bytes) and 64 bytes before 'b', in "
            "heap 'arena'");
  EXPECT_EQ(Text(kBase + 127),
            "64 bytes past the end of 'a' (64 bytes) and 1 byte before 'b', in "
            "heap 'arena'");
  EXPECT_EQ(Text(kBase + 0x1080),
            "1 byte past the end of 'b' (4096 bytes), in heap 'arena'");
}

TEST_F(SnapshotTest, DescribesAllocationsAndWhatLiesAround) {
  Build();
  EXPECT_EQ(Text(kAlloc + 0x10), "device allocation 7+0x10 (1000 bytes)");
  EXPECT_EQ(Text(kAlloc + 1001),
            "2 bytes past the end of device allocation 7 (1000 bytes)");
  EXPECT_EQ(Text(kAlloc - 8), "8 bytes before device allocation 7");
  EXPECT_EQ(Text(0x30000010),
            "0x10 bytes into freed device allocation 3 (256 bytes)");
  EXPECT_EQ(Text(kMapping + 0x3000),
            "not mapped: 0x3000 bytes into the reservation at 0x20000000 "
            "(16384 bytes), 4097 bytes past the end of mapping 0x20001000 "
            "(4096 bytes)");
  EXPECT_EQ(Text(0), "null pointer+0x0");
  EXPECT_EQ(Text(0x7000000000),
            "outside every allocation, mapping and pinned buffer");
}

TEST_F(SnapshotTest, SaysWhyARegionCannotBeUsed) {
  second_access_ = Access::kNone;
  Build();
  EXPECT_EQ(Text(kBase + 0x1040),
            "b+0xfc0 (4096 bytes), mapped but no access set (cuMemSetAccess)");
  tables_.ranges.pop_back();
  snapshot_ = std::make_unique<Snapshot>(tables_);
  EXPECT_EQ(Text(kBase + 0x1040), "b+0xfc0 (4096 bytes), not mapped");
  regions_.SetRegionAccess(kBase, Access::kRead);
  tables_.pieces = regions_.pieces();
  snapshot_ = std::make_unique<Snapshot>(tables_);
  EXPECT_EQ(Text(kBase), "a+0x0 (64 bytes), read-only");
  EXPECT_EQ(At(kBase).access, Access::kRead);
}

TEST_F(SnapshotTest, TheHostSeesMappingsAndNotRegions) {
  Build();
  std::string why;
  EXPECT_EQ(snapshot_->CheckRange(kMapping, 0x2000, true, &why), CUDA_SUCCESS)
      << "over the gap and both mappings";
  EXPECT_EQ(snapshot_->CheckRange(kMapping, 0x2001, true, &why),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(why, HasSubstr("not mapped"));
  EXPECT_EQ(snapshot_->CheckRange(kAlloc, 1001, false, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(snapshot_->CheckRange(kAlloc + 1, ~uint64_t{0}, false, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(snapshot_->CheckRange(12345, 0, true, nullptr), CUDA_SUCCESS);
}

TEST_F(SnapshotTest, TheHostNeedsAccessToo) {
  second_access_ = Access::kRead;
  Build();
  EXPECT_EQ(snapshot_->CheckRange(kMapping, 0x2000, false, nullptr),
            CUDA_SUCCESS);
  std::string why;
  EXPECT_EQ(snapshot_->CheckRange(kMapping, 0x2000, true, &why),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_THAT(why, HasSubstr("read-only"));
}

TEST_F(SnapshotTest, WritesDefineAndCopiesCarryTheUndefined) {
  Build();
  tables_.ranges[0].block->EnsureShadow(/*starts_undefined=*/true);
  EXPECT_EQ(snapshot_->FindUndefined(kAlloc, 1000), kAlloc);
  snapshot_->NoteWrite(kAlloc, 100);
  EXPECT_EQ(snapshot_->FindUndefined(kAlloc, 1000), kAlloc + 100);
  // Across two blocks, neither of which had a shadow.
  snapshot_->NoteCopy(kMapping + 0x1000 - 50, kAlloc + 50, 100);
  EXPECT_EQ(snapshot_->FindUndefined(kMapping, 0x1000), InitShadow::npos);
  EXPECT_EQ(snapshot_->FindUndefined(kMapping, 0x2000), kMapping + 0x1000);
  EXPECT_EQ(snapshot_->FindUndefined(kMapping + 0x1000 + 50, 0x100),
            InitShadow::npos);
  // From memory that softcuda does not know: defined.
  snapshot_->NoteCopy(kMapping + 0x1000, 0x7000000000, 0x1000);
  EXPECT_EQ(snapshot_->FindUndefined(kMapping, 0x2000), InitShadow::npos);
}

TEST_F(SnapshotTest, OverlappingCopiesMoveTheMarksLikeMemmove) {
  Build();
  for (const size_t i : {size_t{1}, size_t{2}})
    tables_.ranges[i].block->EnsureShadow(false);
  const auto mark = [&](uint64_t offset) {
    tables_.ranges[1 + offset / 0x1000].block->shadow()->MarkUndefined(
        offset % 0x1000, 1);
  };
  for (const int64_t shift : {-0x500, -3, 5, 0x700}) {
    snapshot_->NoteWrite(kMapping, 0x2000);
    const uint64_t from = 0x700;
    const std::vector<uint64_t> marks = {0x700, 0x901, 0xFFF, 0x1000, 0x12FE};
    for (const uint64_t at : marks) mark(at);
    const uint64_t to = from + static_cast<uint64_t>(shift);
    snapshot_->NoteCopy(kMapping + to, kMapping + from, 0xC00);
    for (uint64_t i = 0; i < 0xC00; ++i) {
      bool expected = false;
      for (const uint64_t at : marks) expected |= at == from + i;
      ASSERT_EQ(
          snapshot_->FindUndefined(kMapping + to + i, 1) != InitShadow::npos,
          expected)
          << "shift " << shift << " byte " << i;
    }
  }
}

}  // namespace
}  // namespace softcuda::memory
