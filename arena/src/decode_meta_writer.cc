// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/decode_meta_writer.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "permafrost/driver/status.h"

namespace permafrost {
namespace {

template <typename... Parts>
absl::Status Refused(const Parts&... parts) {
  return absl::InvalidArgumentError(
      absl::StrCat("decode metadata: ", parts...));
}

absl::Status OutOfRange(absl::string_view list, absl::string_view unit,
                        int64_t index, int64_t value, int64_t least,
                        int64_t most) {
  return Refused(list, " of ", unit, " ", index, ": got ", value, ", limit ",
                 least, " to ", most);
}

/// Checks one batch, then writes it. The regions of `out` serve as scratch for
/// finding duplicates before they get their content, so nothing is allocated.
class Writer {
 public:
  Writer(const DecodeMetaLayout& layout, const DecodeBatch& batch,
         const DecodeMetaLimits& limits, DecodeMetaMode mode,
         absl::Span<std::byte> out)
      : layout_(layout),
        batch_(batch),
        limits_(limits),
        is_full_(mode == DecodeMetaMode::kFull),
        mode_(mode),
        out_(out),
        seqs_(static_cast<int64_t>(batch.seq_ids.size())) {}

  absl::Status Check() {
    PERMAFROST_RETURN_IF_ERROR(CheckOut());
    PERMAFROST_RETURN_IF_ERROR(CheckLengths());
    for (int64_t row = 0, token = 0; row < seqs_; ++row) {
      PERMAFROST_RETURN_IF_ERROR(CheckRow(row, token));
      token += TokensOf(row);
    }
    for (int64_t token = 0; token < tokens_; ++token) {
      PERMAFROST_RETURN_IF_ERROR(CheckToken(token));
    }
    return CheckDuplicates();
  }

  StepEcho Write() {
    // Gaps between the regions are uploaded too; with them zero, equal batches
    // make equal bytes.
    Zero(0, layout_.delta_bytes);
    WriteTokens();
    WriteRows();
    if (is_full_) WriteTable();

    DecodeMetaHeader header;
    header.step = batch_.step;
    header.n_seqs = static_cast<uint32_t>(seqs_);
    header.padded_n = static_cast<uint32_t>(batch_.padded_n);
    header.n_tokens = static_cast<uint32_t>(tokens_);
    header.flags =
        (is_full_ ? DecodeMetaHeader::kFull : DecodeMetaHeader::kDelta) |
        (layout_.mrope ? DecodeMetaHeader::kMrope : 0) |
        (layout_.csr ? DecodeMetaHeader::kCsr : 0);
    header.layout_id = layout_.id();
    header.copied_bytes = static_cast<uint64_t>(CopiedBytes());
    header.body_sum =
        DecodeMetaBodySum(out_.subspan(0, static_cast<size_t>(CopiedBytes())));
    std::memcpy(out_.data(), &header, sizeof(header));
    return {header.step, header.body_sum};
  }

 private:
  template <typename T>
  T* Region(int64_t offset) {
    return reinterpret_cast<T*>(out_.data() + offset);
  }

  template <typename T>
  static T At(absl::Span<const T> list, int64_t index) {
    return list[static_cast<size_t>(index)];
  }

  void Zero(int64_t from, int64_t to) {
    std::memset(out_.data() + from, 0, static_cast<size_t>(to - from));
  }

  int64_t CopiedBytes() const {
    return is_full_ ? layout_.full_bytes : layout_.delta_bytes;
  }
  int64_t TokensOf(int64_t row) const {
    return batch_.token_counts.empty() ? 1 : At(batch_.token_counts, row);
  }
  int64_t BlocksOf(int64_t row) const {
    return (At(batch_.seq_lens, row) + limits_.kv_block_size - 1) /
           limits_.kv_block_size;
  }
  bool GainsBlock(int64_t row) const {
    return !is_full_ && !batch_.new_block.empty() &&
           At(batch_.new_block, row) >= 0;
  }

