// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_ARENA_DECODE_BATCH_H_
#define PERMAFROST_ARENA_DECODE_BATCH_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "permafrost/arena/decode_meta_layout.h"

namespace permafrost {

/// How much of the block an upload copies.
enum class DecodeMetaMode {
  kFull,   ///< all of it: after admission and eviction, and at the start
  kDelta,  ///< all but the block table, which the device keeps and patches
};

/// "FULL" or "DELTA".
absl::string_view DecodeMetaModeName(DecodeMetaMode mode);

/// What the numbers of a batch may be, and what padding rows use instead.
///
/// The two dummies are part of the engine's pools from the start, because a
/// padded graph touches them in its first replay: there is no moment at which
/// they could be made later.
struct DecodeMetaLimits {
  /// Tokens of the longest sequence.
  int64_t max_seq_len = 0;
  /// Tokens of one KV block; at least 1.
  int64_t kv_block_size = 0;
  /// Blocks of the KV pool.
  int64_t kv_blocks = 0;
  /// A block of the pool that no sequence is given. Padding tokens write to it
  /// and padding rows read it, so it holds finite numbers.
  int64_t dummy_block = -1;
  int64_t vocab_size = 0;
  /// Rows of the linear-attention state pool; 0: the model has none.
  int64_t state_slots = 0;
  /// A row of that pool that no sequence is given; unused where there is none.
  int64_t dummy_state_slot = -1;
  /// Adapters that can be loaded at a time; 0: none.
  int64_t lora_slots = 0;
};

/// Whether batches within the limits can be written in the layout.
///
/// Errors: kInvalidArgument naming the limit: one out of its range, a dummy
///   that is not in its pool, sequences of more blocks than the table's rows
///   hold, a layout that was not made by its factories.
/// Threads: any. Capture: no driver call.
absl::Status CheckDecodeMetaLimits(const DecodeMetaLayout& layout,
                                   const DecodeMetaLimits& limits);

/// One decode step as an engine has it: views of its own lists, which are read
/// while the batch is written and not kept.
///
/// Lists for each sequence are in row order; lists for each token hold the
/// tokens of row 0, then those of row 1 and so on.
struct DecodeBatch {
  /// The number of the step, from 1; no two uploads share one.
  uint64_t step = 0;
  /// Rows of the graph that will run, as from `PadToRung`.
  int64_t padded_n = 0;

  /// For each sequence: a number that tells it apart from every other, and
  /// from itself after it was preempted and admitted again. Its length is the
  /// number of sequences of the batch, which may be 0.
  absl::Span<const uint64_t> seq_ids;
  /// For each sequence: its tokens, those of this step included.
  absl::Span<const int32_t> seq_lens;
  /// For each sequence: tokens of this step, 1 to the layout's
  /// tokens_per_row. Empty: one each.
  absl::Span<const int32_t> token_counts = {};
  /// For each sequence: its row of the state pool. Empty where there is none.
  absl::Span<const int32_t> state_slot = {};
  /// For each sequence: its adapter, -1 for none. Empty: none at all.
  absl::Span<const int32_t> lora_slot = {};
  /// For each sequence: the token, counted over the batch, whose logits are
  /// wanted. Empty: each sequence's last.
  absl::Span<const int32_t> logits_index = {};

  /// For each token.
  absl::Span<const int32_t> input_ids;
  /// For each token its position; with M-RoPE all times, then all heights, then
  /// all widths.
  absl::Span<const int32_t> positions;
  /// For each token: block * kv_block_size + place in the block.
  absl::Span<const int64_t> slot_mapping;

  /// For each sequence its KV blocks, as many as its tokens need or more; the
  /// surplus stays out of the table. Read by FULL only.
  absl::Span<const absl::Span<const int32_t>> blocks = {};
  /// For each sequence: the block it gained with this step, else -1. Empty: no
  /// sequence gained one. Read by DELTA only.
  absl::Span<const int32_t> new_block = {};
};

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_DECODE_BATCH_H_
