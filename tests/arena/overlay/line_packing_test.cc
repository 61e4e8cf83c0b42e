// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/line_packing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "support/status_matchers.h"

namespace permafrost {
namespace {

using ::permafrost::testing::kInvalid;
using ::permafrost::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

bool Overlap(const LineBuffer& a, const LineBuffer& b) {
  return a.lower < b.upper && b.lower < a.upper;
}

void ExpectSound(const std::vector<LineBuffer>& buffers,
                 const LinePacking& packing, int64_t capacity) {
  ASSERT_EQ(packing.offsets.size(), buffers.size());
  int64_t height = 0;
  for (size_t a = 0; a < buffers.size(); ++a) {
    EXPECT_GE(packing.offsets[a], 0);
    height = std::max(height, packing.offsets[a] + buffers[a].bytes);
    for (size_t b = a + 1; b < buffers.size(); ++b) {
      if (!Overlap(buffers[a], buffers[b])) continue;
      EXPECT_TRUE(packing.offsets[a] + buffers[a].bytes <= packing.offsets[b] ||
                  packing.offsets[b] + buffers[b].bytes <= packing.offsets[a])
          << buffers[a].name << " and " << buffers[b].name;
    }
  }
  EXPECT_EQ(packing.height_bytes, height);
  EXPECT_LE(height, capacity);
  EXPECT_GE(height, packing.bound_bytes);
}

LinePacking Pack(const std::vector<LineBuffer>& buffers, int64_t capacity,
                 int64_t max_nodes = 200'000) {
  const absl::StatusOr<LinePacking> packing =
      PackLine(buffers, {.capacity_bytes = capacity, .max_nodes = max_nodes});
  EXPECT_OK(packing.status());
  return packing.value_or(LinePacking());
}

/// A rectangle of time and bytes cut into buffers without waste, so that its
/// height is a capacity that they just fit into.
std::vector<LineBuffer> CutRectangle(uint64_t seed, int64_t capacity,
                                     size_t pieces) {
  struct Piece {
    int64_t lower, upper, bottom, top;
  };
  std::mt19937_64 random(seed);
  std::vector<Piece> cut = {{0, 1000, 0, capacity}};
  while (cut.size() < pieces) {
    const size_t at = static_cast<size_t>(random() % cut.size());
    Piece& piece = cut[at];
    Piece other = piece;
    if (random() % 2 == 0) {
      if (piece.upper - piece.lower < 2) continue;
      piece.upper = other.lower =
          piece.lower + 1 +
          static_cast<int64_t>(
              random() % static_cast<uint64_t>(piece.upper - piece.lower - 1));
    } else {
      if (piece.top - piece.bottom < 2) continue;
      piece.top = other.bottom =
          piece.bottom + 1 +
          static_cast<int64_t>(
              random() % static_cast<uint64_t>(piece.top - piece.bottom - 1));
    }
    cut.push_back(other);
  }
  std::vector<LineBuffer> buffers;
  for (size_t i = 0; i < cut.size(); ++i) {
    buffers.push_back({.name = "b" + std::to_string(i),
                       .lower = cut[i].lower,
                       .upper = cut[i].upper,
                       .bytes = cut[i].top - cut[i].bottom});
  }
  std::shuffle(buffers.begin(), buffers.end(), random);
  return buffers;
}

/// The lowest height there is: every order, each buffer as low as it goes on
/// those before it.
int64_t LowestHeight(const std::vector<LineBuffer>& buffers) {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  int64_t lowest = std::numeric_limits<int64_t>::max();
  do {
    std::vector<int64_t> offsets(buffers.size(), 0);
    int64_t height = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      const size_t item = order[i];
      for (size_t j = 0; j < i; ++j) {
        const size_t below = order[j];
        if (Overlap(buffers[item], buffers[below])) {
          offsets[item] =
              std::max(offsets[item], offsets[below] + buffers[below].bytes);
        }
      }
      height = std::max(height, offsets[item] + buffers[item].bytes);
    }
    lowest = std::min(lowest, height);
  } while (std::next_permutation(order.begin(), order.end()));
  return lowest;
}

TEST(LinePackingTest, BuffersOfOneMomentStandOnEachOther) {
  const std::vector<LineBuffer> buffers = {{"a", 0, 10, 4}, {"b", 0, 10, 8}};
  const LinePacking packing = Pack(buffers, 12);
  EXPECT_EQ(packing.verdict, PackingVerdict::kPacked);
  ExpectSound(buffers, packing, 12);
  EXPECT_EQ(packing.bound_bytes, 12);
}

TEST(LinePackingTest, BuffersThatTouchInTimeShareBytes) {
  const std::vector<LineBuffer> buffers = {{"a", 0, 5, 8}, {"b", 5, 9, 8}};
  const LinePacking packing = Pack(buffers, 8);
  EXPECT_EQ(packing.verdict, PackingVerdict::kPacked);
  ExpectSound(buffers, packing, 8);
}

TEST(LinePackingTest, ACapacityBelowTheBoundIsImpossible) {
  const LinePacking packing = Pack({{"a", 0, 10, 4}, {"b", 0, 10, 8}}, 11);
  EXPECT_EQ(packing.verdict, PackingVerdict::kImpossible);
  EXPECT_THAT(packing.offsets, IsEmpty());
  EXPECT_EQ(packing.bound_bytes, 12);
}

TEST(LinePackingTest, FindsThatCutRectanglesFitAgain) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<LineBuffer> buffers =
        CutRectangle(seed, 4096, 8 + static_cast<size_t>(seed % 5) * 6);
    const LinePacking packing = Pack(buffers, 4096);
    ASSERT_EQ(packing.verdict, PackingVerdict::kPacked);
    EXPECT_EQ(packing.bound_bytes, 4096);
    ExpectSound(buffers, packing, 4096);
  }
}

