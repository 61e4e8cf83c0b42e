// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "overlay/placement.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

#include "overlay/random.h"

namespace permafrost {
namespace {

using Order = std::vector<size_t>;

enum class GapChoice { kTightest, kFirst };

/// Places items in the order given, reusing its own memory.
class Decoder {
 public:
  explicit Decoder(const PlacementProblem& problem) : problem_(problem) {}

  Placement Place(const Order& order, GapChoice choice) {
    placed_.clear();
    Placement result;
    result.offsets.assign(problem_.items.size(), 0);
    for (const TakenRange& taken : problem_.taken) {
      placed_.push_back({taken.begin, taken.end, kTaken});
      result.height_bytes = std::max(result.height_bytes, taken.end);
    }
    for (const size_t item : order) {
      const int64_t offset = OffsetFor(item, choice);
      const Placed placed = {offset, offset + problem_.items[item].bytes, item};
      placed_.insert(std::upper_bound(placed_.begin(), placed_.end(), placed,
                                      [](const Placed& a, const Placed& b) {
                                        return a.begin < b.begin;
                                      }),
                     placed);
      result.offsets[item] = offset;
      result.height_bytes = std::max(result.height_bytes, placed.end);
      result.overflow_bytes +=
          std::max(int64_t{0}, placed.end - problem_.bound_bytes);
    }
    return result;
  }

 private:
  static constexpr size_t kTaken = std::numeric_limits<size_t>::max();
  struct Placed {
    int64_t begin;
    int64_t end;
    size_t item;
  };

  Relation RelationTo(const Placed& placed, size_t item) const {
    return placed.item == kTaken ? Relation::kConflict
                                 : problem_.relations.Of(placed.item, item);
  }

  int64_t OffsetFor(size_t item, GapChoice choice) const {
    const int64_t bytes = problem_.items[item].bytes;
    int64_t best_offset = -1;
    int64_t best_gap = std::numeric_limits<int64_t>::max();
    int64_t free_from = 0;
    for (const Placed& placed : placed_) {
      const Relation relation = RelationTo(placed, item);
      if (relation == Relation::kFree) continue;
      if (relation == Relation::kInPlace && FitsAt(placed.begin, item)) {
        return placed.begin;
      }
      const int64_t gap = placed.begin - free_from;
      if (gap >= bytes && gap < best_gap &&
          (choice == GapChoice::kTightest || best_offset < 0)) {
        best_offset = free_from;
        best_gap = gap;
      }
      free_from = std::max(free_from, placed.end);
    }
    return best_offset >= 0 ? best_offset : free_from;
  }

  bool FitsAt(int64_t offset, size_t item) const {
    const int64_t end = offset + problem_.items[item].bytes;
    return std::all_of(
        placed_.begin(), placed_.end(), [&](const Placed& placed) {
          const Relation relation = RelationTo(placed, item);
          return relation == Relation::kFree || placed.end <= offset ||
                 placed.begin >= end ||
                 (relation == Relation::kInPlace && placed.begin == offset);
        });
  }

