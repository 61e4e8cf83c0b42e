// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/buffer_table.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "buffer_rows.h"
#include "permafrost/arena/decode_meta_layout.h"
#include "permafrost/driver/status.h"

namespace permafrost {
namespace {

/// Sequences that the buffers of a decode batch hold at least.
constexpr int64_t kMinDecodeRows = 32;

/// Limits that are switches: what one reserves does not grow with it.
constexpr absl::string_view kSwitches[] = {"two_bit_weights",
                                           "rowwise_bf16_copies"};

std::vector<BufferRow> AllRows() {
  std::vector<BufferRow> rows;
  for (const absl::Span<const BufferRow> part :
       {internal::StepRows(), internal::AttentionRows(),
        internal::RecurrentRows(), internal::HyperConnectionRows(),
        internal::ExpertRows(), internal::QuantizedRows(),
        internal::AdapterRows()}) {
    rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

/// Why the row has no buffer, or how many bytes it has.
struct Sized {
  std::string gate_reason;
  int64_t bytes = 0;
};

/// Rows up to which all numbers of rows can be tried.
constexpr int64_t kMostTriedRows = int64_t{1} << 20;

/// The largest size over every number of rows that a step can have.
absl::StatusOr<int64_t> LargestOverRows(const BufferRow& row,
                                        const ModelConfig& config,
                                        ServingLimits limits) {
  const int64_t max_rows = limits.max_batch_tokens;
  if (max_rows > kMostTriedRows) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_batch_tokens: got ", max_rows, ", limit ", kMostTriedRows,
        " for a size that is not monotone in rows"));
  }
  int64_t largest = 0;
  for (int64_t rows = 1; rows <= max_rows; ++rows) {
    limits.max_batch_tokens = rows;
    PERMAFROST_ASSIGN_OR_RETURN(const int64_t bytes, row.bytes(config, limits));
    largest = std::max(largest, bytes);
  }
  return largest;
}

absl::StatusOr<int64_t> FormulaBytes(const BufferRow& row,
                                     const ModelConfig& config,
                                     const ServingLimits& limits) {
  if (limits.rules == SizeRules::kSeed && row.seed_bytes != nullptr) {
    return row.seed_bytes(config, limits);
  }
  return row.is_monotone ? row.bytes(config, limits)
                         : LargestOverRows(row, config, limits);
}

absl::StatusOr<Sized> SizeByOurRules(const BufferRow& row,
                                     const ModelConfig& config,
                                     const ServingLimits& limits) {
  if (row.gate != nullptr) {
    std::optional<std::string> reason = row.gate(config, limits);
    if (reason) return Sized{*std::move(reason), 0};
  }
  PERMAFROST_ASSIGN_OR_RETURN(const int64_t bytes,
                              FormulaBytes(row, config, limits));
  if (bytes < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "size: got ", bytes,
        " bytes, limit at least 1; a buffer that a model does not have needs a "
        "gate with a reason"));
  }
  return Sized{"", bytes};
}

absl::StatusOr<Sized> SizeBySeedRules(const BufferRow& row,
                                      const ModelConfig& config,
                                      const ServingLimits& limits) {
  if (row.is_ours) return Sized{"the original design has no such buffer", 0};
  if (row.gate != nullptr) {
    std::optional<std::string> reason = row.gate(config, limits);
    if (reason && row.seed_gated_bytes > 0) {
      return Sized{"", row.seed_gated_bytes};
    }
    if (reason) return Sized{*std::move(reason), 0};
  }
  PERMAFROST_ASSIGN_OR_RETURN(const int64_t bytes,
                              FormulaBytes(row, config, limits));
  if (bytes < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("size: got ", bytes, " bytes, limit at least 0"));
  }
  if (bytes == 0) return Sized{"the original's formula gives 0 bytes", 0};
  return Sized{"", bytes};
}

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
    case SleepPolicy::kStay:
      return "stay";
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

absl::Span<const BufferRow> BufferTable() {
  static const std::vector<BufferRow>* const table =
      new std::vector<BufferRow>(AllRows());
  return *table;
}

int64_t DecodeRows(const ServingLimits& limits) {
  const int64_t rows = std::max(limits.max_batch_size, kMinDecodeRows);
  if (limits.rules == SizeRules::kSeed) return rows;
  // Fails for what no batch is, and a size of it says so by itself.
  return PadToRung(rows).value_or(rows);
}

std::string SizeRemedy(absl::string_view sized_by) {
  if (sized_by.empty()) {
    return "the model's config alone decides its size; plan the arena with the "
           "config of the model at hand";
  }
  if (std::find(std::begin(kSwitches), std::end(kSwitches), sized_by) !=
      std::end(kSwitches)) {
    return absl::StrCat("ServingLimits::", sized_by,
                        " reserves what the model's config asks for; plan the "
                        "arena with the config of the model at hand");
  }
  std::string text = "plan the arena with a larger ";
  const char* separator = "ServingLimits::";
  for (const absl::string_view limit : absl::StrSplit(sized_by, ", ")) {
    absl::StrAppend(&text, separator, limit);
    separator = " or ServingLimits::";
  }
  return text;
}

absl::StatusOr<std::vector<BufferSize>> ComputeBufferSizes(
    const ModelConfig& config, const ServingLimits& limits,
    absl::Span<const BufferRow> table) {
  PERMAFROST_RETURN_IF_ERROR(Annotate(CheckLimits(limits), "buffer sizes"));
  std::vector<BufferSize> sizes;
  sizes.reserve(table.size());
  for (const BufferRow& row : table) {
    absl::StatusOr<Sized> sized = limits.rules == SizeRules::kSeed
                                      ? SizeBySeedRules(row, config, limits)
                                      : SizeByOurRules(row, config, limits);
    if (!sized.ok()) {
      return absl::Status(
          sized.status().code(),
          absl::StrCat("buffer '", row.name, "' for ", limits.max_batch_tokens,
                       " rows: ", sized.status().message()));
    }
    BufferSize size;
    size.name = row.name;
    size.bytes = sized->bytes;
    size.gate_reason = std::move(sized->gate_reason);
    size.element =
        config.is_moe() ? row.element : row.dense_element.value_or(row.element);
    size.lifetime = row.lifetime;
    size.toucher = row.toucher;
    size.tag = row.tag;
    size.meaning = row.meaning;
    size.sleep = row.sleep.value_or(DefaultSleepPolicy(row.lifetime));
    size.sized_by = row.sized_by;
    sizes.push_back(std::move(size));
  }
  return sizes;
}

}  // namespace permafrost
