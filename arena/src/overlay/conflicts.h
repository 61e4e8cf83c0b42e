// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_ARENA_SRC_OVERLAY_CONFLICTS_H_
#define PERMAFROST_ARENA_SRC_OVERLAY_CONFLICTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "overlay/step_order.h"
#include "permafrost/arena/overlay.h"
#include "permafrost/arena/step_dag.h"

namespace permafrost {

/// How two buffers may lie.
enum class Relation : uint8_t {
  kFree,      ///< anyhow
  kInPlace,   ///< from the same byte on, or apart
  kConflict,  ///< apart
};

/// The relation of every two of `count` items.
class RelationMatrix {
 public:
  explicit RelationMatrix(size_t count)
      : count_(count), relations_(count * count, Relation::kFree) {}

  size_t count() const { return count_; }
  Relation Of(size_t a, size_t b) const { return relations_[a * count_ + b]; }
  /// Keeps the stricter of what was known and what is added.
  void Tighten(size_t a, size_t b, Relation relation) {
    if (relation <= Of(a, b)) return;
    relations_[a * count_ + b] = relation;
    relations_[b * count_ + a] = relation;
  }

 private:
  size_t count_;
  std::vector<Relation> relations_;
};

/// The live ranges of one buffer in one step, in their order.
struct RangeChain {
  size_t item = 0;  ///< what the caller calls the buffer
  std::string buffer = {};
  std::vector<LiveRange> ranges = {};
};

/// Chains of ranges, and which range of each comes after which of the others.
class ChainOrder {
 public:
  ChainOrder(const StepDag& step, const StepOrder& order,
             std::vector<RangeChain> chains);

  const std::vector<RangeChain>& chains() const { return chains_; }

  /// For each range of chain `a`, the index of the first range of chain `b`
  /// that is wholly after it; the number of ranges of `b` where there is none.
  const std::vector<size_t>& FirstAfter(size_t a, size_t b) const {
    return first_after_[a * chains_.size() + b];
  }

  /// Whether each range of one chain is wholly before or after each of the
  /// other.
  Relation RelationOf(size_t a, size_t b) const;

 private:
  std::vector<RangeChain> chains_;
  std::vector<std::vector<size_t>> first_after_;
  /// For an ordered pair of chains: some ranges are ordered only by being in
  /// place in one operation.
  std::vector<bool> needs_in_place_;
};

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_SRC_OVERLAY_CONFLICTS_H_
