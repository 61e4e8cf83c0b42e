// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/line_packing.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "checked_size.h"
#include "overlay/line_search.h"
#include "overlay/random.h"
#include "permafrost/driver/status.h"

namespace permafrost {
namespace {

// The search calls itself once for each buffer that it has placed.
constexpr size_t kMaxBuffers = 1'000;

/// Moments at which a set of buffers is needed that no other moment's contains;
/// what holds there holds everywhere.
struct Sections {
  std::vector<LineBlock> blocks;  ///< by buffer
  size_t count = 0;
  std::vector<int64_t> totals;  ///< by section: bytes needed there
};

Sections SectionsOf(absl::Span<const LineBuffer> buffers) {
  // A moment matters where a buffer starts after which one ends before the
  // next starts.
  std::vector<std::pair<int64_t, bool>> events;  // ends before starts
  for (const LineBuffer& buffer : buffers) {
    events.emplace_back(buffer.lower, true);
    events.emplace_back(buffer.upper, false);
  }
  std::sort(events.begin(), events.end());
  std::vector<int64_t> moments;
  for (size_t i = 0; i + 1 < events.size(); ++i) {
    if (events[i].second && !events[i + 1].second) {
      moments.push_back(events[i].first);
    }
  }
  Sections sections;
  sections.count = moments.size();
  sections.totals.assign(moments.size(), 0);
  for (const LineBuffer& buffer : buffers) {
    const auto index = [&moments](int64_t at) {
      return static_cast<size_t>(
          std::lower_bound(moments.begin(), moments.end(), at) -
          moments.begin());
    };
    const LineBlock block = {index(buffer.lower), index(buffer.upper),
                             buffer.bytes};
    for (size_t s = block.begin; s < block.end; ++s) {
      sections.totals[s] += block.bytes;
    }
    sections.blocks.push_back(block);
  }
  return sections;
}

/// Buffers in a fixed order: the first key decides, then the next.
using SortKeys = std::vector<std::vector<int64_t>>;

std::vector<size_t> Ordered(const SortKeys& keys, size_t count) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    for (const std::vector<int64_t>& key : keys) {
      if (key[a] != key[b]) return key[a] > key[b];
    }
    return false;
  });
  return order;
}

std::vector<std::vector<size_t>> StaticOrders(
    absl::Span<const LineBuffer> buffers, const Sections& sections) {
  std::vector<int64_t> width, area, total;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const LineBlock& block = sections.blocks[i];
    width.push_back(buffers[i].upper - buffers[i].lower);
    area.push_back(static_cast<int64_t>(block.end - block.begin) * block.bytes);
    total.push_back(*std::max_element(
        sections.totals.begin() + static_cast<std::ptrdiff_t>(block.begin),
        sections.totals.begin() + static_cast<std::ptrdiff_t>(block.end)));
  }
  return {Ordered({width, area, total}, buffers.size()),
          Ordered({total, area, width}, buffers.size()),
          Ordered({total, width, area}, buffers.size())};
}

/// The order with each buffer up to so many hundredths of its length later.
std::vector<size_t> Disturbed(const std::vector<size_t>& order, size_t percent,
                              Random& random) {
  const size_t reach = order.size() * percent;
  std::vector<std::pair<size_t, size_t>> places;
  for (size_t i = 0; i < order.size(); ++i) {
    places.emplace_back(i * 100 + random.Below(reach + 1), order[i]);
  }
  std::sort(places.begin(), places.end());
  std::vector<size_t> disturbed;
  for (const auto& place : places) disturbed.push_back(place.second);
  return disturbed;
}

/// Searches one after the other, until one knows the answer or the nodes are
/// used up.
class Attempts {
 public:
  Attempts(absl::Span<const LineBuffer> buffers,
           const LinePackingOptions& options)
      : buffers_(buffers), options_(options), sections_(SectionsOf(buffers)) {
    packing_.bound_bytes =
        *std::max_element(sections_.totals.begin(), sections_.totals.end());
  }

  const Sections& sections() const { return sections_; }
  const LinePacking& packing() const { return packing_; }
  bool is_over() const {
    return packing_.verdict != PackingVerdict::kGaveUp ||
           packing_.nodes >= options_.max_nodes;
  }
  LinePacking Take() { return std::move(packing_); }
  LinePacking Take(PackingVerdict verdict) {
    packing_.verdict = verdict;
    return Take();
  }

