// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/arena_plan.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "checked_size.h"
#include "fnv1a.h"
#include "permafrost/driver/status.h"
#include "plan_inputs.h"

namespace permafrost {
namespace {

bool IsIn(const PlannedBuffer& buffer, const PlannedSegment& segment) {
  return buffer.is_present() && buffer.tag == segment.tag &&
         buffer.sleep == segment.sleep;
}

/// The bytes that at least one buffer, or the guard behind it, lies over; those
/// of one segment where it is not null.
int64_t CoveredBytes(const std::vector<PlannedBuffer>& buffers,
                     int64_t guard_bytes, const PlannedSegment* segment) {
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (const PlannedBuffer& buffer : buffers) {
    if (!buffer.is_present()) continue;
    if (segment != nullptr && !IsIn(buffer, *segment)) continue;
    ranges.emplace_back(buffer.offset_bytes,
                        buffer.offset_bytes + buffer.bytes + guard_bytes);
  }
  std::sort(ranges.begin(), ranges.end());
  int64_t covered = 0;
  int64_t covered_to = 0;
  for (const auto& [begin, end] : ranges) {
    const int64_t from = std::max(begin, covered_to);
    if (end <= from) continue;
    covered += end - from;
    covered_to = end;
  }
  return covered;
}

}  // namespace

std::string SegmentLabel(const PlannedSegment& segment) {
  return absl::StrCat("segment '", segment.tag, "' (",
                      SleepPolicyName(segment.sleep), ")");
}

ArenaPlan ArenaPlan::FromParts(std::vector<PlannedBuffer> buffers,
                               std::vector<PlannedSegment> segments,
                               int64_t total_bytes,
                               const PlanOptions& options) {
  ArenaPlan plan;
  plan.buffers_ = std::move(buffers);
  plan.segments_ = std::move(segments);
  plan.total_bytes_ = total_bytes;
  plan.options_ = options;
  return plan;
}

int64_t ArenaPlan::buffer_bytes() const {
  return CoveredBytes(buffers_, 0, nullptr);
}

int64_t ArenaPlan::unshared_buffer_bytes() const {
  int64_t bytes = 0;
  for (const PlannedBuffer& buffer : buffers_) bytes += buffer.bytes;
  return bytes;
}

int64_t ArenaPlan::guard_total_bytes() const {
  return CoveredBytes(buffers_, options_.guard_bytes, nullptr) - buffer_bytes();
}

int64_t ArenaPlan::rounding_bytes() const {
  return total_bytes_ - buffer_bytes() - guard_total_bytes();
}

SegmentBytes ArenaPlan::BytesOf(const PlannedSegment& segment) const {
  SegmentBytes bytes;
  bytes.buffer_bytes = CoveredBytes(buffers_, 0, &segment);
  bytes.guard_bytes = CoveredBytes(buffers_, options_.guard_bytes, &segment) -
                      bytes.buffer_bytes;
  bytes.rounding_bytes = segment.bytes - bytes.buffer_bytes - bytes.guard_bytes;
  return bytes;
}

const PlannedSegment* ArenaPlan::SegmentOf(const PlannedBuffer& buffer) const {
  for (const PlannedSegment& segment : segments_) {
    if (IsIn(buffer, segment)) return &segment;
  }
  return nullptr;
}

const PlannedBuffer* ArenaPlan::Find(absl::string_view name) const {
  for (const PlannedBuffer& buffer : buffers_) {
    if (buffer.name == name) return &buffer;
  }
  return nullptr;
}

absl::StatusOr<ArenaPlan> PlanArena(std::vector<BufferSize> sizes,
                                    const PlanOptions& options) {
  PERMAFROST_RETURN_IF_ERROR(CheckPlanOptions(options));
  if (options.overlay != Overlay::kOff) {
    return absl::InvalidArgumentError(
        "arena plan: overlay: got on, limit off; which buffers may share is "
        "in the steps, so call PlanArenaWithOverlay");
  }
  PERMAFROST_RETURN_IF_ERROR(CheckPlanSizes(sizes));

  std::vector<PlannedBuffer> buffers;
  buffers.reserve(sizes.size());
  for (BufferSize& size : sizes)
    buffers.push_back(PlannedFrom(std::move(size)));
  std::vector<PlannedSegment> segments = SegmentsInOrder(buffers);

  CheckedSize cursor = 0;
  const auto too_large = [&](absl::string_view where) {
    return absl::InvalidArgumentError(
        absl::StrCat("arena plan: the total at ", where,
                     " is beyond 2^63-1 bytes; lower max_batch_tokens"));
  };
  for (PlannedSegment& segment : segments) {
    const CheckedSize begin = cursor;
    for (PlannedBuffer& buffer : buffers) {
      if (!IsIn(buffer, segment)) continue;
      const CheckedSize offset = cursor.AlignUp(kBufferAlignmentBytes);
      cursor = offset + buffer.bytes + options.guard_bytes;
      if (!cursor.value()) {
        return too_large(absl::StrCat("buffer '", buffer.name, "'"));
      }
      buffer.offset_bytes = *offset.value();
    }
    cursor = cursor.AlignUp(options.granularity_bytes);
    if (!cursor.value()) {
      return too_large(SegmentLabel(segment));
    }
    segment.offset_bytes = *begin.value();
    segment.bytes = *cursor.value() - segment.offset_bytes;
  }
  return ArenaPlan::FromParts(std::move(buffers), std::move(segments),
                              *cursor.value(), options);
}

uint64_t AddressFingerprint(absl::Span<const AddressedRange> ranges) {
  Fnv1a64 hash;
  hash.AddNumber(ranges.size());
  for (const AddressedRange& range : ranges) {
    hash.AddNumber(range.name.size());
    hash.AddBytes(range.name);
    hash.AddNumber(static_cast<uint64_t>(range.address.value()));
    hash.AddNumber(static_cast<uint64_t>(range.bytes));
  }
  return hash.value();
}

}  // namespace permafrost
