// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/serving_limits.h"

#include "absl/strings/str_cat.h"

namespace permafrost {
namespace {

/// No figure of an engine comes near it, and products of three stay in range.
constexpr int64_t kMostOfAny = int64_t{1} << 40;

}  // namespace

absl::Status CheckLimits(const ServingLimits& limits) {
  const struct {
    const char* name;
    int64_t value;
    int64_t least;
  } rows[] = {
      {"max_batch_tokens", limits.max_batch_tokens, 1},
      {"max_batch_size", limits.max_batch_size, 1},
      {"max_seq_len", limits.max_seq_len, 1},
      {"kv_block_size", limits.kv_block_size, 0},
      {"sm_count", limits.sm_count, 1},
      {"lora_rank", limits.lora_rank, 0},
      {"draft_tokens", limits.draft_tokens, 0},
  };
  for (const auto& row : rows) {
    if (row.value >= row.least && row.value <= kMostOfAny) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("serving limits: ", row.name, ": got ", row.value,
                     ", limit ", row.least, " to ", kMostOfAny));
  }
  return absl::OkStatus();
}

}  // namespace permafrost
