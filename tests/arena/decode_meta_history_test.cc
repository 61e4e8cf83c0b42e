// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/decode_meta_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/arena/decode_batch_fixture.h"
#include "tests/support/status_matchers.h"

namespace permafrost {
namespace {

using ::permafrost::testing::kDelta;
using ::permafrost::testing::kFull;
using ::permafrost::testing::kTestMaxBlocks;
using ::permafrost::testing::StatusIs;
using ::permafrost::testing::TestBatch;
using ::permafrost::testing::TestMetaLimits;
using ::permafrost::testing::TestSequence;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// A history, and steps that follow one another.
class DecodeMetaHistoryTest : public ::testing::Test {
 protected:
  explicit DecodeMetaHistoryTest(bool csr = false)
      : history_(*DecodeMetaLayout::ForBatch(
            8, {.max_blocks = kTestMaxBlocks, .draft_tokens = 7, .csr = csr})) {
  }

  absl::Status Stage(DecodeMetaMode mode,
                     const std::vector<TestSequence>& sequences,
                     uint64_t epoch = 1) {
    TestBatch batch(++step_, 8, sequences);
    return history_.Stage(batch.View(), TestMetaLimits(), mode, epoch);
  }
  absl::Status Upload(DecodeMetaMode mode,
                      const std::vector<TestSequence>& sequences,
                      uint64_t epoch = 1) {
    absl::Status status = Stage(mode, sequences, epoch);
    if (status.ok()) history_.Commit();
    return status;
  }

  static auto NeedsFull(const char* text) {
    return StatusIs(absl::StatusCode::kFailedPrecondition,
                    AllOf(HasSubstr("DELTA upload of step"), HasSubstr(text),
                          HasSubstr("upload this step FULL")));
  }

