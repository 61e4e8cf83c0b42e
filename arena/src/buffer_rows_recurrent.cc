// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "buffer_rows.h"
#include "permafrost/arena/arena_plan.h"

// Gated delta nets and Mamba-2, and the unions that other layers share with
// them.
namespace permafrost::internal {
namespace {

/// Tokens of one chunk of the prefill scans.
constexpr int64_t kChunkTokens = 64;
/// Chunks more than whole ones, because each sequence ends with a partial one.
constexpr int64_t kPartialChunks = 16;
/// The one head width for which the chunked delta net kernels exist.
constexpr int64_t kChunkedHeadDim = 128;
/// Rows of a draft model that the original reserves.
constexpr int64_t kSeedDraftRows = 128;

CheckedSize PaddedDraftRows(Limits limits) {
  return CheckedSize(DraftRows(limits)).AlignUp(kGemmRowBlock);
}

CheckedSize SeedDraftRows(Limits limits) {
  return std::min(limits.max_batch_tokens, kSeedDraftRows);
}

ByteCount AtLeastPlaceholder(CheckedSize bytes) {
  return Bytes(Max(bytes, kSeedPlaceholderBytes));
}

CheckedSize KvWidth(Config config) {
  return CheckedSize(config.num_kv_heads) * config.head_dim;
}

ByteCount QkvzBytes(Config config, Limits limits) {
  return Bytes(
      PaddedRows(limits) *
      MaxOf({DeltaNetWidth(config), MambaProjectionWidth(config),
             KvWidth(config) * 2, config.shared_expert_intermediate_size}) *
      kBf16Bytes);
}

ByteCount SeedQkvzBytes(Config config, Limits limits) {
  const CheckedSize rows = Rows(limits);
  return AtLeastPlaceholder(
      MaxOf({PaddedRows(limits) * DeltaNetWidth(config),
             rows * MambaProjectionWidth(config),
             (rows + PaddedRows(limits)) * KvWidth(config),
             rows * config.shared_expert_intermediate_size}) *
      kBf16Bytes);
}

/// What a row of `ssm_ba` holds besides the draft model's input.
CheckedSize BaWidth(Config config) {
  const CheckedSize latent =
      IsLatent(config)
          ? Max(CheckedSize(config.qk_rope_head_dim), config.q_lora_rank)
          : CheckedSize(0);
  return MaxOf({CheckedSize(config.gdn_value_heads) * 2, config.moe_latent_size,
                latent});
}

Gate NeedsBa(Config config, Limits limits) {
  if (IsSeed(limits) || limits.draft_tokens != 0) return std::nullopt;
  const std::optional<int64_t> width = BaWidth(config).value();
  if (!width || *width != 0) return std::nullopt;
  return "the model has no gated delta net, latent attention or latent "
         "experts, and ServingLimits::draft_tokens is 0";
}

ByteCount BaBytes(Config config, Limits limits) {
  return Bytes(Max(PaddedRows(limits) * BaWidth(config),
                   PaddedDraftRows(limits) * config.hidden_size * 2) *
               kBf16Bytes);
}

ByteCount SeedBaBytes(Config config, Limits limits) {
  return AtLeastPlaceholder(
      Max(Rows(limits) * BaWidth(config),
          SeedDraftRows(limits) * config.hidden_size * 2) *
      kBf16Bytes);
}

ByteCount DeinterleavedBytes(Config config, Limits limits) {
  return Bytes(PaddedRows(limits) *
               MaxOf({DeltaNetWidth(config), MambaConvWidth(config),
                      QueryWidth(config), AbsorbedQueryWidth(config)}) *
               kBf16Bytes);
}

ByteCount SeedDeinterleavedBytes(Config config, Limits limits) {
  const CheckedSize unpadded_width = MaxOf(
      {MambaConvWidth(config), QueryWidth(config), AbsorbedQueryWidth(config)});
  return AtLeastPlaceholder(Max(PaddedRows(limits) * DeltaNetWidth(config),
                                Rows(limits) * unpadded_width) *
                            kBf16Bytes);
}

Gate NeedsGates(Config config, Limits limits) {
  if (IsSeed(limits) || limits.draft_tokens != 0 ||
      config.gdn_value_heads != 0) {
    return std::nullopt;
  }
  return "the model has no gated delta net, and ServingLimits::draft_tokens "
         "is 0";
}

ByteCount GatesBytes(Config config, Limits limits) {
  return Bytes(Max(Rows(limits) * config.gdn_value_heads * 2 * kF32Bytes,
                   PaddedDraftRows(limits) * config.hidden_size * kBf16Bytes));
}

ByteCount SeedGatesBytes(Config config, Limits limits) {
  return AtLeastPlaceholder(
      Max(Rows(limits) * config.gdn_value_heads * 2 * kF32Bytes,
          SeedDraftRows(limits) * config.hidden_size * kBf16Bytes));
}

CheckedSize RotaryQueryBytes(Config config, Limits limits) {
  if (!IsLatent(config)) return 0;
  return Rows(limits) * config.num_attention_heads * config.qk_rope_head_dim *
         kBf16Bytes;
}

Gate NeedsConvOut(Config config, Limits limits) {
  if (IsSeed(limits) || config.gdn_value_heads != 0 || IsLatent(config)) {
    return std::nullopt;
  }
  return "the model has no gated delta net and no latent attention";
}

/// The convolution leaves the gate part of the projection alone.
ByteCount ConvOutBytes(Config config, Limits limits) {
  const CheckedSize width =
      CheckedSize(config.gdn_key_heads) * config.gdn_key_head_dim * 2 +
      DeltaNetValueWidth(config);
  return Bytes(
      Max(Rows(limits) * width * kF32Bytes, RotaryQueryBytes(config, limits)));
}

ByteCount SeedConvOutBytes(Config config, Limits limits) {
  return AtLeastPlaceholder(
      Max(Rows(limits) * DeltaNetWidth(config) * kF32Bytes,
          RotaryQueryBytes(config, limits)));
}

Gate NeedsChunkedDeltaNet(Config config, Limits /*limits*/) {
  if (config.gdn_value_heads == 0) return "the model has no gated delta net";
  if (config.gdn_key_head_dim == kChunkedHeadDim &&
      config.gdn_value_head_dim == kChunkedHeadDim) {
    return std::nullopt;
  }
  return absl::StrCat("the chunked kernels need heads of ", kChunkedHeadDim,
                      ", got keys of ", config.gdn_key_head_dim,
                      " and values of ", config.gdn_value_head_dim);
}

/// W, U, the corrected values and their cumulative gates of each chunk, and the
/// state between chunks.
ByteCount DeltaNetScratchBytes(Config config, Limits limits) {
  const CheckedSize chunks =
      Rows(limits).CeilDiv(kChunkTokens) + kPartialChunks;
  const CheckedSize key = config.gdn_key_head_dim;
  const CheckedSize value = config.gdn_value_head_dim;
  const CheckedSize head_bytes = (key + value * 2) * kChunkTokens * kBf16Bytes +
                                 key * value * kBf16Bytes +
                                 kChunkTokens * kF32Bytes;
  return Bytes(chunks * config.gdn_value_heads * head_bytes);
}

Gate NeedsMamba(Config config, Limits /*limits*/) {
  if (config.mamba_heads != 0 && config.mamba_state != 0) return std::nullopt;
  return "the model has no Mamba-2 layers";
}

/// dt and the cumulative decay of each head, and C times B of each group.
ByteCount SsdScratchBytes(Config config, Limits limits) {
  const CheckedSize chunks = Rows(limits).CeilDiv(kChunkTokens) + 1;
  const CheckedSize groups = Max(CheckedSize(config.mamba_groups), 1);
  return Bytes(chunks * config.mamba_heads * kChunkTokens * kF32Bytes * 2 +
               chunks * groups * kChunkTokens * kChunkTokens * kF32Bytes);
}

int64_t DeltaNetLayers(Config config) {
  if (config.gdn_value_heads == 0) return 0;
  return std::count(config.layers.begin(), config.layers.end(),
                    LayerKind::kLinearAttention);
}

Gate NeedsWeightCopies(Config config, Limits limits) {
  if (!limits.rowwise_bf16_copies) {
    return "ServingLimits::rowwise_bf16_copies is off";
  }
  if (DeltaNetLayers(config) != 0) return std::nullopt;
  return "the model has no gated delta net layers";
}

/// The in-projection and the out-projection of each layer, each a piece of its
/// own in the slab.
ByteCount WeightCopyBytes(Config config, Limits /*limits*/) {
  const CheckedSize hidden = config.hidden_size;
  const CheckedSize in_bytes = DeltaNetWidth(config) * hidden * kBf16Bytes;
  const CheckedSize out_bytes =
      DeltaNetValueWidth(config) * hidden * kBf16Bytes;
  return Bytes(CheckedSize(DeltaNetLayers(config)) *
               (in_bytes.AlignUp(kBufferAlignmentBytes) +
                out_bytes.AlignUp(kBufferAlignmentBytes)));
}

ByteCount SeedWeightCopyBytes(Config config, Limits /*limits*/) {
  return Bytes(CheckedSize(DeltaNetLayers(config)) *
               (DeltaNetWidth(config) + DeltaNetValueWidth(config)) *
               config.hidden_size * kBf16Bytes);
}

constexpr const char* kQkvzUses[] = {
    "delta net in-projection", "Mamba-2 in-projection", "prefill keys, values",
    "shared expert's up rows", nullptr};
constexpr const char* kBaUses[] = {"delta net beta and alpha",
                                   "latent expert rows", "compressed queries",
                                   "draft model's input", nullptr};
constexpr const char* kDeinterleavedUses[] = {
    "delta net rows in order", "Mamba-2 convolved rows", "query rows",
    "absorbed queries", nullptr};
constexpr const char* kGatesUses[] = {"delta net gates",
                                      "draft model's hidden rows", nullptr};
constexpr const char* kConvOutUses[] = {"convolved delta net rows",
                                        "rotary queries", nullptr};

constexpr BufferRow kRecurrentRows[] = {
    {.name = "ssm_qkvz",
     .meaning = "in-projection of a recurrent layer, before it is put in order",
     .element = ElementType::kBf16,
     .row_padding = kGemmRowBlock,
     .gate = nullptr,
     .bytes = QkvzBytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step",
     .aliases = kQkvzUses,
     .seed_bytes = SeedQkvzBytes},
    {.name = "ssm_ba",
     .meaning = "small projections beside the large one",
     .element = ElementType::kBf16,
     .row_padding = kGemmRowBlock,
     .gate = NeedsBa,
     .bytes = BaBytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step",
     .aliases = kBaUses,
     .sized_by = "max_batch_tokens, max_batch_size, draft_tokens",
     .seed_bytes = SeedBaBytes},
    {.name = "ssm_deinterleaved",
     .meaning = "projected rows in the order that the kernels read",
     .element = ElementType::kBf16,
     .row_padding = kGemmRowBlock,
     .gate = nullptr,
     .bytes = DeinterleavedBytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step",
     .aliases = kDeinterleavedUses,
     .seed_bytes = SeedDeinterleavedBytes},
    {.name = "ssm_gates",
     .meaning = "decay and update gate of each value head",
     .element = ElementType::kF32,
     .row_padding = 1,
     .gate = NeedsGates,
     .bytes = GatesBytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step",
     .aliases = kGatesUses,
     .sized_by = "max_batch_tokens, max_batch_size, draft_tokens",
     .seed_bytes = SeedGatesBytes},
    {.name = "ssm_conv_out_f32",
     .meaning = "output of the causal convolution",
     .element = ElementType::kF32,
     .row_padding = 1,
     .gate = NeedsConvOut,
     .bytes = ConvOutBytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step",
     .aliases = kConvOutUses,
     .seed_bytes = SeedConvOutBytes},
    {.name = "gdn_fla_scratch",
     .meaning = "chunks of a delta net prefill and the states between them",
     .element = ElementType::kMixed,
     .row_padding = kChunkTokens,
     .gate = NeedsChunkedDeltaNet,
     .bytes = DeltaNetScratchBytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step"},
    {.name = "ssd_scratch",
     .meaning = "chunks of a Mamba-2 prefill",
     .element = ElementType::kF32,
     .row_padding = kChunkTokens,
     .gate = NeedsMamba,
     .bytes = SsdScratchBytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step"},
    {.name = "ssm_rowwise_w_bf16",
     .meaning = "bf16 copies of row-wise FP8 weights, carved layer by layer",
     .element = ElementType::kBf16,
     .row_padding = 1,
     .gate = NeedsWeightCopies,
     .bytes = WeightCopyBytes,
     .lifetime = Lifetime::kPersistentSlab,
     .toucher = Toucher::kDevice,
     .tag = "slab",
     .sized_by = "rowwise_bf16_copies",
     .seed_bytes = SeedWeightCopyBytes},
};

}  // namespace

absl::Span<const BufferRow> RecurrentRows() { return kRecurrentRows; }

}  // namespace permafrost::internal