  absl::Status CheckOut() const {
    const auto got = static_cast<int64_t>(out_.size());
    if (got < CopiedBytes()) {
      return Refused("staging memory: got ", got, " bytes, limit at least ",
                     CopiedBytes(), " for ", DecodeMetaModeName(mode_));
    }
    if (reinterpret_cast<uintptr_t>(out_.data()) % alignof(int64_t) != 0) {
      return Refused("staging memory: got an address that is no multiple of ",
                     alignof(int64_t));
    }
    return absl::OkStatus();
  }

  absl::Status CheckLength(absl::string_view list, size_t got, int64_t want,
                           bool may_be_empty) const {
    if (static_cast<int64_t>(got) == want) return absl::OkStatus();
    if (may_be_empty && got == 0) return absl::OkStatus();
    return Refused(list, ": got ", got, " entries, limit exactly ", want,
                   " for ", seqs_, " sequences and ", tokens_, " tokens");
  }

  absl::Status CheckLengths() {
    if (batch_.step == 0) {
      return Refused("step: got 0, limit at least 1; 0 means no upload yet");
    }
    if (batch_.padded_n > layout_.rows) {
      return Refused("padded_n: got ", batch_.padded_n,
                     ", limit rows=", layout_.rows, "; raise max_batch_size");
    }
    if (batch_.padded_n < seqs_ || batch_.padded_n < 1) {
      return Refused("padded_n: got ", batch_.padded_n, ", limit at least ",
                     std::max<int64_t>(seqs_, 1), ", the batch's sequences");
    }
    PERMAFROST_RETURN_IF_ERROR(
        CheckLength("seq_lens", batch_.seq_lens.size(), seqs_, false));
    PERMAFROST_RETURN_IF_ERROR(
        CheckLength("token_counts", batch_.token_counts.size(), seqs_, true));
    for (int64_t row = 0; row < seqs_; ++row) {
      const int64_t count = TokensOf(row);
      if (count < 1 || count > layout_.tokens_per_row) {
        return OutOfRange("token_counts", "row", row, count, 1,
                          layout_.tokens_per_row);
      }
      tokens_ += count;
    }
    PERMAFROST_RETURN_IF_ERROR(
        CheckLength("state_slot", batch_.state_slot.size(),
                    limits_.state_slots == 0 ? 0 : seqs_, false));
    PERMAFROST_RETURN_IF_ERROR(
        CheckLength("lora_slot", batch_.lora_slot.size(), seqs_, true));
    PERMAFROST_RETURN_IF_ERROR(
        CheckLength("logits_index", batch_.logits_index.size(), seqs_, true));
    PERMAFROST_RETURN_IF_ERROR(
        CheckLength("input_ids", batch_.input_ids.size(), tokens_, false));
    PERMAFROST_RETURN_IF_ERROR(CheckLength(
        layout_.mrope ? "positions (3 for each token)" : "positions",
        batch_.positions.size(), tokens_ * (layout_.mrope ? kMropeAxes : 1),
        false));
    PERMAFROST_RETURN_IF_ERROR(CheckLength(
        "slot_mapping", batch_.slot_mapping.size(), tokens_, false));
    if (is_full_) {
      return CheckLength("blocks", batch_.blocks.size(), seqs_, false);
    }
    return CheckLength("new_block", batch_.new_block.size(), seqs_, true);
  }

