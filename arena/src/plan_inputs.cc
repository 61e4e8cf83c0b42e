// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "plan_inputs.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace permafrost {
absl::Status CheckPlanOptions(const PlanOptions& options) {
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

absl::Status CheckPlanSizes(const std::vector<BufferSize>& sizes) {
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

PlannedBuffer PlannedFrom(BufferSize size) {
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
  buffer.sleep = size.sleep;
  return buffer;
}

std::vector<PlannedSegment> SegmentsInOrder(
    const std::vector<PlannedBuffer>& buffers) {
  std::vector<PlannedSegment> segments;
  std::set<std::pair<absl::string_view, SleepPolicy>> seen;
  for (const PlannedBuffer& buffer : buffers) {
    if (buffer.is_present() && seen.insert({buffer.tag, buffer.sleep}).second) {
      segments.push_back({.tag = buffer.tag, .sleep = buffer.sleep});
    }
  }
  return segments;
}

}  // namespace permafrost
