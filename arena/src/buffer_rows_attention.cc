// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "buffer_rows.h"

// Attention, its output projection, and hyper-connections beside them.
namespace permafrost::internal {
namespace {

/// Splits of one sequence's keys at most.
constexpr int64_t kMostSplits = 16;
/// A partial result carries its running maximum and its running sum.
constexpr int64_t kPartialExtras = 2;
/// Rows that the indexer and the low-rank collapse work on at a time.
constexpr int64_t kSlabRows = 2048;
/// Rows up to which the low-rank collapse keeps fp32.
constexpr int64_t kSmallCollapseRows = 64;

CheckedSize GroupedQkvWidth(Config config) {
  return GatedQueryWidth(config) +
         CheckedSize(config.num_kv_heads) * config.head_dim * 2;
}

/// Latent attention projects to all queries, one latent and one rotary key.
CheckedSize LatentQkvWidth(Config config) {
  return CheckedSize(config.num_attention_heads) *
             (CheckedSize(config.qk_nope_head_dim) + config.qk_rope_head_dim) +
         config.kv_lora_rank + config.qk_rope_head_dim;
}

ByteCount QkvOutputBytes(Config config, Limits limits) {
  const CheckedSize width =
      IsLatent(config) ? LatentQkvWidth(config) : GroupedQkvWidth(config);
  return Bytes(PaddedRows(limits) * width * kBf16Bytes);
}

ByteCount SeedQkvOutputBytes(Config config, Limits limits) {
  return Bytes(PaddedRows(limits) * GroupedQkvWidth(config) * kBf16Bytes);
}

CheckedSize AttentionWidth(Config config) {
  return MaxOf({QueryWidth(config), MambaInnerWidth(config),
                AbsorbedQueryWidth(config)});
}

ByteCount AttentionOutputBytes(Config config, Limits limits) {
  return Bytes(PaddedRows(limits) * AttentionWidth(config) * kBf16Bytes);
}

ByteCount SeedAttentionOutputBytes(Config config, Limits limits) {
  return Bytes(Rows(limits) * AttentionWidth(config) * kBf16Bytes);
}

CheckedSize SplitSlots(Config config, Limits limits) {
  if (limits.split_k == SplitKPolicy::kLegacy) return limits.sm_count;
  const CheckedSize heads = config.num_attention_heads;
  int64_t splits = 1;
  if (config.num_attention_heads > 0) {
    const CheckedSize filling =
        (CheckedSize(limits.sm_count) * 2).CeilDiv(config.num_attention_heads);
    splits = std::clamp<int64_t>(filling.value().value_or(kMostSplits), 1,
                                 kMostSplits);
  }
  // A step that verifies drafts queries with each of them.
  const CheckedSize queries =
      IsSeed(limits) ? CheckedSize(1) : CheckedSize(limits.draft_tokens) + 1;
  return CheckedSize(DecodeRows(limits)) * queries * heads * splits;
}

ByteCount SplitKBytes(CheckedSize slots, CheckedSize width) {
  return Bytes(slots * (width + kPartialExtras) * kF32Bytes);
}

/// Absorbed latent attention accumulates rows as wide as the latent.
ByteCount SplitKWorkspaceBytes(Config config, Limits limits) {
  return SplitKBytes(SplitSlots(config, limits),
                     Max(CheckedSize(config.head_dim), config.kv_lora_rank));
}

ByteCount SeedSplitKWorkspaceBytes(Config config, Limits limits) {
  return SplitKBytes(SplitSlots(config, limits), config.head_dim);
}

Gate NeedsAttention(Config config, Limits /*limits*/) {
  if (config.num_attention_heads != 0) return std::nullopt;
  return "the model has no attention heads";
}

Gate NeedsOutputGroups(Config config, Limits /*limits*/) {
  if (config.o_groups != 0 && config.o_lora_rank != 0) return std::nullopt;
  return "the output projection is not a grouped low-rank one";
}

ByteCount OutputLatentBytes(Config config, Limits limits) {
  return Bytes(PaddedRows(limits) * config.o_groups * config.o_lora_rank *
               kBf16Bytes);
}

ByteCount SeedOutputLatentBytes(Config config, Limits limits) {
  return Bytes(
      Max(Rows(limits) * config.o_groups * config.o_lora_rank * kBf16Bytes,
          kSeedPlaceholderBytes));
}

Gate NeedsIndexer(Config config, Limits /*limits*/) {
  if (config.indexer_heads == 0) {
    return "the model has no sparse attention indexer";
  }
  if (config.indexer_compress_ratio == 0) {
    return "the sparse attention indexer does not compress keys";
  }
  return std::nullopt;
}

/// Queries with one key head in bf16 and again the queries in fp32, a score for
/// each compressed key, and the list of chosen keys.
ByteCount IndexerBytes(Config config, Limits limits, CheckedSize rows,
                       CheckedSize chosen) {
  if (config.indexer_compress_ratio < 0) return Bytes(-1);
  const CheckedSize query =
      CheckedSize(config.indexer_heads) * config.indexer_head_dim;
  const CheckedSize row_bytes =
      (query + config.indexer_head_dim) * kBf16Bytes + query * kF32Bytes +
      CheckedSize(limits.max_seq_len).CeilDiv(config.indexer_compress_ratio) *
          kF32Bytes +
      chosen * kI32Bytes;
  return Bytes(rows * row_bytes);
}

ByteCount QsaSelectScratchBytes(Config config, Limits limits) {
  if (config.indexer_compress_ratio < 0) return Bytes(-1);
  return IndexerBytes(
      config, limits,
      CheckedSize(std::min(limits.max_batch_tokens, kSlabRows))
          .AlignUp(kGemmRowBlock),
      CheckedSize(config.indexer_top_k).CeilDiv(config.indexer_compress_ratio));
}

ByteCount SeedQsaSelectScratchBytes(Config config, Limits limits) {
  if (config.indexer_compress_ratio < 0) return Bytes(-1);
  return IndexerBytes(config, limits, kSlabRows,
                      config.indexer_top_k / config.indexer_compress_ratio);
}

Gate NeedsHyperConnections(Config config, Limits /*limits*/) {
  if (config.hyper_connections != 0) return std::nullopt;
  return "the model has no hyper-connections";
}

Gate NeedsLowRankCollapse(Config config, Limits limits) {
  Gate reason = NeedsHyperConnections(config, limits);
  if (reason || config.hyper_connection_rank != 0) return reason;
  return "the hyper-connections have no low-rank collapse";
}

ByteCount HcStreamsBytes(Config config, Limits limits) {
  return Bytes(Rows(limits) * config.hyper_connections * config.hidden_size *
               kF32Bytes);
}

ByteCount HcPostBytes(Config config, Limits limits) {
  return Bytes(Rows(limits) * config.hyper_connections * kF32Bytes);
}

ByteCount HcCombBytes(Config config, Limits limits) {
  return Bytes(Rows(limits) * config.hyper_connections *
               config.hyper_connections * kF32Bytes);
}

/// Few rows are collapsed in fp32, many in bf16, a slab at a time.
ByteCount HcLowRankBytes(Config config, Limits limits) {
  const CheckedSize few = std::min(limits.max_batch_tokens, kSmallCollapseRows);
  const CheckedSize many = std::min(limits.max_batch_tokens, kSlabRows);
  const CheckedSize streams =
      CheckedSize(config.hyper_connections) * config.hidden_size;
  return Bytes(Max(few * (streams + config.hyper_connection_rank) * kF32Bytes,
                   many *
                       (streams * 2 + config.hyper_connection_rank +
                        config.hyper_connections) *
                       kBf16Bytes));
}

constexpr const char* kAttentionOutputUses[] = {
    "attention rows", "Mamba-2 inner rows", "absorbed latent rows", nullptr};
constexpr const char* kLowRankUses[] = {"fp32 rows of a small batch",
                                        "bf16 rows of a slab", nullptr};

constexpr BufferRow kAttentionRows[] = {
    {.name = "qkv_output",
     .meaning = "fused projection to queries (and their gate), keys, values",
     .element = ElementType::kBf16,
     .row_padding = kGemmRowBlock,
     .gate = nullptr,
     .bytes = QkvOutputBytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step",
     .seed_bytes = SeedQkvOutputBytes},
    {.name = "attn_output",
     .meaning = "output rows of the mixer, the output projection's input",
     .element = ElementType::kBf16,
     .row_padding = kGemmRowBlock,
     .gate = nullptr,
     .bytes = AttentionOutputBytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step",
     .aliases = kAttentionOutputUses,
     .seed_bytes = SeedAttentionOutputBytes},
    {.name = "splitk_workspace",
     .meaning = "partial rows, maxima and sums of split attention",
     .element = ElementType::kF32,
     .row_padding = 1,
     .gate = NeedsAttention,
     .bytes = SplitKWorkspaceBytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step",
     .sized_by = "max_batch_size, sm_count, draft_tokens",
     .seed_bytes = SeedSplitKWorkspaceBytes},
    {.name = "o_latent",
     .meaning = "latent of the grouped output projection",
     .element = ElementType::kBf16,
     .row_padding = kGemmRowBlock,
     .gate = NeedsOutputGroups,
     .bytes = OutputLatentBytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step",
     .seed_bytes = SeedOutputLatentBytes,
     .seed_gated_bytes = kSeedPlaceholderBytes},
    {.name = "qsa_select_scratch",
     .meaning = "the indexer's queries, scores and chosen keys, one slab",
     .element = ElementType::kMixed,
     .row_padding = kGemmRowBlock,
     .gate = NeedsIndexer,
     .bytes = QsaSelectScratchBytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step",
     .sized_by = "max_seq_len, max_batch_tokens",
     .seed_bytes = SeedQsaSelectScratchBytes,
     .seed_gated_bytes = kSeedPlaceholderBytes},
};

constexpr BufferRow kHyperConnectionRows[] = {
    {.name = "hc_streams",
     .meaning = "parallel residual streams",
     .element = ElementType::kF32,
     .row_padding = 1,
     .gate = NeedsHyperConnections,
     .bytes = HcStreamsBytes,
     .lifetime = Lifetime::kPerStep,
     .toucher = Toucher::kDevice,
     .tag = "step",
     .seed_gated_bytes = kSeedPlaceholderBytes},
    {.name = "hc_post",
     .meaning = "weight with which each stream takes the layer's output",
     .element = ElementType::kF32,
     .row_padding = 1,
     .gate = NeedsHyperConnections,
     .bytes = HcPostBytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step",
     .seed_gated_bytes = kSeedPlaceholderBytes},
    {.name = "hc_comb",
     .meaning = "matrix that mixes the streams",
     .element = ElementType::kF32,
     .row_padding = 1,
     .gate = NeedsHyperConnections,
     .bytes = HcCombBytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step",
     .seed_gated_bytes = kSeedPlaceholderBytes},
    {.name = "hc_lowrank_scratch",
     .meaning = "rows of the low-rank collapse of the streams",
     .element = ElementType::kMixed,
     .row_padding = 1,
     .gate = NeedsLowRankCollapse,
     .bytes = HcLowRankBytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step",
     .aliases = kLowRankUses,
     .seed_gated_bytes = kSeedPlaceholderBytes},
};

}  // namespace

absl::Span<const BufferRow> AttentionRows() { return kAttentionRows; }
absl::Span<const BufferRow> HyperConnectionRows() {
  return kHyperConnectionRows;
}

}  // namespace permafrost::internal
