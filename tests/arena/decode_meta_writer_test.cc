// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/decode_meta_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/arena/decode_batch_fixture.h"
#include "tests/support/status_matchers.h"

namespace permafrost {
namespace {

using ::permafrost::testing::kDelta;
using ::permafrost::testing::kFull;
using ::permafrost::testing::kTestDummyBlock;
using ::permafrost::testing::kTestDummyState;
using ::permafrost::testing::kTestKvBlock;
using ::permafrost::testing::kTestMaxBlocks;
using ::permafrost::testing::kTestMaxSeqLen;
using ::permafrost::testing::StatusIs;
using ::permafrost::testing::TestBatch;
using ::permafrost::testing::TestMetaLimits;
using ::permafrost::testing::TestSequence;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

DecodeMetaLayout Layout(int64_t batch, int64_t drafts = 0, bool mrope = false,
                        bool csr = false) {
  absl::StatusOr<DecodeMetaLayout> layout =
      DecodeMetaLayout::ForBatch(batch, {.max_blocks = kTestMaxBlocks,
                                         .draft_tokens = drafts,
                                         .mrope = mrope,
                                         .csr = csr});
  EXPECT_OK(layout);
  return *layout;
}

/// Host memory for one upload, filled with a byte that no batch holds.
class Memory {
 public:
  explicit Memory(const DecodeMetaLayout& layout, int fill = 0xa5)
      : bytes_(static_cast<size_t>(layout.full_bytes),
               static_cast<std::byte>(fill)) {}

  absl::Span<std::byte> span() { return absl::MakeSpan(bytes_); }
  const std::vector<std::byte>& bytes() const { return bytes_; }

  template <typename T>
  std::vector<T> Read(int64_t offset, int64_t count) const {
    std::vector<T> values(static_cast<size_t>(count));
    std::memcpy(values.data(), bytes_.data() + offset,
                values.size() * sizeof(T));
    return values;
  }
  std::vector<int32_t> Words(int64_t offset, int64_t count) const {
    return Read<int32_t>(offset, count);
  }
  DecodeMetaHeader Header() const { return Read<DecodeMetaHeader>(0, 1)[0]; }

