// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include "permafrost/kernels/worklist_entry.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace permafrost::kernels {
namespace {

TEST(WorklistEntryTest, FieldsLieWhereTheTableSays) {
  EXPECT_EQ(PackTileEntry(1, 0, 0, 0), 0U);
  EXPECT_EQ(PackTileEntry(128, 0, 0, 0), 0x7f00000000000000U);
  EXPECT_EQ(PackTileEntry(1, 0xffffff, 0, 0), 0x00ffffff00000000U);
  EXPECT_EQ(PackTileEntry(1, 0, 0xffff, 0), 0x00000000ffff0000U);
  EXPECT_EQ(PackTileEntry(1, 0, 0, 0xffff), 0x000000000000ffffU);
}

TEST(WorklistEntryTest, EveryFieldComesBackAtItsEdges) {
  for (uint32_t rows : {1U, 2U, 127U, 128U}) {
    for (uint32_t start : {0U, 1U, 163839U, 0xffffffU}) {
      for (uint32_t expert : {0U, 1U, 1023U, 0xffffU}) {
        // 112 tiles is a hidden size of 7168, which six bits cannot hold.
        for (uint32_t n_tile : {0U, 63U, 64U, 111U, 0xffffU}) {
          const uint64_t entry = PackTileEntry(rows, start, expert, n_tile);
          ASSERT_EQ(TileEntryRows(entry), rows);
          ASSERT_EQ(TileEntryRowStart(entry), start);
          ASSERT_EQ(TileEntryExpert(entry), expert);
          ASSERT_EQ(TileEntryColumnTile(entry), n_tile);
        }
      }
    }
  }
}

}  // namespace
}  // namespace permafrost::kernels
