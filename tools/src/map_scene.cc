// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "map_scene.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <queue>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "permafrost/driver/status.h"

namespace permafrost::tool {
namespace {

/// What all bytes together would take if heights were only proportional.
constexpr double kProportionalHeight = 640;
/// Bytes of no buffer are a line between two buffers, and no more is needed.
constexpr double kLeastGapHeight = 2;
constexpr double kMostGapHeight = 12;

std::vector<MapBuffer> PresentBuffers(const ArenaPlan& plan,
                                      absl::Span<const KeptApart> kept_apart) {
  std::vector<MapBuffer> present;
  for (const PlannedBuffer& buffer : plan.buffers()) {
    if (buffer.is_present()) present.push_back({.buffer = buffer});
  }
  std::stable_sort(present.begin(), present.end(),
                   [](const MapBuffer& a, const MapBuffer& b) {
                     return a.buffer.offset_bytes < b.buffer.offset_bytes;
                   });
  std::map<std::string, std::string> reasons;
  for (const KeptApart& kept : kept_apart) reasons[kept.buffer] = kept.reason;
  for (MapBuffer& buffer : present) {
    const auto reason = reasons.find(buffer.buffer.name);
    if (reason != reasons.end()) buffer.kept_because = reason->second;
  }
  return present;
}

/// The place of each operation in an order that the edges allow: of those that
/// may come next, the one that was listed first.
std::vector<size_t> PlacesOf(const StepDag& step) {
  std::vector<std::vector<int>> next(step.ops.size());
  std::vector<int> waits_for(step.ops.size(), 0);
  for (const StepEdge& edge : step.edges) {
    next[static_cast<size_t>(edge.from)].push_back(edge.to);
    ++waits_for[static_cast<size_t>(edge.to)];
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (size_t i = 0; i < waits_for.size(); ++i) {
    if (waits_for[i] == 0) ready.push(static_cast<int>(i));
  }
  std::vector<size_t> places(step.ops.size());
  for (size_t place = 0; !ready.empty(); ++place) {
    const int op = ready.top();
    ready.pop();
    places[static_cast<size_t>(op)] = place;
    for (const int to : next[static_cast<size_t>(op)]) {
      if (--waits_for[static_cast<size_t>(to)] == 0) ready.push(to);
    }
  }
  return places;
}

absl::Status AddStep(const StepDag& step, MapScene& scene) {
  PERMAFROST_ASSIGN_OR_RETURN(const std::vector<BufferLife> lives,
                              FindLives(step));
  const std::vector<size_t> places = PlacesOf(step);
  MapPanel panel = {.name = step.name};
  panel.columns.resize(step.ops.size());
  for (size_t i = 0; i < places.size(); ++i) {
    panel.columns[places[i]] = step.ops[i].name;
  }
  std::map<std::string, const BufferLife*> life_of;
  for (const BufferLife& life : lives) life_of[life.buffer] = &life;
  for (MapBuffer& buffer : scene.buffers) {
    // What shares no bytes holds them all the time, whenever it is used.
    if (buffer.buffer.shares_with.empty()) continue;
    const auto life = life_of.find(buffer.buffer.name);
    if (life == life_of.end()) continue;
    for (const LiveRange& range : life->second->ranges) {
      MapSpan span = {
          .panel = scene.panels.size(), .first = places.size(), .last = 0};
      for (const int op : range.ops) {
        span.first = std::min(span.first, places[static_cast<size_t>(op)]);
        span.last = std::max(span.last, places[static_cast<size_t>(op)]);
      }
      buffer.spans.push_back(span);
    }
  }
  scene.panels.push_back(std::move(panel));
  return absl::OkStatus();
}

/// Buffers with bytes in common get different columns, as few as it takes.
void StandSideBySide(MapScene& scene) {
  std::vector<int64_t> end_of_column;
  for (MapBuffer& buffer : scene.buffers) {
    if (buffer.buffer.shares_with.empty()) continue;
    const int64_t begin_bytes = buffer.buffer.offset_bytes;
    size_t column = 0;
    while (column < end_of_column.size() &&
           end_of_column[column] > begin_bytes) {
      ++column;
    }
    if (column == end_of_column.size()) end_of_column.push_back(0);
    end_of_column[column] = begin_bytes + buffer.buffer.bytes;
    buffer.spans.push_back({.panel = 0, .first = column, .last = column});
  }
  scene.panels.push_back(
      {.name = "buffers that share bytes, side by side; the plan does not say "
               "when each lives",
       .columns = std::vector<std::string>(
           std::max<size_t>(end_of_column.size(), 1))});
}

std::vector<MapBand> BandsOf(const MapScene& scene) {
  std::set<int64_t> borders = {0, scene.plan.total_bytes()};
  for (const MapSegment& segment : scene.segments) {
    borders.insert(segment.segment.offset_bytes);
    borders.insert(segment.segment.offset_bytes + segment.segment.bytes);
  }
  for (const MapBuffer& buffer : scene.buffers) {
    borders.insert(buffer.buffer.offset_bytes);
    borders.insert(buffer.buffer.offset_bytes + buffer.buffer.bytes);
  }
  std::vector<MapBand> bands;
  for (auto border = borders.begin(); std::next(border) != borders.end();
       ++border) {
    bands.push_back({.begin_bytes = *border, .end_bytes = *std::next(border)});
  }
  return bands;
}

/// The bands that a buffer covers, as [first, end).
std::pair<size_t, size_t> BandsUnder(const std::vector<MapBand>& bands,
                                     const PlannedBuffer& buffer) {
  const auto at = [&bands](int64_t address) {
    return static_cast<size_t>(
        std::lower_bound(bands.begin(), bands.end(), address,
                         [](const MapBand& band, int64_t begin) {
                           return band.begin_bytes < begin;
                         }) -
        bands.begin());
  };
  return {at(buffer.offset_bytes), at(buffer.offset_bytes + buffer.bytes)};
}

void GiveHeights(MapScene& scene) {
  std::vector<MapBand>& bands = scene.bands;
  const double per_byte =
      kProportionalHeight / static_cast<double>(scene.plan.total_bytes());
  std::vector<std::pair<size_t, size_t>> under;
  for (const MapBuffer& buffer : scene.buffers) {
    under.push_back(BandsUnder(bands, buffer.buffer));
    for (size_t i = under.back().first; i < under.back().second; ++i) {
      bands[i].has_buffer = true;
    }
  }
  for (MapBand& band : bands) {
    band.height =
        per_byte * static_cast<double>(band.end_bytes - band.begin_bytes);
    if (!band.has_buffer) {
      band.height = std::clamp(band.height, kLeastGapHeight, kMostGapHeight);
    }
  }
  // Those of few bands first: what they add also helps the buffers around them.
  std::sort(under.begin(), under.end(), [](const auto& a, const auto& b) {
    return std::make_pair(a.second - a.first, a.first) <
           std::make_pair(b.second - b.first, b.first);
  });
  for (const auto& [first, end] : under) {
    double height = 0;
    for (size_t i = first; i < end; ++i) height += bands[i].height;
    const double missing = kLeastBufferHeight - height;
    if (missing <= 0) continue;
    for (size_t i = first; i < end; ++i) {
      bands[i].height += missing / static_cast<double>(end - first);
    }
  }
}

void StackBands(MapScene& scene) {
  double top = 0;
  auto segment = scene.segments.begin();
  for (MapBand& band : scene.bands) {
    if (segment != scene.segments.end() &&
        segment->segment.offset_bytes == band.begin_bytes) {
      segment->heading_top = top;
      top += kSegmentHeadingHeight;
      ++segment;
    }
    band.top = top;
    top += band.height;
  }
  scene.height = top;
}

}  // namespace

double MapScene::YOf(int64_t address_bytes, bool is_end) const {
  for (const MapBand& band : bands) {
    if (is_end && band.end_bytes == address_bytes) {
      return band.top + band.height;
    }
    if (!is_end && band.begin_bytes == address_bytes) return band.top;
  }
  return height;
}

absl::StatusOr<MapScene> MakeMapScene(std::string title, std::string made_by,
                                      const ArenaPlan& plan,
                                      absl::Span<const StepDag> steps,
                                      absl::Span<const KeptApart> kept_apart) {
  MapScene scene = {.title = std::move(title),
                    .made_by = std::move(made_by),
                    .plan = plan,
                    .buffers = PresentBuffers(plan, kept_apart)};
  if (scene.buffers.size() > kMostMapBuffers) {
    return absl::InvalidArgumentError(
        absl::StrCat("a picture of so many buffers cannot be read: got ",
                     scene.buffers.size(), ", limit ", kMostMapBuffers,
                     "; look at the plan as a table or JSON"));
  }
  for (const PlannedSegment& segment : plan.segments()) {
    scene.segments.push_back({.segment = segment});
  }
  std::sort(scene.segments.begin(), scene.segments.end(),
            [](const MapSegment& a, const MapSegment& b) {
              return a.segment.offset_bytes < b.segment.offset_bytes;
            });
  if (!steps.empty()) {
    scene.axis = TimeAxis::kOperations;
    for (const StepDag& step : steps) {
      PERMAFROST_RETURN_IF_ERROR(AddStep(step, scene));
    }
  } else if (plan.options().overlay == Overlay::kOn) {
    scene.axis = TimeAxis::kSideBySide;
    StandSideBySide(scene);
  } else {
    scene.panels.push_back(
        {.name = "the whole step: no buffer shares bytes", .columns = {""}});
  }
  scene.bands = BandsOf(scene);
  GiveHeights(scene);
  StackBands(scene);
  return scene;
}

std::string ReadableBytes(int64_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.*f %s", unit < 2 ? 1 : 2, value, kUnits[unit]);
}

}  // namespace permafrost::tool
