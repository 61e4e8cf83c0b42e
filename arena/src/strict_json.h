// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_ARENA_SRC_STRICT_JSON_H_
#define PERMAFROST_ARENA_SRC_STRICT_JSON_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

// JSON from outside: what is read, and how an error speaks of it.
namespace permafrost {

/// Reads one JSON object. Refuses what a parser would let pass and a reader
/// would not expect: a key twice in one object, more than 64 levels.
/// Errors: kInvalidArgument saying what was found, with line and column where
///   the text is no JSON.
absl::StatusOr<nlohmann::json> ParseStrictJson(absl::string_view text);

/// A piece of foreign text for an error: cut short, and without bytes that
/// would confuse a terminal.
std::string QuoteForeign(absl::string_view text);

/// What a value is, for an error: `"8" (a string)`, `a list`, `-1`.
std::string DescribeJson(const nlohmann::json& value);

/// The number, if it is an integer from `least` to `most`.
std::optional<int64_t> IntegerIn(const nlohmann::json& value, int64_t least,
                                 int64_t most);

}  // namespace permafrost

#endif  // PERMAFROST_ARENA_SRC_STRICT_JSON_H_
