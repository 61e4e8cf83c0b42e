// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_ARENA_DECODE_META_LAYOUT_H_
#define PERMAFROST_ARENA_DECODE_META_LAYOUT_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "permafrost/arena/serving_limits.h"

// Where the numbers lie that the host tells the device about each decode step:
// positions, KV slots, block table and the like.

namespace permafrost {

/// Positions of a token in models with multimodal rotary positions: time,
/// height and width.
inline constexpr int64_t kMropeAxes = 3;

/// The batch size of the graph that runs `n` sequences: the smallest of 1, 2,
/// 4, 8, 12, 16, 24, 32, 48, 64, 96 and 128 that is not below it, and above 128
/// the next multiple of 32. A batch of 0 takes the smallest graph.
///
/// Errors: kInvalidArgument for a negative `n` or one near 2^63.
absl::StatusOr<int64_t> PadToRung(int64_t n);

/// Entries of a sequence's row of the block table: one for each KV block of
/// the longest sequence and one more, or 256 where there is no paged KV cache.
/// `limits` has passed `CheckLimits`.
int64_t DecodeMetaMaxBlocks(const ServingLimits& limits);

/// The original engine's block, byte for byte: for parity tests and for its
/// kernels. It has the rows of max_batch_size, at least 32, and not of the
/// rung: a batch of 36 runs as one of 48 and does not fit.
///
/// Units: every offset in bytes from the block's start; 4-byte aligned, `slots`
/// 8-byte aligned. Threads: a value; const access from any thread.
struct SeedDecodeMetaLayout {
  /// Errors: kInvalidArgument for max_batch_size or max_blocks below 1, or a
  ///   size beyond 2^63-1.
  static absl::StatusOr<SeedDecodeMetaLayout> ForBatch(int64_t max_batch_size,
                                                       int64_t max_blocks);
  /// Errors: those of `CheckLimits` and of `ForBatch`.
  static absl::StatusOr<SeedDecodeMetaLayout> ForLimits(
      const ServingLimits& limits);

  int64_t rows = 0;
  int64_t max_blocks = 0;  ///< entries of a row of `block_table`

  int64_t positions = 0;    ///< u32 for each row; always 0
  int64_t seq_slot = 0;     ///< i32 for each row: adapter slot
  int64_t slots = 0;        ///< i64 for each row: where its KV goes
  int64_t seq_lens = 0;     ///< i32 for each row
  int64_t unused = 0;       ///< 4 bytes for each row that nothing reads
  int64_t block_table = 0;  ///< i32, `max_blocks` for each row
  int64_t bytes = 0;
};

/// What the one-block layout depends on besides the number of rows.
struct DecodeMetaOptions {
  /// Entries of a row of the block table: see `DecodeMetaMaxBlocks`.
  int64_t max_blocks = 0;
  /// Draft tokens verified with each sequence in one step.
  int64_t draft_tokens = 0;
  /// Three positions for each token: time, height and width.
  bool mrope = false;
  /// The block table also as lists without padding (`kv_indptr` and
  /// `kv_indices`), as attention libraries take it.
  bool csr = false;
};

/// What an upload starts with; the device sees it at offset 0 of the block.
struct DecodeMetaHeader {
  static constexpr uint32_t kMagic = 0x4d444650;  // "PFDM" in memory
  static constexpr uint32_t kVersion = 1;

  static constexpr uint32_t kFull = 1;   ///< flag: all of the block was written
  static constexpr uint32_t kDelta = 2;  ///< flag: up to `delta_bytes` only
  static constexpr uint32_t kMrope = 4;  ///< flag of the layout
  static constexpr uint32_t kCsr = 8;    ///< flag of the layout

