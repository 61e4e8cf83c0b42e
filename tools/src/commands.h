// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// The commands of the permafrost tool: one function and one source file each.
#ifndef PERMAFROST_TOOLS_COMMANDS_H_
#define PERMAFROST_TOOLS_COMMANDS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "command_line.h"
#include "exit_code.h"

namespace permafrost::tool {

/// What a command that could do its work prints, and how it ends.
struct CommandOutput {
  std::string text = {};
  /// The text is for a program to read (JSON, SVG), or is help: nothing else
  /// comes with it on the standard output.
  bool is_document = false;
  /// Lines about files that were written.
  std::string notes = {};
  ExitCode code = ExitCode::kAllProven;
  /// Why the code is not `kAllProven`.
  std::string reason = {};
};

using Arguments = absl::Span<const char* const>;

/// Each takes what follows its name on the command line. An error is bad input.
absl::StatusOr<CommandOutput> RunPlan(Arguments arguments);
absl::StatusOr<CommandOutput> RunMap(Arguments arguments);
absl::StatusOr<CommandOutput> RunDiff(Arguments arguments);
absl::StatusOr<CommandOutput> RunDoctor(Arguments arguments);

/// "--json" alone prints JSON instead of text, "--json=FILE" writes it.
inline constexpr CommandFlag kJsonFlag = {"json", "-"};
/// The flag's value: "-", a path, or empty where text is wanted.
std::string JsonTarget();

/// Sends a document where its flag says: "-" puts it into `output`, anything
/// else is a path, and one line about the file goes into its notes.
/// Errors: kInvalidArgument naming flag and path.
absl::Status SendDocument(const CommandFlag& flag, const std::string& target,
                          const std::string& document, CommandOutput& output);

}  // namespace permafrost::tool

#endif  // PERMAFROST_TOOLS_COMMANDS_H_
