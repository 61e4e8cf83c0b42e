// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Command lines whose flags are ABSL_FLAGs, read without exiting the process,
// so that a bad one ends like every other bad input.
#ifndef PERMAFROST_TOOLS_COMMAND_LINE_COMMAND_LINE_H_
#define PERMAFROST_TOOLS_COMMAND_LINE_COMMAND_LINE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace permafrost {

/// A flag that a command takes.
struct CommandFlag {
  /// As in ABSL_FLAG, with '_'.
  const char* name;
  /// The value of a flag that stands without one; null: the next argument is
  /// its value.
  const char* value_alone = nullptr;
};

struct CommandArguments {
  bool wants_help = false;
  std::vector<std::string> operands = {};
  /// The names, with '_', of the flags that were given.
  std::vector<std::string> given = {};

  bool has(absl::string_view flag) const;
};

/// Reads `--name=value`, `--name value` and operands, and sets the flags; a
/// name may be spelled with '-' or '_'. "--help" and "-h" end the reading.
///
/// @param arguments  without the names of program and command.
/// @param operands  what each operand is, for the errors: {"CONFIG"}. All of
///   them must be there, unless help is wanted.
/// Errors: kInvalidArgument naming the flag, what was given and what is
///   accepted.
absl::StatusOr<CommandArguments> ParseCommandArguments(
    absl::Span<const char* const> arguments,
    absl::Span<const CommandFlag> flags,
    absl::Span<const char* const> operands);

/// "--max-rows" for "max_rows".
std::string SpelledFlag(absl::string_view name);

/// Errors: kInvalidArgument naming the flag, for a value outside [low, high].
absl::Status CheckFlagRange(absl::string_view name, int64_t value, int64_t low,
                            int64_t high);

/// The flag's value as the index of one of these words.
/// Errors: kInvalidArgument naming the flag and the words.
absl::StatusOr<size_t> FlagWord(absl::string_view name,
                                const std::string& value,
                                absl::Span<const char* const> words);

/// One line a flag: its spelling, its meaning, its default.
std::string FlagsHelp(absl::Span<const CommandFlag> flags);

}  // namespace permafrost

#endif  // PERMAFROST_TOOLS_COMMAND_LINE_COMMAND_LINE_H_
