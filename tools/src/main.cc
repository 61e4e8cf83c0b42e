// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// permafrost: plans, draws and compares arenas, and says what is wrong with a
// machine. See --help.

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "commands.h"
#include "foreign_text.h"
#include "permafrost/driver/version.h"

namespace permafrost::tool {
namespace {

struct Command {
  const char* name;
  const char* summary;
  absl::StatusOr<CommandOutput> (*run)(Arguments arguments);
};

constexpr Command kCommands[] = {
    {"plan", "sizes and places every buffer of a model", &RunPlan},
    {"map", "draws a plan: address against lifetime", &RunMap},
    {"diff", "says what changed between two plans", &RunDiff},
    {"doctor", "says what this machine lacks, and what to do", &RunDoctor},
};

std::string Usage() {
  std::string text =
      "usage: permafrost COMMAND ...\n\n"
      "Memory plans of LLM decode steps, before anything runs.\n\n";
  for (const Command& command : kCommands) {
    absl::StrAppend(&text, "  permafrost ", command.name,
                    std::string(8 - std::strlen(command.name), ' '),
                    command.summary, "\n");
  }
  return absl::StrCat(
      text,
      "\n  permafrost COMMAND --help\n  permafrost --version\n\n"
      "Exit status: 0 nothing wrong, 1 something found, 2 bad input, 3 no "
      "device.\n");
}

absl::StatusOr<CommandOutput> Run(Arguments arguments) {
  const absl::string_view name = arguments.empty() ? "" : arguments.front();
  if (name == "--help" || name == "-h") {
    return CommandOutput{.text = Usage(), .is_document = true};
  }
  if (name == "--version") {
    return CommandOutput{
        .text = absl::StrCat("permafrost ", LibraryVersion(), "\n"),
        .is_document = true};
  }
  for (const Command& command : kCommands) {
    if (name == command.name) return command.run(arguments.subspan(1));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      arguments.empty() ? "no command"
                        : absl::StrCat("unknown command: got '", name, "'"),
      "; accepted: ",
      absl::StrJoin(kCommands, ", ",
                    [](std::string* out, const Command& command) {
                      out->append(command.name);
                    }),
      ", --help, --version"));
}

int Main(Arguments arguments) {
  absl::StatusOr<CommandOutput> output = Run(arguments);
  if (!output.ok()) {
    output = CommandOutput{.code = ExitCode::kBadInput,
                           .reason = std::string(output.status().message())};
  }
  const std::string reason = PrintableText(output->reason);
  std::FILE* const aside = output->is_document ? stderr : stdout;
  std::fputs(output->text.c_str(), stdout);
  std::fputs(output->notes.c_str(), aside);
  const bool is_silent =
      output->is_document && output->code == ExitCode::kAllProven;
  if (!is_silent) {
    std::fputs(VerdictLine(output->code, reason).c_str(), aside);
  }
  if (output->code == ExitCode::kBadInput ||
      output->code == ExitCode::kNoDevice) {
    std::fprintf(stderr, "permafrost: %s\n", reason.c_str());
  }
  // A full disk shows itself only now, and half a plan must not pass for one.
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    std::fprintf(stderr, "permafrost: writing the output failed: %s\n",
                 std::strerror(errno));
    return static_cast<int>(ExitCode::kSomethingFound);
  }
  return static_cast<int>(output->code);
}

}  // namespace

}  // namespace permafrost::tool

int main(int argc, char** argv) {
  return permafrost::tool::Main(
      std::vector<const char*>(argv + (argc > 0 ? 1 : 0), argv + argc));
}
