// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_ARENA_DECODE_META_WRITER_H_
#define PERMAFROST_ARENA_DECODE_META_WRITER_H_

#include <cstddef>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "permafrost/arena/decode_batch.h"
#include "permafrost/arena/decode_meta_layout.h"
#include "permafrost/arena/step_echo.h"

namespace permafrost {

/// Checks a batch and writes it into host memory as the device will read it.
///
/// Every byte of the upload is written, whatever lay there before: rows from
/// the batch's last to the layout's last become padding, so that no row of an
/// earlier, larger batch survives, and gaps become zero. A padding row is a
/// sequence of one token at position 0 whose blocks are all the dummy block:
///
/// | region           | padding rows and tokens                         |
/// |------------------|-------------------------------------------------|
/// | slot_mapping     | first slot of the dummy block                   |
/// | state_slot       | dummy_state_slot; 0 where there is no pool      |
/// | input_ids, positions | 0                                           |
/// | seq_lens, kv_last_page_len | 1                                     |
/// | cu_seqlens_q     | one token for each row                          |
/// | lora_slot, new_block | -1                                          |
/// | logits_index     | the row's token                                 |
/// | block_table      | the dummy block, the full width of every row    |
///
/// Padding is the dummy block and not -1 because a kernel that does not check
/// for -1 would read in front of the pool. With draft tokens, tokens at the end
/// may belong to no row; they are padding too.
///
/// `new_block` of a row lies at its first token, cu_seqlens_q[row]; the kernel
/// that enters it writes column (seq_lens[row] - 1) / kv_block_size.
///
/// This function knows one batch only. Whether a DELTA upload suits what the
/// device has is for `DecodeMetaHistory` to say.
///
/// @param out  at least full_bytes, for DELTA delta_bytes; 8-byte aligned.
/// @return what the step's last kernel has to hand back.
/// Errors: kInvalidArgument naming list, row or token, what was found and the
///   limit, for a list of the wrong length, padded_n below the batch or above
///   the layout's rows, a sequence longer than the limit or shorter than its
///   tokens, a number out of its range, a slot, state row, block or sequence
///   given twice, a slot that is not where the block table says;
///   kFailedPrecondition for a DELTA with a new block in a layout with CSR,
///   whose lists would move. After an error `out` holds anything.
/// Threads: any. Capture: no driver call, no allocation.
/// Cost: proportional to the bytes written, and sorting the batch's tokens.
absl::StatusOr<StepEcho> WriteDecodeMeta(const DecodeMetaLayout& layout,
                                         const DecodeBatch& batch,
                                         const DecodeMetaLimits& limits,
                                         DecodeMetaMode mode,
                                         absl::Span<std::byte> out);

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_DECODE_META_WRITER_H_
