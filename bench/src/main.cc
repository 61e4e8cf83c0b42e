// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// replay_latency: plans, freezes, captures, verifies and times one decode step
// of a model's MoE layers. See --help.

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "command.h"
#include "exit_code.h"
#include "plant.h"
#include "report.h"
#include "run.h"

namespace permafrost::bench {
namespace {

int Finish(const RunReport& report) {
  if (report.exit_code == ExitCode::kBadInput ||
      report.exit_code == ExitCode::kNoDevice) {
    std::fprintf(stderr, "replay_latency: %s\n", report.failure.c_str());
  }
  std::fputs(VerdictText(report).c_str(), stdout);
  std::fflush(stdout);
  return static_cast<int>(report.exit_code);
}

int FailWithBadInput(const absl::Status& status) {
  RunReport report;
  report.exit_code = ExitCode::kBadInput;
  report.failure = std::string(status.message());
  return Finish(report);
}

int Main(absl::Span<const char* const> arguments) {
  const absl::StatusOr<Command> command = ParseCommand(arguments);
  if (!command.ok()) return FailWithBadInput(command.status());
  if (command->request == Request::kHelp) {
    std::fputs(HelpText().c_str(), stdout);
    return static_cast<int>(ExitCode::kAllProven);
  }
  if (command->request == Request::kPlantHelp) {
    for (const PlantInfo& info : Plants()) std::puts(info.name);
    return static_cast<int>(ExitCode::kAllProven);
  }
  const Options& options = command->options;
  std::ofstream json;
  if (!options.json_path.empty()) {
    // Opened before the run, so that a bad path costs no run.
    json.open(options.json_path);
    if (!json) {
      return FailWithBadInput(absl::InvalidArgumentError(
          absl::StrCat("--json: got '", options.json_path,
                       "', which cannot be written; accepted: a file in an "
                       "existing folder")));
    }
  }
  RunReport report = RunReplayLatency(options, stdout);
  if (json.is_open()) {
    json << ReportJson(report);
    json.close();
    if (!json && report.failure.empty()) {
      report.exit_code = ExitCode::kSomethingFound;
      report.failure =
          absl::StrCat("--json: writing '", options.json_path, "' failed");
    }
  }
  return Finish(report);
}

}  // namespace
}  // namespace permafrost::bench

int main(int argc, char** argv) {
  return permafrost::bench::Main(
      std::vector<const char*>(argv + (argc > 0 ? 1 : 0), argv + argc));
}