  absl::Status CheckRow(int64_t row, int64_t first_token) const {
    const int64_t seq_len = At(batch_.seq_lens, row);
    if (seq_len < TokensOf(row) || seq_len > limits_.max_seq_len) {
      return OutOfRange("seq_lens", "row", row, seq_len, TokensOf(row),
                        limits_.max_seq_len);
    }
    if (limits_.state_slots > 0) {
      const int64_t slot = At(batch_.state_slot, row);
      if (slot < 0 || slot >= limits_.state_slots) {
        return OutOfRange("state_slot", "row", row, slot, 0,
                          limits_.state_slots - 1);
      }
      if (slot == limits_.dummy_state_slot) {
        return Refused("state_slot of row ", row, ": got ", slot,
                       ", which is padding's dummy_state_slot");
      }
    }
    if (!batch_.lora_slot.empty()) {
      const int64_t slot = At(batch_.lora_slot, row);
      if (slot < -1 || slot >= limits_.lora_slots) {
        return OutOfRange("lora_slot", "row", row, slot, -1,
                          limits_.lora_slots - 1);
      }
    }
    if (!batch_.logits_index.empty()) {
      const int64_t token = At(batch_.logits_index, row);
      const int64_t last_token = first_token + TokensOf(row) - 1;
      if (token < first_token || token > last_token) {
        return OutOfRange("logits_index", "row", row, token, first_token,
                          last_token);
      }
    }
    PERMAFROST_RETURN_IF_ERROR(is_full_ ? CheckBlocks(row) : CheckGain(row));
    return CheckSlots(row, first_token);
  }

