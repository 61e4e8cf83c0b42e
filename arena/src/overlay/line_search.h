// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_ARENA_SRC_OVERLAY_LINE_SEARCH_H_
#define PERMAFROST_ARENA_SRC_OVERLAY_LINE_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace permafrost {

/// A buffer as the search sees it: a block over a run of sections, which are
/// the moments at which a set of buffers is needed that no other moment's
/// contains.
struct LineBlock {
  size_t begin = 0;  ///< sections [begin, end)
  size_t end = 0;
  int64_t bytes = 0;
};

/// One depth-first search with one order of the blocks.
///
/// Blocks are placed from the bottom up: each where the blocks below it leave
/// it, no block lower than the one placed before it, and of two at one height
/// the one that the order has first. Every packing can be pushed down into one
/// that is placed so.
class LineSearch {
 public:
  /// @param blocks  in the order that decides between equals.
  LineSearch(const std::vector<LineBlock>& blocks, size_t sections,
             int64_t capacity, int64_t max_nodes);

  bool Run();

  /// Out of nodes; what `Run` said then proves nothing.
  bool gave_up() const { return nodes_left_ < 0; }
  int64_t nodes_left() const { return nodes_left_; }
  const std::vector<int64_t>& offsets() const { return offsets_; }

 private:
  /// Where the last block was placed; the next one comes no earlier.
  struct Last {
    int64_t offset;
    size_t index;
  };
  /// Blocks with where they can start at the soonest, the soonest first.
  using Releases = std::vector<std::pair<int64_t, size_t>>;
  /// A section's stack as far as it is looked at.
  struct Stack {
    int64_t top;    ///< where it ends at the soonest
    int64_t left;   ///< bytes of the blocks that are not known to be lowest
    size_t lowest;  ///< the one with the first release of those
    int64_t above;  ///< where the blocks known to be lowest end
  };
  /// The two lowest ends that blocks of a section can have.
  struct Nearest {
    int64_t first;
    int64_t second;
    size_t block;
  };

  /// Solves each run of blocks that has no section in common with the others by
  /// itself: where one cannot be placed, how the others are does not matter.
  ///
  /// @param unplaced  by their first section.
  bool SolveParts(const std::vector<size_t>& unplaced, Last last);
  bool Solve(const std::vector<size_t>& unplaced, Last last);
  /// The blocks that can come next, the soonest first; none where there is no
  /// way on. Apart from `Solve`, so that its memory is free again before the
  /// search goes deeper.
  std::vector<size_t> Candidates(const std::vector<size_t>& unplaced,
                                 Last last);
  bool TryBlock(const std::vector<size_t>& unplaced, size_t placed);

  /// The earliest that each block can start, given that none starts before the
  /// last one.
  ///
  /// A block that could only start where the order no longer lets it must wait
  /// until another one is put below it.
  bool LiftReleases(const std::vector<size_t>& unplaced, Last last);

  /// In each section the blocks stand on each other like jobs on one machine,
  /// which is done soonest with them in the order of their releases. Where no
  /// other block could be the lowest without the stack ending too high, the one
  /// with the first release is, and all others of the section are above it.
  ///
  /// @param is_settled  set to whether no release moved.
  bool StackSections(const Releases& by_release, bool& is_settled);

  const std::vector<LineBlock>& blocks_;
  const int64_t capacity_;
  int64_t nodes_left_;
  // By section.
  std::vector<int64_t> floor_;  ///< where the placed blocks end
  std::vector<int64_t> unplaced_bytes_;
  std::vector<Stack> stacks_;
  std::vector<Nearest> nearest_;
  // By block.
  std::vector<int64_t> release_;  ///< the highest floor under it
  std::vector<int64_t> lifted_;   ///< where it can start at the soonest
  std::vector<int64_t> next_lifted_;
  std::vector<int64_t> latest_;  ///< where a forced block starts at the latest
  std::vector<int64_t> offsets_;
  /// Blocks that are the lowest of those left in some section.
  std::vector<size_t> forced_;
};

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_SRC_OVERLAY_LINE_SEARCH_H_
