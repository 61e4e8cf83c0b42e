// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_ARENA_SRC_OVERLAY_LOWER_BOUND_H_
#define PERMAFROST_ARENA_SRC_OVERLAY_LOWER_BOUND_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "overlay/conflicts.h"

namespace permafrost {

/// A set of live ranges that must all have bytes of their own.
struct HeaviestSet {
  int64_t bytes = 0;
  std::vector<size_t> items = {};  ///< the buffers they belong to
};

/// The heaviest set of ranges no two of which are ordered, exactly: a maximum
/// antichain of a partial order, which by Dilworth's theorem a maximum flow
/// finds. A buffer has at most one range in it, because its ranges are ordered.
///
/// Where buffers are declared in place, the order is the one that those pairs
/// and all others generate; the set is then a lower bound still, though a
/// heavier one may exist.
/// @param item_bytes  by `RangeChain::item`; the sum over all ranges is below
///   2^63-1.
HeaviestSet FindHeaviestSet(const ChainOrder& order,
                            const std::vector<int64_t>& item_bytes);

/// A heavy set of items every two of which conflict, even if at different times
/// and in different steps: what one address for each item cannot do without.
///
/// At least as heavy as `at_least`, which is such a set; the heaviest where
/// `max_nodes` of the search are enough.
HeaviestSet FindConflictingSet(const RelationMatrix& relations,
                               const std::vector<int64_t>& item_bytes,
                               HeaviestSet at_least, int max_nodes);

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_SRC_OVERLAY_LOWER_BOUND_H_
