// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// permafrost doctor: what this machine lacks, and what to do about it.
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "command_line.h"
#include "commands.h"
#include "doctor_report.h"
#include "host_signs.h"
#include "permafrost/driver/driver.h"
#include "permafrost/driver/status.h"

namespace permafrost::tool {
namespace {

constexpr CommandFlag kFlags[] = {kJsonFlag};
constexpr char kUsage[] =
    "usage: permafrost doctor [--json[=FILE]]\n\n"
    "Loads the driver that PERMAFROST_DRIVER chooses (auto, cuda, soft, or a "
    "path), and\nsays what an arena and its kernels lack on this machine.\n"
    "Exit status: 0 all works (notes do not count), 1 a fault, 2 bad input, 3 "
    "no device.\n\nFlags:\n";

std::string FirstFault(const DoctorReport& report) {
  for (const DoctorProblem& problem : report.problems) {
    if (problem.severity == DoctorProblem::Severity::kFault) {
      return absl::StrCat(problem.what, "; ", problem.remedy);
    }
  }
  return "";
}

}  // namespace

absl::StatusOr<CommandOutput> RunDoctor(Arguments arguments) {
  PERMAFROST_ASSIGN_OR_RETURN(const CommandArguments parsed,
                              ParseCommandArguments(arguments, kFlags, {}));
  CommandOutput output;
  if (parsed.wants_help) {
    output.text = absl::StrCat(kUsage, FlagsHelp(kFlags));
    output.is_document = true;
    return output;
  }
  PERMAFROST_ASSIGN_OR_RETURN(const DriverChoice choice,
                              DriverChoice::FromEnvironment());
  const char* const chosen = std::getenv("PERMAFROST_DRIVER");
  const DoctorReport report =
      Examine(choice, chosen == nullptr || *chosen == '\0' ? "auto" : chosen,
              ReadHostSigns());
  output.code = report.code;
  output.reason = FirstFault(report);
  if (const std::string target = JsonTarget(); !target.empty()) {
    PERMAFROST_RETURN_IF_ERROR(
        SendDocument(kJsonFlag, target, DoctorJson(report), output));
    return output;
  }
  output.text = DoctorText(report);
  return output;
}

}  // namespace permafrost::tool
