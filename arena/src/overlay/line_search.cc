// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "overlay/line_search.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

namespace permafrost {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();
constexpr size_t kNone = std::numeric_limits<size_t>::max();
/// More than one block may be the lowest.
constexpr size_t kFree = kNone - 1;
/// How often releases are propagated at one node.
constexpr int kRounds = 4;

std::ptrdiff_t Signed(size_t value) {
  return static_cast<std::ptrdiff_t>(value);
}

}  // namespace

LineSearch::LineSearch(const std::vector<LineBlock>& blocks, size_t sections,
                       int64_t capacity, int64_t max_nodes)
    : blocks_(blocks),
      capacity_(capacity),
      nodes_left_(max_nodes),
      floor_(sections, 0),
      unplaced_bytes_(sections, 0),
      stacks_(sections),
      nearest_(sections),
      release_(blocks.size(), 0),
      lifted_(blocks.size(), 0),
      next_lifted_(blocks.size(), 0),
      latest_(blocks.size(), 0),
      offsets_(blocks.size(), 0) {}

bool LineSearch::Run() {
  std::vector<size_t> all(blocks_.size());
  std::iota(all.begin(), all.end(), size_t{0});
  std::sort(all.begin(), all.end(), [&](size_t a, size_t b) {
    return blocks_[a].begin < blocks_[b].begin;
  });
  for (const LineBlock& block : blocks_) {
    for (size_t s = block.begin; s < block.end; ++s) {
      unplaced_bytes_[s] += block.bytes;
    }
  }
  return SolveParts(all, {0, 0});
}

bool LineSearch::SolveParts(const std::vector<size_t>& unplaced, Last last) {
  size_t part_begin = 0;
  size_t reach = 0;
  std::vector<std::vector<size_t>> parts;
  for (size_t i = 0; i < unplaced.size(); ++i) {
    if (i > part_begin && blocks_[unplaced[i]].begin >= reach) {
      parts.emplace_back(unplaced.begin() + Signed(part_begin),
                         unplaced.begin() + Signed(i));
      part_begin = i;
    }
    reach = std::max(reach, blocks_[unplaced[i]].end);
  }
  if (parts.empty()) return Solve(unplaced, last);
  parts.emplace_back(unplaced.begin() + Signed(part_begin), unplaced.end());
  const std::vector<int64_t> floor = floor_;
  const std::vector<int64_t> release = release_;
  const std::vector<int64_t> unplaced_bytes = unplaced_bytes_;
  for (const std::vector<size_t>& part : parts) {
    if (Solve(part, last)) continue;
    // Parts before this one are placed and have to be taken out again.
    floor_ = floor;
    release_ = release;
    unplaced_bytes_ = unplaced_bytes;
    return false;
  }
  return true;
}

bool LineSearch::Solve(const std::vector<size_t>& unplaced, Last last) {
  if (unplaced.empty()) return true;
  if (--nodes_left_ < 0) return false;
  for (const size_t block : Candidates(unplaced, last)) {
    if (TryBlock(unplaced, block)) return true;
    if (gave_up()) return false;
  }
  return false;
}

std::vector<size_t> LineSearch::Candidates(const std::vector<size_t>& unplaced,
                                           Last last) {
  if (!LiftReleases(unplaced, last)) return {};
  Releases by_release;
  by_release.reserve(unplaced.size());
  for (const size_t block : unplaced) {
    by_release.emplace_back(lifted_[block], block);
  }
  std::sort(by_release.begin(), by_release.end());
  for (int round = 0; round < kRounds; ++round) {
    bool is_settled = true;
    if (!StackSections(by_release, is_settled)) return {};
    if (is_settled) break;
    for (auto& [release, block] : by_release) release = lifted_[block];
    std::sort(by_release.begin(), by_release.end());
  }
  int64_t lowest_end = kUnlimited;
  for (const auto& [release, block] : by_release) {
    lowest_end = std::min(lowest_end, release + blocks_[block].bytes);
  }
  std::vector<size_t> candidates;
  for (const auto& [release, block] : by_release) {
    // A block that starts where another could already have ended leaves a
    // hole that the other fits into.
    if (release >= lowest_end) break;
    if (release == release_[block]) candidates.push_back(block);
  }
  return candidates;
}

