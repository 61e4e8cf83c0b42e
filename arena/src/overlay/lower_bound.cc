// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "overlay/lower_bound.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace permafrost {
namespace {

/// Maximum flow by shortest augmenting levels (Dinic). Nodes are few and
/// capacities large, which is what that method is good at.
class FlowNetwork {
 public:
  explicit FlowNetwork(size_t nodes) : first_arc_(nodes, kNone) {}

  void AddArc(size_t from, size_t to, int64_t capacity) {
    arcs_.push_back({to, first_arc_[from], capacity});
    first_arc_[from] = arcs_.size() - 1;
    arcs_.push_back({from, first_arc_[to], 0});
    first_arc_[to] = arcs_.size() - 1;
  }

  int64_t MaximumFlow(size_t source, size_t sink) {
    int64_t flow = 0;
    while (SetLevels(source), level_[sink] >= 0) {
      next_arc_ = first_arc_;
      while (const int64_t pushed = Push(source, sink)) flow += pushed;
    }
    return flow;
  }

  /// After `MaximumFlow`: on the source's side of the minimum cut.
  bool IsReachable(size_t node) const { return level_[node] >= 0; }

 private:
  static constexpr size_t kNone = std::numeric_limits<size_t>::max();
  struct Arc {
    size_t to;
    size_t next;
    int64_t capacity;
  };

  void SetLevels(size_t source) {
    level_.assign(first_arc_.size(), -1);
    level_[source] = 0;
    std::vector<size_t> queue = {source};
    for (size_t done = 0; done < queue.size(); ++done) {
      for (size_t a = first_arc_[queue[done]]; a != kNone; a = arcs_[a].next) {
        if (arcs_[a].capacity == 0 || level_[arcs_[a].to] >= 0) continue;
        level_[arcs_[a].to] = level_[queue[done]] + 1;
        queue.push_back(arcs_[a].to);
      }
    }
  }

  /// One augmenting path along the levels. A loop and not a recursion: paths
  /// grow with the step.
  int64_t Push(size_t source, size_t sink) {
    path_.clear();
    size_t node = source;
    while (node != sink) {
      size_t& arc = next_arc_[node];
      while (arc != kNone && (arcs_[arc].capacity == 0 ||
                              level_[arcs_[arc].to] != level_[node] + 1)) {
        arc = arcs_[arc].next;
      }
      if (arc != kNone) {
        path_.push_back(arc);
        node = arcs_[arc].to;
        continue;
      }
      if (path_.empty()) return 0;
      level_[node] = -1;
      node = arcs_[path_.back() ^ 1].to;
      path_.pop_back();
    }
    int64_t amount = std::numeric_limits<int64_t>::max();
    for (const size_t arc : path_) {
      amount = std::min(amount, arcs_[arc].capacity);
    }
    for (const size_t arc : path_) {
      arcs_[arc].capacity -= amount;
      arcs_[arc ^ 1].capacity += amount;
    }
    return amount;
  }

  std::vector<Arc> arcs_;
  std::vector<size_t> first_arc_;
  std::vector<size_t> next_arc_;
  std::vector<int> level_;
  std::vector<size_t> path_;
};

/// Branch and bound for the heaviest clique of the conflicts.
class CliqueSearch {
 public:
  CliqueSearch(const RelationMatrix& relations,
               const std::vector<int64_t>& item_bytes, HeaviestSet best,
               int max_nodes)
      : relations_(relations),
        item_bytes_(item_bytes),
        best_(std::move(best)),
        nodes_left_(max_nodes) {}

  HeaviestSet Run() {
    std::vector<size_t> all(item_bytes_.size());
    std::iota(all.begin(), all.end(), size_t{0});
    std::stable_sort(all.begin(), all.end(), [this](size_t a, size_t b) {
      return item_bytes_[a] > item_bytes_[b];
    });
    Extend(all, 0);
    return std::move(best_);
  }

 private:
  bool Conflict(size_t a, size_t b) const {
    return relations_.Of(a, b) == Relation::kConflict;
  }

