// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_ARENA_SRC_OVERLAY_STEP_ORDER_H_
#define PERMAFROST_ARENA_SRC_OVERLAY_STEP_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "permafrost/arena/step_dag.h"

namespace permafrost {

/// A set of operations of one step, one bit each.
class OpSet {
 public:
  explicit OpSet(size_t ops) : words_((ops + 63) / 64, 0) {}

  void Add(int op) { words_[Word(op)] |= Bit(op); }
  bool Has(int op) const { return (words_[Word(op)] & Bit(op)) != 0; }
  void AddAll(const OpSet& other) {
    for (size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  }
  void KeepOnly(const OpSet& other) {
    for (size_t i = 0; i < words_.size(); ++i) words_[i] &= other.words_[i];
  }

 private:
  static size_t Word(int op) { return static_cast<size_t>(op) / 64; }
  static uint64_t Bit(int op) {
    return uint64_t{1} << (static_cast<size_t>(op) % 64);
  }

  std::vector<uint64_t> words_;
};

/// Which operation's accesses come before which other's: the transitive closure
/// of the edges that order memory.
class StepOrder {
 public:
  /// @param step  has passed `ValidateStepDag`.
  explicit StepOrder(const StepDag& step);

  bool Before(int first, int second) const {
    return before_[static_cast<size_t>(second)].Has(first);
  }
  /// All operations that come before `op`.
  const OpSet& Before(int op) const { return before_[static_cast<size_t>(op)]; }
  /// Every operation behind all that come before it.
  const std::vector<int>& TopologicalOrder() const { return topological_; }

 private:
  std::vector<OpSet> before_;
  std::vector<int> topological_;
};

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_SRC_OVERLAY_STEP_ORDER_H_
