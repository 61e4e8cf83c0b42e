// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "overlay/conflicts.h"

#include <algorithm>
#include <map>
#include <utility>

namespace permafrost {
namespace {

/// Operations in which a buffer, read and no more, may lie under another.
using InPlaceOps =
    std::map<std::pair<std::string, std::string>, std::vector<int>>;

bool OnlyReads(const StepOp& op, const std::string& buffer) {
  bool reads = false;
  for (const BufferAccess& access : op.accesses) {
    if (access.buffer != buffer) continue;
    if (access.access != Access::kRead) return false;
    reads = true;
  }
  return reads;
}

InPlaceOps InPlaceOpsOf(const StepDag& step) {
  InPlaceOps in_place;
  for (size_t i = 0; i < step.ops.size(); ++i) {
    const StepOp& op = step.ops[i];
    for (const auto& [one, other] : op.in_place) {
      if (OnlyReads(op, one)) in_place[{one, other}].push_back(int(i));
      if (OnlyReads(op, other)) in_place[{other, one}].push_back(int(i));
    }
  }
  return in_place;
}

/// A range with what all of its operations have before them.
struct OrderedRange {
  const LiveRange* range;
  OpSet common_before;
};

bool WhollyBefore(const LiveRange& first, const OrderedRange& second) {
  return std::all_of(first.ops.begin(), first.ops.end(), [&second](int op) {
    return second.common_before.Has(op);
  });
}

/// Whether only `shared_op`, which reads the first and begins the second, keeps
/// the two from being ordered.
bool MeetIn(int shared_op, const LiveRange& first, const OrderedRange& second,
            const StepOrder& order) {
  const std::vector<int>& later = second.range->ops;
  if (later.front() != shared_op) return false;
  bool reads_it = false;
  for (const int op : first.ops) {
    if (op == shared_op) {
      reads_it = true;
    } else if (!second.common_before.Has(op)) {
      return false;
    }
  }
  return reads_it && std::all_of(later.begin() + 1, later.end(), [&](int op) {
           return order.Before(shared_op, op);
         });
}

}  // namespace

ChainOrder::ChainOrder(const StepDag& step, const StepOrder& order,
                       std::vector<RangeChain> chains)
    : chains_(std::move(chains)),
      first_after_(chains_.size() * chains_.size()),
      needs_in_place_(chains_.size() * chains_.size(), false) {
  const InPlaceOps in_place = InPlaceOpsOf(step);
  std::vector<std::vector<OrderedRange>> ranges(chains_.size());
  for (size_t chain = 0; chain < chains_.size(); ++chain) {
    for (const LiveRange& range : chains_[chain].ranges) {
      OpSet common = order.Before(range.ops.front());
      for (const int op : range.ops) common.KeepOnly(order.Before(op));
      ranges[chain].push_back({&range, std::move(common)});
    }
  }
  for (size_t a = 0; a < chains_.size(); ++a) {
    for (size_t b = 0; b < chains_.size(); ++b) {
      const size_t pair = a * chains_.size() + b;
      const auto shared_ops =
          in_place.find({chains_[a].buffer, chains_[b].buffer});
      const auto is_before = [&](const LiveRange& first,
                                 const OrderedRange& second) {
        if (WhollyBefore(first, second)) return true;
        if (shared_ops == in_place.end()) return false;
        for (const int op : shared_ops->second) {
          if (!MeetIn(op, first, second, order)) continue;
          needs_in_place_[pair] = true;
          return true;
        }
        return false;
      };
      // Ranges of a chain are ordered, so the first one after a range of `a`
      // moves only forward as that range does.
      size_t next = 0;
      for (const OrderedRange& range : ranges[a]) {
        while (next < ranges[b].size() &&
               !is_before(*range.range, ranges[b][next])) {
          ++next;
        }
        first_after_[pair].push_back(next);
      }
    }
  }
}

Relation ChainOrder::RelationOf(size_t a, size_t b) const {
  const std::vector<size_t>& a_before_b = FirstAfter(a, b);
  const std::vector<size_t>& b_before_a = FirstAfter(b, a);
  size_t b_ranges_before = 0;
  for (size_t i = 0; i < a_before_b.size(); ++i) {
    while (b_ranges_before < b_before_a.size() &&
           b_before_a[b_ranges_before] <= i) {
      ++b_ranges_before;
    }
    if (a_before_b[i] != b_ranges_before) return Relation::kConflict;
  }
  const bool in_place = needs_in_place_[a * chains_.size() + b] ||
                        needs_in_place_[b * chains_.size() + a];
  return in_place ? Relation::kInPlace : Relation::kFree;
}

}  // namespace permafrost
