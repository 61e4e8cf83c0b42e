// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "buffer_rows.h"
#include "permafrost/arena/moe_fp8_layout.h"
#include "permafrost/arena/moe_routing_layout.h"
#include "permafrost/driver/status.h"

// Routers, experts, and the dense layers that share their buffers.
namespace permafrost::internal {
namespace {

/// The expert buffers hold at least so many token rows before rounding.
constexpr int64_t kMinExpertRows = 3;

CheckedSize PaddedExpertRows(Limits limits) {
  return Max(Rows(limits), kMinExpertRows).AlignUp(kGemmRowBlock);
}

CheckedSize RouterWidth(Config config) {
  return CheckedSize(config.num_experts) + config.num_zero_experts;
}

ByteCount GateLogitsBytes(Config config, Limits limits) {
  return Bytes(PaddedRows(limits) * RouterWidth(config) * kBf16Bytes);
}

ByteCount SeedGateLogitsBytes(Config config, Limits limits) {
  return Bytes(Rows(limits) * RouterWidth(config) * kBf16Bytes);
}

ByteCount GateLogitsF32Bytes(Config config, Limits limits) {
  return Bytes(PaddedRows(limits) * RouterWidth(config) * kF32Bytes);
}

ByteCount SeedGateLogitsF32Bytes(Config config, Limits limits) {
  return Bytes(Rows(limits) * RouterWidth(config) * kF32Bytes);
}

ByteCount RouterInputBytes(Config config, Limits limits) {
  return Bytes(PaddedRows(limits) * config.hidden_size * kF32Bytes);
}

ByteCount SeedRouterInputBytes(Config config, Limits limits) {
  return Bytes(Rows(limits) * config.hidden_size * kF32Bytes);
}

ByteCount MoeRoutingBytes(Config config, Limits limits) {
  PERMAFROST_ASSIGN_OR_RETURN(
      const MoeRoutingLayout layout,
      MoeRoutingLayout::ForRows(config, limits.max_batch_tokens));
  return layout.bytes;
}

/// Gate and up rows: of every routed pair in fp32, or of every token of a dense
/// layer. A mixed model runs its dense layers through the same buffer.
ByteCount ExpertWidthBytes(Config config, Limits limits) {
  const CheckedSize rows = PaddedExpertRows(limits);
  if (!config.is_moe()) {
    return Bytes(rows * config.intermediate_size * kBf16Bytes);
  }
  const CheckedSize routed =
      CheckedSize(config.experts_per_token) * config.moe_intermediate_size;
  return Bytes(rows * Max(routed, config.intermediate_size) * kF32Bytes);
}

ByteCount SeedExpertDownBytes(Config config, Limits limits) {
  const CheckedSize rows = PaddedExpertRows(limits);
  if (!config.is_moe()) return Bytes(rows * config.hidden_size * kBf16Bytes);
  const int64_t width =
      config.moe_latent_size != 0 ? config.moe_latent_size : config.hidden_size;
  return Bytes(rows * config.experts_per_token * width * kBf16Bytes);
}

/// The dense layers of a mixed model write whole hidden rows here, which a
/// narrow latent alone would not hold.
ByteCount ExpertDownBytes(Config config, Limits limits) {
  if (config.moe_latent_size == 0) return SeedExpertDownBytes(config, limits);
  const CheckedSize routed =
      CheckedSize(config.experts_per_token) * config.moe_latent_size;
  return Bytes(PaddedExpertRows(limits) * Max(routed, config.hidden_size) *
               kBf16Bytes);
}

ByteCount MoeFp8ScratchBytes(Config config, Limits limits) {
  PERMAFROST_ASSIGN_OR_RETURN(
      const MoeFp8Layout layout,
      MoeFp8Layout::ForRows(config, limits.max_batch_tokens));
  return layout.bytes;
}

constexpr const char* kExpertUses[] = {"routed rows", "dense layer's rows",
                                       nullptr};
constexpr const char* kFp8Uses[] = {"shared expert's input", "gate, up input",
                                    "down input", nullptr};

constexpr BufferRow kExpertRows[] = {
    {.name = "gate_logits",
     .meaning = "router logits",
     .element = ElementType::kBf16,
     .row_padding = kGemmRowBlock,
     .gate = NeedsExperts,
     .bytes = GateLogitsBytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step",
     .seed_bytes = SeedGateLogitsBytes,
     .seed_gated_bytes = kSeedPlaceholderBytes},
    {.name = "gate_logits_f32",
     .meaning = "router logits before rounding, for the top-k",
     .element = ElementType::kF32,
     .row_padding = kGemmRowBlock,
     .gate = NeedsExperts,
     .bytes = GateLogitsF32Bytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step",
     .seed_bytes = SeedGateLogitsF32Bytes,
     .seed_gated_bytes = kSeedPlaceholderBytes},
    {.name = "moe_router_in_f32",
     .meaning = "normed rows before rounding, the router's input",
     .element = ElementType::kF32,
     .row_padding = kGemmRowBlock,
     .gate = NeedsExperts,
     .bytes = RouterInputBytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step",
     .seed_bytes = SeedRouterInputBytes,
     .seed_gated_bytes = kSeedPlaceholderBytes},
    {.name = "moe_routing",
     .meaning = "top-k choices and their grouping by expert",
     .element = ElementType::kMixed,
     .row_padding = 1,
     .gate = NeedsExperts,
     .bytes = MoeRoutingBytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step",
     .is_ours = true},
    {.name = "expert_gate_out",
     .meaning = "gate projection of each routed row, then its SwiGLU",
     .element = ElementType::kF32,
     .row_padding = kGemmRowBlock,
     .gate = nullptr,
     .bytes = ExpertWidthBytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step",
     .dense_element = ElementType::kBf16,
     .aliases = kExpertUses},
    {.name = "expert_up_out",
     .meaning = "up projection of each routed row",
     .element = ElementType::kF32,
     .row_padding = kGemmRowBlock,
     .gate = nullptr,
     .bytes = ExpertWidthBytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step",
     .dense_element = ElementType::kBf16,
     .aliases = kExpertUses},
    {.name = "expert_down_out",
     .meaning = "down projection of each routed row, before they are combined",
     .element = ElementType::kBf16,
     .row_padding = kGemmRowBlock,
     .gate = nullptr,
     .bytes = ExpertDownBytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step",
     .aliases = kExpertUses,
     .seed_bytes = SeedExpertDownBytes},
    {.name = "moe_fp8_scratch",
     .meaning = "FP8 rows, scales, tile worklist and its counters",
     .element = ElementType::kMixed,
     .row_padding = 1,
     .gate = NeedsExperts,
     .bytes = MoeFp8ScratchBytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step",
     .aliases = kFp8Uses},
};

}  // namespace

absl::Span<const BufferRow> ExpertRows() { return kExpertRows; }

}  // namespace permafrost::internal