TEST(LinePackingTest, TellsTheLowestHeightFromOneByteLess) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 300; ++i) {
    SCOPED_TRACE(i);
    std::vector<LineBuffer> buffers;
    for (int j = 0; j < 7; ++j) {
      const int64_t lower = static_cast<int64_t>(random() % 8);
      buffers.push_back(
          {.name = "b" + std::to_string(j),
           .lower = lower,
           .upper = lower + 1 + static_cast<int64_t>(random() % 5),
           .bytes = 1 + static_cast<int64_t>(random() % 9)});
    }
    const int64_t lowest = LowestHeight(buffers);
    const LinePacking packing = Pack(buffers, lowest);
    ASSERT_EQ(packing.verdict, PackingVerdict::kPacked);
    ExpectSound(buffers, packing, lowest);
    if (lowest > 1) {
      EXPECT_EQ(Pack(buffers, lowest - 1).verdict, PackingVerdict::kImpossible);
    }
  }
}

TEST(LinePackingTest, ProvesThatTheBoundCannotAlwaysBeReached) {
  // Four bytes are needed at each moment. "left" and "right" must lie at
  // opposite ends to leave three bytes in one piece, and "middle" beside each
  // of them to leave two: it cannot be beside both.
  const std::vector<LineBuffer> buffers = {
      {"left", 0, 3, 1},   {"middle", 1, 4, 1}, {"right", 2, 5, 1},
      {"three0", 0, 1, 3}, {"two1", 1, 2, 2},   {"one2", 2, 3, 1},
      {"two3", 3, 4, 2},   {"three4", 4, 5, 3}};
  EXPECT_EQ(LowestHeight(buffers), 5);
  const LinePacking at_bound = Pack(buffers, 4);
  EXPECT_EQ(at_bound.bound_bytes, 4);
  EXPECT_EQ(at_bound.verdict, PackingVerdict::kImpossible);
  const LinePacking above = Pack(buffers, 5);
  EXPECT_EQ(above.verdict, PackingVerdict::kPacked);
  ExpectSound(buffers, above, 5);
}

TEST(LinePackingTest, GivesUpAfterTheNodesItMayVisit) {
  const std::vector<LineBuffer> buffers = CutRectangle(3, 1 << 20, 120);
  const LinePacking packing = Pack(buffers, 1 << 20, 50);
  EXPECT_EQ(packing.verdict, PackingVerdict::kGaveUp);
  EXPECT_LE(packing.nodes, 50);
  EXPECT_THAT(packing.offsets, IsEmpty());
}

TEST(LinePackingTest, TheSameArgumentsGiveTheSamePacking) {
  const std::vector<LineBuffer> buffers = CutRectangle(5, 4096, 30);
  const LinePacking once = Pack(buffers, 4096);
  const LinePacking again = Pack(buffers, 4096);
  EXPECT_EQ(once.offsets, again.offsets);
  EXPECT_EQ(once.nodes, again.nodes);
}

