// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/decode_meta_history.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "permafrost/driver/status.h"

namespace permafrost {
namespace {

int64_t BlocksOf(int64_t tokens, const DecodeMetaLimits& limits) {
  return (tokens + limits.kv_block_size - 1) / limits.kv_block_size;
}

template <typename... Parts>
absl::Status NeedsFull(uint64_t step, const Parts&... parts) {
  return absl::FailedPreconditionError(
      absl::StrCat("decode metadata: DELTA upload of step ", step, ": ",
                   parts..., "; upload this step FULL"));
}

}  // namespace

DecodeMetaHistory::DecodeMetaHistory(const DecodeMetaLayout& layout)
    : csr_(layout.csr) {
  rows_.reserve(static_cast<size_t>(layout.rows));
  staged_rows_.reserve(static_cast<size_t>(layout.rows));
}

absl::Status DecodeMetaHistory::Stage(const DecodeBatch& batch,
                                      const DecodeMetaLimits& limits,
                                      DecodeMetaMode mode, uint64_t epoch) {
  if (batch.step <= last_step_) {
    return absl::InvalidArgumentError(absl::StrCat(
        "decode metadata: step: got ", batch.step, ", limit above ", last_step_,
        ", the last uploaded; the echo tells uploads apart by it"));
  }
  staged_rows_.clear();
  if (mode == DecodeMetaMode::kDelta) {
    PERMAFROST_RETURN_IF_ERROR(StageDelta(batch, limits, epoch));
  } else {
    for (size_t i = 0; i < batch.seq_ids.size(); ++i) {
      staged_rows_.push_back(
          {batch.seq_ids[i], BlocksOf(batch.seq_lens[i], limits)});
    }
  }
  staged_step_ = batch.step;
  staged_epoch_ = epoch;
  return absl::OkStatus();
}

absl::Status DecodeMetaHistory::StageDelta(const DecodeBatch& batch,
                                           const DecodeMetaLimits& limits,
                                           uint64_t epoch) {
  if (!is_known_) {
    return NeedsFull(batch.step,
                     "what the device's block table holds is not known: "
                     "nothing was uploaded, or an upload failed");
  }
  if (epoch != epoch_) {
    return NeedsFull(batch.step, "arena epoch: got ", epoch,
                     ", the block table was uploaded in ", epoch_);
  }
  if (batch.seq_ids.size() != rows_.size()) {
    return NeedsFull(batch.step, "sequences: got ", batch.seq_ids.size(),
                     ", the block table has ", rows_.size());
  }
  for (size_t i = 0; i < rows_.size(); ++i) {
    const Row& row = rows_[i];
    if (batch.seq_ids[i] != row.seq_id) {
      return NeedsFull(batch.step, "row ", i, ": got sequence ",
                       batch.seq_ids[i], ", the block table has ", row.seq_id);
    }
    const int64_t blocks = BlocksOf(batch.seq_lens[i], limits);
    const bool is_told = !batch.new_block.empty() && batch.new_block[i] >= 0;
    if (blocks > row.blocks + 1) {
      return NeedsFull(batch.step, "row ", i, ": blocks gained: got ",
                       blocks - row.blocks, ", limit 1");
    }
    if (blocks == row.blocks + 1 && !is_told) {
      return NeedsFull(batch.step, "row ", i, ": ", batch.seq_lens[i],
                       " tokens need block ", row.blocks,
                       ", which new_block does not tell");
    }
    if (csr_ && blocks != row.blocks) {
      return NeedsFull(batch.step, "row ", i, ": blocks: got ", blocks,
                       ", kv_indptr was uploaded for ", row.blocks);
    }
    // A row whose drafts were rejected keeps the entries it had, except that a
    // block told again is the last that is valid.
    staged_rows_.push_back(
        {row.seq_id, is_told ? blocks : std::max(blocks, row.blocks)});
  }
  return absl::OkStatus();
}

void DecodeMetaHistory::Commit() {
  std::swap(rows_, staged_rows_);
  last_step_ = staged_step_;
  epoch_ = staged_epoch_;
  is_known_ = true;
}

}  // namespace permafrost
