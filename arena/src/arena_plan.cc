// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/arena_plan.h"

#include <cstddef>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "checked_size.h"
#include "fnv1a.h"
#include "permafrost/driver/status.h"

namespace permafrost {
namespace {

absl::Status CheckOptions(const PlanOptions& options) {
  if (options.granularity_bytes < kBufferAlignmentBytes ||
      options.granularity_bytes % kBufferAlignmentBytes != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "arena plan: granularity_bytes: got ", options.granularity_bytes,
        ", limit a positive multiple of ", kBufferAlignmentBytes));
  }
  if (options.guard_bytes < 0 ||
      options.guard_bytes % kBufferAlignmentBytes != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "arena plan: guard_bytes: got ", options.guard_bytes,
        ", limit 0 or a positive multiple of ", kBufferAlignmentBytes));
  }
  return absl::OkStatus();
}

absl::Status CheckSizes(const std::vector<BufferSize>& sizes) {
  std::set<absl::string_view> names;
  bool any_present = false;
  for (const BufferSize& size : sizes) {
    if (size.name.empty()) {
      return absl::InvalidArgumentError(
          "arena plan: buffer name: got an empty one");
    }
    if (!names.insert(size.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("arena plan: buffer '", size.name, "' is there twice"));
    }
    if (size.bytes < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("arena plan: buffer '", size.name, "': bytes: got ",
                       size.bytes, ", limit at least 0"));
    }
    if (size.bytes == 0 && size.gate_reason.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "arena plan: buffer '", size.name,
          "': got 0 bytes and no reason; an absent buffer says why"));
    }
    if (size.bytes > 0 && !size.gate_reason.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "arena plan: buffer '", size.name, "': got ", size.bytes,
          " bytes and a reason to be absent (", size.gate_reason, ")"));
    }
    any_present = any_present || size.bytes > 0;
  }
  if (!any_present) {
    return absl::InvalidArgumentError(
        absl::StrCat("arena plan: got ", sizes.size(),
                     " buffers and none with bytes, limit at least one"));
  }
  return absl::OkStatus();
}

PlannedBuffer ToPlanned(BufferSize size) {
  PlannedBuffer buffer;
  buffer.name = std::move(size.name);
  buffer.bytes = size.bytes;
  buffer.gate_reason = std::move(size.gate_reason);
  buffer.element = size.element;
  buffer.lifetime = size.lifetime;
  buffer.toucher = size.toucher;
  buffer.tag = std::move(size.tag);
  buffer.meaning = std::move(size.meaning);
  buffer.sized_by = std::move(size.sized_by);
  return buffer;
}

std::vector<PlannedSegment> SegmentsInOrder(
    const std::vector<PlannedBuffer>& buffers) {
  std::vector<PlannedSegment> segments;
  std::set<absl::string_view> seen;
  for (const PlannedBuffer& buffer : buffers) {
    if (buffer.is_present() && seen.insert(buffer.tag).second) {
      segments.push_back({.tag = buffer.tag});
    }
  }
  return segments;
}

}  // namespace

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
  int64_t bytes = 0;
  for (const PlannedBuffer& buffer : buffers_) bytes += buffer.bytes;
  return bytes;
}

int64_t ArenaPlan::guard_total_bytes() const {
  int64_t bytes = 0;
  for (const PlannedBuffer& buffer : buffers_) {
    if (buffer.is_present()) bytes += options_.guard_bytes;
  }
  return bytes;
}

int64_t ArenaPlan::rounding_bytes() const {
  return total_bytes_ - buffer_bytes() - guard_total_bytes();
}

const PlannedBuffer* ArenaPlan::Find(absl::string_view name) const {
  for (const PlannedBuffer& buffer : buffers_) {
    if (buffer.name == name) return &buffer;
  }
  return nullptr;
}

absl::StatusOr<ArenaPlan> PlanArena(std::vector<BufferSize> sizes,
                                    const PlanOptions& options) {
  PERMAFROST_RETURN_IF_ERROR(CheckOptions(options));
  PERMAFROST_RETURN_IF_ERROR(CheckSizes(sizes));

  std::vector<PlannedBuffer> buffers;
  buffers.reserve(sizes.size());
  for (BufferSize& size : sizes) buffers.push_back(ToPlanned(std::move(size)));
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
      if (!buffer.is_present() || buffer.tag != segment.tag) continue;
      const CheckedSize offset = cursor.AlignUp(kBufferAlignmentBytes);
      cursor = offset + buffer.bytes + options.guard_bytes;
      if (!cursor.value()) {
        return too_large(absl::StrCat("buffer '", buffer.name, "'"));
      }
      buffer.offset_bytes = *offset.value();
    }
    cursor = cursor.AlignUp(options.granularity_bytes);
    if (!cursor.value()) {
      return too_large(absl::StrCat("segment '", segment.tag, "'"));
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