bool LineSearch::TryBlock(const std::vector<size_t>& unplaced, size_t placed) {
  const LineBlock& block = blocks_[placed];
  const int64_t offset = release_[placed];
  const std::vector<int64_t> floor(floor_.begin() + Signed(block.begin),
                                   floor_.begin() + Signed(block.end));
  std::fill(floor_.begin() + Signed(block.begin),
            floor_.begin() + Signed(block.end), offset + block.bytes);
  for (size_t s = block.begin; s < block.end; ++s) {
    unplaced_bytes_[s] -= block.bytes;
  }
  std::vector<std::pair<size_t, int64_t>> releases;
  std::vector<size_t> rest;
  rest.reserve(unplaced.size());
  for (const size_t other : unplaced) {
    if (other == placed) continue;
    rest.push_back(other);
    if (blocks_[other].begin < block.end && block.begin < blocks_[other].end) {
      releases.emplace_back(other, release_[other]);
      release_[other] = std::max(release_[other], offset + block.bytes);
    }
  }
  offsets_[placed] = offset;
  if (SolveParts(rest, {offset, placed})) return true;
  for (size_t s = block.begin; s < block.end; ++s) {
    unplaced_bytes_[s] += block.bytes;
  }
  std::copy(floor.begin(), floor.end(), floor_.begin() + Signed(block.begin));
  for (const auto& [other, release] : releases) release_[other] = release;
  return false;
}

bool LineSearch::LiftReleases(const std::vector<size_t>& unplaced, Last last) {
  const size_t begin = blocks_[unplaced.front()].begin;
  size_t end = 0;
  for (const size_t block : unplaced) end = std::max(end, blocks_[block].end);
  std::fill(nearest_.begin() + Signed(begin), nearest_.begin() + Signed(end),
            Nearest{kUnlimited, kUnlimited, 0});
  for (const size_t block : unplaced) {
    const int64_t bytes = blocks_[block].bytes;
    const int64_t top = std::max(release_[block], last.offset) + bytes;
    for (size_t s = blocks_[block].begin; s < blocks_[block].end; ++s) {
      Nearest& nearest = nearest_[s];
      if (top >= nearest.second) continue;
      if (top < nearest.first) {
        nearest = {top, nearest.first, block};
      } else {
        nearest.second = top;
      }
    }
  }
  for (const size_t block : unplaced) {
    int64_t release = release_[block];
    if (std::tie(release, block) < std::tie(last.offset, last.index)) {
      release = kUnlimited;
      for (size_t s = blocks_[block].begin; s < blocks_[block].end; ++s) {
        const Nearest& nearest = nearest_[s];
        release = std::min(
            release, nearest.block == block ? nearest.second : nearest.first);
      }
      if (release == kUnlimited) return false;
    }
    lifted_[block] = release;
  }
  return true;
}

bool LineSearch::StackSections(const Releases& by_release, bool& is_settled) {
  size_t begin = kNone;
  size_t end = 0;
  for (const auto& [release, block] : by_release) {
    next_lifted_[block] = release;
    latest_[block] = kUnlimited;
    begin = std::min(begin, blocks_[block].begin);
    end = std::max(end, blocks_[block].end);
  }
  for (size_t s = begin; s < end; ++s) {
    stacks_[s] = {.top = floor_[s],
                  .left = unplaced_bytes_[s],
                  .lowest = kNone,
                  .above = 0};
  }
  forced_.clear();
  for (const auto& [release, block] : by_release) {
    const int64_t bytes = blocks_[block].bytes;
    int64_t raised = release;
    for (size_t s = blocks_[block].begin; s < blocks_[block].end; ++s) {
      Stack& stack = stacks_[s];
      stack.top = std::max(stack.top, release) + bytes;
      if (stack.top > capacity_) return false;
      if (stack.lowest == kFree) {
        raised = std::max(raised, stack.above);
        continue;
      }
      if (stack.lowest == kNone) {
        stack.lowest = block;
        continue;
      }
      const size_t lowest = stack.lowest;
      if (std::max(release, stack.above) + stack.left <= capacity_) {
        stack.lowest = kFree;
        raised = std::max(raised, stack.above);
        continue;
      }
      const int64_t start = std::max(lifted_[lowest], stack.above);
      if (latest_[lowest] == kUnlimited) forced_.push_back(lowest);
      latest_[lowest] = std::min(latest_[lowest], capacity_ - stack.left);
      stack.above = start + blocks_[lowest].bytes;
      stack.left -= blocks_[lowest].bytes;
      stack.lowest = block;
      raised = std::max(raised, stack.above);
    }
    next_lifted_[block] = std::max(next_lifted_[block], raised);
  }
  // What is forced low leaves no room below it for blocks of other sections
  // either.
  for (const size_t low_block : forced_) {
    const LineBlock& low = blocks_[low_block];
    const int64_t low_end = next_lifted_[low_block] + low.bytes;
    for (const auto& [release, other] : by_release) {
      const LineBlock& block = blocks_[other];
      if (release + block.bytes > latest_[low_block] && block.begin < low.end &&
          low.begin < block.end && other != low_block) {
        next_lifted_[other] = std::max(next_lifted_[other], low_end);
      }
    }
  }
  is_settled = true;
  for (const auto& [release, block] : by_release) {
    if (next_lifted_[block] == release) continue;
    is_settled = false;
    lifted_[block] = next_lifted_[block];
  }
  return true;
}

}  // namespace permafrost
