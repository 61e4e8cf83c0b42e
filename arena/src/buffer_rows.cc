// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "buffer_rows.h"

#include <algorithm>

namespace permafrost::internal {
namespace {

/// Rows that the draft model runs at most, however small the decode batch is.
constexpr int64_t kDraftRowFloor = 128;

}  // namespace

ByteCount Bytes(CheckedSize size) {
  if (!size.value()) {
    return absl::InvalidArgumentError(
        "size: got a product beyond 2^63-1 or of a negative figure, limit "
        "2^63-1 bytes; lower the serving limits or mend the config");
  }
  return *size.value();
}

CheckedSize MaxOf(std::initializer_list<CheckedSize> sizes) {
  CheckedSize largest = 0;
  for (const CheckedSize& size : sizes) largest = Max(largest, size);
  return largest;
}

int64_t DraftRows(Limits limits) {
  if (limits.draft_tokens == 0) return 0;
  return std::min(limits.max_batch_tokens,
                  std::max(kDraftRowFloor, DecodeRows(limits)));
}

CheckedSize QueryWidth(Config config) {
  return CheckedSize(config.num_attention_heads) * config.head_dim;
}

CheckedSize GatedQueryWidth(Config config) {
  return QueryWidth(config) * (config.gated_attention ? 2 : 1);
}

CheckedSize AbsorbedQueryWidth(Config config) {
  if (!IsLatent(config)) return 0;
  return CheckedSize(config.num_attention_heads) *
         (CheckedSize(config.kv_lora_rank) + config.qk_rope_head_dim);
}

CheckedSize DeltaNetWidth(Config config) {
  return CheckedSize(config.gdn_key_heads) * config.gdn_key_head_dim * 2 +
         DeltaNetValueWidth(config) * 2;
}

CheckedSize DeltaNetValueWidth(Config config) {
  return CheckedSize(config.gdn_value_heads) * config.gdn_value_head_dim;
}

CheckedSize MambaInnerWidth(Config config) {
  return CheckedSize(config.mamba_heads) * config.mamba_head_dim;
}

CheckedSize MambaConvWidth(Config config) {
  if (config.mamba_heads == 0) return 0;
  return MambaInnerWidth(config) +
         CheckedSize(config.mamba_groups) * config.mamba_state * 2;
}

CheckedSize MambaProjectionWidth(Config config) {
  return MambaInnerWidth(config) + MambaConvWidth(config) + config.mamba_heads;
}

Gate NeedsExperts(Config config, Limits /*limits*/) {
  if (config.num_experts != 0) return std::nullopt;
  return "the model has no routed experts";
}

Gate NeedsDenseModel(Config config, Limits /*limits*/) {
  if (config.num_experts == 0) return std::nullopt;
  return "the model has routed experts, whose buffers its dense layers share";
}

}  // namespace permafrost::internal
