// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/serving_limits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

#include "arena/golden_models.h"
#include "permafrost/arena/buffer_table.h"
#include "support/status_matchers.h"

namespace permafrost {
namespace {

using ::permafrost::testing::GoldenModel;
using ::permafrost::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;

struct Field {
  const char* name;
  int64_t ServingLimits::*value;
  int64_t least;
};

constexpr Field kFields[] = {
    {"max_batch_tokens", &ServingLimits::max_batch_tokens, 1},
    {"max_batch_size", &ServingLimits::max_batch_size, 1},
    {"max_seq_len", &ServingLimits::max_seq_len, 1},
    {"kv_block_size", &ServingLimits::kv_block_size, 0},
    {"sm_count", &ServingLimits::sm_count, 1},
    {"lora_rank", &ServingLimits::lora_rank, 0},
    {"draft_tokens", &ServingLimits::draft_tokens, 0},
};

TEST(ServingLimitsTest, EachLimitIsAcceptedFromItsLeastToItsMost) {
  for (const Field& field : kFields) {
    ServingLimits limits = {.max_batch_tokens = 8};
    for (const int64_t value : {field.least, int64_t{1} << 40}) {
      limits.*field.value = value;
      EXPECT_OK(CheckLimits(limits)) << field.name << " " << value;
    }
  }
}

TEST(ServingLimitsTest, EachLimitOutOfItsRangeIsNamed) {
  for (const Field& field : kFields) {
    for (const int64_t value :
         {field.least - 1, int64_t{-7}, std::numeric_limits<int64_t>::min(),
          (int64_t{1} << 40) + 1, std::numeric_limits<int64_t>::max()}) {
      ServingLimits limits = {.max_batch_tokens = 8};
      limits.*field.value = value;
      const auto refused =
          StatusIs(absl::StatusCode::kInvalidArgument,
                   AllOf(HasSubstr(field.name),
                         HasSubstr("got " + std::to_string(value))));
      EXPECT_THAT(CheckLimits(limits), refused);
      EXPECT_THAT(ComputeBufferSizes(GoldenModel("llama-3.1-8b"), limits),
                  refused);
    }
  }
}

TEST(ServingLimitsTest, TheDefaultsLackOnlyTheTokens) {
  EXPECT_THAT(CheckLimits(ServingLimits()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("max_batch_tokens: got 0")));
}

// A batch of 36 runs as one of 48, and the buffers must hold all 48 rows.
TEST(ServingLimitsTest, DecodeRowsAreThoseOfTheRung) {
  const struct {
    int64_t batch;
    int64_t rows;
  } cases[] = {{1, 32},
               {31, 32},
               {32, 32},
               {33, 48},
               {36, 48},
               {49, 64},
               {65, 96},
               {97, 128},
               {128, 128},
               {129, 160},
               {160, 160},
               {161, 192},
               {int64_t{1} << 40, int64_t{1} << 40}};
  for (const auto& [batch, rows] : cases) {
    ServingLimits limits = {.max_batch_tokens = 8, .max_batch_size = batch};
    EXPECT_EQ(DecodeRows(limits), rows) << batch;
    limits.rules = SizeRules::kSeed;
    EXPECT_EQ(DecodeRows(limits), std::max<int64_t>(batch, 32)) << batch;
  }
}

}  // namespace
}  // namespace permafrost
