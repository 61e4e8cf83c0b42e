// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/plan_diff.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "plan_fields.h"

namespace permafrost {
namespace {

std::string Text(int64_t value) { return absl::StrCat(value); }
std::string Text(const std::string& value) { return value; }
std::string Text(const std::vector<std::string>& value) {
  return absl::StrJoin(value, ", ");
}
template <typename Enum>
std::string Text(Enum value) {
  return std::string(internal::Words<Enum>::Name(value));
}

/// The fields of one part as texts, in their order.
struct Fields {
  std::vector<std::pair<std::string, std::string>> fields;

  template <typename Value>
  void operator()(const char* key, const Value& value) {
    fields.emplace_back(key, Text(value));
  }
};

Fields FieldsOf(const PlanOptions& options) {
  Fields fields;
  internal::VisitOptions(options, fields);
  return fields;
}
Fields FieldsOf(const PlannedSegment& segment) {
  Fields fields;
  internal::VisitSegment(segment, fields);
  return fields;
}
Fields FieldsOf(const PlannedBuffer& buffer) {
  Fields fields;
  internal::VisitBuffer(buffer, fields);
  return fields;
}

std::string Label(const PlannedSegment& segment) {
  return absl::StrCat("segment '", segment.tag, "' (",
                      SleepPolicyName(segment.sleep), ")");
}
std::string Label(const PlannedBuffer& buffer) {
  return absl::StrCat("buffer '", buffer.name, "'");
}

void CompareFields(const std::string& what, const Fields& before,
                   const Fields& after, std::vector<PlanChange>& changes) {
  for (size_t i = 0; i < before.fields.size(); ++i) {
    const auto& [field, then] = before.fields[i];
    const std::string& now = after.fields[i].second;
    if (then == now) continue;
    changes.push_back({PlanChange::Kind::kChanged, what, field, then, now});
  }
}

template <typename Part>
const Part* FindLabel(const std::vector<Part>& parts,
                      const std::string& label) {
  for (const Part& part : parts) {
    if (Label(part) == label) return &part;
  }
  return nullptr;
}

template <typename Part>
void CompareLists(const std::vector<Part>& before,
                  const std::vector<Part>& after,
                  std::vector<PlanChange>& changes) {
  for (const Part& part : before) {
    const std::string label = Label(part);
    const Part* const now = FindLabel(after, label);
    if (now == nullptr) {
      changes.push_back({.kind = PlanChange::Kind::kRemoved, .what = label});
    } else {
      CompareFields(label, FieldsOf(part), FieldsOf(*now), changes);
    }
  }
  for (const Part& part : after) {
    const std::string label = Label(part);
    if (FindLabel(before, label) == nullptr) {
      changes.push_back({.kind = PlanChange::Kind::kAdded, .what = label});
    }
  }
}

}  // namespace

std::vector<PlanChange> DiffPlans(const ArenaPlan& before,
                                  const ArenaPlan& after) {
  std::vector<PlanChange> changes;
  CompareFields("options", FieldsOf(before.options()),
                FieldsOf(after.options()), changes);
  Fields total_before;
  total_before("total_bytes", before.total_bytes());
  Fields total_after;
  total_after("total_bytes", after.total_bytes());
  CompareFields("plan", total_before, total_after, changes);
  CompareLists(before.segments(), after.segments(), changes);
  CompareLists(before.buffers(), after.buffers(), changes);
  return changes;
}

std::string DiffToText(const std::vector<PlanChange>& changes) {
  if (changes.empty()) return "the plans are equal\n";
  std::string text;
  for (const PlanChange& change : changes) {
    switch (change.kind) {
      case PlanChange::Kind::kAdded:
        absl::StrAppend(&text, "added    ", change.what, "\n");
        break;
      case PlanChange::Kind::kRemoved:
        absl::StrAppend(&text, "removed  ", change.what, "\n");
        break;
      case PlanChange::Kind::kChanged:
        absl::StrAppend(&text, "changed  ", change.what, " ", change.field,
                        ": ", change.before, " -> ", change.after, "\n");
        break;
    }
  }
  return text;
}

}  // namespace permafrost
