// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "command_line.h"

#include <algorithm>

#include "absl/flags/reflection.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "permafrost/driver/check.h"
#include "permafrost/driver/status.h"

namespace permafrost {
namespace {

// Null for a name that is none of the command's flags, which includes those
// that other commands and libraries have registered.
const CommandFlag* FindFlag(absl::Span<const CommandFlag> flags,
                            absl::string_view name) {
  const auto found = std::find_if(
      flags.begin(), flags.end(),
      [name](const CommandFlag& flag) { return flag.name == name; });
  return found == flags.end() ? nullptr : &*found;
}

absl::CommandLineFlag& Registered(const CommandFlag& flag) {
  absl::CommandLineFlag* const found = absl::FindCommandLineFlag(flag.name);
  PERMAFROST_CHECK(found != nullptr,
                   "each flag of a command is an ABSL_FLAG of the program");
  return *found;
}

std::string AcceptedFlags(absl::Span<const CommandFlag> flags) {
  return absl::StrJoin(flags, ", ",
                       [](std::string* out, const CommandFlag& flag) {
                         absl::StrAppend(out, SpelledFlag(flag.name));
                       });
}

absl::Status SetFlag(const CommandFlag& flag, const std::string& value) {
  // Only numbers and switches can be malformed: every text is a legal string.
  absl::CommandLineFlag& registered = Registered(flag);
  std::string why;
  if (registered.ParseFrom(value, &why)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      SpelledFlag(flag.name), ": got '", value, "'; accepted: ",
      registered.IsOfType<bool>() ? "true or false" : "a whole number", " (",
      registered.Help(), ")"));
}

}  // namespace

bool CommandArguments::has(absl::string_view flag) const {
  return std::find(given.begin(), given.end(), flag) != given.end();
}

absl::StatusOr<CommandArguments> ParseCommandArguments(
    absl::Span<const char* const> arguments,
    absl::Span<const CommandFlag> flags,
    absl::Span<const char* const> operands) {
  CommandArguments parsed;
  for (size_t i = 0; i < arguments.size(); ++i) {
    absl::string_view argument = arguments[i];
    if (argument == "--help" || argument == "-h") {
      parsed.wants_help = true;
      return parsed;
    }
    if (!absl::ConsumePrefix(&argument, "--")) {
      if (parsed.operands.size() == operands.size() || argument.empty() ||
          argument.front() == '-') {
        return absl::InvalidArgumentError(absl::StrCat(
            "unknown argument: got '", arguments[i], "'; accepted: ",
            absl::StrJoin(operands, ", "), operands.empty() ? "" : ", ",
            "--name=value with one of ", AcceptedFlags(flags)));
      }
      parsed.operands.emplace_back(argument);
      continue;
    }
    const size_t equals = argument.find('=');
    const std::string name =
        absl::StrReplaceAll(argument.substr(0, equals), {{"-", "_"}});
    const CommandFlag* const flag = FindFlag(flags, name);
    if (flag == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown flag: got ", SpelledFlag(name),
                       "; accepted: ", AcceptedFlags(flags), ", --help"));
    }
    std::string value;
    if (equals != absl::string_view::npos) {
      value = std::string(argument.substr(equals + 1));
    } else if (flag->value_alone != nullptr) {
      value = flag->value_alone;
    } else if (i + 1 < arguments.size()) {
      value = arguments[++i];
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat(SpelledFlag(name),
                       ": got no value; accepted: ", Registered(*flag).Help()));
    }
    PERMAFROST_RETURN_IF_ERROR(SetFlag(*flag, value));
    parsed.given.push_back(name);
  }
  if (parsed.operands.size() < operands.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(operands[parsed.operands.size()], " is missing: got ",
                     parsed.operands.size(), " of ", operands.size(), " (",
                     absl::StrJoin(operands, ", "), ")"));
  }
  return parsed;
}

std::string SpelledFlag(absl::string_view name) {
  return absl::StrCat("--", absl::StrReplaceAll(name, {{"_", "-"}}));
}

absl::Status CheckFlagRange(absl::string_view name, int64_t value, int64_t low,
                            int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      SpelledFlag(name), ": got ", value, "; accepted: ", low, " to ", high));
}

absl::StatusOr<size_t> FlagWord(absl::string_view name,
                                const std::string& value,
                                absl::Span<const char* const> words) {
  const auto found = std::find(words.begin(), words.end(), value);
  if (found != words.end()) {
    return static_cast<size_t>(found - words.begin());
  }
  return absl::InvalidArgumentError(
      absl::StrCat(SpelledFlag(name), ": got '", value,
                   "'; accepted: ", absl::StrJoin(words, ", ")));
}

std::string FlagsHelp(absl::Span<const CommandFlag> flags) {
  std::string text;
  for (const CommandFlag& flag : flags) {
    const absl::CommandLineFlag& registered = Registered(flag);
    absl::StrAppend(&text, "  ", SpelledFlag(flag.name), "  ",
                    registered.Help(), " (default: '",
                    registered.DefaultValue(), "')\n");
  }
  return text;
}

}  // namespace permafrost