  absl::Status CheckBlocks(int64_t row) const {
    const absl::Span<const int32_t> blocks =
        batch_.blocks[static_cast<size_t>(row)];
    const auto got = static_cast<int64_t>(blocks.size());
    if (got < BlocksOf(row)) {
      return Refused("blocks of row ", row, ": got ", got, ", limit at least ",
                     BlocksOf(row), " for ", At(batch_.seq_lens, row),
                     " tokens in blocks of ", limits_.kv_block_size);
    }
    for (int64_t i = 0; i < BlocksOf(row); ++i) {
      const int64_t block = At(blocks, i);
      if (block < 0 || block >= limits_.kv_blocks) {
        return OutOfRange(absl::StrCat("block ", i), "row", row, block, 0,
                          limits_.kv_blocks - 1);
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckGain(int64_t row) const {
    if (batch_.new_block.empty()) return absl::OkStatus();
    const int64_t block = At(batch_.new_block, row);
    if (block == -1) return absl::OkStatus();
    if (block < 0 || block >= limits_.kv_blocks) {
      return OutOfRange("new_block", "row", row, block, -1,
                        limits_.kv_blocks - 1);
    }
    if (block == limits_.dummy_block) {
      return Refused("new_block of row ", row, ": got ", block,
                     ", which is padding's dummy_block");
    }
    const int64_t seq_len = At(batch_.seq_lens, row);
    const int64_t block_start = (BlocksOf(row) - 1) * limits_.kv_block_size;
    if (block_start < seq_len - TokensOf(row)) {
      return Refused("new_block of row ", row, ": got ", block, ", but its ",
                     TokensOf(row), " tokens up to ", seq_len,
                     " begin no block of ", limits_.kv_block_size);
    }
    if (layout_.csr) {
      return absl::FailedPreconditionError(absl::StrCat(
          "decode metadata: new_block of row ", row, ": got ", block,
          " in a DELTA upload with CSR, whose kv_indices would move; upload "
          "this step FULL"));
    }
    return absl::OkStatus();
  }

  /// A token's KV must go where attention will look for it.
  absl::Status CheckSlots(int64_t row, int64_t first_token) const {
    const int64_t first_place = At(batch_.seq_lens, row) - TokensOf(row);
    for (int64_t i = 0; i < TokensOf(row); ++i) {
      const int64_t slot = At(batch_.slot_mapping, first_token + i);
      const int64_t slots = limits_.kv_blocks * limits_.kv_block_size;
      if (slot < 0 || slot >= slots) {
        return OutOfRange("slot_mapping", "token", first_token + i, slot, 0,
                          slots - 1);
      }
      const int64_t block = slot / limits_.kv_block_size;
      if (block == limits_.dummy_block) {
        return Refused("slot_mapping of token ", first_token + i, ": got ",
                       slot, ", which lies in padding's dummy_block=", block);
      }
      const int64_t column = (first_place + i) / limits_.kv_block_size;
      const int64_t place = (first_place + i) % limits_.kv_block_size;
      int64_t want_block = block;
      if (is_full_) {
        want_block = At(batch_.blocks[static_cast<size_t>(row)], column);
      } else if (GainsBlock(row) && column == BlocksOf(row) - 1) {
        want_block = At(batch_.new_block, row);
      }
      const int64_t want = want_block * limits_.kv_block_size + place;
      if (slot != want) {
        return Refused("slot_mapping of token ", first_token + i, ": got ",
                       slot, ", but token ", first_place + i, " of row ", row,
                       " belongs into slot ", want, " of block ", want_block);
      }
    }
    return absl::OkStatus();
  }

  absl::Status CheckToken(int64_t token) const {
    const int64_t id = At(batch_.input_ids, token);
    if (id < 0 || id >= limits_.vocab_size) {
      return OutOfRange("input_ids", "token", token, id, 0,
                        limits_.vocab_size - 1);
    }
    const int64_t axes = layout_.mrope ? kMropeAxes : 1;
    for (int64_t axis = 0; axis < axes; ++axis) {
      const int64_t position = At(batch_.positions, axis * tokens_ + token);
      if (position < 0 || position >= limits_.max_seq_len) {
        return OutOfRange("positions", "token", token, position, 0,
                          limits_.max_seq_len - 1);
      }
    }
    return absl::OkStatus();
  }

  /// Sorts a copy of `list`, made in `scratch`, and looks for equal neighbours;
  /// entries below `least` do not count.
  template <typename T>
  absl::Status CheckDistinct(absl::string_view name, absl::Span<const T> list,
                             T* scratch, T least) const {
    T* const end = std::copy_if(list.begin(), list.end(), scratch,
                                [least](T value) { return value >= least; });
    std::sort(scratch, end);
    const T* const twice = std::adjacent_find(scratch, end);
    if (twice == end) return absl::OkStatus();
    return Refused(name, ": got ", *twice, " twice; each belongs to one");
  }

  absl::Status CheckDuplicates() {
    PERMAFROST_RETURN_IF_ERROR(CheckDistinct<uint64_t>(
        "seq_ids", batch_.seq_ids, Region<uint64_t>(layout_.slot_mapping), 0));
    PERMAFROST_RETURN_IF_ERROR(
        CheckDistinct<int64_t>("slot_mapping", batch_.slot_mapping,
                               Region<int64_t>(layout_.slot_mapping), 0));
    PERMAFROST_RETURN_IF_ERROR(
        CheckDistinct<int32_t>("state_slot", batch_.state_slot,
                               Region<int32_t>(layout_.state_slot), 0));
    if (is_full_) return absl::OkStatus();
    return CheckDistinct<int32_t>("new_block", batch_.new_block,
                                  Region<int32_t>(layout_.new_block), 0);
  }

  void WriteTokens() {
    const int64_t all = layout_.tokens();
    auto* const slots = Region<int64_t>(layout_.slot_mapping);
    std::copy(batch_.slot_mapping.begin(), batch_.slot_mapping.end(), slots);
    std::fill(slots + tokens_, slots + all,
              limits_.dummy_block * limits_.kv_block_size);

    // Padding tokens have id and position 0, which the memory already is.
    std::copy(batch_.input_ids.begin(), batch_.input_ids.end(),
              Region<int32_t>(layout_.input_ids));
    auto* const positions = Region<int32_t>(layout_.positions);
    const int64_t axes = layout_.mrope ? kMropeAxes : 1;
    for (int64_t axis = 0; axis < axes; ++axis) {
      const int32_t* const from = batch_.positions.data() + axis * tokens_;
      std::copy(from, from + tokens_, positions + axis * all);
    }

    auto* const lora = Region<int32_t>(layout_.lora_slot);
    auto* const gained = Region<int32_t>(layout_.new_block);
    std::fill(lora, lora + all, -1);
    std::fill(gained, gained + all, -1);
    for (int64_t row = 0, token = 0; row < seqs_; ++row) {
      if (!batch_.lora_slot.empty()) {
        std::fill_n(lora + token, TokensOf(row), At(batch_.lora_slot, row));
      }
      if (GainsBlock(row)) gained[token] = At(batch_.new_block, row);
      token += TokensOf(row);
    }
  }

  void WriteRows() {
    const int64_t rows = layout_.rows;
    auto* const states = Region<int32_t>(layout_.state_slot);
    auto* const seq_lens = Region<int32_t>(layout_.seq_lens);
    auto* const first_tokens = Region<int32_t>(layout_.cu_seqlens_q);
    auto* const last_pages = Region<int32_t>(layout_.kv_last_page_len);
    auto* const logits = Region<int32_t>(layout_.logits_index);

    const int64_t dummy_state =
        limits_.state_slots == 0 ? 0 : limits_.dummy_state_slot;
    std::fill(states, states + rows, static_cast<int32_t>(dummy_state));
    std::copy(batch_.state_slot.begin(), batch_.state_slot.end(), states);

    int64_t token = 0;
    for (int64_t row = 0; row < rows; ++row) {
      const bool is_live = row < seqs_;
      const int64_t seq_len = is_live ? At(batch_.seq_lens, row) : 1;
      const int64_t tokens = is_live ? TokensOf(row) : 1;
      seq_lens[row] = static_cast<int32_t>(seq_len);
      last_pages[row] =
          static_cast<int32_t>((seq_len - 1) % limits_.kv_block_size + 1);
      first_tokens[row] = static_cast<int32_t>(token);
      token += tokens;
      logits[row] = is_live && !batch_.logits_index.empty()
                        ? At(batch_.logits_index, row)
                        : static_cast<int32_t>(token - 1);
    }
    first_tokens[rows] = static_cast<int32_t>(token);
  }

  void WriteTable() {
    const int64_t rows = layout_.rows;
    const int64_t width = layout_.max_blocks;
    const auto dummy = static_cast<int32_t>(limits_.dummy_block);
    auto* const table = Region<int32_t>(layout_.block_table);
    std::fill(table, table + rows * width, dummy);
    for (int64_t row = 0; row < seqs_; ++row) {
      std::copy_n(batch_.blocks[static_cast<size_t>(row)].data(), BlocksOf(row),
                  table + row * width);
    }
    const int64_t table_bytes = rows * width * 4;
    Zero(layout_.block_table + table_bytes, layout_.full_bytes);
    if (!layout_.csr) return;

    auto* const first_index = Region<int32_t>(layout_.kv_indptr);
    auto* const indices = Region<int32_t>(layout_.kv_indices);
    std::fill(indices, indices + rows * width, dummy);
    Zero(layout_.kv_indptr + (rows + 1) * 4, layout_.kv_indices);
    Zero(layout_.kv_indices + table_bytes, layout_.block_table);
    int64_t index = 0;
    for (int64_t row = 0; row < rows; ++row) {
      first_index[row] = static_cast<int32_t>(index);
      const int64_t blocks = row < seqs_ ? BlocksOf(row) : 1;
      std::copy_n(table + row * width, blocks, indices + index);
      index += blocks;
    }
    first_index[rows] = static_cast<int32_t>(index);
  }

  const DecodeMetaLayout& layout_;
  const DecodeBatch& batch_;
  const DecodeMetaLimits& limits_;
  const bool is_full_;
  const DecodeMetaMode mode_;
  const absl::Span<std::byte> out_;
  const int64_t seqs_;
  int64_t tokens_ = 0;
};

}  // namespace

absl::StatusOr<StepEcho> WriteDecodeMeta(const DecodeMetaLayout& layout,
                                         const DecodeBatch& batch,
                                         const DecodeMetaLimits& limits,
                                         DecodeMetaMode mode,
                                         absl::Span<std::byte> out) {
  PERMAFROST_RETURN_IF_ERROR(CheckDecodeMetaLimits(layout, limits));
  Writer writer(layout, batch, limits, mode, out);
  PERMAFROST_RETURN_IF_ERROR(writer.Check());
  return writer.Write();
}

}  // namespace permafrost
