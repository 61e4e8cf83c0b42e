// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/step_echo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tests/support/status_matchers.h"

namespace permafrost {
namespace {

using ::permafrost::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(StepEchoTest, TheStepsOwnUploadPasses) {
  EXPECT_OK(CheckStepEcho(7, 7));
  EXPECT_OK(CheckStepEcho(StepEcho{7, 99}, StepEcho{7, 99}));
}

TEST(StepEchoTest, AStaleUploadIsNamed) {
  EXPECT_THAT(CheckStepEcho(7, 6),
              StatusIs(absl::StatusCode::kDataLoss,
                       AllOf(HasSubstr("got 6, expected 7"),
                             HasSubstr("stale block"))));
}

TEST(StepEchoTest, ARewrittenSlotIsNamed) {
  EXPECT_THAT(CheckStepEcho(7, 8),
              StatusIs(absl::StatusCode::kDataLoss,
                       AllOf(HasSubstr("got 8, expected 7"),
                             HasSubstr("rewritten before its copy ran"))));
}

TEST(StepEchoTest, ATornUploadIsNamed) {
  EXPECT_THAT(
      CheckStepEcho(StepEcho{7, 99}, StepEcho{7, 98}),
      StatusIs(absl::StatusCode::kDataLoss,
               AllOf(HasSubstr("got 98, expected 99"), HasSubstr("torn"))));
}

TEST(StepEchoTest, TheSumIsOfWordsTimesTheirPlaces) {
  std::vector<uint32_t> words(67, 0);
  words[64] = 3;
  words[66] = 0xffffffff;
  EXPECT_EQ(DecodeMetaBodySum(absl::MakeConstSpan(
                reinterpret_cast<const std::byte*>(words.data()), 67 * 4)),
            65u * 3 + 67u * uint64_t{0xffffffff});
}

TEST(StepEchoTest, TheSumChangesWithEveryByteBehindTheHeader) {
  std::vector<std::byte> block(1024);
  for (size_t i = 0; i < block.size(); ++i) {
    block[i] = static_cast<std::byte>(i * 37);
  }
  const uint64_t sum = DecodeMetaBodySum(block);
  for (size_t i = 0; i < block.size(); ++i) {
    block[i] ^= std::byte{0x40};
    EXPECT_EQ(DecodeMetaBodySum(block) == sum, i < 256) << i;
    block[i] ^= std::byte{0x40};
  }
  // Words that changed places are found too.
  std::swap_ranges(block.begin() + 300, block.begin() + 304,
                   block.begin() + 512);
  EXPECT_NE(DecodeMetaBodySum(block), sum);
}

}  // namespace
}  // namespace permafrost