  DecodeMetaHistory history_;
  uint64_t step_ = 0;
};

class CsrDecodeMetaHistoryTest : public DecodeMetaHistoryTest {
 protected:
  CsrDecodeMetaHistoryTest() : DecodeMetaHistoryTest(/*csr=*/true) {}
};

TEST_F(DecodeMetaHistoryTest, TheFirstUploadIsFull) {
  EXPECT_THAT(Upload(kDelta, {{.id = 1, .seq_len = 3}}),
              NeedsFull("nothing was uploaded"));
  EXPECT_OK(Upload(kFull, {{.id = 1, .seq_len = 3}}));
  EXPECT_OK(Upload(kDelta, {{.id = 1, .seq_len = 4}}));
  EXPECT_EQ(history_.last_step(), 3u);
}

TEST_F(DecodeMetaHistoryTest, ARowMayGainOneBlockAStepForALongTime) {
  ASSERT_OK(Upload(kFull, {{.id = 1, .seq_len = 1}, {.id = 2, .seq_len = 3}}));
  for (int32_t grown = 1; grown < 60; ++grown) {
    ASSERT_OK(Upload(kDelta, {{.id = 1, .seq_len = 1 + grown},
                              {.id = 2, .seq_len = 3 + grown}}));
  }
}

TEST_F(DecodeMetaHistoryTest, TwoBlocksInAStepNeedFull) {
  ASSERT_OK(Upload(kFull, {{.id = 1, .seq_len = 4}}));
  // Six tokens, 5 to 10, lie in the second block and in the third.
  EXPECT_THAT(Upload(kDelta, {{.id = 1, .seq_len = 10, .tokens = 6}}),
              NeedsFull("row 0: blocks gained: got 2, limit 1"));
  EXPECT_OK(Upload(kFull, {{.id = 1, .seq_len = 10, .tokens = 6}}));
}

TEST_F(DecodeMetaHistoryTest, ABlockThatIsNotToldNeedsFull) {
  ASSERT_OK(Upload(kFull, {{.id = 1, .seq_len = 4}}));
  TestBatch batch(++step_, 8, {{.id = 1, .seq_len = 5}});
  DecodeBatch untold = batch.View();
  untold.new_block = {};
  EXPECT_THAT(history_.Stage(untold, TestMetaLimits(), kDelta, 1),
              NeedsFull("row 0: 5 tokens need block 1, which new_block does "
                        "not tell"));
  EXPECT_OK(history_.Stage(batch.View(), TestMetaLimits(), kDelta, 1));
}

TEST_F(DecodeMetaHistoryTest, AdmissionEvictionAndMovesNeedFull) {
  const std::vector<TestSequence> two = {{.id = 1, .seq_len = 5},
                                         {.id = 2, .seq_len = 6}};
  ASSERT_OK(Upload(kFull, two));
  EXPECT_THAT(Upload(kDelta, {two[0], two[1], {.id = 3, .seq_len = 2}}),
              NeedsFull("sequences: got 3, the block table has 2"));
  EXPECT_THAT(Upload(kDelta, {two[0]}),
              NeedsFull("sequences: got 1, the block table has 2"));
  EXPECT_THAT(Upload(kDelta, {two[1], two[0]}),
              NeedsFull("row 0: got sequence 2, the block table has 1"));
  EXPECT_THAT(Upload(kDelta, {two[0], {.id = 3, .seq_len = 6}}),
              NeedsFull("row 1: got sequence 3, the block table has 2"));
  EXPECT_OK(Upload(kDelta, two));
}

TEST_F(DecodeMetaHistoryTest, RejectedDraftsKeepTheirBlock) {
  ASSERT_OK(Upload(kFull, {{.id = 1, .seq_len = 3}}));
  ASSERT_OK(Upload(kDelta, {{.id = 1, .seq_len = 6, .tokens = 3}}));
  // The drafts are rejected; the same block is entered again, or kept.
  ASSERT_OK(Upload(kDelta, {{.id = 1, .seq_len = 4}}));
  TestBatch kept(++step_, 8, {{.id = 1, .seq_len = 5}});
  kept.new_block[0] = -1;
  ASSERT_OK(history_.Stage(kept.View(), TestMetaLimits(), kDelta, 1));
  EXPECT_OK(Upload(kDelta, {{.id = 1, .seq_len = 5}}));
}

TEST_F(DecodeMetaHistoryTest, AnotherEpochNeedsFull) {
  // The arena slept in between: the table is gone with its pages.
  ASSERT_OK(Upload(kFull, {{.id = 1, .seq_len = 5}}, /*epoch=*/1));
  EXPECT_THAT(Upload(kDelta, {{.id = 1, .seq_len = 6}}, /*epoch=*/2),
              NeedsFull("arena epoch: got 2, the block table was uploaded in "
                        "1"));
  ASSERT_OK(Upload(kFull, {{.id = 1, .seq_len = 6}}, /*epoch=*/2));
  EXPECT_OK(Upload(kDelta, {{.id = 1, .seq_len = 7}}, /*epoch=*/2));
}

TEST_F(DecodeMetaHistoryTest, AForgottenBlockNeedsFull) {
  ASSERT_OK(Upload(kFull, {{.id = 1, .seq_len = 5}}));
  history_.Forget();
  EXPECT_THAT(Upload(kDelta, {{.id = 1, .seq_len = 6}}), NeedsFull("failed"));
  ASSERT_OK(Upload(kFull, {{.id = 1, .seq_len = 6}}));
  EXPECT_OK(Upload(kDelta, {{.id = 1, .seq_len = 7}}));
}

TEST_F(DecodeMetaHistoryTest, WhatWasNotCommittedLeavesNoTrace) {
  ASSERT_OK(Upload(kFull, {{.id = 1, .seq_len = 5}}));
  ASSERT_OK(Stage(kFull, {{.id = 7, .seq_len = 60}}));
  EXPECT_OK(Upload(kDelta, {{.id = 1, .seq_len = 6}}));
  EXPECT_THAT(Upload(kDelta, {{.id = 7, .seq_len = 61}}),
              NeedsFull("row 0: got sequence 7"));
}

TEST_F(DecodeMetaHistoryTest, StepsOnlyGrow) {
  ASSERT_OK(Upload(kFull, {{.id = 1, .seq_len = 5}}));
  TestBatch again(1, 8, {{.id = 1, .seq_len = 6}});
  EXPECT_THAT(history_.Stage(again.View(), TestMetaLimits(), kFull, 1),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("step: got 1, limit above 1")));
}

TEST_F(CsrDecodeMetaHistoryTest, AnyChangeOfBlocksNeedsFull) {
  ASSERT_OK(Upload(kFull, {{.id = 1, .seq_len = 7}}));
  EXPECT_OK(Upload(kDelta, {{.id = 1, .seq_len = 8}}));
  EXPECT_THAT(Upload(kDelta, {{.id = 1, .seq_len = 9}}),
              NeedsFull("row 0: blocks: got 3, kv_indptr was uploaded for 2"));
  // After rejected drafts the lists have a page too many.
  EXPECT_THAT(Upload(kDelta, {{.id = 1, .seq_len = 4}}),
              NeedsFull("row 0: blocks: got 1, kv_indptr was uploaded for 2"));
}

}  // namespace
}  // namespace permafrost
