// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/decode_meta_layout.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "checked_size.h"
#include "fnv1a.h"
#include "permafrost/driver/checked_math.h"
#include "permafrost/driver/status.h"
#include "region_alignment.h"

namespace permafrost {
namespace {

constexpr std::array<int64_t, 12> kRungs = {1,  2,  4,  8,  12, 16,
                                            24, 32, 48, 64, 96, 128};
/// Above the last rung graphs are captured in steps of so many rows.
constexpr int64_t kRungStep = 32;
constexpr int64_t kSeedLeastRows = 32;
constexpr int64_t kMaxBlocksUnpaged = 256;
/// What a signed 32-bit index on the device reaches.
constexpr int64_t kMostIndexed = std::numeric_limits<int32_t>::max();

absl::Status CheckAtLeast(absl::string_view layout, absl::string_view name,
                          int64_t value, int64_t least) {
  if (value >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      layout, ": ", name, ": got ", value, ", limit at least ", least));
}

absl::Status TooLarge(absl::string_view layout, int64_t rows,
                      int64_t max_blocks) {
  return absl::InvalidArgumentError(absl::StrCat(
      layout, ": ", rows, " rows of max_blocks=", max_blocks,
      ": got a size beyond the limit 2^63-1 bytes; lower max_batch_size, "
      "draft_tokens or max_seq_len"));
}

/// Hands out regions one after the other, each aligned.
class RegionPacker {
 public:
  int64_t Place(CheckedSize bytes) {
    const CheckedSize start = end_;
    end_ = end_ + bytes.AlignUp(kRegionAlignmentBytes);
    return start.value().value_or(0);
  }
  /// nullopt if any region was out of range.
  std::optional<int64_t> end() const { return end_.value(); }

 private:
  CheckedSize end_ = 0;
};

}  // namespace

absl::StatusOr<int64_t> PadToRung(int64_t n) {
  PERMAFROST_RETURN_IF_ERROR(CheckAtLeast("decode batch", "sequences", n, 0));
  const auto* rung = std::lower_bound(kRungs.begin(), kRungs.end(), n);
  if (rung != kRungs.end()) return *rung;
  const std::optional<int64_t> padded = CheckedAlignUp(n, kRungStep);
  if (!padded) {
    return absl::InvalidArgumentError(absl::StrCat(
        "decode batch: sequences: got ", n, ", limit 2^63-", kRungStep));
  }
  return *padded;
}

int64_t DecodeMetaMaxBlocks(const ServingLimits& limits) {
  if (limits.kv_block_size == 0) return kMaxBlocksUnpaged;
  return limits.max_seq_len / limits.kv_block_size + 1;
}

absl::StatusOr<SeedDecodeMetaLayout> SeedDecodeMetaLayout::ForBatch(
    int64_t max_batch_size, int64_t max_blocks) {
  constexpr absl::string_view kLayout = "seed decode metadata layout";
  PERMAFROST_RETURN_IF_ERROR(
      CheckAtLeast(kLayout, "max_batch_size", max_batch_size, 1));
  PERMAFROST_RETURN_IF_ERROR(
      CheckAtLeast(kLayout, "max_blocks", max_blocks, 1));
  const int64_t row_count = std::max(max_batch_size, kSeedLeastRows);

  const CheckedSize rows = row_count;
  const CheckedSize block_table = rows * 24;
  const CheckedSize bytes = block_table + rows * max_blocks * 4;
  // `bytes` is the sum of all the others, so they are in range when it is.
  if (!bytes.value()) return TooLarge(kLayout, row_count, max_blocks);

  SeedDecodeMetaLayout layout;
  layout.rows = row_count;
  layout.max_blocks = max_blocks;
  layout.positions = 0;
  layout.seq_slot = 4 * row_count;
  layout.slots = 8 * row_count;
  layout.seq_lens = 16 * row_count;
  layout.unused = 20 * row_count;
  layout.block_table = *block_table.value();
  layout.bytes = *bytes.value();
  return layout;
}

absl::StatusOr<SeedDecodeMetaLayout> SeedDecodeMetaLayout::ForLimits(
    const ServingLimits& limits) {
  PERMAFROST_RETURN_IF_ERROR(CheckLimits(limits));
  return ForBatch(limits.max_batch_size, DecodeMetaMaxBlocks(limits));
}

