// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "buffer_rows.h"
#include "permafrost/arena/arena_plan.h"
#include "permafrost/arena/decode_meta_layout.h"
#include "permafrost/driver/status.h"

// What every model has: the residual stream, the head, the step's metadata.
namespace permafrost::internal {
namespace {

/// Rows of the head's output that the original reserves for drafts, and rows
/// of metadata that it stages for them.
constexpr int64_t kVerifyRowCap = 256;
/// Where the original puts the decode metadata inside `scratch`.
constexpr int64_t kSeedDecodeMetaOffset = 32768;
constexpr int64_t kSeedScratchFloorBytes = 65536;
/// Positions, adapter slots, KV slots (two words), lengths, a hole: six words.
constexpr int64_t kSeedMetaBytesPerRow = 24;

ByteCount HiddenRowsBytes(Config config, Limits limits) {
  return Bytes(Rows(limits) * config.hidden_size * kBf16Bytes);
}

ByteCount PaddedHiddenRowsBytes(Config config, Limits limits) {
  return Bytes(PaddedRows(limits) * config.hidden_size * kBf16Bytes);
}

CheckedSize NormWidth(Config config) {
  return Max(CheckedSize(config.hidden_size), MambaInnerWidth(config));
}

ByteCount NormOutputBytes(Config config, Limits limits) {
  return Bytes(PaddedRows(limits) * NormWidth(config) * kBf16Bytes);
}

ByteCount SeedNormOutputBytes(Config config, Limits limits) {
  return Bytes(Rows(limits) * NormWidth(config) * kBf16Bytes);
}

ByteCount NormUnitWeightBytes(Config config, Limits /*limits*/) {
  return Bytes(NormWidth(config) * kBf16Bytes);
}

/// Every row of a decode batch needs its logits, drafts included, but of a
/// prefill only each sequence's last one does. The one row more is a prefill
/// beside a full batch.
CheckedSize HeadRows(Limits limits) {
  const CheckedSize decode_rows = DecodeRows(limits);
  CheckedSize rows = MaxOf({kVerifyRowCap, decode_rows + 1});
  if (!IsSeed(limits)) {
    rows = Max(rows, decode_rows * (CheckedSize(limits.draft_tokens) + 1));
  }
  if (!rows.value()) return rows;
  return std::min(*rows.value(), limits.max_batch_tokens);
}

ByteCount LogitsBytes(Config config, Limits limits) {
  return Bytes(HeadRows(limits).AlignUp(kGemmRowBlock) * config.vocab_size *
               kBf16Bytes);
}

ByteCount SeedLogitsBytes(Config config, Limits limits) {
  return Bytes(HeadRows(limits) * config.vocab_size * kBf16Bytes);
}

ByteCount TokenIdsBytes(Config /*config*/, Limits limits) {
  return Bytes(Rows(limits) * kI32Bytes);
}

ByteCount SeedTokenIdsBytes(Config /*config*/, Limits limits) {
  return Bytes(Max(Rows(limits) * kI32Bytes, kSeedPlaceholderBytes));
}

ByteCount DecodeMetaBytes(Config /*config*/, Limits limits) {
  PERMAFROST_ASSIGN_OR_RETURN(const DecodeMetaLayout layout,
                              DecodeMetaLayout::ForLimits(limits));
  return layout.full_bytes;
}

/// Prefill metadata, in regions of their own: a position and a KV slot for each
/// token; length and start of each sequence, one start more, and its blocks.
ByteCount ScratchBytes(Config /*config*/, Limits limits) {
  const CheckedSize tokens = limits.max_batch_tokens;
  const CheckedSize sequences = DecodeRows(limits);
  return Bytes((tokens * kI32Bytes).AlignUp(kBufferAlignmentBytes) +
               (tokens * kI64Bytes).AlignUp(kBufferAlignmentBytes) +
               (sequences * kI32Bytes).AlignUp(kBufferAlignmentBytes) +
               ((sequences + 1) * kI32Bytes).AlignUp(kBufferAlignmentBytes) +
               (sequences * DecodeMetaMaxBlocks(limits) * kI32Bytes)
                   .AlignUp(kBufferAlignmentBytes));
}

/// The original also takes the maximum with two terms whose formulas are not
/// public facts: the prefill metadata behind the top-k tables, and batched
/// prefill staging. Neither decides the size at the golden parameters.
ByteCount SeedScratchBytes(Config config, Limits limits) {
  const CheckedSize topk_tables =
      Rows(limits) * config.experts_per_token * kI32Bytes * 2;
  const CheckedSize bytes_per_row =
      CheckedSize(DecodeMetaMaxBlocks(limits)) * kI32Bytes +
      kSeedMetaBytesPerRow;
  const CheckedSize meta_rows =
      Max(CheckedSize(DecodeRows(limits)), kVerifyRowCap);
  return Bytes(MaxOf({kSeedScratchFloorBytes, topk_tables,
                      meta_rows * bytes_per_row + kSeedDecodeMetaOffset}));
}

constexpr const char* kNormOutputUses[] = {"normed rows",
                                           "Mamba-2 gated-norm rows", nullptr};

constexpr BufferRow kStepRows[] = {
    {.name = "hidden_states",
     .meaning = "token activations from layer to layer",
     .element = ElementType::kBf16,
     .row_padding = 1,
     .gate = nullptr,
     .bytes = HiddenRowsBytes,
     .lifetime = Lifetime::kPerStep,
     .toucher = Toucher::kDevice,
     .tag = "step"},
    {.name = "residual",
     .meaning = "residual stream, written together with the norm",
     .element = ElementType::kBf16,
     .row_padding = 1,
     .gate = nullptr,
     .bytes = HiddenRowsBytes,
     .lifetime = Lifetime::kPerStep,
     .toucher = Toucher::kDevice,
     .tag = "step"},
    {.name = "norm_output",
     .meaning = "normed rows, the input of the projections",
     .element = ElementType::kBf16,
     .row_padding = kGemmRowBlock,
     .gate = nullptr,
     .bytes = NormOutputBytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step",
     .aliases = kNormOutputUses,
     .seed_bytes = SeedNormOutputBytes},
    {.name = "moe_output",
     .meaning = "combined output of the experts, or of the dense layer",
     .element = ElementType::kBf16,
     .row_padding = kGemmRowBlock,
     .gate = nullptr,
     .bytes = PaddedHiddenRowsBytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step"},
    {.name = "logits",
     .meaning = "rows of the head, for the sampler",
     .element = ElementType::kBf16,
     .row_padding = kGemmRowBlock,
     .gate = nullptr,
     .bytes = LogitsBytes,
     .lifetime = Lifetime::kPerStep,
     .toucher = Toucher::kDeviceWritesHostReads,
     .tag = "step",
     .sized_by = "max_batch_tokens, max_batch_size, draft_tokens",
     .seed_bytes = SeedLogitsBytes},
    {.name = "token_ids",
     .meaning = "token ids of the step, for the embedding and hash routers",
     .element = ElementType::kI32,
     .row_padding = 1,
     .gate = nullptr,
     .bytes = TokenIdsBytes,
     .lifetime = Lifetime::kHostWritten,
     .toucher = Toucher::kHostWritesDeviceReads,
     .tag = "host",
     .seed_bytes = SeedTokenIdsBytes},
    {.name = "decode_meta",
     .meaning = "positions, slots, lengths and block table of a decode step",
     .element = ElementType::kMixed,
     .row_padding = 1,
     .gate = nullptr,
     .bytes = DecodeMetaBytes,
     .lifetime = Lifetime::kHostWritten,
     .toucher = Toucher::kHostWritesDeviceReads,
     .tag = "host",
     .sized_by = "max_batch_size, max_seq_len, draft_tokens",
     .is_ours = true},
    {.name = "scratch",
     .meaning = "positions, slots, starts and block table of a prefill step",
     .element = ElementType::kMixed,
     .row_padding = 1,
     .gate = nullptr,
     .bytes = ScratchBytes,
     .lifetime = Lifetime::kHostWritten,
     .toucher = Toucher::kHostWritesDeviceReads,
     .tag = "host",
     .sized_by = "max_batch_tokens, max_batch_size, max_seq_len",
     .seed_bytes = SeedScratchBytes},
    {.name = "norm_unit_w",
     .meaning = "zeros: the weight of a norm that scales by 1 + weight",
     .element = ElementType::kBf16,
     .row_padding = 1,
     .gate = nullptr,
     .bytes = NormUnitWeightBytes,
     .lifetime = Lifetime::kConstant,
     .toucher = Toucher::kDevice,
     .tag = "constant",
     .sized_by = "",
     .sleep = SleepPolicy::kZero},
};

}  // namespace

absl::Span<const BufferRow> StepRows() { return kStepRows; }

}  // namespace permafrost::internal
