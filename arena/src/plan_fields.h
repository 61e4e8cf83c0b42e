// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_ARENA_SRC_PLAN_FIELDS_H_
#define PERMAFROST_ARENA_SRC_PLAN_FIELDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "permafrost/arena/arena_plan.h"

namespace permafrost::internal {

/// Calls `visit(key, member)` for each field of a plan's part, in the order of
/// the JSON. Members are integers, texts, lists of texts and enumerators. The
/// one list of fields: writing, reading and comparing all go through it, and a
/// field that is missing here fails the test that counts them.
template <typename Part, typename Visit>
void VisitOptions(Part& options, Visit&& visit) {
  visit("granularity_bytes", options.granularity_bytes);
  visit("guard_bytes", options.guard_bytes);
  visit("overlay", options.overlay);
}

template <typename Part, typename Visit>
void VisitSegment(Part& segment, Visit&& visit) {
  visit("tag", segment.tag);
  visit("sleep", segment.sleep);
  visit("offset", segment.offset_bytes);
  visit("bytes", segment.bytes);
}

template <typename Part, typename Visit>
void VisitBuffer(Part& buffer, Visit&& visit) {
  visit("name", buffer.name);
  visit("bytes", buffer.bytes);
  visit("offset", buffer.offset_bytes);
  visit("element", buffer.element);
  visit("lifetime", buffer.lifetime);
  visit("toucher", buffer.toucher);
  visit("tag", buffer.tag);
  visit("sleep", buffer.sleep);
  visit("shares_with", buffer.shares_with);
  visit("sized_by", buffer.sized_by);
  visit("gate_reason", buffer.gate_reason);
  visit("meaning", buffer.meaning);
}

absl::string_view OverlayName(Overlay overlay);

/// The words of an enumeration, in the enumerators' order.
template <typename Enum>
struct Words;
template <>
struct Words<Overlay> {
  static constexpr Overlay kLast = Overlay::kOn;
  static absl::string_view Name(Overlay value) { return OverlayName(value); }
};
template <>
struct Words<ElementType> {
  static constexpr ElementType kLast = ElementType::kMixed;
  static absl::string_view Name(ElementType value) {
    return ElementTypeName(value);
  }
};
template <>
struct Words<Lifetime> {
  static constexpr Lifetime kLast = Lifetime::kState;
  static absl::string_view Name(Lifetime value) { return LifetimeName(value); }
};
template <>
struct Words<Toucher> {
  static constexpr Toucher kLast = Toucher::kDeviceWritesHostReads;
  static absl::string_view Name(Toucher value) { return ToucherName(value); }
};
template <>
struct Words<SleepPolicy> {
  static constexpr SleepPolicy kLast = SleepPolicy::kStay;
  static absl::string_view Name(SleepPolicy value) {
    return SleepPolicyName(value);
  }
};

}  // namespace permafrost::internal

#endif  // PERMAFROST_ARENA_SRC_PLAN_FIELDS_H_
