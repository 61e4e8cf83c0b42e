// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_ARENA_MOE_ROUTING_LAYOUT_H_
#define PERMAFROST_ARENA_MOE_ROUTING_LAYOUT_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "permafrost/arena/model_config.h"

namespace permafrost {

/// Where the routing tables of one MoE layer lie in the buffer `moe_routing`.
///
/// An *expanded index* is `row * k + choice`: one routed (token, expert) pair.
/// A *position* is a pair's place once all pairs are grouped by expert. Units:
/// every offset in bytes from the buffer's start, a multiple of 256. Threads: a
/// value; const access from any thread.
struct MoeRoutingLayout {
  /// Lays the tables out for `rows` token rows.
  ///
  /// Errors: kInvalidArgument for rows below 0, a dense model, figures of the
  ///   config that are negative or contradictory, or a size beyond 2^63-1.
  static absl::StatusOr<MoeRoutingLayout> ForRows(const ModelConfig& config,
                                                  int64_t rows);

  int64_t rows = 0;
  int64_t topk_ids = 0;      ///< i32[rows*k], the expert of each expanded index
  int64_t topk_weights = 0;  ///< f32[rows*k], its weight
  int64_t offsets = 0;       ///< i32[E+1], the first position of each expert
  int64_t sorted = 0;        ///< i32[rows*k], position -> expanded index
  int64_t inverse = 0;       ///< i32[rows*k], expanded index -> position or -1
  int64_t bytes = 0;         ///< the whole, a multiple of 256

  friend bool operator==(const MoeRoutingLayout&,
                         const MoeRoutingLayout&) = default;
};

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_MOE_ROUTING_LAYOUT_H_
