// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "buffer_rows.h"

// Activations in the form that kernels for quantised weights read, and the
// fused dense decode GEMM beside them.
namespace permafrost::internal {
namespace {

/// Values that share a scale: of int8 activations, and of FP8 ones.
constexpr int64_t kInt8ScaleGroup = 32;
constexpr int64_t kFp8ScaleGroup = 128;
/// Blocks of 8-bit activations: a row is rounded up to whole super-blocks, four
/// bytes a value bound a block with its scales, and the kernels read past the
/// last row.
constexpr int64_t kSuperBlockValues = 256;
constexpr int64_t kBlockBytesPerValue = 4;
constexpr int64_t kBlockTailBytes = int64_t{1} << 20;
/// Rows up to which the fused gate and up projection is used.
constexpr int64_t kFusedGateUpRows = 16;

CheckedSize DenseWidth(Config config) {
  return Max(CheckedSize(config.hidden_size), config.intermediate_size);
}

/// The widest input of an attention or recurrent projection.
CheckedSize MixerWidth(Config config) {
  return MaxOf({config.hidden_size, QueryWidth(config), MambaInnerWidth(config),
                DeltaNetValueWidth(config)});
}

CheckedSize BlockedActivations(Limits limits, CheckedSize width) {
  return Rows(limits) * width.AlignUp(kSuperBlockValues) * kBlockBytesPerValue +
         kBlockTailBytes;
}

Gate NeedsFourBitDense(Config config, Limits limits) {
  if (!IsSeed(limits) && !limits.four_bit_weights) {
    return "ServingLimits::four_bit_weights is off";
  }
  return NeedsDenseModel(config, limits);
}

/// Formats whose kernels may take quantised activations. What a
/// compressed-tensors or ModelOpt checkpoint holds is not known before its
/// weights are.
bool QuantizesActivations(Config config) {
  return config.quantization == Quantization::kFp8 ||
         config.quantization == Quantization::kCompressedTensors ||
         config.quantization == Quantization::kModelOpt;
}

Gate NeedsQuantizedActivations(Config config, Limits limits) {
  if (IsSeed(limits) || QuantizesActivations(config)) return std::nullopt;
  return "the weights' format leaves activations in bf16";
}

Gate NeedsQuantizedDense(Config config, Limits limits) {
  Gate reason = NeedsDenseModel(config, limits);
  return reason ? reason : NeedsQuantizedActivations(config, limits);
}

ByteCount FfnQ8Bytes(Config config, Limits limits) {
  return Bytes(BlockedActivations(limits, DenseWidth(config)));
}

ByteCount FfnActBytes(Config config, Limits limits) {
  return Bytes(PaddedRows(limits) * DenseWidth(config));
}

ByteCount FfnScaleBytes(Config config, Limits limits) {
  return Bytes(PaddedRows(limits) *
               DenseWidth(config).CeilDiv(kInt8ScaleGroup) * kF32Bytes);
}

ByteCount FfnScaleKMajorBytes(Config config, Limits limits) {
  return Bytes(PaddedRows(limits) * DenseWidth(config).CeilDiv(kFp8ScaleGroup) *
               kF32Bytes);
}

/// As the original divides: a last partial group has no scale.
ByteCount SeedScaleBytes(Config config, Limits limits, int64_t group) {
  const CheckedSize width = DenseWidth(config);
  if (!width.value()) return Bytes(width);
  return Bytes(PaddedRows(limits) * (*width.value() / group) * kF32Bytes);
}

ByteCount SeedFfnScaleBytes(Config config, Limits limits) {
  return SeedScaleBytes(config, limits, kInt8ScaleGroup);
}

ByteCount SeedFfnScaleKMajorBytes(Config config, Limits limits) {
  return SeedScaleBytes(config, limits, kFp8ScaleGroup);
}

ByteCount FusedGateUpBytes(Config config, Limits /*limits*/) {
  return Bytes(CheckedSize(kFusedGateUpRows).AlignUp(kGemmRowBlock) * 2 *
               config.intermediate_size * kBf16Bytes);
}

ByteCount Fp8ActBytes(Config config, Limits limits) {
  return Bytes(PaddedRows(limits) * MixerWidth(config));
}

ByteCount Fp8ScaleBytes(Config config, Limits limits) {
  return Bytes(PaddedRows(limits) * MixerWidth(config).CeilDiv(kFp8ScaleGroup) *
               kF32Bytes);
}

Gate NeedsTwoBitWeights(Config /*config*/, Limits limits) {
  if (limits.two_bit_weights) return std::nullopt;
  return "ServingLimits::two_bit_weights is off";
}

CheckedSize WidestMixerOutput(Config config) {
  return MaxOf({config.intermediate_size, DeltaNetWidth(config),
                MambaProjectionWidth(config), GatedQueryWidth(config),
                CheckedSize(config.num_kv_heads) * config.head_dim * 2});
}

ByteCount Q2DequantBytes(Config config, Limits /*limits*/) {
  return Bytes(MaxOf({WidestMixerOutput(config), config.moe_intermediate_size,
                      config.shared_expert_intermediate_size}) *
               config.hidden_size * kBf16Bytes);
}

ByteCount SeedQ2DequantBytes(Config config, Limits /*limits*/) {
  return Bytes(WidestMixerOutput(config) * config.hidden_size * kBf16Bytes);
}

ByteCount Q2ActBytes(Config config, Limits limits) {
  return Bytes(
      BlockedActivations(limits, Max(DenseWidth(config), QueryWidth(config))));
}

constexpr BufferRow kQuantizedRows[] = {
    {.name = "ffn_act_q8",
     .meaning = "dense layer's input in blocks of 8 bits, for 4-bit weights",
     .element = ElementType::kMixed,
     .row_padding = 1,
     .gate = NeedsFourBitDense,
     .bytes = FfnQ8Bytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step"},
    {.name = "ffn_act_a",
     .meaning = "dense layer's input in 8 bits",
     .element = ElementType::kMixed,
     .row_padding = kGemmRowBlock,
     .gate = NeedsQuantizedDense,
     .bytes = FfnActBytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step"},
    {.name = "ffn_act_scale",
     .meaning = "scales of ffn_act_a, one for 32 values",
     .element = ElementType::kF32,
     .row_padding = kGemmRowBlock,
     .gate = NeedsQuantizedDense,
     .bytes = FfnScaleBytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step",
     .seed_bytes = SeedFfnScaleBytes},
    {.name = "ffn_act_scale_kmajor",
     .meaning = "scales of ffn_act_a, one for 128 values, rows innermost",
     .element = ElementType::kF32,
     .row_padding = kGemmRowBlock,
     .gate = NeedsQuantizedDense,
     .bytes = FfnScaleKMajorBytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step",
     .seed_bytes = SeedFfnScaleKMajorBytes},
    {.name = "ffn_gate_up_fused",
     .meaning = "gate and up rows of a small decode batch, from one GEMM",
     .element = ElementType::kBf16,
     .row_padding = kGemmRowBlock,
     .gate = NeedsDenseModel,
     .bytes = FusedGateUpBytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step",
     .sized_by = ""},
    {.name = "fp8_act",
     .meaning = "FP8 input of attention and recurrent projections",
     .element = ElementType::kE4m3,
     .row_padding = kGemmRowBlock,
     .gate = NeedsQuantizedActivations,
     .bytes = Fp8ActBytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step"},
    {.name = "fp8_act_scale",
     .meaning = "scales of fp8_act, one for 128 values",
     .element = ElementType::kF32,
     .row_padding = kGemmRowBlock,
     .gate = NeedsQuantizedActivations,
     .bytes = Fp8ScaleBytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step"},
    {.name = "fp8_act_scale_kmajor",
     .meaning = "scales of fp8_act, rows innermost",
     .element = ElementType::kF32,
     .row_padding = kGemmRowBlock,
     .gate = NeedsQuantizedActivations,
     .bytes = Fp8ScaleBytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step"},
    {.name = "q2_dequant_scratch",
     .meaning = "the widest 2-bit weight, expanded",
     .element = ElementType::kBf16,
     .row_padding = 1,
     .gate = NeedsTwoBitWeights,
     .bytes = Q2DequantBytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step",
     .sized_by = "two_bit_weights",
     .seed_bytes = SeedQ2DequantBytes},
    {.name = "q2_act_q8",
     .meaning = "activations in blocks of 8 bits, for 2-bit weights",
     .element = ElementType::kMixed,
     .row_padding = 1,
     .gate = NeedsTwoBitWeights,
     .bytes = Q2ActBytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step"},
};

}  // namespace

absl::Span<const BufferRow> QuantizedRows() { return kQuantizedRows; }

}  // namespace permafrost::internal