  const PlacementProblem& problem_;
  std::vector<Placed> placed_;
};

/// Items with the largest key first; ties go to the larger item, then to the
/// one that is listed first.
template <typename Key>
Order Descending(const PlacementProblem& problem, const Key& key) {
  std::vector<int64_t> keys;
  for (size_t i = 0; i < problem.items.size(); ++i) keys.push_back(key(i));
  Order order(problem.items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::make_pair(keys[a], problem.items[a].bytes) >
           std::make_pair(keys[b], problem.items[b].bytes);
  });
  return order;
}

std::vector<Order> StartingOrders(const PlacementProblem& problem) {
  const std::vector<PlacementItem>& items = problem.items;
  std::vector<int64_t> conflicts(items.size(), 0);
  std::vector<int64_t> conflicting_bytes(items.size(), 0);
  for (size_t a = 0; a < items.size(); ++a) {
    for (size_t b = 0; b < items.size(); ++b) {
      if (problem.relations.Of(a, b) == Relation::kFree) continue;
      ++conflicts[a];
      conflicting_bytes[a] += items[b].bytes;
    }
  }
  const auto life = [&items](size_t i) {
    return items[i].last_use - items[i].first_use + 1;
  };
  return {
      Descending(problem, [&](size_t i) { return items[i].bytes; }),
      Descending(problem,
                 [&](size_t i) { return items[i].in_heaviest_set ? 1 : 0; }),
      Descending(problem, [&](size_t i) { return conflicting_bytes[i]; }),
      Descending(problem, [&](size_t i) { return items[i].bytes * life(i); }),
      Descending(problem, [&](size_t i) { return conflicts[i]; }),
      Descending(problem, life),
      Descending(problem, [&](size_t i) { return -items[i].first_use; }),
      Descending(problem, [&](size_t i) { return items[i].last_use; }),
  };
}

/// Moves a few items to other places in the order. Those that reach the top
/// move forward, because only they keep the height where it is.
Order Changed(Order order, const PlacementProblem& problem,
              const Placement& placement, Random& random) {
  std::vector<size_t> top;
  for (size_t place = 0; place < order.size(); ++place) {
    const size_t item = order[place];
    if (placement.offsets[item] + problem.items[item].bytes ==
        placement.height_bytes) {
      top.push_back(place);
    }
  }
  const size_t moves = 1 + random.Below(3);
  for (size_t move = 0; move < moves; ++move) {
    const bool from_top = move == 0 && !top.empty() && random.Below(4) != 0;
    const size_t from =
        from_top ? top[random.Below(top.size())] : random.Below(order.size());
    const size_t to = random.Below(from_top ? from + 1 : order.size());
    const size_t item = order[from];
    order.erase(order.begin() + static_cast<std::ptrdiff_t>(from));
    order.insert(order.begin() + static_cast<std::ptrdiff_t>(to), item);
  }
  return order;
}

}  // namespace

Placement FindPlacement(const PlacementProblem& problem) {
  // A leg that is stuck is left for one from another start.
  constexpr int kPlacementsPerLeg = 500;
  constexpr GapChoice kChoices[] = {GapChoice::kTightest, GapChoice::kFirst};
  struct Start {
    Order order;
    GapChoice choice;
    Placement placement;
  };
  Decoder decoder(problem);
  std::vector<Start> starts;
  Placement best;
  int64_t tried = 0;
  const auto is_done = [&] {
    return tried > 0 && (best.height_bytes <= problem.bound_bytes ||
                         tried >= problem.max_placements);
  };
  const auto place = [&](const Order& order, GapChoice choice) {
    Placement placement = decoder.Place(order, choice);
    ++tried;
    if (tried == 1 || placement.height_bytes < best.height_bytes) {
      best = placement;
    }
    return placement;
  };
  for (const Order& order : StartingOrders(problem)) {
    for (const GapChoice choice : kChoices) {
      if (!is_done()) starts.push_back({order, choice, place(order, choice)});
    }
  }
  std::stable_sort(
      starts.begin(), starts.end(), [](const Start& a, const Start& b) {
        return a.placement.overflow_bytes < b.placement.overflow_bytes;
      });
  Random random;
  for (size_t leg = 0; !is_done() && problem.items.size() > 1; ++leg) {
    Start& current = starts[leg % starts.size()];
    for (int i = 0; i < kPlacementsPerLeg && !is_done(); ++i) {
      Order order = Changed(current.order, problem, current.placement, random);
      const GapChoice choice =
          random.Below(8) == 0 ? kChoices[random.Below(2)] : current.choice;
      Placement placement = place(order, choice);
      if (placement.overflow_bytes > current.placement.overflow_bytes) continue;
      current = {std::move(order), choice, std::move(placement)};
    }
  }
  best.placements_tried = tried;
  return best;
}

}  // namespace permafrost
