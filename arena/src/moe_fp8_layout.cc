// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/moe_fp8_layout.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "checked_size.h"
#include "fnv1a.h"
#include "moe_shape.h"
#include "permafrost/driver/status.h"
#include "region_alignment.h"

namespace permafrost {
namespace {

/// Output rows and columns that one worklist entry stands for.
constexpr int64_t kTileRows = 128;
constexpr int64_t kTileColumns = 64;
/// Values of a row that share one scale.
constexpr int64_t kScaleGroup = 128;
constexpr int64_t kScaleBytes = 4;
constexpr int64_t kEntryBytes = 8;
constexpr int64_t kCounterBytes = 4;
/// The one expert count for which kernels with small tiles exist.
constexpr int64_t kSmallListExperts = 256;

}  // namespace

absl::StatusOr<MoeFp8Layout> MoeFp8Layout::ForRows(const ModelConfig& config,
                                                   int64_t rows) {
  PERMAFROST_RETURN_IF_ERROR(CheckMoeShape("MoE FP8 layout", config, rows));

  // The slab serves the shared expert's GEMMs (one row a token, the wider of
  // hidden and shared width) and the routed down GEMM (one row a routed pair).
  const CheckedSize routed_pairs = CheckedSize(rows) * config.experts_per_token;
  const CheckedSize expert_width = config.moe_intermediate_size;
  const CheckedSize shared_width = Max(CheckedSize(config.hidden_size),
                                       config.shared_expert_intermediate_size);
  const CheckedSize activation_bytes =
      Max(CheckedSize(rows) * shared_width, routed_pairs * expert_width);
  const CheckedSize scale_bytes =
      Max(CheckedSize(rows) * shared_width.CeilDiv(kScaleGroup),
          routed_pairs * expert_width.CeilDiv(kScaleGroup)) *
      kScaleBytes;

  // Rounding each expert's rows up to whole tiles adds at most one tile an
  // expert; the last 1 is the original's slack, kept for equal offsets.
  const CheckedSize column_tiles =
      Max(config.hidden_size, expert_width).CeilDiv(kTileColumns);
  const CheckedSize entries =
      (routed_pairs.CeilDiv(kTileRows) + config.num_experts + 1) * column_tiles;

  const CheckedSize scale = activation_bytes.AlignUp(kRegionAlignmentBytes);
  const CheckedSize worklist =
      scale + scale_bytes.AlignUp(kRegionAlignmentBytes);
  const CheckedSize worklist_bytes =
      (entries * kEntryBytes).AlignUp(kRegionAlignmentBytes);
  const CheckedSize counter = worklist + worklist_bytes;
  CheckedSize end = counter + kCounterBytes;

  CheckedSize small_worklist = 0;
  CheckedSize small_counter = 0;
  CheckedSize small_bytes = 0;
  if (config.num_experts == kSmallListExperts) {
    small_bytes = CheckedSize(config.num_experts) * column_tiles * kEntryBytes;
    small_worklist = end.AlignUp(kRegionAlignmentBytes);
    small_counter = small_worklist + small_bytes.AlignUp(kRegionAlignmentBytes);
    end = small_counter + kCounterBytes;
  }
  // `end` is the sum of all the others, so they are in range when it is.
  if (!end.value()) return MoeShapeTooLarge("MoE FP8 layout", config, rows);

  MoeFp8Layout layout;
  layout.rows = rows;
  layout.max_rows = rows;
  layout.activation = 0;
  layout.scale = *scale.value();
  layout.worklist = *worklist.value();
  layout.counter = *counter.value();
  layout.small_worklist = *small_worklist.value();
  layout.small_counter = *small_counter.value();
  layout.small_bytes = *small_bytes.value();
  layout.worklist_bytes = *worklist_bytes.value();
  layout.bytes = *end.value();
  return layout;
}

absl::StatusOr<MoeFp8Layout> MoeFp8Layout::Stable(const ModelConfig& config,
                                                  int64_t max_rows,
                                                  int64_t rows) {
  PERMAFROST_RETURN_IF_ERROR(CheckMoeShape("MoE FP8 layout", config, rows));
  if (rows > max_rows) {
    return absl::InvalidArgumentError(
        absl::StrCat("stable MoE FP8 layout of model '", config.source,
                     "': rows: got ", rows, ", limit max_rows=", max_rows,
                     "; raise max_batch_tokens, which sizes the slab"));
  }
  PERMAFROST_ASSIGN_OR_RETURN(MoeFp8Layout layout, ForRows(config, max_rows));
  layout.rows = rows;
  layout.stable = true;
  return layout;
}

int64_t MoeFp8Layout::capacity_tiles() const {
  return worklist_bytes / kEntryBytes;
}

int64_t MoeFp8Layout::small_capacity_tiles() const {
  return small_bytes / kEntryBytes;
}

uint64_t MoeFp8Layout::id() const {
  Fnv1a64 hash;
  for (int64_t value : {activation, scale, worklist, counter, small_worklist,
                        small_counter, small_bytes, worklist_bytes, bytes}) {
    hash.AddNumber(static_cast<uint64_t>(value));
  }
  return hash.value();
}

}  // namespace permafrost
