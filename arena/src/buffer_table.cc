// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/buffer_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "checked_size.h"
#include "permafrost/arena/moe_fp8_layout.h"
#include "permafrost/arena/moe_routing_layout.h"
#include "permafrost/driver/status.h"

namespace permafrost {
namespace {

constexpr int64_t kBf16Bytes = 2;
constexpr int64_t kF32Bytes = 4;
/// Rows that the GEMMs work in: they write whole blocks of so many.
constexpr int64_t kGemmRowBlock = 16;
/// The expert buffers hold at least so many token rows before rounding.
constexpr int64_t kMinExpertRows = 3;

using Config = const ModelConfig&;
using Limits = const ServingLimits&;

absl::StatusOr<int64_t> Bytes(CheckedSize size) {
  if (!size.value()) {
    return absl::InvalidArgumentError(
        "size: got a product beyond 2^63-1 or of a negative figure, limit "
        "2^63-1 bytes; lower max_batch_tokens or mend the config");
  }
  return *size.value();
}

CheckedSize PaddedRows(Limits limits) {
  return CheckedSize(limits.max_batch_tokens).AlignUp(kGemmRowBlock);
}

CheckedSize PaddedExpertRows(Limits limits) {
  return Max(CheckedSize(limits.max_batch_tokens), kMinExpertRows)
      .AlignUp(kGemmRowBlock);
}

std::optional<std::string> NeedsExperts(Config config, Limits /*limits*/) {
  if (config.num_experts != 0) return std::nullopt;
  return "the model has no routed experts";
}

absl::StatusOr<int64_t> HiddenStatesBytes(Config config, Limits limits) {
  return Bytes(CheckedSize(limits.max_batch_tokens) * config.hidden_size *
               kBf16Bytes);
}

absl::StatusOr<int64_t> MoeOutputBytes(Config config, Limits limits) {
  return Bytes(PaddedRows(limits) * config.hidden_size * kBf16Bytes);
}

absl::StatusOr<int64_t> MoeRoutingBytes(Config config, Limits limits) {
  PERMAFROST_ASSIGN_OR_RETURN(
      const MoeRoutingLayout layout,
      MoeRoutingLayout::ForRows(config, limits.max_batch_tokens));
  return layout.bytes;
}

/// Gate and up rows: of every routed pair in fp32, or of every token of a dense
/// layer. A mixed model runs its dense layers through the same buffer.
absl::StatusOr<int64_t> ExpertWidthBytes(Config config, Limits limits) {
  const CheckedSize rows = PaddedExpertRows(limits);
  if (!config.is_moe()) {
    return Bytes(rows * config.intermediate_size * kBf16Bytes);
  }
  const CheckedSize routed =
      CheckedSize(config.experts_per_token) * config.moe_intermediate_size;
  return Bytes(rows * Max(routed, config.intermediate_size) * kF32Bytes);
}

absl::StatusOr<int64_t> ExpertDownBytes(Config config, Limits limits) {
  const int64_t pairs_per_row = config.is_moe() ? config.experts_per_token : 1;
  return Bytes(PaddedExpertRows(limits) * pairs_per_row * config.hidden_size *
               kBf16Bytes);
}

absl::StatusOr<int64_t> MoeFp8ScratchBytes(Config config, Limits limits) {
  PERMAFROST_ASSIGN_OR_RETURN(
      const MoeFp8Layout layout,
      MoeFp8Layout::ForRows(config, limits.max_batch_tokens));
  return layout.bytes;
}

constexpr BufferRow kTable[] = {
    {.name = "hidden_states",
     .meaning = "token activations from layer to layer",
     .element = ElementType::kBf16,
     .row_padding = 1,
     .gate = nullptr,
     .bytes = HiddenStatesBytes,
     .lifetime = Lifetime::kPerStep,
     .toucher = Toucher::kDevice,
     .tag = "step"},
    {.name = "moe_output",
     .meaning = "combined output of the experts, with the residual",
     .element = ElementType::kBf16,
     .row_padding = kGemmRowBlock,
     .gate = nullptr,
     .bytes = MoeOutputBytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step"},
    {.name = "moe_routing",
     .meaning = "top-k choices and their grouping by expert",
     .element = ElementType::kMixed,
     .row_padding = 1,
     .gate = NeedsExperts,
     .bytes = MoeRoutingBytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step"},
    {.name = "expert_gate_out",
     .meaning = "gate projection of each routed row, then its SwiGLU",
     .element = ElementType::kF32,
     .row_padding = kGemmRowBlock,
     .gate = nullptr,
     .bytes = ExpertWidthBytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step",
     .dense_element = ElementType::kBf16},
    {.name = "expert_up_out",
     .meaning = "up projection of each routed row",
     .element = ElementType::kF32,
     .row_padding = kGemmRowBlock,
     .gate = nullptr,
     .bytes = ExpertWidthBytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step",
     .dense_element = ElementType::kBf16},
    {.name = "expert_down_out",
     .meaning = "down projection of each routed row, before they are combined",
     .element = ElementType::kBf16,
     .row_padding = kGemmRowBlock,
     .gate = nullptr,
     .bytes = ExpertDownBytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step"},
    {.name = "moe_fp8_scratch",
     .meaning = "FP8 rows, scales, tile worklist and its counters",
     .element = ElementType::kMixed,
     .row_padding = 1,
     .gate = NeedsExperts,
     .bytes = MoeFp8ScratchBytes,
     .lifetime = Lifetime::kPerLayer,
     .toucher = Toucher::kDevice,
     .tag = "step"},
};

}  // namespace

absl::string_view LifetimeName(Lifetime lifetime) {
  switch (lifetime) {
    case Lifetime::kConstant:
      return "constant";
    case Lifetime::kHostWritten:
      return "host-written";
    case Lifetime::kPerStep:
      return "per step";
    case Lifetime::kPerLayer:
      return "per layer";
    case Lifetime::kPersistentSlab:
      return "persistent slab";
    case Lifetime::kInitOnce:
      return "init-once";
    case Lifetime::kState:
      return "state";
  }
  return "?";
}

absl::string_view ToucherName(Toucher toucher) {
  switch (toucher) {
    case Toucher::kDevice:
      return "device only";
    case Toucher::kHostWritesDeviceReads:
      return "host writes, device reads";
    case Toucher::kDeviceWritesHostReads:
      return "device writes, host reads";
  }
  return "?";
}

absl::string_view ElementTypeName(ElementType element) {
  switch (element) {
    case ElementType::kF32:
      return "f32";
    case ElementType::kBf16:
      return "bf16";
    case ElementType::kE4m3:
      return "e4m3";
    case ElementType::kI32:
      return "i32";
    case ElementType::kU64:
      return "u64";
    case ElementType::kMixed:
      return "mixed";
  }
  return "?";
}

absl::string_view SleepPolicyName(SleepPolicy policy) {
  switch (policy) {
    case SleepPolicy::kDiscard:
      return "discard";
    case SleepPolicy::kZero:
      return "zero";
    case SleepPolicy::kKeep:
      return "keep";
    case SleepPolicy::kRestore:
      return "restore";
  }
  return "?";
}

SleepPolicy DefaultSleepPolicy(Lifetime lifetime) {
  switch (lifetime) {
    case Lifetime::kHostWritten:
    case Lifetime::kPerStep:
    case Lifetime::kPerLayer:
      return SleepPolicy::kDiscard;
    case Lifetime::kConstant:
    case Lifetime::kPersistentSlab:
    case Lifetime::kInitOnce:
    case Lifetime::kState:
      break;
  }
  return SleepPolicy::kKeep;
}

absl::Span<const BufferRow> BufferTable() { return kTable; }

absl::StatusOr<std::vector<BufferSize>> ComputeBufferSizes(
    const ModelConfig& config, const ServingLimits& limits,
    absl::Span<const BufferRow> table) {
  if (limits.max_batch_tokens < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("buffer sizes: max_batch_tokens: got ",
                     limits.max_batch_tokens, ", limit at least 1"));
  }
  std::vector<BufferSize> sizes;
  sizes.reserve(table.size());
  for (const BufferRow& row : table) {
    BufferSize size;
    size.name = row.name;
    size.element =
        config.is_moe() ? row.element : row.dense_element.value_or(row.element);
    size.lifetime = row.lifetime;
    size.toucher = row.toucher;
    size.tag = row.tag;
    size.sleep = row.sleep.value_or(DefaultSleepPolicy(row.lifetime));
    size.meaning = row.meaning;
    std::optional<std::string> reason;
    if (row.gate != nullptr) reason = row.gate(config, limits);
    if (reason) {
      size.gate_reason = *std::move(reason);
    } else {
      const absl::StatusOr<int64_t> bytes = row.bytes(config, limits);
      if (!bytes.ok()) {
        return absl::Status(bytes.status().code(),
                            absl::StrCat("buffer '", row.name, "' for ",
                                         limits.max_batch_tokens,
                                         " rows: ", bytes.status().message()));
      }
      if (*bytes < 1) {
        return absl::InvalidArgumentError(absl::StrCat(
            "buffer '", row.name, "' for ", limits.max_batch_tokens,
            " rows: size: got ", *bytes,
            " bytes, limit at least 1; a buffer that a model does not have "
            "needs a gate with a reason"));
      }
      size.bytes = *bytes;
    }
    sizes.push_back(std::move(size));
  }
  return sizes;
}

}  // namespace permafrost
