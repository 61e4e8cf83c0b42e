// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#ifndef PERMAFROST_BENCH_COMMAND_H_
#define PERMAFROST_BENCH_COMMAND_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "options.h"

namespace permafrost::bench {

/// What the command line asks for.
enum class Request { kRun, kHelp, kPlantHelp };

struct Command {
  Request request = Request::kRun;
  Options options;
};

/// Reads `--name=value`, `--name value`; a name may be spelled with '-' or '_'.
///
/// @param arguments  without the program's name.
/// Errors: InvalidArgument naming the flag, what was given and what is
///   accepted. Nothing exits the process.
absl::StatusOr<Command> ParseCommand(absl::Span<const char* const> arguments);

/// The flags, their meaning and their defaults.
std::string HelpText();

}  // namespace permafrost::bench

#endif  // PERMAFROST_BENCH_COMMAND_H_
