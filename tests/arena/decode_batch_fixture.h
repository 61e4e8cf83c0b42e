// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Decode batches for tests: a few sequences, and the lists that an engine would
// hand over for them.

#ifndef PERMAFROST_TESTS_ARENA_DECODE_BATCH_FIXTURE_H_
#define PERMAFROST_TESTS_ARENA_DECODE_BATCH_FIXTURE_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "permafrost/arena/decode_batch.h"
#include "permafrost/arena/decode_meta_layout.h"

namespace permafrost::testing {

inline constexpr DecodeMetaMode kFull = DecodeMetaMode::kFull;
inline constexpr DecodeMetaMode kDelta = DecodeMetaMode::kDelta;
inline constexpr int64_t kTestKvBlock = 4;
inline constexpr int64_t kTestMaxSeqLen = 64;
inline constexpr int64_t kTestMaxBlocks = kTestMaxSeqLen / kTestKvBlock + 1;
inline constexpr int32_t kTestDummyBlock = 1;
inline constexpr int32_t kTestDummyState = 7;

inline DecodeMetaLimits TestMetaLimits() {
  DecodeMetaLimits limits;
  limits.max_seq_len = kTestMaxSeqLen;
  limits.kv_block_size = kTestKvBlock;
  limits.kv_blocks = 5000;
  limits.dummy_block = kTestDummyBlock;
  limits.vocab_size = 1000;
  limits.state_slots = 100;
  limits.dummy_state_slot = kTestDummyState;
  limits.lora_slots = 4;
  return limits;
}

/// A sequence of so many tokens, `tokens` of which are of this step. Its blocks
/// follow from its id, and no two sequences share one.
struct TestSequence {
  uint64_t id = 0;
  int32_t seq_len = 1;
  int32_t tokens = 1;

  int32_t Block(int64_t column) const {
    return static_cast<int32_t>(10 + 20 * static_cast<int64_t>(id) + column);
  }
  int64_t blocks() const { return (seq_len + kTestKvBlock - 1) / kTestKvBlock; }
};

/// The lists of a batch; a test may change them before it takes `View()`.
struct TestBatch {
  TestBatch(uint64_t step_number, int64_t padded,
            const std::vector<TestSequence>& sequences, bool mrope = false)
      : step(step_number), padded_n(padded) {
    for (const TestSequence& sequence : sequences) {
      seq_ids.push_back(sequence.id);
      seq_lens.push_back(sequence.seq_len);
      token_counts.push_back(sequence.tokens);
      state_slot.push_back(static_cast<int32_t>(10 + sequence.id));
      lora_slot.push_back(static_cast<int32_t>(sequence.id % 5) - 1);
      std::vector<int32_t> row;
      // One more than needed, as engines that reserve ahead have it.
      for (int64_t i = 0; i <= sequence.blocks(); ++i) {
        row.push_back(sequence.Block(i));
      }
      block_rows.push_back(std::move(row));
      const int32_t first = sequence.seq_len - sequence.tokens;
      const int64_t last_column = sequence.blocks() - 1;
      new_block.push_back(last_column * kTestKvBlock >= first
                              ? sequence.Block(last_column)
                              : -1);
      for (int32_t place = first; place < sequence.seq_len; ++place) {
        input_ids.push_back(static_cast<int32_t>(
            (100 * sequence.id + static_cast<uint64_t>(place)) % 1000));
        positions.push_back(place);
        slot_mapping.push_back(sequence.Block(place / kTestKvBlock) *
                                   kTestKvBlock +
                               place % kTestKvBlock);
      }
    }
    if (mrope) {
      // Heights and widths, told apart from times.
      const std::vector<int32_t> times = positions;
      for (int32_t axis = 1; axis <= 2; ++axis) {
        for (int32_t time : times) positions.push_back(time / (1 + axis));
      }
    }
  }

  DecodeBatch View() {
    blocks.assign(block_rows.begin(), block_rows.end());
    DecodeBatch batch;
    batch.step = step;
    batch.padded_n = padded_n;
    batch.seq_ids = seq_ids;
    batch.seq_lens = seq_lens;
    batch.token_counts = token_counts;
    batch.state_slot = state_slot;
    batch.lora_slot = lora_slot;
    batch.logits_index = logits_index;
    batch.input_ids = input_ids;
    batch.positions = positions;
    batch.slot_mapping = slot_mapping;
    batch.blocks = blocks;
    batch.new_block = new_block;
    return batch;
  }

  uint64_t step;
  int64_t padded_n;
  std::vector<uint64_t> seq_ids;
  std::vector<int32_t> seq_lens;
  std::vector<int32_t> token_counts;
  std::vector<int32_t> state_slot;
  std::vector<int32_t> lora_slot;
  std::vector<int32_t> logits_index;
  std::vector<int32_t> input_ids;
  std::vector<int32_t> positions;
  std::vector<int64_t> slot_mapping;
  std::vector<std::vector<int32_t>> block_rows;
  std::vector<absl::Span<const int32_t>> blocks;
  std::vector<int32_t> new_block;
};

}  // namespace permafrost::testing

#endif  // PERMAFROST_TESTS_ARENA_DECODE_BATCH_FIXTURE_H_
