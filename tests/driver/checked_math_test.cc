// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0

#include "permafrost/driver/checked_math.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace permafrost {
namespace {

using ::testing::Eq;
using ::testing::Optional;

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

TEST(CheckedMathTest, ExactUpToTheLargestValue) {
  EXPECT_THAT(CheckedMul(int64_t{1} << 31, int64_t{1} << 31),
              Optional(int64_t{1} << 62));
  EXPECT_THAT(CheckedMul(kMax, 1), Optional(kMax));
  EXPECT_THAT(CheckedMul(kMax, 0), Optional(0));
  EXPECT_THAT(CheckedAdd(kMax - 5, 5), Optional(kMax));
  EXPECT_THAT(CheckedAlignUp(kMax - 255, 256), Optional(kMax - 255));
}

TEST(CheckedMathTest, OverflowIsNothing) {
  EXPECT_THAT(CheckedMul(int64_t{1} << 32, int64_t{1} << 31), Eq(std::nullopt));
  EXPECT_THAT(CheckedAdd(kMax, 1), Eq(std::nullopt));
  EXPECT_THAT(CheckedAlignUp(kMax, 256), Eq(std::nullopt));
}

TEST(CheckedMathTest, NegativeOperandsAreNothing) {
  EXPECT_THAT(CheckedMul(-1, -1), Eq(std::nullopt));
  EXPECT_THAT(CheckedMul(0, -1), Eq(std::nullopt));
  EXPECT_THAT(CheckedMul(kMin, 1), Eq(std::nullopt));
  EXPECT_THAT(CheckedAdd(-1, 2), Eq(std::nullopt));
  EXPECT_THAT(CheckedAdd(2, -1), Eq(std::nullopt));
  EXPECT_THAT(CheckedAlignUp(-1, 256), Eq(std::nullopt));
  EXPECT_THAT(CheckedAlignUp(1, 0), Eq(std::nullopt));
  EXPECT_THAT(CheckedAlignUp(1, -256), Eq(std::nullopt));
}

TEST(CheckedMathTest, AlignUpIsTheSmallestMultiple) {
  EXPECT_THAT(CheckedAlignUp(0, 256), Optional(0));
  EXPECT_THAT(CheckedAlignUp(1, 256), Optional(256));
  EXPECT_THAT(CheckedAlignUp(256, 256), Optional(256));
  EXPECT_THAT(CheckedAlignUp(257, 256), Optional(512));
  EXPECT_THAT(CheckedAlignUp(7, 3), Optional(9));
}

}  // namespace
}  // namespace permafrost
