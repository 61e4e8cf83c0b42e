// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "permafrost/arena/overlay.h"

namespace permafrost {
namespace {

std::vector<ArenaRegion> Regions(std::vector<PlannedBuffer> buffers,
                                 int64_t guard_bytes) {
  return RegionsOf(ArenaPlan::FromParts(
      std::move(buffers), {}, 1 << 20,
      {.guard_bytes = guard_bytes, .overlay = Overlay::kOn}));
}

TEST(RegionsTest, BuffersByThemselvesAreRegionsInOrderOfOffset) {
  const std::vector<ArenaRegion> regions =
      Regions({{.name = "b", .offset_bytes = 512, .bytes = 100},
               {.name = "gone", .gate_reason = "no experts"},
               {.name = "a", .offset_bytes = 0, .bytes = 512}},
              0);
  ASSERT_EQ(regions.size(), 2u);
  EXPECT_EQ(regions[0].name, "a");
  EXPECT_EQ(regions[0].bytes, 512);
  EXPECT_EQ(regions[1].name, "b");
  EXPECT_EQ(regions[1].offset_bytes, 512);
  EXPECT_EQ(regions[1].bytes, 100);
}

TEST(RegionsTest, BuffersThatOverlapThroughOthersAreOneRegion) {
  // c and d share nothing, and both share with a.
  const std::vector<ArenaRegion> regions =
      Regions({{.name = "d", .offset_bytes = 768, .bytes = 1024},
               {.name = "c", .offset_bytes = 0, .bytes = 256},
               {.name = "a", .offset_bytes = 0, .bytes = 1024},
               {.name = "e", .offset_bytes = 2048, .bytes = 1}},
              0);
  ASSERT_EQ(regions.size(), 2u);
  EXPECT_EQ(regions[0].name, "a|c|d");
  EXPECT_EQ(regions[0].offset_bytes, 0);
  EXPECT_EQ(regions[0].bytes, 1792);
  EXPECT_EQ(regions[1].name, "e");
}

TEST(RegionsTest, ABufferInAnothersGuardIsInItsRegion) {
  const std::vector<PlannedBuffer> buffers = {
      {.name = "a", .offset_bytes = 0, .bytes = 200},
      {.name = "b", .offset_bytes = 256, .bytes = 200}};
  EXPECT_EQ(Regions(buffers, 0).size(), 2u);
  ASSERT_EQ(Regions(buffers, 256).size(), 1u);
  EXPECT_EQ(Regions(buffers, 256)[0].name, "a|b");
  EXPECT_EQ(Regions(buffers, 256)[0].bytes, 456);
}

}  // namespace
}  // namespace permafrost
