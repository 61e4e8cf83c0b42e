// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/plan_json.h"

#include <limits>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "permafrost/driver/status.h"
#include "plan_fields.h"
#include "strict_json.h"

namespace permafrost {

absl::string_view internal::OverlayName(Overlay overlay) {
  return overlay == Overlay::kOn ? "on" : "off";
}

namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr size_t kMostBytes = size_t{16} << 20;
constexpr int64_t kMostOfANumber = std::numeric_limits<int64_t>::max();

OrderedJson ToJson(int64_t value) { return value; }
OrderedJson ToJson(const std::string& value) { return value; }
OrderedJson ToJson(const std::vector<std::string>& value) { return value; }
template <typename Enum>
OrderedJson ToJson(Enum value) {
  return std::string(internal::Words<Enum>::Name(value));
}

/// Writes each field that is visited into an object.
struct Writer {
  OrderedJson object = OrderedJson::object();

  template <typename Value>
  void operator()(const char* key, const Value& value) {
    object[key] = ToJson(value);
  }
};

/// Reads each field that is visited out of an object, keeps the first error,
/// and knows which keys were asked for.
class Reader {
 public:
  Reader(const Json& object, std::string path)
      : object_(object), path_(std::move(path)) {}

  template <typename Value>
  void operator()(const char* key, Value& value) {
    asked_.insert(key);
    if (!status_.ok()) return;
    const auto found = object_.find(key);
    if (found == object_.end()) {
      Refuse(key, "no such key", Accepted(value));
    } else if (!Read(*found, value)) {
      Refuse(key, DescribeJson(*found), Accepted(value));
    }
  }

  /// The first error; a key that nobody asked for is one.
  absl::Status Finish() {
    for (const auto& item : object_.items()) {
      if (!status_.ok()) break;
      if (asked_.count(item.key()) != 0) continue;
      status_ = absl::InvalidArgumentError(
          absl::StrCat("'", path_, "': got the key '", QuoteForeign(item.key()),
                       "'; accepted: ", absl::StrJoin(asked_, ", ")));
    }
    return status_;
  }

 private:
  static bool Read(const Json& json, int64_t& value) {
    const std::optional<int64_t> number = IntegerIn(json, 0, kMostOfANumber);
    if (number) value = *number;
    return number.has_value();
  }
  static bool Read(const Json& json, std::string& value) {
    if (!json.is_string()) return false;
    value = json.get<std::string>();
    return true;
  }
  static bool Read(const Json& json, std::vector<std::string>& value) {
    if (!json.is_array()) return false;
    for (const Json& entry : json) {
      if (!Read(entry, value.emplace_back())) return false;
    }
    return true;
  }
  template <typename Enum>
  static bool Read(const Json& json, Enum& value) {
    if (!json.is_string()) return false;
    const std::string word = json.get<std::string>();
    for (int i = 0; i <= static_cast<int>(internal::Words<Enum>::kLast); ++i) {
      if (internal::Words<Enum>::Name(static_cast<Enum>(i)) != word) continue;
      value = static_cast<Enum>(i);
      return true;
    }
    return false;
  }

  static std::string Accepted(int64_t) {
    return absl::StrCat("an integer from 0 to ", kMostOfANumber);
  }
  static std::string Accepted(const std::string&) { return "a text"; }
  static std::string Accepted(const std::vector<std::string>&) {
    return "a list of texts";
  }
  template <typename Enum>
  static std::string Accepted(Enum) {
    std::vector<absl::string_view> words;
    for (int i = 0; i <= static_cast<int>(internal::Words<Enum>::kLast); ++i) {
      words.push_back(internal::Words<Enum>::Name(static_cast<Enum>(i)));
    }
    return absl::StrJoin(words, ", ");
  }

  void Refuse(const char* key, absl::string_view got,
              absl::string_view accepted) {
    status_ = absl::InvalidArgumentError(absl::StrCat(
        "'", path_, ".", key, "': got ", got, "; accepted: ", accepted));
  }

