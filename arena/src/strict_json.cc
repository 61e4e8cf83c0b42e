// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "strict_json.h"

#include <set>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace permafrost {
namespace {

using Json = nlohmann::json;

/// Deeper than any file of ours, and shallow enough for any recursion over it.
constexpr int kMaxDepth = 64;
constexpr size_t kMaxQuoted = 160;

/// Watches a parse for what the parsed value no longer shows.
class ParseWatch {
 public:
  /// The parser's callback: false throws the value away.
  bool operator()(int depth, Json::parse_event_t event, const Json& parsed) {
    if (depth > kMaxDepth) {
      too_deep_ = true;
      return false;
    }
    if (event == Json::parse_event_t::object_start) {
      keys_.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      keys_.pop_back();
    } else if (event == Json::parse_event_t::key) {
      const std::string& key = parsed.get_ref<const std::string&>();
      if (!keys_.back().insert(key).second && repeated_.empty()) {
        repeated_ = key;
      }
    }
    return true;
  }

  bool too_deep() const { return too_deep_; }
  const std::string& repeated() const { return repeated_; }

 private:
  std::vector<std::set<std::string>> keys_;
  std::string repeated_;
  bool too_deep_ = false;
};

}  // namespace

absl::StatusOr<Json> ParseStrictJson(absl::string_view text) {
  Json root;
  ParseWatch watch;
  try {
    root = Json::parse(
        text.begin(), text.end(),
        [&watch](int depth, Json::parse_event_t event, Json& parsed) {
          return watch(depth, event, parsed);
        });
  } catch (const Json::exception& error) {
    // The text begins with a tag of the library's own, in brackets.
    absl::string_view what = error.what();
    const size_t tag_end = what.find("] ");
    if (tag_end != absl::string_view::npos) what.remove_prefix(tag_end + 2);
    return absl::InvalidArgumentError(
        absl::StrCat("not valid JSON: ", QuoteForeign(what)));
  }
  if (watch.too_deep()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "nesting: got more than ", kMaxDepth, " levels, limit ", kMaxDepth));
  }
  if (!watch.repeated().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "key '", QuoteForeign(watch.repeated()),
        "' is there twice in one object; accepted: each key once"));
  }
  if (!root.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the whole: got ", DescribeJson(root), "; accepted: an object"));
  }
  return root;
}

std::string QuoteForeign(absl::string_view text) {
  std::string quoted;
  for (char c : text.substr(0, kMaxQuoted)) {
    quoted += c >= 0x20 && c < 0x7f ? c : '?';
  }
  if (text.size() > kMaxQuoted) quoted += "...";
  return quoted;
}

std::string DescribeJson(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  const std::string text =
      QuoteForeign(value.dump(-1, ' ', true, Json::error_handler_t::replace));
  if (value.is_boolean()) return absl::StrCat(text, " (a boolean)");
  if (value.is_string()) return absl::StrCat(text, " (a string)");
  if (value.is_number_float()) return absl::StrCat(text, " (not an integer)");
  return text;
}

std::optional<int64_t> IntegerIn(const Json& value, int64_t least,
                                 int64_t most) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() &&
      value.get<uint64_t>() > static_cast<uint64_t>(most)) {
    return std::nullopt;
  }
  const int64_t number = value.get<int64_t>();
  if (number < least || number > most) return std::nullopt;
  return number;
}

}  // namespace permafrost
