// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_ARENA_SRC_BUFFER_ROWS_H_
#define PERMAFROST_ARENA_SRC_BUFFER_ROWS_H_

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "checked_size.h"
#include "permafrost/arena/buffer_table.h"
#include "permafrost/arena/model_config.h"
#include "permafrost/arena/serving_limits.h"

// The parts that make up the buffer table, and the terms its formulas share.
namespace permafrost::internal {

absl::Span<const BufferRow> StepRows();
absl::Span<const BufferRow> AttentionRows();
absl::Span<const BufferRow> RecurrentRows();
absl::Span<const BufferRow> HyperConnectionRows();
absl::Span<const BufferRow> ExpertRows();
absl::Span<const BufferRow> QuantizedRows();
absl::Span<const BufferRow> AdapterRows();

using Config = const ModelConfig&;
using Limits = const ServingLimits&;
using Gate = std::optional<std::string>;
using ByteCount = absl::StatusOr<int64_t>;

inline constexpr int64_t kBf16Bytes = 2;
inline constexpr int64_t kF32Bytes = 4;
inline constexpr int64_t kI32Bytes = 4;
inline constexpr int64_t kI64Bytes = 8;
/// Rows that the GEMMs work in: they write whole blocks of so many.
inline constexpr int64_t kGemmRowBlock = 16;
/// What the original keeps where a model has no use for a buffer.
inline constexpr int64_t kSeedPlaceholderBytes = 256;

/// The formula's value, or what is wrong with it.
ByteCount Bytes(CheckedSize size);

/// The largest of them; 0 of none.
CheckedSize MaxOf(std::initializer_list<CheckedSize> sizes);

inline bool IsSeed(Limits limits) { return limits.rules == SizeRules::kSeed; }

inline CheckedSize Rows(Limits limits) { return limits.max_batch_tokens; }
inline CheckedSize PaddedRows(Limits limits) {
  return Rows(limits).AlignUp(kGemmRowBlock);
}

/// Rows of the draft model's own activations; 0 where no drafts are verified.
int64_t DraftRows(Limits limits);

/// The config has latent attention (MLA).
inline bool IsLatent(Config config) { return config.kv_lora_rank != 0; }
/// All query heads side by side.
CheckedSize QueryWidth(Config config);
/// The query projection's output: a gate beside it doubles it.
CheckedSize GatedQueryWidth(Config config);
/// All query heads of absorbed latent attention side by side.
CheckedSize AbsorbedQueryWidth(Config config);

/// The in-projection of a gated delta net: queries, keys, values, gates.
CheckedSize DeltaNetWidth(Config config);
/// All value heads of a gated delta net side by side.
CheckedSize DeltaNetValueWidth(Config config);
CheckedSize MambaInnerWidth(Config config);
/// What Mamba-2 convolves: the inner rows and both state projections.
CheckedSize MambaConvWidth(Config config);
/// The in-projection of Mamba-2: gate, convolved part, one dt a head.
CheckedSize MambaProjectionWidth(Config config);

Gate NeedsExperts(Config config, Limits limits);
Gate NeedsDenseModel(Config config, Limits limits);

}  // namespace permafrost::internal

#endif  // PERMAFROST_ARENA_SRC_BUFFER_ROWS_H_
