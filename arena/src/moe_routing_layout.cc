// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/moe_routing_layout.h"

#include <optional>

#include "checked_size.h"
#include "moe_shape.h"
#include "permafrost/driver/status.h"
#include "region_alignment.h"

namespace permafrost {
namespace {

constexpr int64_t kWordBytes = 4;

}  // namespace

absl::StatusOr<MoeRoutingLayout> MoeRoutingLayout::ForRows(
    const ModelConfig& config, int64_t rows) {
  PERMAFROST_RETURN_IF_ERROR(CheckMoeShape("MoE routing layout", config, rows));

  const CheckedSize pair_table =
      (CheckedSize(rows) * config.experts_per_token * kWordBytes)
          .AlignUp(kRegionAlignmentBytes);
  const CheckedSize offset_table =
      ((CheckedSize(config.num_experts) + 1) * kWordBytes)
          .AlignUp(kRegionAlignmentBytes);
  const std::optional<int64_t> pairs = pair_table.value();
  const std::optional<int64_t> total = (pair_table * 4 + offset_table).value();
  if (!total) return MoeShapeTooLarge("MoE routing layout", config, rows);

  // Once the total is known to fit, no smaller sum can overflow.
  MoeRoutingLayout layout;
  layout.rows = rows;
  layout.topk_ids = 0;
  layout.topk_weights = layout.topk_ids + *pairs;
  layout.offsets = layout.topk_weights + *pairs;
  layout.sorted = layout.offsets + *offset_table.value();
  layout.inverse = layout.sorted + *pairs;
  layout.bytes = *total;
  return layout;
}

}  // namespace permafrost
