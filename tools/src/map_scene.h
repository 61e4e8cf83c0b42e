// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// What a picture of a plan shows, before it is drawn: which buffer lives when,
// and how addresses become heights.
#ifndef PERMAFROST_TOOLS_MAP_SCENE_H_
#define PERMAFROST_TOOLS_MAP_SCENE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "permafrost/arena/arena_plan.h"
#include "permafrost/arena/overlay.h"
#include "permafrost/arena/step_dag.h"

namespace permafrost::tool {

/// A picture of more buffers is no picture any more.
inline constexpr size_t kMostMapBuffers = 2000;

/// What stands from left to right.
enum class TimeAxis {
  kWholeStep,   ///< nothing: every buffer lives all the time
  kOperations,  ///< the operations of the steps, one column each
  /// Columns without a meaning of their own: nobody said when buffers that
  /// share bytes live, so they stand side by side.
  kSideBySide,
};

/// A stretch of the axis: one step.
struct MapPanel {
  std::string name = {};
  /// In an order that the step's edges allow; empty texts where the columns
  /// have no names.
  std::vector<std::string> columns = {};
};

/// Columns `first` to `last` of a panel, both in it.
struct MapSpan {
  size_t panel = 0;
  size_t first = 0;
  size_t last = 0;

  friend bool operator==(const MapSpan&, const MapSpan&) = default;
};

struct MapBuffer {
  PlannedBuffer buffer = {};
  /// When it lives; empty: all the time.
  std::vector<MapSpan> spans = {};
  /// Why it shares no bytes, where the planner gave a reason.
  std::string kept_because = {};
};

/// Addresses that the same buffers hold, and the height they are drawn with.
struct MapBand {
  int64_t begin_bytes = 0;
  int64_t end_bytes = 0;
  bool has_buffer = false;
  double top = 0;  ///< pixels from the top of the map
  double height = 0;
};

/// A segment's heading and its place.
struct MapSegment {
  PlannedSegment segment = {};
  double heading_top = 0;
};

struct MapScene {
  std::string title = {};
  std::string made_by = {};  ///< a line below the title
  ArenaPlan plan;
  TimeAxis axis = TimeAxis::kWholeStep;
  std::vector<MapPanel> panels = {};
  /// The present ones, in order of offset.
  std::vector<MapBuffer> buffers = {};
  std::vector<MapSegment> segments = {};  ///< in order of offset
  std::vector<MapBand> bands = {};  ///< in order of address, no gap between
  double height = 0;                ///< of the map, in pixels

  /// Where an address lies, in pixels from the top of the map. An address
  /// where one band ends and another starts is the end if `is_end`.
  double YOf(int64_t address_bytes, bool is_end) const;
};

inline constexpr double kSegmentHeadingHeight = 20;
/// Each buffer is at least so high that a line of text fits.
inline constexpr double kLeastBufferHeight = 15;

/// @param steps  of the plan's lane; empty where they are not known.
/// Heights are proportional to bytes, except that small buffers are drawn
/// higher; two bands never change places.
/// Errors: kInvalidArgument for more than `kMostMapBuffers` present buffers,
///   and the errors of `FindLives`.
absl::StatusOr<MapScene> MakeMapScene(std::string title, std::string made_by,
                                      const ArenaPlan& plan,
                                      absl::Span<const StepDag> steps,
                                      absl::Span<const KeptApart> kept_apart);

/// The picture as an SVG document of its own, which an HTML page may also
/// contain. It holds no script and loads nothing.
std::string MapSvg(const MapScene& scene);

/// One page: the picture, and the same figures as a table. It holds no script,
/// loads nothing, and its policy lets a browser do neither.
std::string MapHtml(const MapScene& scene);

/// "12.5 MiB"; whole bytes below 1024.
std::string ReadableBytes(int64_t bytes);

}  // namespace permafrost::tool

#endif  // PERMAFROST_TOOLS_MAP_SCENE_H_