  void Try(const std::vector<size_t>& order, int64_t nodes) {
    if (is_over()) return;
    const int64_t allowed =
        std::min(nodes, options_.max_nodes - packing_.nodes);
    std::vector<LineBlock> blocks;
    for (const size_t buffer : order) {
      blocks.push_back(sections_.blocks[buffer]);
    }
    LineSearch search(blocks, sections_.count, options_.capacity_bytes,
                      allowed);
    const bool is_packed = search.Run();
    packing_.nodes += allowed - std::max<int64_t>(search.nodes_left(), 0);
    if (!is_packed) {
      if (!search.gave_up()) packing_.verdict = PackingVerdict::kImpossible;
      return;
    }
    packing_.verdict = PackingVerdict::kPacked;
    packing_.offsets.assign(buffers_.size(), 0);
    for (size_t i = 0; i < order.size(); ++i) {
      const int64_t offset = search.offsets()[i];
      packing_.offsets[order[i]] = offset;
      packing_.height_bytes =
          std::max(packing_.height_bytes, offset + buffers_[order[i]].bytes);
    }
  }

 private:
  const absl::Span<const LineBuffer> buffers_;
  const LinePackingOptions& options_;
  const Sections sections_;
  LinePacking packing_;
};

absl::Status CheckBuffers(absl::Span<const LineBuffer> buffers,
                          const LinePackingOptions& options) {
  const auto refuse = [](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("line packing: ", what));
  };
  if (buffers.empty() || buffers.size() > kMaxBuffers) {
    return refuse(absl::StrCat("got ", buffers.size(), " buffers, limit 1 to ",
                               kMaxBuffers));
  }
  if (options.capacity_bytes < 1) {
    return refuse(absl::StrCat("capacity_bytes: got ", options.capacity_bytes,
                               ", limit at least 1"));
  }
  if (options.max_nodes < 1) {
    return refuse(absl::StrCat("max_nodes: got ", options.max_nodes,
                               ", limit at least 1"));
  }
  CheckedSize total = 0;
  for (const LineBuffer& buffer : buffers) {
    if (buffer.lower < 0 || buffer.upper <= buffer.lower) {
      return refuse(absl::StrCat("buffer '", buffer.name, "': got a life from ",
                                 buffer.lower, " to ", buffer.upper,
                                 ", limit 0 <= lower < upper"));
    }
    if (buffer.bytes < 1) {
      return refuse(absl::StrCat("buffer '", buffer.name, "': got ",
                                 buffer.bytes, " bytes, limit at least 1"));
    }
    total = total + CheckedSize(buffer.bytes) *
                        static_cast<int64_t>(2 * buffers.size());
    if (!total.value()) {
      return refuse(
          absl::StrCat("buffer '", buffer.name, "': the sum is beyond 2^63-1"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LinePacking> PackLine(absl::Span<const LineBuffer> buffers,
                                     const LinePackingOptions& options) {
  // Whether a search gets through hangs on its order, and one that does mostly
  // needs few nodes more than there are buffers. So many orders get a short
  // try each, and the first ones longer and longer searches in between, which
  // end the hopeless case too.
  constexpr int64_t kFirstNodes = 2'000;
  constexpr int kFirstTries = 40;
  constexpr int64_t kExtraNodesOfTry = 100;
  constexpr size_t kDisturbancesPercent[] = {5, 5, 15};
  PERMAFROST_RETURN_IF_ERROR(CheckBuffers(buffers, options));
  Attempts attempts(buffers, options);
  if (attempts.packing().bound_bytes > options.capacity_bytes) {
    return attempts.Take(PackingVerdict::kImpossible);
  }
  const std::vector<std::vector<size_t>> orders =
      StaticOrders(buffers, attempts.sections());
  const int64_t nodes_of_try =
      2 * static_cast<int64_t>(buffers.size()) + kExtraNodesOfTry;
  size_t tried = 0;
  Random random;
  for (int round = 0; !attempts.is_over(); ++round) {
    for (const std::vector<size_t>& order : orders) {
      attempts.Try(order, kFirstNodes << std::min(round, 40));
    }
    for (int i = 0; i < kFirstTries << std::min(round, 20); ++i, ++tried) {
      if (attempts.is_over()) break;
      const size_t percent =
          kDisturbancesPercent[tried / orders.size() %
                               std::size(kDisturbancesPercent)];
      attempts.Try(Disturbed(orders[tried % orders.size()], percent, random),
                   nodes_of_try);
    }
  }
  return attempts.Take();
}

}  // namespace permafrost