  uint32_t magic = kMagic;
  uint32_t version = kVersion;
  /// The number of the step; the step's last kernel hands it back.
  uint64_t step = 0;
  uint32_t n_seqs = 0;
  uint32_t padded_n = 0;
  uint32_t n_tokens = 0;  ///< of the `n_seqs` sequences, without padding
  uint32_t flags = 0;
  uint64_t layout_id = 0;     ///< `DecodeMetaLayout::id()`
  uint64_t copied_bytes = 0;  ///< of this upload, this header included
  /// See `DecodeMetaBodySum`.
  uint64_t body_sum = 0;
  uint64_t reserved = 0;
};
static_assert(sizeof(DecodeMetaHeader) == 64);

/// The decode step's metadata in one block, so that one copy uploads it.
///
/// R rows are one for each sequence of the padded batch, T = R * q tokens are q
/// = 1 + draft_tokens for each row, B is max_blocks.
///
/// | region           | holds                                  | uploaded |
/// |------------------|----------------------------------------|----------|
/// | header           | `DecodeMetaHeader`                     | always   |
/// | slot_mapping     | i64[T], where a token's KV goes        | always   |
/// | state_slot       | i32[R], row of the linear-attention    | always   |
/// |                  | state pool                             |          |
/// | input_ids        | i32[T]                                 | always   |
/// | positions        | i32[T], with M-RoPE i32[3][T]          | always   |
/// | seq_lens         | i32[R], this step's tokens included    | always   |
/// | cu_seqlens_q     | i32[R+1], a row's first token          | always   |
/// | kv_last_page_len | i32[R], tokens in a row's last block   | always   |
/// | lora_slot        | i32[T], -1: no adapter                 | always   |
/// | logits_index     | i32[R], token whose logits are wanted  | always   |
/// | new_block        | i32[T], block that a row gains, else -1| always   |
/// | kv_indptr        | i32[R+1], a row's first kv_indices     | FULL     |
/// | kv_indices       | i32[R*B], blocks of all rows           | FULL     |
/// | block_table      | i32[R][B], padded with the dummy block | FULL     |
///
/// A FULL upload copies `full_bytes`, a DELTA upload `delta_bytes`, and a
/// kernel enters `new_block` into the table that is already there. Without the
/// CSR option kv_indptr and kv_indices take no bytes.
///
/// R is the rung of max_batch_size and not max_batch_size itself, because
/// batches are padded to rungs; offsets depend on nothing else but the options,
/// so graphs of every rung share them.
///
/// Units: every offset in bytes from the block's start, a multiple of 256.
/// Threads: a value; const access from any thread.
struct DecodeMetaLayout {
  /// Errors: kInvalidArgument for max_batch_size or max_blocks below 1,
  ///   draft_tokens below 0, more tokens (with CSR: list entries) than 32 bits
  ///   index, or a size beyond 2^63-1.
  static absl::StatusOr<DecodeMetaLayout> ForBatch(
      int64_t max_batch_size, const DecodeMetaOptions& options);
  /// max_blocks and draft_tokens come from `limits`.
  /// Errors: those of `CheckLimits` and of `ForBatch`.
  static absl::StatusOr<DecodeMetaLayout> ForLimits(const ServingLimits& limits,
                                                    bool mrope = false,
                                                    bool csr = false);

  /// T.
  int64_t tokens() const { return rows * tokens_per_row; }
  /// A number that two layouts share exactly if all their offsets, rows and
  /// options are equal (up to collisions of a 64-bit hash). The writer and the
  /// kernels of a graph must have been given equal ids.
  uint64_t id() const;

  int64_t rows = 0;            ///< R
  int64_t tokens_per_row = 0;  ///< q
  int64_t max_blocks = 0;      ///< B
  bool mrope = false;
  bool csr = false;

  int64_t header = 0;  ///< always 0
  int64_t slot_mapping = 0;
  int64_t state_slot = 0;
  int64_t input_ids = 0;
  int64_t positions = 0;
  int64_t seq_lens = 0;
  int64_t cu_seqlens_q = 0;
  int64_t kv_last_page_len = 0;
  int64_t lora_slot = 0;
  int64_t logits_index = 0;
  int64_t new_block = 0;
  int64_t delta_bytes = 0;  ///< of a DELTA upload
  int64_t kv_indptr = 0;    ///< without CSR equal to `block_table`
  int64_t kv_indices = 0;   ///< without CSR equal to `block_table`
  int64_t block_table = 0;
  int64_t full_bytes = 0;  ///< of a FULL upload, and of the block
};

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_DECODE_META_LAYOUT_H_