absl::StatusOr<DecodeMetaLayout> DecodeMetaLayout::ForBatch(
    int64_t max_batch_size, const DecodeMetaOptions& options) {
  constexpr absl::string_view kLayout = "decode metadata layout";
  PERMAFROST_RETURN_IF_ERROR(
      CheckAtLeast(kLayout, "max_batch_size", max_batch_size, 1));
  PERMAFROST_RETURN_IF_ERROR(
      CheckAtLeast(kLayout, "max_blocks", options.max_blocks, 1));
  PERMAFROST_RETURN_IF_ERROR(
      CheckAtLeast(kLayout, "draft_tokens", options.draft_tokens, 0));
  PERMAFROST_ASSIGN_OR_RETURN(const int64_t row_count,
                              PadToRung(max_batch_size));

  const CheckedSize rows = row_count;
  const CheckedSize tokens_per_row = CheckedSize(options.draft_tokens) + 1;
  const CheckedSize tokens = rows * tokens_per_row;
  const CheckedSize table_entries = rows * options.max_blocks;
  if (!tokens.value() || !table_entries.value()) {
    return TooLarge(kLayout, row_count, options.max_blocks);
  }
  if (*tokens.value() > kMostIndexed) {
    return absl::InvalidArgumentError(absl::StrCat(
        kLayout, ": ", row_count, " rows of 1 + ", options.draft_tokens,
        " tokens: got ", *tokens.value(), ", limit ", kMostIndexed,
        ", which 32-bit cu_seqlens_q reaches; lower max_batch_size or "
        "draft_tokens"));
  }
  if (options.csr && *table_entries.value() > kMostIndexed) {
    return absl::InvalidArgumentError(absl::StrCat(
        kLayout, ": ", row_count, " rows of max_blocks=", options.max_blocks,
        ": got ", *table_entries.value(), " entries of kv_indices, limit ",
        kMostIndexed,
        ", which 32-bit kv_indptr reaches; lower max_batch_size "
        "or max_seq_len, or go without csr"));
  }

  const CheckedSize row_words = rows * 4;
  const CheckedSize token_words = tokens * 4;
  const CheckedSize boundaries = (rows + 1) * 4;
  const CheckedSize table = table_entries * 4;

  DecodeMetaLayout layout;
  layout.rows = row_count;
  layout.tokens_per_row = *tokens_per_row.value();
  layout.max_blocks = options.max_blocks;
  layout.mrope = options.mrope;
  layout.csr = options.csr;

  RegionPacker packer;
  layout.header = packer.Place(sizeof(DecodeMetaHeader));
  layout.slot_mapping = packer.Place(tokens * 8);
  layout.state_slot = packer.Place(row_words);
  layout.input_ids = packer.Place(token_words);
  layout.positions =
      packer.Place(options.mrope ? token_words * kMropeAxes : token_words);
  layout.seq_lens = packer.Place(row_words);
  layout.cu_seqlens_q = packer.Place(boundaries);
  layout.kv_last_page_len = packer.Place(row_words);
  layout.lora_slot = packer.Place(token_words);
  layout.logits_index = packer.Place(row_words);
  layout.new_block = packer.Place(token_words);
  layout.delta_bytes = packer.end().value_or(0);
  layout.kv_indptr = packer.Place(options.csr ? boundaries : 0);
  layout.kv_indices = packer.Place(options.csr ? table : 0);
  layout.block_table = packer.Place(table);
  // The end is the sum of all the others, so they are in range when it is.
  if (!packer.end()) return TooLarge(kLayout, row_count, options.max_blocks);
  layout.full_bytes = *packer.end();
  return layout;
}

absl::StatusOr<DecodeMetaLayout> DecodeMetaLayout::ForLimits(
    const ServingLimits& limits, bool mrope, bool csr) {
  PERMAFROST_RETURN_IF_ERROR(CheckLimits(limits));
  return ForBatch(limits.max_batch_size,
                  {.max_blocks = DecodeMetaMaxBlocks(limits),
                   .draft_tokens = limits.draft_tokens,
                   .mrope = mrope,
                   .csr = csr});
}

uint64_t DecodeMetaLayout::id() const {
  Fnv1a64 hash;
  for (int64_t value : {rows,
                        tokens_per_row,
                        max_blocks,
                        int64_t{mrope},
                        int64_t{csr},
                        header,
                        slot_mapping,
                        state_slot,
                        input_ids,
                        positions,
                        seq_lens,
                        cu_seqlens_q,
                        kv_last_page_len,
                        lora_slot,
                        logits_index,
                        new_block,
                        delta_bytes,
                        kv_indptr,
                        kv_indices,
                        block_table,
                        full_bytes}) {
    hash.AddNumber(static_cast<uint64_t>(value));
  }
  return hash.value();
}

}  // namespace permafrost
