// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "model_config_reader.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "permafrost/driver/status.h"

namespace permafrost {
namespace {

using Json = nlohmann::json;

constexpr char kTextConfig[] = "text_config";

std::string Accepted(const ConfigFigure& figure) {
  return absl::StrCat("an integer from ", figure.least, " to ", kMostOfAFigure,
                      " under ", absl::StrJoin(figure.keys, " or "));
}

}  // namespace

absl::StatusOr<ConfigReader> ConfigReader::Parse(absl::string_view text,
                                                 absl::string_view source) {
  ConfigReader reader(source);
  absl::StatusOr<Json> root = ParseStrictJson(text);
  if (!root.ok()) return reader.Refuse(root.status().message());
  reader.root_ = *std::move(root);
  if (const Json* text_config = Present(reader.root_, kTextConfig)) {
    if (!text_config->is_object()) {
      return reader.Refuse(absl::StrCat("'", kTextConfig, "': got ",
                                        DescribeJson(*text_config),
                                        "; accepted: an object, or no key"));
    }
    reader.nested_ = true;
  }
  return reader;
}

absl::StatusOr<std::optional<int64_t>> ConfigReader::Optional(
    const ConfigFigure& figure) const {
  std::optional<int64_t> found;
  const char* found_key = nullptr;
  for (const char* key : figure.keys) {
    const Json* value = Present(Text(), key);
    if (value == nullptr) continue;
    const std::optional<int64_t> number = NumberIn(*value, figure);
    if (!number) {
      return Refuse(absl::StrCat("'", Path(key), "': got ",
                                 DescribeJson(*value),
                                 "; accepted: ", Accepted(figure)));
    }
    if (found && *found != *number) {
      return Refuse(
          absl::StrCat("'", Path(found_key), "' and '", Path(key),
                       "' disagree: got ", *found, " and ", *number,
                       "; accepted: one of them, or both with the same value"));
    }
    if (!found) {
      found = number;
      found_key = key;
    }
  }
  return found;
}

absl::StatusOr<int64_t> ConfigReader::Required(
    const ConfigFigure& figure) const {
  PERMAFROST_ASSIGN_OR_RETURN(const std::optional<int64_t> found,
                              Optional(figure));
  if (found) return *found;
  bool is_null = false;
  for (const char* key : figure.keys) {
    is_null = is_null || Text().contains(key);
  }
  return Refuse(absl::StrCat("'", Path(figure.keys[0]), "': got ",
                             is_null ? "null" : "no such key",
                             "; accepted: ", Accepted(figure)));
}

absl::StatusOr<bool> ConfigReader::Bool(const char* key, bool absent) const {
  const Json* value = Present(Text(), key);
  if (value == nullptr) return absent;
  if (!value->is_boolean()) {
    return Refuse(absl::StrCat("'", Path(key), "': got ", DescribeJson(*value),
                               "; accepted: true or false, or no key"));
  }
  return value->get<bool>();
}

absl::StatusOr<std::optional<std::vector<int64_t>>> ConfigReader::Integers(
    const char* key, int64_t least, int64_t most) const {
  const Json* value = Find(key);
  if (value == nullptr) return std::optional<std::vector<int64_t>>();
  const auto refuse = [&](const std::string& got) {
    return Refuse(absl::StrCat("'", Path(key), "': got ", got,
                               "; accepted: a list of integers from ", least,
                               " to ", most, ", or no key"));
  };
  if (!value->is_array()) return refuse(DescribeJson(*value));
  std::vector<int64_t> numbers;
  for (const Json& entry : *value) {
    const std::optional<int64_t> number = IntegerIn(entry, least, most);
    if (!number) {
      return refuse(
          absl::StrCat(DescribeJson(entry), " at place ", numbers.size()));
    }
    numbers.push_back(*number);
  }
  return std::make_optional(std::move(numbers));
}

absl::StatusOr<std::string> ConfigReader::ModelType() const {
  constexpr char kKey[] = "model_type";
  const Json* value = Present(Text(), kKey);
  std::string path = Path(kKey);
  if (value == nullptr) {
    value = Present(root_, kKey);
    path = kKey;
  }
  if (value == nullptr) return std::string();
  if (!value->is_string()) {
    return Refuse(absl::StrCat("'", path, "': got ", DescribeJson(*value),
                               "; accepted: a string"));
  }
  return value->get<std::string>();
}

absl::Status ConfigReader::Refuse(absl::string_view what) const {
  return absl::InvalidArgumentError(
      absl::StrCat("model config '", source_, "': ", what));
}

std::string ConfigReader::KeyOf(const ConfigFigure& figure) const {
  for (const char* key : figure.keys) {
    if (Present(Text(), key) != nullptr) return Path(key);
  }
  return Path(figure.keys[0]);
}

std::string ConfigReader::Path(absl::string_view key) const {
  return nested_ ? absl::StrCat(kTextConfig, ".", key) : std::string(key);
}

const Json& ConfigReader::Text() const {
  return nested_ ? root_.find(kTextConfig).value() : root_;
}

const Json* ConfigReader::Present(const Json& object, absl::string_view key) {
  const auto found = object.find(std::string(key));
  if (found == object.end() || found->is_null()) return nullptr;
  return &*found;
}

std::optional<int64_t> ConfigReader::NumberIn(const Json& value,
                                              const ConfigFigure& figure) {
  if (figure.may_be_list && value.is_array()) {
    std::optional<int64_t> widest;
    for (const Json& entry : value) {
      const std::optional<int64_t> number =
          IntegerIn(entry, figure.least, kMostOfAFigure);
      if (!number) return std::nullopt;
      widest = std::max(widest.value_or(0), *number);
    }
    return widest;
  }
  if (value.is_string() && value.get_ref<const std::string&>() == "auto") {
    return figure.automatic;
  }
  return IntegerIn(value, figure.least, kMostOfAFigure);
}

}  // namespace permafrost
