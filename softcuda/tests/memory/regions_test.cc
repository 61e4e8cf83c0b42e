// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "memory/regions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "check/report.h"

namespace softcuda::memory {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kHeap = 0x10000;
constexpr uint64_t kHeapBytes = 0x1000;

class RegionTableTest : public ::testing::Test {
 protected:
  void SetUp() override {
    check::Reporter::Get().set_quiet(true);
    check::Reporter::Get().TakeTexts();
  }
  std::vector<std::string> Reports() {
    return check::Reporter::Get().TakeTexts();
  }
  std::string Shape() {
    std::string text;
    for (const Piece& piece : *table_.pieces()) {
      text += (piece.is_gap ? "-" : piece.name) + ":" +
              std::to_string(piece.end - piece.begin) +
              (piece.is_gap || piece.access == Access::kReadWrite ? "" : "!") +
              " ";
    }
    return text;
  }
  RegionTable table_;
};

TEST_F(RegionTableTest, AHeapWithoutRegionsClosesNothing) {
  ASSERT_EQ(table_.RegisterHeap("h", kHeap, kHeapBytes,
                                RegionTable::Usage::kSubAllocator),
            kHeap);
  EXPECT_TRUE(table_.pieces()->empty());
}

TEST_F(RegionTableTest, GapsOfASubAllocatorAreClosed) {
  table_.RegisterHeap("h", kHeap, kHeapBytes,
                      RegionTable::Usage::kSubAllocator);
  ASSERT_TRUE(table_.AddRegion(kHeap, kHeap, 256));
  ASSERT_TRUE(table_.AddRegion(kHeap, kHeap + 512, 64));
  ASSERT_TRUE(table_.NameRegion(kHeap, "a"));
  ASSERT_TRUE(table_.NameRegion(kHeap + 512, "b"));
  EXPECT_EQ(Shape(), "a:256 -:256 b:64 -:3520 ");
  for (const Piece& piece : *table_.pieces()) {
    EXPECT_EQ(piece.access, piece.is_gap ? Access::kNone : Access::kReadWrite);
  }
  ASSERT_TRUE(table_.ResizeRegion(kHeap, 512));
  ASSERT_TRUE(table_.SetRegionAccess(kHeap + 512, Access::kRead));
  EXPECT_EQ(Shape(), "a:512 b:64! -:3520 ");
  ASSERT_TRUE(table_.SetRegionAccess(kHeap + 512, std::nullopt));
  ASSERT_TRUE(table_.RemoveRegion(kHeap));
  EXPECT_EQ(Shape(), "-:512 b:64 -:3520 ");
  ASSERT_TRUE(table_.ResetHeap(kHeap));
  EXPECT_EQ(Shape(), "");
  ASSERT_TRUE(table_.UnregisterHeap(kHeap));
  EXPECT_EQ(table_.heap_count(), 0);
  EXPECT_THAT(Reports(), ElementsAre());
}

TEST_F(RegionTableTest, ALayoutHeapOnlyNames) {
  table_.RegisterHeap("h", kHeap, kHeapBytes, RegionTable::Usage::kLayout);
  ASSERT_TRUE(table_.AddRegion(kHeap, kHeap + 256, 256));
  table_.NameRegion(kHeap + 256, "a");
  EXPECT_EQ(Shape(), "a:256 ");
}

TEST_F(RegionTableTest, OldTablesDoNotChange) {
  table_.RegisterHeap("h", kHeap, kHeapBytes,
                      RegionTable::Usage::kSubAllocator);
  table_.AddRegion(kHeap, kHeap, 256);
  const auto old = table_.pieces();
  EXPECT_EQ(table_.pieces(), old) << "no change, no new table";
  table_.AddRegion(kHeap, kHeap + 256, 256);
  EXPECT_EQ(old->size(), 2u);
  EXPECT_NE(table_.pieces(), old);
}

TEST_F(RegionTableTest, OverlapsAreRefusedByName) {
  table_.RegisterHeap("h", kHeap, kHeapBytes,
                      RegionTable::Usage::kSubAllocator);
  table_.AddRegion(kHeap, kHeap + 256, 256);
  table_.NameRegion(kHeap + 256, "a");
  EXPECT_FALSE(table_.AddRegion(kHeap, kHeap + 511, 1));
  EXPECT_FALSE(table_.AddRegion(kHeap, kHeap, 257));
  EXPECT_FALSE(table_.AddRegion(kHeap, kHeap + 256, 256));
  EXPECT_TRUE(table_.AddRegion(kHeap, kHeap + 512, 256));
  EXPECT_FALSE(table_.ResizeRegion(kHeap + 256, 257));
  EXPECT_THAT(Reports(), ElementsAre(HasSubstr("overlaps region 'a'"),
                                     HasSubstr("overlaps region 'a'"),
                                     HasSubstr("overlaps region 'a'"),
                                     HasSubstr("'a' resized")));
  EXPECT_FALSE(table_.RegisterHeap("i", kHeap + kHeapBytes - 1, 10,
                                   RegionTable::Usage::kLayout));
  EXPECT_THAT(Reports(), ElementsAre(HasSubstr("overlaps heap 'h'")));
}

TEST_F(RegionTableTest, RegionsStayInTheirHeap) {
  table_.RegisterHeap("h", kHeap, kHeapBytes,
                      RegionTable::Usage::kSubAllocator);
  EXPECT_FALSE(table_.AddRegion(kHeap, kHeap - 1, 10));
  EXPECT_FALSE(table_.AddRegion(kHeap, kHeap + 1, kHeapBytes));
  EXPECT_FALSE(table_.AddRegion(kHeap, kHeap + kHeapBytes, 1));
  EXPECT_FALSE(table_.AddRegion(kHeap, kHeap, 0));
  EXPECT_FALSE(table_.AddRegion(kHeap, kHeap + 8, ~uint64_t{0}));
  EXPECT_FALSE(table_.AddRegion(kHeap + 1, kHeap, 16)) << "no such heap";
  EXPECT_EQ(Reports().size(), 6u);
  EXPECT_FALSE(table_.UnregisterHeap(kHeap + 1));
  EXPECT_FALSE(table_.RemoveRegion(kHeap));
  EXPECT_FALSE(table_.NameRegion(kHeap, "x"));
  EXPECT_TRUE(table_.AddRegion(kHeap, kHeap, kHeapBytes));
}

TEST_F(RegionTableTest, ProcessWideRegionsLieOutsideHeaps) {
  table_.RegisterHeap("h", kHeap, kHeapBytes,
                      RegionTable::Usage::kSubAllocator);
  EXPECT_FALSE(
      table_.AddRegion(RegionTable::kProcessWide, kHeap + kHeapBytes - 1, 2));
  EXPECT_TRUE(
      table_.AddRegion(RegionTable::kProcessWide, kHeap + kHeapBytes, 2));
  table_.NameRegion(kHeap + kHeapBytes, "loose");
  EXPECT_EQ(Shape(), "loose:2 ");
  EXPECT_FALSE(table_.RegisterHeap("i", kHeap + kHeapBytes, 10,
                                   RegionTable::Usage::kLayout));
  EXPECT_TRUE(table_.RemoveRegion(kHeap + kHeapBytes));
  EXPECT_EQ(Shape(), "");
}

}  // namespace
}  // namespace softcuda::memory
