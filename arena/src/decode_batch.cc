// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/decode_batch.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "checked_size.h"

namespace permafrost {
namespace {

constexpr int64_t kMostI32 = std::numeric_limits<int32_t>::max();

}  // namespace

absl::string_view DecodeMetaModeName(DecodeMetaMode mode) {
  return mode == DecodeMetaMode::kFull ? "FULL" : "DELTA";
}

absl::Status CheckDecodeMetaLimits(const DecodeMetaLayout& layout,
                                   const DecodeMetaLimits& limits) {
  const struct {
    const char* name;
    int64_t value;
    int64_t least;
    int64_t most;
    const char* remedy;
  } figures[] = {
      {"layout.rows", layout.rows, 1, kMostI32,
       "make the layout with ForBatch or ForLimits"},
      {"max_seq_len", limits.max_seq_len, 1, kMostI32, "as the arena's"},
      {"kv_block_size", limits.kv_block_size, 1, kMostI32,
       "without a paged KV cache there is no block table to upload"},
      {"kv_blocks", limits.kv_blocks, 1, kMostI32, "blocks of the KV pool"},
      {"dummy_block", limits.dummy_block, 0, limits.kv_blocks - 1,
       "set a block of the pool aside for padding before capture"},
      {"vocab_size", limits.vocab_size, 1, kMostI32, "as the model's"},
      {"state_slots", limits.state_slots, 0, kMostI32,
       "0 where the model has no state pool"},
      {"dummy_state_slot",
       limits.state_slots == 0 ? 0 : limits.dummy_state_slot, 0,
       limits.state_slots == 0 ? 0 : limits.state_slots - 1,
       "set a row of the state pool aside for padding before capture"},
      {"lora_slots", limits.lora_slots, 0, kMostI32, "0 without adapters"},
  };
  for (const auto& figure : figures) {
    if (figure.value >= figure.least && figure.value <= figure.most) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "decode metadata limits: ", figure.name, ": got ", figure.value,
        ", limit ", figure.least, " to ", figure.most, "; ", figure.remedy));
  }
  const int64_t blocks =
      *CheckedSize(limits.max_seq_len).CeilDiv(limits.kv_block_size).value();
  if (blocks > layout.max_blocks) {
    return absl::InvalidArgumentError(absl::StrCat(
        "decode metadata limits: blocks of a sequence of max_seq_len=",
        limits.max_seq_len, ": got ", blocks, ", limit max_blocks=",
        layout.max_blocks, " of the layout; make both of the same limits"));
  }
  return absl::OkStatus();
}

}  // namespace permafrost