 private:
  std::vector<std::byte> bytes_;
};

TEST(DecodeMetaWriterTest, WritesEveryRegionOfAFullUpload) {
  const DecodeMetaLayout layout = Layout(4);
  Memory memory(layout);
  // Sequence 3 has 5 tokens and so 2 blocks, 70 and 71; sequence 2 has one.
  TestBatch batch(9, 4, {{.id = 3, .seq_len = 5}, {.id = 2, .seq_len = 4}});
  ASSERT_OK_AND_ASSIGN(const StepEcho echo,
                       WriteDecodeMeta(layout, batch.View(), TestMetaLimits(),
                                       kFull, memory.span()));

  const DecodeMetaHeader header = memory.Header();
  EXPECT_EQ(header.magic, DecodeMetaHeader::kMagic);
  EXPECT_EQ(header.version, 1u);
  EXPECT_EQ(header.step, 9u);
  EXPECT_EQ(header.n_seqs, 2u);
  EXPECT_EQ(header.padded_n, 4u);
  EXPECT_EQ(header.n_tokens, 2u);
  EXPECT_EQ(header.flags, DecodeMetaHeader::kFull);
  EXPECT_EQ(header.layout_id, layout.id());
  EXPECT_EQ(header.copied_bytes, static_cast<uint64_t>(layout.full_bytes));
  EXPECT_EQ(echo.step, 9u);
  EXPECT_EQ(header.body_sum, echo.body_sum);
  EXPECT_EQ(echo.body_sum, DecodeMetaBodySum(memory.span()));
  EXPECT_EQ(std::memcmp(memory.bytes().data(), "PFDM", 4), 0);

  EXPECT_THAT(memory.Read<int64_t>(layout.slot_mapping, 4),
              ElementsAre(284, 203, 4, 4));
  EXPECT_THAT(memory.Words(layout.state_slot, 4), ElementsAre(13, 12, 7, 7));
  EXPECT_THAT(memory.Words(layout.input_ids, 4), ElementsAre(304, 203, 0, 0));
  EXPECT_THAT(memory.Words(layout.positions, 4), ElementsAre(4, 3, 0, 0));
  EXPECT_THAT(memory.Words(layout.seq_lens, 4), ElementsAre(5, 4, 1, 1));
  EXPECT_THAT(memory.Words(layout.cu_seqlens_q, 5), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(memory.Words(layout.kv_last_page_len, 4),
              ElementsAre(1, 4, 1, 1));
  EXPECT_THAT(memory.Words(layout.lora_slot, 4), ElementsAre(2, 1, -1, -1));
  EXPECT_THAT(memory.Words(layout.logits_index, 4), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(memory.Words(layout.new_block, 4), Each(-1));
  std::vector<int32_t> table(4 * kTestMaxBlocks, kTestDummyBlock);
  table[0] = 70;
  table[1] = 71;
  table[kTestMaxBlocks] = 50;
  EXPECT_EQ(memory.Words(layout.block_table, 4 * kTestMaxBlocks), table);
}

TEST(DecodeMetaWriterTest, DeltaTellsTheBlockThatARowGained) {
  const DecodeMetaLayout layout = Layout(4);
  Memory memory(layout);
  TestBatch batch(9, 4, {{.id = 3, .seq_len = 5}, {.id = 2, .seq_len = 4}});
  ASSERT_OK(WriteDecodeMeta(layout, batch.View(), TestMetaLimits(), kDelta,
                            memory.span()));
  EXPECT_THAT(memory.Words(layout.new_block, 4), ElementsAre(71, -1, -1, -1));
  EXPECT_EQ(memory.Header().flags, DecodeMetaHeader::kDelta);
  EXPECT_EQ(memory.Header().copied_bytes,
            static_cast<uint64_t>(layout.delta_bytes));
  // The table's part of the slot is neither written nor copied.
  EXPECT_THAT(memory.Read<uint8_t>(layout.delta_bytes,
                                   layout.full_bytes - layout.delta_bytes),
              Each(0xa5));
}

TEST(DecodeMetaWriterTest, DraftsLieBehindOneAnotherInTheirRow) {
  const DecodeMetaLayout layout = Layout(2, /*drafts=*/2);
  Memory memory(layout);
  TestBatch batch(1, 2, {{.id = 3, .seq_len = 6, .tokens = 3}});
  ASSERT_OK(WriteDecodeMeta(layout, batch.View(), TestMetaLimits(), kDelta,
                            memory.span()));
  EXPECT_THAT(memory.Words(layout.positions, 6), ElementsAre(3, 4, 5, 0, 0, 0));
  EXPECT_THAT(memory.Read<int64_t>(layout.slot_mapping, 6),
              ElementsAre(283, 284, 285, 4, 4, 4));
  // A padding row owns one token; the last two tokens are nobody's.
  EXPECT_THAT(memory.Words(layout.cu_seqlens_q, 3), ElementsAre(0, 3, 4));
  EXPECT_THAT(memory.Words(layout.logits_index, 2), ElementsAre(2, 3));
  EXPECT_THAT(memory.Words(layout.lora_slot, 6),
              ElementsAre(2, 2, 2, -1, -1, -1));
  EXPECT_THAT(memory.Words(layout.new_block, 6),
              ElementsAre(71, -1, -1, -1, -1, -1));
  batch.logits_index = {1};
  ASSERT_OK(WriteDecodeMeta(layout, batch.View(), TestMetaLimits(), kDelta,
                            memory.span()));
  EXPECT_THAT(memory.Words(layout.logits_index, 2), ElementsAre(1, 3));
}

TEST(DecodeMetaWriterTest, MropeHasThreeRunsOfPositions) {
  const DecodeMetaLayout layout = Layout(4, 0, /*mrope=*/true);
  Memory memory(layout);
  TestBatch batch(1, 4, {{.id = 3, .seq_len = 7}, {.id = 2, .seq_len = 4}},
                  /*mrope=*/true);
  ASSERT_OK(WriteDecodeMeta(layout, batch.View(), TestMetaLimits(), kFull,
                            memory.span()));
  EXPECT_THAT(memory.Words(layout.positions, 12),
              ElementsAre(6, 3, 0, 0, 3, 1, 0, 0, 2, 1, 0, 0));
  EXPECT_EQ(memory.Header().flags,
            DecodeMetaHeader::kFull | DecodeMetaHeader::kMrope);
}

TEST(DecodeMetaWriterTest, CsrListsTheBlocksOfAllRowsWithoutPadding) {
  const DecodeMetaLayout layout = Layout(4, 0, false, /*csr=*/true);
  Memory memory(layout);
  TestBatch batch(1, 4, {{.id = 3, .seq_len = 9}, {.id = 2, .seq_len = 4}});
  ASSERT_OK(WriteDecodeMeta(layout, batch.View(), TestMetaLimits(), kFull,
                            memory.span()));
  EXPECT_THAT(memory.Words(layout.kv_indptr, 5), ElementsAre(0, 3, 4, 5, 6));
  EXPECT_THAT(memory.Words(layout.kv_indices, 7),
              ElementsAre(70, 71, 72, 50, 1, 1, 1));
  EXPECT_THAT(memory.Words(layout.block_table, 4), ElementsAre(70, 71, 72, 1));
  EXPECT_EQ(memory.Header().flags,
            DecodeMetaHeader::kFull | DecodeMetaHeader::kCsr);
}

TEST(DecodeMetaWriterTest, CsrRefusesADeltaThatMovesItsLists) {
  const DecodeMetaLayout layout = Layout(4, 0, false, /*csr=*/true);
  Memory memory(layout);
  TestBatch batch(1, 4, {{.id = 3, .seq_len = 9}});
  EXPECT_THAT(WriteDecodeMeta(layout, batch.View(), TestMetaLimits(), kDelta,
                              memory.span()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("kv_indices would move")));
  TestBatch twin(1, 4, {{.id = 3, .seq_len = 8}});
  EXPECT_OK(WriteDecodeMeta(layout, twin.View(), TestMetaLimits(), kDelta,
                            memory.span()));
}

TEST(DecodeMetaWriterTest, B14TableRowsAreFilledToFullWidth) {
  const DecodeMetaLayout layout = Layout(8);
  Memory memory(layout);
  TestBatch long_rows(1, 8,
                      {{.id = 1, .seq_len = 64},
                       {.id = 2, .seq_len = 64},
                       {.id = 3, .seq_len = 64}});
  ASSERT_OK(WriteDecodeMeta(layout, long_rows.View(), TestMetaLimits(), kFull,
                            memory.span()));
  TestBatch short_row(2, 8, {{.id = 2, .seq_len = 6}});
  ASSERT_OK(WriteDecodeMeta(layout, short_row.View(), TestMetaLimits(), kFull,
                            memory.span()));
  const std::vector<int32_t> table =
      memory.Words(layout.block_table, layout.rows * kTestMaxBlocks);
  EXPECT_EQ(table[0], 50);
  EXPECT_EQ(table[1], 51);
  // Entry 2 is one that the engine reserved ahead; attention must not see it.
  EXPECT_THAT(std::vector<int32_t>(table.begin() + 2, table.end()),
              Each(kTestDummyBlock));
}

TEST(DecodeMetaWriterTest, AnUploadDoesNotDependOnWhatLayThere) {
  for (const bool csr : {false, true}) {
    const DecodeMetaLayout layout = Layout(12, 1, true, csr);
    TestBatch batch(
        5, 8, {{.id = 4, .seq_len = 11, .tokens = 2}, {.id = 9, .seq_len = 23}},
        /*mrope=*/true);
    for (DecodeMetaMode mode : {kFull, kDelta}) {
      const auto copied = static_cast<std::ptrdiff_t>(
          mode == kFull ? layout.full_bytes : layout.delta_bytes);
      std::set<std::vector<std::byte>> uploads;
      for (int fill : {0x00, 0x7f, 0xa5, 0xff}) {
        Memory memory(layout, fill);
        ASSERT_OK(WriteDecodeMeta(layout, batch.View(), TestMetaLimits(), mode,
                                  memory.span()));
        uploads.emplace(memory.bytes().begin(),
                        memory.bytes().begin() + copied);
      }
      EXPECT_EQ(uploads.size(), 1u) << DecodeMetaModeName(mode);
    }
  }
}

/// Checks that a kernel which believes every row and token of the upload, up to
/// the layout's last, stays within the pools.
void ExpectAllRowsValid(const DecodeMetaLayout& layout, const Memory& memory,
                        int64_t live_rows) {
  const DecodeMetaLimits limits = TestMetaLimits();
  const auto in = [](int64_t value, int64_t end) {
    return value >= 0 && value < end;
  };
  const int64_t tokens = layout.tokens();
  for (int64_t slot : memory.Read<int64_t>(layout.slot_mapping, tokens)) {
    ASSERT_TRUE(in(slot, limits.kv_blocks * limits.kv_block_size));
  }
  for (int32_t id : memory.Words(layout.input_ids, tokens)) {
    ASSERT_TRUE(in(id, limits.vocab_size));
  }
  const int64_t axes = layout.mrope ? 3 : 1;
  for (int32_t position : memory.Words(layout.positions, axes * tokens)) {
    ASSERT_TRUE(in(position, limits.max_seq_len));
  }
  const auto states = memory.Words(layout.state_slot, layout.rows);
  const auto seq_lens = memory.Words(layout.seq_lens, layout.rows);
  const auto first = memory.Words(layout.cu_seqlens_q, layout.rows + 1);
  const auto last_page = memory.Words(layout.kv_last_page_len, layout.rows);
  const auto logits = memory.Words(layout.logits_index, layout.rows);
  const auto table =
      memory.Words(layout.block_table, layout.rows * layout.max_blocks);
  ASSERT_EQ(first[0], 0);
  for (size_t row = 0; row < seq_lens.size(); ++row) {
    ASSERT_TRUE(in(states[row], limits.state_slots));
    ASSERT_TRUE(in(seq_lens[row] - 1, limits.max_seq_len));
    ASSERT_GE(first[row + 1] - first[row], 1);
    ASSERT_LE(first[row + 1] - first[row], layout.tokens_per_row);
    ASSERT_LE(first[row + 1], tokens);
    ASSERT_LE(first[row + 1] - first[row], seq_lens[row]);
    ASSERT_GE(logits[row], first[row]);
    ASSERT_LT(logits[row], first[row + 1]);
    ASSERT_TRUE(in(last_page[row] - 1, kTestKvBlock));
    for (int64_t i = 0; i < layout.max_blocks; ++i) {
      const int32_t block = table[row * static_cast<size_t>(layout.max_blocks) +
                                  static_cast<size_t>(i)];
      ASSERT_TRUE(in(block, limits.kv_blocks));
      if (static_cast<int64_t>(row) >= live_rows) {
        ASSERT_EQ(block, kTestDummyBlock);
      }
    }
    if (static_cast<int64_t>(row) >= live_rows) {
      ASSERT_EQ(seq_lens[row], 1);
      ASSERT_EQ(states[row], kTestDummyState);
    }
  }
}

TEST(DecodeMetaWriterTest, B29EveryRowIsValidAfterEveryUpload) {
  // Batches grow and shrink in one piece of memory, so that rows of a larger
  // batch would be found.
  std::mt19937_64 random(29);
  for (int variant = 0; variant < 8; ++variant) {
    const int64_t drafts = (variant & 1) != 0 ? 3 : 0;
    const bool mrope = (variant & 2) != 0;
    const DecodeMetaLayout layout =
        Layout(16, drafts, mrope, (variant & 4) != 0);
    Memory memory(layout);
    for (uint64_t step = 1; step <= 200; ++step) {
      std::vector<TestSequence> sequences(random() % 17);
      for (size_t i = 0; i < sequences.size(); ++i) {
        TestSequence& sequence = sequences[i];
        sequence.id = 2 * i + random() % 2;
        sequence.tokens = 1 + static_cast<int32_t>(
                                  random() % static_cast<uint64_t>(drafts + 1));
        sequence.seq_len =
            sequence.tokens +
            static_cast<int32_t>(
                random() %
                static_cast<uint64_t>(kTestMaxSeqLen - sequence.tokens + 1));
      }
      TestBatch batch(step, 16, sequences, mrope);
      ASSERT_OK(WriteDecodeMeta(layout, batch.View(), TestMetaLimits(), kFull,
                                memory.span()));
      ExpectAllRowsValid(layout, memory,
                         static_cast<int64_t>(sequences.size()));
      if (::testing::Test::HasFatalFailure()) FAIL() << "step " << step;
    }
  }
}

TEST(DecodeMetaWriterTest, B48AnEmptyBatchIsAllPadding) {
  const DecodeMetaLayout layout = Layout(4);
  Memory memory(layout);
  TestBatch batch(1, 1, {});
  ASSERT_OK(WriteDecodeMeta(layout, batch.View(), TestMetaLimits(), kFull,
                            memory.span()));
  EXPECT_EQ(memory.Header().n_seqs, 0u);
  EXPECT_EQ(memory.Header().n_tokens, 0u);
  ExpectAllRowsValid(layout, memory, 0);
}

TEST(DecodeMetaWriterTest, PoolsThatAModelHasNotAreLeftOut) {
  const DecodeMetaLayout layout = Layout(2);
  Memory memory(layout);
  DecodeMetaLimits limits = TestMetaLimits();
  limits.state_slots = 0;
  limits.dummy_state_slot = -1;
  limits.lora_slots = 0;
  TestBatch batch(1, 2, {{.id = 1, .seq_len = 3}});
  batch.state_slot.clear();
  batch.lora_slot.clear();
  batch.token_counts.clear();
  ASSERT_OK(
      WriteDecodeMeta(layout, batch.View(), limits, kFull, memory.span()));
  EXPECT_THAT(memory.Words(layout.state_slot, 2), ElementsAre(0, 0));
  EXPECT_THAT(memory.Words(layout.lora_slot, 2), ElementsAre(-1, -1));
}

struct Mutation {
  const char* name;
  DecodeMetaMode mode;
  std::function<void(TestBatch&)> apply;
  const char* text;
};

class DecodeMetaWriterRefusalTest : public ::testing::TestWithParam<Mutation> {
};

std::vector<Mutation> Mutations() {
  return {
      {"StepZero", kFull, [](TestBatch& b) { b.step = 0; }, "step: got 0"},
      {"PaddedAboveRows", kFull, [](TestBatch& b) { b.padded_n = 5; },
       "padded_n: got 5, limit rows=4; raise max_batch_size"},
      {"PaddedBelowBatch", kFull, [](TestBatch& b) { b.padded_n = 1; },
       "padded_n: got 1, limit at least 2"},
      {"PaddedNegative", kFull, [](TestBatch& b) { b.padded_n = -4; },
       "padded_n: got -4"},
      {"SequenceTooLong", kFull, [](TestBatch& b) { b.seq_lens[1] = 65; },
       "seq_lens of row 1: got 65, limit 2 to 64"},
      {"SequenceShorterThanItsTokens", kFull,
       [](TestBatch& b) { b.seq_lens[1] = 1; },
       "seq_lens of row 1: got 1, limit 2 to 64"},
      {"SequenceEmpty", kFull, [](TestBatch& b) { b.seq_lens[0] = 0; },
       "seq_lens of row 0: got 0"},
      {"TokensAboveLayout", kFull, [](TestBatch& b) { b.token_counts[1] = 3; },
       "token_counts of row 1: got 3, limit 1 to 2"},
      {"TokensZero", kFull, [](TestBatch& b) { b.token_counts[0] = 0; },
       "token_counts of row 0: got 0, limit 1 to 2"},
      {"SeqLensShort", kFull, [](TestBatch& b) { b.seq_lens.pop_back(); },
       "seq_lens: got 1 entries, limit exactly 2"},
      {"TokenCountsShort", kFull,
       [](TestBatch& b) { b.token_counts.pop_back(); },
       "token_counts: got 1 entries"},
      {"StateSlotsMissing", kFull, [](TestBatch& b) { b.state_slot.clear(); },
       "state_slot: got 0 entries"},
      {"LoraSlotsShort", kFull, [](TestBatch& b) { b.lora_slot.pop_back(); },
       "lora_slot: got 1 entries"},
      {"LogitsShort", kFull, [](TestBatch& b) { b.logits_index = {0}; },
       "logits_index: got 1 entries"},
      {"InputIdsLong", kFull, [](TestBatch& b) { b.input_ids.push_back(1); },
       "input_ids: got 4 entries, limit exactly 3 for 2 sequences and 3 "
       "tokens"},
      {"PositionsShort", kFull, [](TestBatch& b) { b.positions.pop_back(); },
       "positions: got 2 entries"},
      {"SlotsShort", kFull, [](TestBatch& b) { b.slot_mapping.pop_back(); },
       "slot_mapping: got 2 entries"},
      {"BlocksMissing", kFull, [](TestBatch& b) { b.block_rows.pop_back(); },
       "blocks: got 1 entries"},
      {"NewBlocksShort", kDelta, [](TestBatch& b) { b.new_block.pop_back(); },
       "new_block: got 1 entries"},
      {"InputIdAboveVocabulary", kFull,
       [](TestBatch& b) { b.input_ids[2] = 1000; },
       "input_ids of token 2: got 1000, limit 0 to 999"},
      {"InputIdNegative", kFull, [](TestBatch& b) { b.input_ids[0] = -1; },
       "input_ids of token 0: got -1"},
      {"PositionBeyond", kFull, [](TestBatch& b) { b.positions[1] = 64; },
       "positions of token 1: got 64, limit 0 to 63"},
      {"PositionNegative", kFull, [](TestBatch& b) { b.positions[1] = -1; },
       "positions of token 1: got -1"},
      {"SlotBeyondPool", kDelta,
       [](TestBatch& b) { b.slot_mapping[0] = 20000; },
       "slot_mapping of token 0: got 20000, limit 0 to 19999"},
      {"SlotNegative", kDelta, [](TestBatch& b) { b.slot_mapping[0] = -1; },
       "slot_mapping of token 0: got -1"},
      {"SlotInDummyBlock", kDelta, [](TestBatch& b) { b.slot_mapping[0] = 4; },
       "slot_mapping of token 0: got 4, which lies in padding's dummy_block"},
      {"SlotAtAnotherPlace", kDelta, [](TestBatch& b) { ++b.slot_mapping[2]; },
       "slot_mapping of token 2: got 207, but token 6 of row 1 belongs into "
       "slot 206"},
      {"SlotInABlockOfAnother", kFull,
       [](TestBatch& b) { b.slot_mapping[2] += 80; },
       "belongs into slot 206 of block 51"},
      {"SlotNotInTheNewBlock", kDelta,
       [](TestBatch& b) { b.slot_mapping[0] += 800; },
       "belongs into slot 284 of block 71"},
      {"StateSlotBeyond", kFull, [](TestBatch& b) { b.state_slot[1] = 100; },
       "state_slot of row 1: got 100, limit 0 to 99"},
      {"StateSlotOfPadding", kFull, [](TestBatch& b) { b.state_slot[1] = 7; },
       "state_slot of row 1: got 7, which is padding's"},
      {"LoraSlotBeyond", kFull, [](TestBatch& b) { b.lora_slot[0] = 4; },
       "lora_slot of row 0: got 4, limit -1 to 3"},
      {"LoraSlotBelow", kFull, [](TestBatch& b) { b.lora_slot[0] = -2; },
       "lora_slot of row 0: got -2"},
      {"LogitsOfAnotherRow", kFull,
       [](TestBatch& b) {
         b.logits_index = {1, 1};
       },
       "logits_index of row 0: got 1, limit 0 to 0"},
      {"BlocksTooFew", kFull, [](TestBatch& b) { b.block_rows[1].resize(1); },
       "blocks of row 1: got 1, limit at least 2 for 7 tokens"},
      {"BlockBeyondPool", kFull,
       [](TestBatch& b) { b.block_rows[1][0] = 5000; },
       "block 0 of row 1: got 5000, limit 0 to 4999"},
      {"BlockNegative", kFull, [](TestBatch& b) { b.block_rows[1][1] = -1; },
       "block 1 of row 1: got -1"},
      {"NewBlockBeyondPool", kDelta,
       [](TestBatch& b) { b.new_block[0] = 5000; },
       "new_block of row 0: got 5000, limit -1 to 4999"},
      {"NewBlockBelow", kDelta, [](TestBatch& b) { b.new_block[0] = -2; },
       "new_block of row 0: got -2"},
      {"NewBlockOfPadding", kDelta, [](TestBatch& b) { b.new_block[0] = 1; },
       "new_block of row 0: got 1, which is padding's"},
      {"NewBlockInsideOne", kDelta, [](TestBatch& b) { b.new_block[1] = 51; },
       "new_block of row 1: got 51, but its 2 tokens up to 7 begin no block"},
      {"SequenceTwice", kFull, [](TestBatch& b) { b.seq_ids[1] = 3; },
       "seq_ids: got 3 twice"},
      {"StateSlotTwice", kFull, [](TestBatch& b) { b.state_slot[1] = 13; },
       "state_slot: got 13 twice"},
  };
}

TEST_P(DecodeMetaWriterRefusalTest, IsRefusedAndItsTwinIsNot) {
  const DecodeMetaLayout layout = Layout(4, /*drafts=*/1);
  Memory memory(layout);
  const std::vector<TestSequence> sequences = {
      {.id = 3, .seq_len = 5}, {.id = 2, .seq_len = 7, .tokens = 2}};
  TestBatch batch(1, 4, sequences);
  ASSERT_OK(WriteDecodeMeta(layout, batch.View(), TestMetaLimits(),
                            GetParam().mode, memory.span()));
  GetParam().apply(batch);
  EXPECT_THAT(
      WriteDecodeMeta(layout, batch.View(), TestMetaLimits(), GetParam().mode,
                      memory.span()),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(GetParam().text)));
}
INSTANTIATE_TEST_SUITE_P(
    Mutations, DecodeMetaWriterRefusalTest, ::testing::ValuesIn(Mutations()),
    [](const ::testing::TestParamInfo<Mutation>& mutation) {
      return std::string(mutation.param.name);
    });

TEST(DecodeMetaWriterTest, ABlockGivenToTwoRowsIsRefused) {
  const DecodeMetaLayout layout = Layout(4);
  Memory memory(layout);
  TestBatch batch(1, 4, {{.id = 3, .seq_len = 5}, {.id = 2, .seq_len = 5}});
  batch.new_block[1] = batch.new_block[0];
  batch.slot_mapping[1] = batch.slot_mapping[0];
  EXPECT_THAT(WriteDecodeMeta(layout, batch.View(), TestMetaLimits(), kDelta,
                              memory.span()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("slot_mapping: got 284 twice")));
  // Block 71 again, with tokens at different places of it.
  TestBatch places(
      1, 4, {{.id = 3, .seq_len = 6, .tokens = 2}, {.id = 2, .seq_len = 5}});
  const DecodeMetaLayout drafts = Layout(4, 3);
  Memory more(drafts);
  places.new_block = {71, 71};
  places.seq_lens[1] = 8;
  places.token_counts[1] = 4;
  places.slot_mapping = {284, 285, 284, 285, 286, 287};
  places.input_ids.resize(6, 0);
  places.positions.resize(6, 0);
  EXPECT_THAT(WriteDecodeMeta(drafts, places.View(), TestMetaLimits(), kDelta,
                              more.span()),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("twice")));
}

TEST(DecodeMetaWriterTest, MropePositionsAreCheckedOnEveryAxis) {
  const DecodeMetaLayout layout = Layout(2, 0, /*mrope=*/true);
  Memory memory(layout);
  for (size_t axis = 0; axis < 3; ++axis) {
    TestBatch batch(1, 2, {{.id = 3, .seq_len = 5}, {.id = 2, .seq_len = 7}},
                    /*mrope=*/true);
    batch.positions[2 * axis + 1] = 64;
    EXPECT_THAT(WriteDecodeMeta(layout, batch.View(), TestMetaLimits(), kFull,
                                memory.span()),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("positions of token 1: got 64")));
  }
  TestBatch flat(1, 2, {{.id = 3, .seq_len = 5}});
  EXPECT_THAT(WriteDecodeMeta(layout, flat.View(), TestMetaLimits(), kFull,
                              memory.span()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("got 1 entries, limit exactly 3")));
}

TEST(DecodeMetaWriterTest, StagingMemoryThatDoesNotFitIsRefused) {
  const DecodeMetaLayout layout = Layout(4);
  Memory memory(layout);
  TestBatch batch(1, 4, {{.id = 3, .seq_len = 5}});
  const auto delta_bytes = static_cast<size_t>(layout.delta_bytes);
  EXPECT_THAT(WriteDecodeMeta(layout, batch.View(), TestMetaLimits(), kFull,
                              memory.span().subspan(0, delta_bytes)),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("staging memory")));
  EXPECT_OK(WriteDecodeMeta(layout, batch.View(), TestMetaLimits(), kDelta,
                            memory.span().subspan(0, delta_bytes)));
  EXPECT_THAT(
      WriteDecodeMeta(layout, batch.View(), TestMetaLimits(), kDelta,
                      memory.span().subspan(4)),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("multiple of 8")));
}