  const Json& object_;
  std::string path_;
  std::set<std::string> asked_;
  absl::Status status_;
};

absl::Status RefuseValue(absl::string_view key, const std::string& got,
                         absl::string_view accepted) {
  return absl::InvalidArgumentError(
      absl::StrCat("'", key, "': got ", got, "; accepted: ", accepted));
}

/// The member of that kind; an error naming the key.
absl::StatusOr<const Json*> Member(const Json& root, const char* key,
                                   Json::value_t type,
                                   absl::string_view accepted) {
  const auto found = root.find(key);
  if (found == root.end()) return RefuseValue(key, "no such key", accepted);
  if (found->type() != type) {
    return RefuseValue(key, DescribeJson(*found), accepted);
  }
  return &*found;
}

template <typename Part, typename Visit>
absl::StatusOr<std::vector<Part>> ReadList(const Json& root, const char* key,
                                           Visit visit) {
  PERMAFROST_ASSIGN_OR_RETURN(
      const Json* const list,
      Member(root, key, Json::value_t::array, "a list of objects"));
  std::vector<Part> parts;
  for (size_t i = 0; i < list->size(); ++i) {
    const std::string path = absl::StrCat(key, "[", i, "]");
    if (!(*list)[i].is_object()) {
      return RefuseValue(path, DescribeJson((*list)[i]), "an object");
    }
    Reader reader((*list)[i], path);
    visit(parts.emplace_back(), reader);
    PERMAFROST_RETURN_IF_ERROR(reader.Finish());
  }
  return parts;
}

absl::StatusOr<ArenaPlan> ReadPlan(const Json& root) {
  // The schema first: of another version no key means what it means here.
  const auto schema = root.find("schema");
  if (schema == root.end() || *schema != kPlanSchema) {
    return RefuseValue(
        "schema", schema == root.end() ? "no such key" : DescribeJson(*schema),
        absl::StrCat("\"", kPlanSchema, "\""));
  }
  for (const auto& item : root.items()) {
    static const std::set<std::string>* const known = new std::set<std::string>{
        "schema", "options", "total_bytes", "segments", "buffers"};
    if (known->count(item.key()) != 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("got the key '", QuoteForeign(item.key()),
                     "'; accepted: ", absl::StrJoin(*known, ", ")));
  }
  PERMAFROST_ASSIGN_OR_RETURN(
      const Json* const options_json,
      Member(root, "options", Json::value_t::object, "an object"));
  PlanOptions options;
  Reader options_reader(*options_json, "options");
  internal::VisitOptions(options, options_reader);
  PERMAFROST_RETURN_IF_ERROR(options_reader.Finish());

  const auto total_json = root.find("total_bytes");
  const std::optional<int64_t> total =
      total_json == root.end() ? std::nullopt
                               : IntegerIn(*total_json, 0, kMostOfANumber);
  if (!total) {
    return RefuseValue(
        "total_bytes",
        total_json == root.end() ? "no such key" : DescribeJson(*total_json),
        absl::StrCat("an integer from 0 to ", kMostOfANumber));
  }
  PERMAFROST_ASSIGN_OR_RETURN(
      std::vector<PlannedSegment> segments,
      ReadList<PlannedSegment>(root, "segments",
                               [](PlannedSegment& segment, Reader& reader) {
                                 internal::VisitSegment(segment, reader);
                               }));
  PERMAFROST_ASSIGN_OR_RETURN(
      std::vector<PlannedBuffer> buffers,
      ReadList<PlannedBuffer>(root, "buffers",
                              [](PlannedBuffer& buffer, Reader& reader) {
                                internal::VisitBuffer(buffer, reader);
                              }));
  ArenaPlan plan = ArenaPlan::FromParts(std::move(buffers), std::move(segments),
                                        *total, options);
  PERMAFROST_RETURN_IF_ERROR(ValidatePlan(plan));
  return plan;
}

}  // namespace

std::string PlanToJson(const ArenaPlan& plan) {
  OrderedJson root = {{"schema", kPlanSchema}};
  Writer options;
  internal::VisitOptions(plan.options(), options);
  root["options"] = std::move(options.object);
  root["total_bytes"] = plan.total_bytes();
  root["segments"] = OrderedJson::array();
  for (const PlannedSegment& segment : plan.segments()) {
    Writer writer;
    internal::VisitSegment(segment, writer);
    root["segments"].push_back(std::move(writer.object));
  }
  root["buffers"] = OrderedJson::array();
  for (const PlannedBuffer& buffer : plan.buffers()) {
    Writer writer;
    internal::VisitBuffer(buffer, writer);
    root["buffers"].push_back(std::move(writer.object));
  }
  // Names of engines' own buffers may be any bytes; a file is always UTF-8.
  return root.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

absl::StatusOr<ArenaPlan> PlanFromJson(absl::string_view text,
                                       absl::string_view source) {
  const std::string label = absl::StrCat("plan '", QuoteForeign(source), "'");
  if (text.size() > kMostBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        label, ": got ", text.size(), " bytes, limit ", kMostBytes));
  }
  absl::StatusOr<Json> root = ParseStrictJson(text);
  if (!root.ok()) return Annotate(root.status(), label);
  absl::StatusOr<ArenaPlan> plan = ReadPlan(*root);
  if (!plan.ok()) return Annotate(plan.status(), label);
  return plan;
}

}  // namespace permafrost
