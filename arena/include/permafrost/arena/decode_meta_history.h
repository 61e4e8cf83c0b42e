// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_ARENA_DECODE_META_HISTORY_H_
#define PERMAFROST_ARENA_DECODE_META_HISTORY_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "permafrost/arena/decode_batch.h"
#include "permafrost/arena/decode_meta_layout.h"

namespace permafrost {

/// What the device's block holds after the uploads so far, as far as it decides
/// whether the next one may be a DELTA.
///
/// A batch is staged when it is written and committed when its upload was
/// enqueued; a batch that is staged and not committed leaves no trace.
///
/// Capture: no driver call. Threads: externally synchronised. Cost: no
/// allocation after the constructor; a pass over the batch's rows.
class DecodeMetaHistory {
 public:
  /// Makes room for the layout's rows.
  explicit DecodeMetaHistory(const DecodeMetaLayout& layout);

  /// Checks a batch against what was committed.
  ///
  /// @param batch  one that `WriteDecodeMeta` took.
  /// @param epoch  of the arena (`ArenaView::epoch()`): another one means that
  ///   other memory lies behind the addresses. 0 where there is none.
  /// Errors: kInvalidArgument for a step that is not above the last one;
  ///   kFailedPrecondition for a DELTA after which the device's table would be
  ///   wrong, naming the row: nothing was uploaded yet, the epoch changed, rows
  ///   were admitted, evicted or moved, a row gained a block that is not told
  ///   or more than one, or, with CSR, any block.
  absl::Status Stage(const DecodeBatch& batch, const DecodeMetaLimits& limits,
                     DecodeMetaMode mode, uint64_t epoch);

  /// What was staged last is on its way to the device.
  void Commit();

  /// Nothing is known of the block any more: an upload failed, or somebody
  /// else wrote to it. The next upload has to be FULL.
  void Forget() { is_known_ = false; }

  /// The step that was committed last; 0: none.
  uint64_t last_step() const { return last_step_; }

 private:
  struct Row {
    uint64_t seq_id = 0;
    /// Entries of the device's table row that are this sequence's.
    int64_t blocks = 0;
  };

  absl::Status StageDelta(const DecodeBatch& batch,
                          const DecodeMetaLimits& limits, uint64_t epoch);

  bool csr_ = false;
  bool is_known_ = false;
  uint64_t last_step_ = 0;
  uint64_t epoch_ = 0;
  std::vector<Row> rows_;

  uint64_t staged_step_ = 0;
  uint64_t staged_epoch_ = 0;
  std::vector<Row> staged_rows_;
};

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_DECODE_META_HISTORY_H_
