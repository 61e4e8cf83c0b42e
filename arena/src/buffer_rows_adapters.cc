// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "buffer_rows.h"

// Low-rank adapters (LoRA).
namespace permafrost::internal {
namespace {

Gate NeedsAdapters(Config /*config*/, Limits limits) {
  if (limits.lora_rank != 0) return std::nullopt;
  return "ServingLimits::lora_rank is 0";
}

/// Inner width of the feed-forward layers that adapters reach: dense ones and,
/// in our rules, shared experts.
CheckedSize MlpWidth(Config config, Limits limits) {
  if (IsSeed(limits)) return config.intermediate_size;
  return Max(CheckedSize(config.intermediate_size),
             config.shared_expert_intermediate_size);
}

Gate NeedsAdaptedMlp(Config config, Limits limits) {
  Gate reason = NeedsAdapters(config, limits);
  if (reason) return reason;
  const std::optional<int64_t> width = MlpWidth(config, limits).value();
  if (!width || *width != 0) return std::nullopt;
  return "the model has no dense feed-forward layer and no shared expert";
}

ByteCount LoraXaBytes(Config /*config*/, Limits limits) {
  return Bytes(Rows(limits) * limits.lora_rank * kBf16Bytes);
}

ByteCount LoraDeltaBytes(Config config, Limits limits) {
  return Bytes(Rows(limits) *
               MaxOf({config.hidden_size, MlpWidth(config, limits),
                      GatedQueryWidth(config)}) *
               kBf16Bytes);
}

ByteCount LoraHactBytes(Config config, Limits limits) {
  return Bytes(Rows(limits) * MlpWidth(config, limits) * kBf16Bytes);
}

ByteCount LoraSeqSlotBytes(Config /*config*/, Limits limits) {
  return Bytes(Rows(limits) * kI32Bytes);
}

constexpr BufferRow kAdapterRows[] = {
    {.name = "lora_xa",
     .meaning = "rows shrunk to the adapter's rank",
     .element = ElementType::kBf16,
     .row_padding = 1,
     .gate = NeedsAdapters,
     .bytes = LoraXaBytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step",
     .sized_by = "max_batch_tokens, lora_rank"},
    {.name = "lora_delta",
     .meaning = "rows expanded from the adapter's rank",
     .element = ElementType::kBf16,
     .row_padding = 1,
     .gate = NeedsAdapters,
     .bytes = LoraDeltaBytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step"},
    {.name = "lora_hact",
     .meaning = "inner rows of an adapted feed-forward layer",
     .element = ElementType::kBf16,
     .row_padding = 1,
     .gate = NeedsAdaptedMlp,
     .bytes = LoraHactBytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step"},
    {.name = "lora_seq_slot",
     .meaning = "adapter of each prefill token; -1 is none",
     .element = ElementType::kI32,
     .row_padding = 1,
     .gate = NeedsAdapters,
     .bytes = LoraSeqSlotBytes,
     .lifetime = Lifetime::kHostWritten,
     .toucher = Toucher::kHostWritesDeviceReads,
     .tag = "host"},
};

}  // namespace

absl::Span<const BufferRow> AdapterRows() { return kAdapterRows; }

}  // namespace permafrost::internal
