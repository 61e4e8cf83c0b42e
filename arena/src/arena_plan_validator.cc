// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
// Knows the rules of a plan and nothing of how one is made: it shares no helper
// with the planner, so that a fault in one does not excuse the other.
#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "permafrost/arena/arena_plan.h"
#include "permafrost/driver/status.h"

namespace permafrost {
namespace {

absl::Status Invalid(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("arena plan: ", what));
}

std::string Place(absl::string_view kind, absl::string_view name,
                  int64_t offset, int64_t bytes) {
  return absl::StrCat(kind, " '", name, "' (offset ", offset, ", ", bytes,
                      " bytes)");
}

std::string Place(const PlannedBuffer& buffer) {
  return Place("buffer", buffer.name, buffer.offset_bytes, buffer.bytes);
}

std::string Place(const PlannedSegment& segment) {
  return absl::StrCat(
      Place("segment", segment.tag, segment.offset_bytes, segment.bytes), " (",
      SleepPolicyName(segment.sleep), ")");
}

/// True when [offset, offset + bytes) lies in [0, total), without adding.
bool Within(int64_t offset, int64_t bytes, int64_t total) {
  return offset >= 0 && bytes >= 0 && bytes <= total && offset <= total - bytes;
}

absl::Status ValidateOptions(const ArenaPlan& plan) {
  const PlanOptions& options = plan.options();
  if (options.granularity_bytes <= 0 || options.granularity_bytes % 256 != 0) {
    return Invalid(absl::StrCat("granularity_bytes: got ",
                                options.granularity_bytes,
                                ", limit a positive multiple of 256"));
  }
  if (options.guard_bytes < 0 || options.guard_bytes % 256 != 0) {
    return Invalid(absl::StrCat("guard_bytes: got ", options.guard_bytes,
                                ", limit 0 or a positive multiple of 256"));
  }
  return absl::OkStatus();
}

absl::Status ValidateSegments(const ArenaPlan& plan) {
  const int64_t granularity = plan.options().granularity_bytes;
  std::vector<const PlannedSegment*> by_offset;
  std::set<std::pair<absl::string_view, SleepPolicy>> keys;
  for (const PlannedSegment& segment : plan.segments()) {
    if (!keys.insert({segment.tag, segment.sleep}).second) {
      return Invalid(absl::StrCat(
          "two segments have the tag '", segment.tag, "' and the sleep policy ",
          SleepPolicyName(segment.sleep), "; these have one segment"));
    }
    if (segment.bytes <= 0 ||
        !Within(segment.offset_bytes, segment.bytes, plan.total_bytes())) {
      return Invalid(absl::StrCat(Place(segment),
                                  " is not inside the total of ",
                                  plan.total_bytes(), " bytes"));
    }
    if (segment.offset_bytes % granularity != 0 ||
        segment.bytes % granularity != 0) {
      return Invalid(absl::StrCat(Place(segment),
                                  " does not start and end on multiples of ",
                                  granularity, " bytes"));
    }
    by_offset.push_back(&segment);
  }
  std::sort(by_offset.begin(), by_offset.end(),
            [](const PlannedSegment* a, const PlannedSegment* b) {
              return a->offset_bytes < b->offset_bytes;
            });
  for (size_t i = 1; i < by_offset.size(); ++i) {
    if (by_offset[i]->offset_bytes - by_offset[i - 1]->offset_bytes <
        by_offset[i - 1]->bytes) {
      return Invalid(absl::StrCat(Place(*by_offset[i - 1]), " and ",
                                  Place(*by_offset[i]), " overlap"));
    }
  }
  return absl::OkStatus();
}

absl::Status ValidatePresent(const ArenaPlan& plan,
                             const PlannedBuffer& buffer) {
  if (!buffer.gate_reason.empty()) {
    return Invalid(absl::StrCat(Place(buffer), " is present and has a reason ",
                                "to be absent (", buffer.gate_reason, ")"));
  }
  if (buffer.offset_bytes % 256 != 0) {
    return Invalid(
        absl::StrCat(Place(buffer), " does not start on a multiple of 256"));
  }
  const PlannedSegment* home = nullptr;
  for (const PlannedSegment& segment : plan.segments()) {
    if (segment.tag == buffer.tag && segment.sleep == buffer.sleep) {
      home = &segment;
    }
  }
  if (home == nullptr) {
    return Invalid(absl::StrCat(
        Place(buffer), " has the tag '", buffer.tag, "' and the sleep policy ",
        SleepPolicyName(buffer.sleep), ", which no segment has"));
  }
  if (buffer.offset_bytes < home->offset_bytes ||
      !Within(buffer.offset_bytes - home->offset_bytes, buffer.bytes,
              home->bytes)) {
    return Invalid(
        absl::StrCat(Place(buffer), " is not inside ", Place(*home)));
  }
  const int64_t room_behind =
      home->bytes - (buffer.offset_bytes - home->offset_bytes) - buffer.bytes;
  if (room_behind < plan.options().guard_bytes) {
    return Invalid(absl::StrCat(Place(buffer), " has ", room_behind,
                                " bytes before the end of ", Place(*home),
                                ", limit a guard of ",
                                plan.options().guard_bytes, " bytes"));
  }
  return absl::OkStatus();
}

bool Lists(const PlannedBuffer& a, const PlannedBuffer& b) {
  return std::find(a.shares_with.begin(), a.shares_with.end(), b.name) !=
         a.shares_with.end();
}

absl::Status ValidateSharing(const ArenaPlan& plan) {
  for (const PlannedBuffer& buffer : plan.buffers()) {
    const std::vector<std::string>& names = buffer.shares_with;
    if (names.empty()) continue;
    if (plan.options().overlay != Overlay::kOn) {
      return Invalid(
          absl::StrCat("buffer '", buffer.name, "' lists '", names.front(),
                       "' as sharing its bytes, and overlay is off"));
    }
    for (size_t i = 0; i < names.size(); ++i) {
      if (i > 0 && names[i] <= names[i - 1]) {
        return Invalid(absl::StrCat("buffer '", buffer.name, "' lists '",
                                    names[i], "' after '", names[i - 1],
                                    "'; names it shares with are sorted"));
      }
      const PlannedBuffer* const other = plan.Find(names[i]);
      const absl::string_view fault =
          other == nullptr    ? "which the plan does not have"
          : other == &buffer  ? "which is itself"
          : buffer.bytes == 0 ? "and is absent"
          : other->bytes == 0 ? "which is absent"
          : other->tag != buffer.tag || other->sleep != buffer.sleep
              ? "which is in another segment"
          : !Lists(*other, buffer) ? "which does not list it back"
                                   : "";
      if (!fault.empty()) {
        return Invalid(absl::StrCat("buffer '", buffer.name, "' lists '",
                                    names[i], "' as sharing its bytes, ",
                                    fault));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateBuffers(const ArenaPlan& plan) {
  std::vector<const PlannedBuffer*> by_offset;
  std::set<absl::string_view> names;
  for (const PlannedBuffer& buffer : plan.buffers()) {
    if (buffer.name.empty()) return Invalid("a buffer has no name");
    if (!names.insert(buffer.name).second) {
      return Invalid(absl::StrCat("two buffers are named '", buffer.name, "'"));
    }
    if (buffer.bytes == 0) {
      if (buffer.gate_reason.empty() || buffer.offset_bytes != 0) {
        return Invalid(absl::StrCat(Place(buffer),
                                    " is absent and must have a reason and "
                                    "the offset 0"));
      }
      continue;
    }
    PERMAFROST_RETURN_IF_ERROR(ValidatePresent(plan, buffer));
    by_offset.push_back(&buffer);
  }
  std::sort(by_offset.begin(), by_offset.end(),
            [](const PlannedBuffer* a, const PlannedBuffer* b) {
              return a->offset_bytes < b->offset_bytes;
            });
  // Each lies inside the total by now, so differences cannot overflow.
  for (size_t i = 0; i < by_offset.size(); ++i) {
    const PlannedBuffer& left = *by_offset[i];
    for (size_t j = i + 1; j < by_offset.size(); ++j) {
      const PlannedBuffer& right = *by_offset[j];
      const int64_t gap = right.offset_bytes - left.offset_bytes - left.bytes;
      if (gap >= 0 && gap >= plan.options().guard_bytes) break;
      if (Lists(left, right)) continue;
      if (gap < 0) {
        return Invalid(absl::StrCat(
            Place(left), " and ", Place(right), " overlap",
            plan.options().overlay == Overlay::kOn
                ? ", and neither lists the other as sharing its bytes"
                : ""));
      }
      return Invalid(absl::StrCat(Place(left), " and ", Place(right), " are ",
                                  gap, " bytes apart, limit a guard of ",
                                  plan.options().guard_bytes, " bytes"));
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateTotal(const ArenaPlan& plan) {
  int64_t end = 0;
  for (const PlannedSegment& segment : plan.segments()) {
    end = std::max(end, segment.offset_bytes + segment.bytes);
  }
  if (end != plan.total_bytes()) {
    return Invalid(absl::StrCat("the total is ", plan.total_bytes(),
                                " bytes, and the last segment ends at ", end));
  }
  for (const PlannedSegment& segment : plan.segments()) {
    bool used = false;
    for (const PlannedBuffer& buffer : plan.buffers()) {
      used = used || (buffer.bytes > 0 && buffer.tag == segment.tag &&
                      buffer.sleep == segment.sleep);
    }
    if (!used) {
      return Invalid(absl::StrCat(Place(segment), " holds no buffer"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidatePlan(const ArenaPlan& plan) {
  PERMAFROST_RETURN_IF_ERROR(ValidateOptions(plan));
  PERMAFROST_RETURN_IF_ERROR(ValidateSegments(plan));
  PERMAFROST_RETURN_IF_ERROR(ValidateSharing(plan));
  PERMAFROST_RETURN_IF_ERROR(ValidateBuffers(plan));
  return ValidateTotal(plan);
}

}  // namespace permafrost
