// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "permafrost/arena/arena_plan.h"

namespace permafrost {
namespace {

constexpr size_t kColumns = 5;
using Line = std::vector<std::string>;

/// Offsets and bytes are numbers: they line up on the right.
bool IsNumberColumn(size_t column) { return column == 1 || column == 2; }

std::string Render(const std::vector<Line>& lines) {
  size_t widths[kColumns] = {};
  for (const Line& line : lines) {
    for (size_t column = 0; column < kColumns; ++column) {
      widths[column] = std::max(widths[column], line[column].size());
    }
  }
  std::string text;
  for (const Line& line : lines) {
    std::string row;
    for (size_t column = 0; column < kColumns; ++column) {
      const std::string fill(widths[column] - line[column].size(), ' ');
      if (column > 0) row += "  ";
      row += IsNumberColumn(column) ? fill + line[column] : line[column] + fill;
    }
    row.erase(row.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, row, "\n");
  }
  return text;
}

std::string Mebibytes(int64_t bytes) {
  return absl::StrFormat("%.1f MiB",
                         static_cast<double>(bytes) / (1024.0 * 1024.0));
}

}  // namespace

std::string ArenaPlan::ToTable() const {
  std::vector<Line> lines;
  lines.push_back({"buffer", "offset", "bytes", "lifetime", "meaning"});
  int64_t present = 0;
  for (const PlannedBuffer& buffer : buffers_) {
    const std::string lifetime(LifetimeName(buffer.lifetime));
    if (buffer.is_present()) {
      ++present;
      lines.push_back({buffer.name,
                       absl::StrFormat("0x%x", buffer.offset_bytes),
                       absl::StrCat(buffer.bytes), lifetime, buffer.meaning});
    } else {
      lines.push_back({buffer.name, "-", "0", lifetime,
                       absl::StrCat("absent: ", buffer.gate_reason)});
    }
  }
  std::string text = Render(lines);
  for (const PlannedSegment& segment : segments_) {
    const SegmentBytes bytes = BytesOf(segment);
    absl::StrAppendFormat(
        &text,
        "%s: 0x%x, %d bytes (%s): %d in buffers, %d of rounding, %d of "
        "guards\n",
        SegmentLabel(segment), segment.offset_bytes, segment.bytes,
        Mebibytes(segment.bytes), bytes.buffer_bytes, bytes.rounding_bytes,
        bytes.guard_bytes);
  }
  absl::StrAppendFormat(
      &text,
      "total %d bytes (%s): %d in %d buffers, %d of rounding (256-byte starts, "
      "%d-byte granules), %d of guards (%d after each buffer)\n",
      total_bytes_, Mebibytes(total_bytes_), buffer_bytes(), present,
      rounding_bytes(), options_.granularity_bytes, guard_total_bytes(),
      options_.guard_bytes);
  if (options_.overlay == Overlay::kOn) {
    absl::StrAppendFormat(
        &text, "overlay: the same buffers take %d bytes (%s) if none share\n",
        unshared_buffer_bytes(), Mebibytes(unshared_buffer_bytes()));
  }
  return text;
}

}  // namespace permafrost