  void Extend(std::vector<size_t> candidates, int64_t bytes) {
    if (bytes > best_.bytes) best_ = {bytes, chosen_};
    while (!candidates.empty()) {
      if (nodes_left_-- <= 0) return;
      if (bytes + MostOf(candidates) <= best_.bytes) return;
      const size_t item = candidates.front();
      candidates.erase(candidates.begin());
      std::vector<size_t> rest;
      for (const size_t other : candidates) {
        if (Conflict(item, other)) rest.push_back(other);
      }
      chosen_.push_back(item);
      Extend(std::move(rest), bytes + item_bytes_[item]);
      chosen_.pop_back();
    }
  }

  /// No clique of the candidates is heavier: of items that do not conflict it
  /// has one at most.
  int64_t MostOf(const std::vector<size_t>& candidates) const {
    std::vector<std::vector<size_t>> groups;
    int64_t most = 0;
    for (const size_t item : candidates) {
      const auto fits = [&](const std::vector<size_t>& group) {
        return std::none_of(group.begin(), group.end(), [&](size_t other) {
          return Conflict(item, other);
        });
      };
      const auto group = std::find_if(groups.begin(), groups.end(), fits);
      if (group != groups.end()) {
        group->push_back(item);
        continue;
      }
      groups.push_back({item});
      most += item_bytes_[item];  // the group's largest: they come in order
    }
    return most;
  }

  const RelationMatrix& relations_;
  const std::vector<int64_t>& item_bytes_;
  HeaviestSet best_;
  std::vector<size_t> chosen_;
  int nodes_left_;
};

}  // namespace

HeaviestSet FindHeaviestSet(const ChainOrder& order,
                            const std::vector<int64_t>& item_bytes) {
  const std::vector<RangeChain>& chains = order.chains();
  std::vector<size_t> first_range(chains.size(), 0);
  size_t ranges = 0;
  int64_t unlimited = 1;
  for (size_t chain = 0; chain < chains.size(); ++chain) {
    first_range[chain] = ranges;
    ranges += chains[chain].ranges.size();
    unlimited += item_bytes[chains[chain].item] *
                 static_cast<int64_t>(chains[chain].ranges.size());
  }
  // A range is a node that hands bytes on to ranges after it, and one that
  // takes bytes from ranges before it. What cannot be handed on is needed at
  // one time.
  const auto gives = [](size_t range) { return 2 * range; };
  const auto takes = [](size_t range) { return 2 * range + 1; };
  const size_t source = 2 * ranges;
  const size_t sink = source + 1;
  FlowNetwork network(sink + 1);
  int64_t handed_out = 0;
  for (size_t a = 0; a < chains.size(); ++a) {
    const int64_t bytes = item_bytes[chains[a].item];
    for (size_t i = 0; i < chains[a].ranges.size(); ++i) {
      const size_t range = first_range[a] + i;
      handed_out += bytes;
      network.AddArc(source, gives(range), bytes);
      network.AddArc(takes(range), sink, bytes);
      // Bytes may pass a range by, so an arc to the first range after it of
      // each buffer is enough.
      network.AddArc(takes(range), gives(range), unlimited);
      for (size_t b = 0; b < chains.size(); ++b) {
        const size_t after = order.FirstAfter(a, b)[i];
        if (after == chains[b].ranges.size()) continue;
        network.AddArc(gives(range), takes(first_range[b] + after), unlimited);
      }
    }
  }
  HeaviestSet heaviest;
  heaviest.bytes = handed_out - network.MaximumFlow(source, sink);
  for (size_t chain = 0; chain < chains.size(); ++chain) {
    for (size_t i = 0; i < chains[chain].ranges.size(); ++i) {
      const size_t range = first_range[chain] + i;
      if (network.IsReachable(gives(range)) &&
          !network.IsReachable(takes(range))) {
        heaviest.items.push_back(chains[chain].item);
      }
    }
  }
  return heaviest;
}

HeaviestSet FindConflictingSet(const RelationMatrix& relations,
                               const std::vector<int64_t>& item_bytes,
                               HeaviestSet at_least, int max_nodes) {
  return CliqueSearch(relations, item_bytes, std::move(at_least), max_nodes)
      .Run();
}

}  // namespace permafrost
