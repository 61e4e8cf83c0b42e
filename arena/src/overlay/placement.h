// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_ARENA_SRC_OVERLAY_PLACEMENT_H_
#define PERMAFROST_ARENA_SRC_OVERLAY_PLACEMENT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "overlay/conflicts.h"

namespace permafrost {

/// One buffer to place.
struct PlacementItem {
  /// Guard and rounding included. All together, times the length of the longest
  /// life, they stay below 2^63-1.
  int64_t bytes = 0;
  /// Where in the steps it is used first and last, for the orders tried.
  int64_t first_use = 0;
  int64_t last_use = 0;
  bool in_heaviest_set = false;
};

/// Bytes that no item may touch.
struct TakenRange {
  int64_t begin = 0;
  int64_t end = 0;
};

struct PlacementProblem {
  std::vector<PlacementItem> items = {};
  RelationMatrix relations = RelationMatrix(0);
  /// Ascending and apart from each other.
  std::vector<TakenRange> taken = {};
  /// The search ends when the height is down to this.
  int64_t bound_bytes = 0;
  int max_placements = 0;
};

struct Placement {
  std::vector<int64_t> offsets = {};  ///< by item
  int64_t height_bytes = 0;  ///< the last end of an item or taken range
  /// By how much items end above the bound, added up: less of it is nearer to
  /// a lower height even where the height is the same.
  int64_t overflow_bytes = 0;
  int64_t placements_tried = 0;
};

/// Looks for the lowest placement: items one by one, each into the tightest or
/// the first gap between those it conflicts with, in each of eight orders; then
/// changes to those orders, the best first, for as long as placements are left.
///
/// Deterministic: its random numbers have a fixed seed, and it counts
/// placements, not time.
Placement FindPlacement(const PlacementProblem& problem);

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_SRC_OVERLAY_PLACEMENT_H_
