// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/largest_fitting.h"

#include <gtest/gtest.h>

#include <limits>

#include "support/status_matchers.h"

namespace permafrost {
namespace {

using ::permafrost::testing::StatusIs;

class LargestFittingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(config_, LoadModelConfig("mixtral-8x7b"));
  }
  int64_t Total(int64_t rows) const {
    ServingLimits limits = limits_;
    limits.max_batch_tokens = rows;
    return PlanArena(*ComputeBufferSizes(config_, limits), options_)
        ->total_bytes();
  }
  absl::StatusOr<int64_t> Fitting(int64_t free_bytes) const {
    return LargestFittingBatchTokens(config_, limits_, options_, free_bytes);
  }

  ModelConfig config_;
  ServingLimits limits_ = {.max_batch_tokens = 300};
  PlanOptions options_ = {.granularity_bytes = 256};
};

TEST_F(LargestFittingTest, ExactlyEnoughFitsAndOneByteLessDoesNot) {
  for (const int64_t rows : {1, 2, 16, 17, 100, 299, 300}) {
    ASSERT_OK_AND_ASSIGN(const int64_t enough, Fitting(Total(rows)));
    EXPECT_GE(enough, rows);
    EXPECT_EQ(Total(enough), Total(rows));
    ASSERT_OK_AND_ASSIGN(const int64_t less, Fitting(Total(rows) - 1));
    EXPECT_LT(less, rows);
    if (less > 0) {
      EXPECT_LT(Total(less), Total(rows));
    }
  }
}

TEST_F(LargestFittingTest, TheLimitIsNotPassedAndNothingFitsInNothing) {
  EXPECT_EQ(*Fitting(std::numeric_limits<int64_t>::max()), 300);
  EXPECT_EQ(*Fitting(0), 0);
  EXPECT_EQ(*Fitting(-1), 0);
}

TEST_F(LargestFittingTest, SizesBeyondCountingDoNotFit) {
  limits_.max_batch_tokens = int64_t{1} << 40;
  ASSERT_OK_AND_ASSIGN(const int64_t fits, Fitting(int64_t{80} << 30));
  EXPECT_GE(fits, 1000);
  EXPECT_LE(Total(fits), int64_t{80} << 30);
  EXPECT_GT(Total(fits + 1), int64_t{80} << 30);
}

TEST_F(LargestFittingTest, BadInputIsRefused) {
  limits_.max_batch_tokens = 0;
  EXPECT_THAT(Fitting(1000), StatusIs(absl::StatusCode::kInvalidArgument));
  limits_.max_batch_tokens = 10;
  options_.guard_bytes = 1;
  EXPECT_THAT(Fitting(1000), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace permafrost