TEST(DecodeMetaLimitsTest, B117PaddingHasItsBlocksBeforeTheFirstStep) {
  const DecodeMetaLayout layout = Layout(4);
  EXPECT_OK(CheckDecodeMetaLimits(layout, TestMetaLimits()));
  const std::vector<std::pair<void (*)(DecodeMetaLimits&), const char*>> cases =
      {{[](DecodeMetaLimits& l) { l.dummy_block = -1; },
        "dummy_block: got -1, limit 0 to 4999; set a block of the pool aside"},
       {[](DecodeMetaLimits& l) { l.dummy_block = 5000; },
        "dummy_block: got 5000"},
       {[](DecodeMetaLimits& l) { l.dummy_state_slot = -1; },
        "dummy_state_slot: got -1, limit 0 to 99; set a row"},
       {[](DecodeMetaLimits& l) { l.dummy_state_slot = 100; },
        "dummy_state_slot: got 100"}};
  for (const auto& [mutate, text] : cases) {
    DecodeMetaLimits limits = TestMetaLimits();
    mutate(limits);
    EXPECT_THAT(CheckDecodeMetaLimits(layout, limits),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text)));
  }
}

TEST(DecodeMetaLimitsTest, FiguresOutOfRangeAreRefused) {
  const DecodeMetaLayout layout = Layout(4);
  const std::vector<std::pair<void (*)(DecodeMetaLimits&), const char*>> cases =
      {{[](DecodeMetaLimits& l) { l.max_seq_len = 0; }, "max_seq_len: got 0"},
       {[](DecodeMetaLimits& l) { l.kv_block_size = 0; },
        "kv_block_size: got 0"},
       {[](DecodeMetaLimits& l) { l.kv_blocks = 0; }, "kv_blocks: got 0"},
       {[](DecodeMetaLimits& l) { l.kv_blocks = int64_t{1} << 31; },
        "kv_blocks: got 2147483648"},
       {[](DecodeMetaLimits& l) { l.vocab_size = 0; }, "vocab_size: got 0"},
       {[](DecodeMetaLimits& l) { l.state_slots = -1; }, "state_slots: got -1"},
       {[](DecodeMetaLimits& l) { l.lora_slots = -1; }, "lora_slots: got -1"},
       {[](DecodeMetaLimits& l) { l.max_seq_len = 69; },
        "got 18, limit max_blocks=17"}};
  for (const auto& [mutate, text] : cases) {
    DecodeMetaLimits limits = TestMetaLimits();
    mutate(limits);
    EXPECT_THAT(CheckDecodeMetaLimits(layout, limits),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text)));
  }
  EXPECT_THAT(CheckDecodeMetaLimits(DecodeMetaLayout(), TestMetaLimits()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("layout.rows: got 0")));
}

}  // namespace
}  // namespace permafrost