TEST(LinePackingTest, RefusesWhatIsNoInstance) {
  const auto status = [](std::vector<LineBuffer> buffers, int64_t capacity = 8,
                         int64_t nodes = 1) {
    return PackLine(buffers, {.capacity_bytes = capacity, .max_nodes = nodes})
        .status();
  };
  EXPECT_THAT(status({}), StatusIs(kInvalid, HasSubstr("0 buffers")));
  EXPECT_THAT(status({{"a", 0, 1, 1}}, 0),
              StatusIs(kInvalid, HasSubstr("capacity_bytes")));
  EXPECT_THAT(status({{"a", 0, 1, 1}}, 8, 0),
              StatusIs(kInvalid, HasSubstr("max_nodes")));
  EXPECT_THAT(status({{"a", 3, 3, 1}}),
              StatusIs(kInvalid, AllOf(HasSubstr("'a'"), HasSubstr("3 to 3"))));
  EXPECT_THAT(status({{"a", -1, 3, 1}}), StatusIs(kInvalid, HasSubstr("-1")));
  EXPECT_THAT(status({{"a", 0, 1, 0}}),
              StatusIs(kInvalid, HasSubstr("0 bytes")));
  EXPECT_THAT(status({{"a", 0, 1, std::numeric_limits<int64_t>::max()}}),
              StatusIs(kInvalid, HasSubstr("2^63-1")));
}

TEST(LinePackingTest, TakesAsManyBuffersAsItSaysAndNoMore) {
  std::vector<LineBuffer> buffers;
  for (int64_t i = 0; i < 1'000; ++i) {
    buffers.push_back({"b" + std::to_string(i), i / 4, i / 4 + 2, 1 + i % 7});
  }
  const LinePacking packing = Pack(buffers, 1 << 20);
  ASSERT_EQ(packing.verdict, PackingVerdict::kPacked);
  ExpectSound(buffers, packing, 1 << 20);
  // All of one moment: the deepest search there is.
  for (LineBuffer& buffer : buffers) buffer.lower = 0;
  EXPECT_EQ(Pack(buffers, 1 << 20).verdict, PackingVerdict::kPacked);
  buffers.push_back({"one more", 0, 1, 1});
  EXPECT_THAT(PackLine(buffers, {.capacity_bytes = 1 << 20}),
              StatusIs(kInvalid, HasSubstr("1001 buffers")));
}

TEST(LinePackingTest, ReadsColumnsInAnyOrder) {
  ASSERT_OK_AND_ASSIGN(
      const std::vector<LineBuffer> buffers,
      ParseLineBuffers("size,id,upper,lower\r\n4,b1,3,0\r\n\n8,b2,9,3\n", "x"));
  ASSERT_EQ(buffers.size(), 2u);
  EXPECT_EQ(buffers[0].name, "b1");
  EXPECT_EQ(buffers[0].lower, 0);
  EXPECT_EQ(buffers[0].upper, 3);
  EXPECT_EQ(buffers[0].bytes, 4);
  EXPECT_EQ(buffers[1].bytes, 8);
}

TEST(LinePackingTest, RefusesTextThatIsNoTable) {
  const auto expect = [](const std::string& csv, const std::string& message) {
    EXPECT_THAT(ParseLineBuffers(csv, "dir/x.csv"),
                StatusIs(kInvalid, AllOf(HasSubstr("dir/x.csv, line "),
                                         HasSubstr(message))))
        << csv;
  };
  const std::string header = "id,lower,upper,size\n";
  expect("", "column 'id'");
  expect("id,lower,upper\n", "column 'size'");
  expect(header, "no buffers");
  expect(header + "a,0,1\n", "3 cells");
  expect(header + "a,0,1,2,3\n", "5 cells");
  expect(header + "a,0,x,2\n", "upper: got 'x'");
  expect(header + "a,0,1,99999999999999999999\n", "size: got");
  expect(header + "a,,1,1\n", "lower: got ''");
  expect("id,id,lower,upper,size\na,a,0,1,1\n", "'id' twice");
  expect(std::string("id,lower,upper,size\0\n", 21), "column 'size'");
  expect(header + "a,0,1,1e3\n", "size: got '1e3'");
  expect(header + "\xff\xfe,0,1,\n", "size: got ''");
}

}  // namespace
}  // namespace permafrost
