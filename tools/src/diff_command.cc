// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// permafrost diff: what changed between two plans.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "command_line.h"
#include "commands.h"
#include "foreign_text.h"
#include "nlohmann/json.hpp"
#include "permafrost/arena/plan_diff.h"
#include "permafrost/driver/status.h"
#include "plan_file.h"

namespace permafrost::tool {
namespace {

constexpr CommandFlag kFlags[] = {kJsonFlag};
constexpr char kUsage[] =
    "usage: permafrost diff BEFORE AFTER [--json[=FILE]]\n\n"
    "What one has to do to one plan (permafrost plan --json=FILE) to get "
    "another.\nExit status: 0 equal, 1 different, 2 bad input.\n\nFlags:\n";

const char* KindName(PlanChange::Kind kind) {
  switch (kind) {
    case PlanChange::Kind::kAdded:
      return "added";
    case PlanChange::Kind::kRemoved:
      return "removed";
    case PlanChange::Kind::kChanged:
      break;
  }
  return "changed";
}

std::string DiffJson(const std::vector<PlanChange>& changes) {
  nlohmann::ordered_json root = {{"schema", "permafrost.plan_diff/1"},
                                 {"changes", nlohmann::ordered_json::array()}};
  for (const PlanChange& change : changes) {
    root["changes"].push_back({{"kind", KindName(change.kind)},
                               {"what", change.what},
                               {"field", change.field},
                               {"before", change.before},
                               {"after", change.after}});
  }
  return root.dump(2) + "\n";
}

// A name with a line feed in it must not look like another change.
std::vector<PlanChange> Printable(std::vector<PlanChange> changes) {
  for (PlanChange& change : changes) {
    for (std::string* text :
         {&change.what, &change.field, &change.before, &change.after}) {
      *text = PrintableLine(*text);
    }
  }
  return changes;
}

}  // namespace

absl::StatusOr<CommandOutput> RunDiff(Arguments arguments) {
  PERMAFROST_ASSIGN_OR_RETURN(
      const CommandArguments parsed,
      ParseCommandArguments(arguments, kFlags, {"BEFORE", "AFTER"}));
  CommandOutput output;
  if (parsed.wants_help) {
    output.text = absl::StrCat(kUsage, FlagsHelp(kFlags));
    output.is_document = true;
    return output;
  }
  PERMAFROST_ASSIGN_OR_RETURN(const ArenaPlan before,
                              ReadPlanFile(parsed.operands[0]));
  PERMAFROST_ASSIGN_OR_RETURN(const ArenaPlan after,
                              ReadPlanFile(parsed.operands[1]));
  const std::vector<PlanChange> changes = DiffPlans(before, after);
  if (!changes.empty()) {
    output.code = ExitCode::kSomethingFound;
    output.reason = absl::StrCat(
        changes.size(), changes.size() == 1 ? " difference" : " differences");
  }
  if (const std::string target = JsonTarget(); !target.empty()) {
    PERMAFROST_RETURN_IF_ERROR(
        SendDocument(kJsonFlag, target, DiffJson(changes), output));
    return output;
  }
  output.text = DiffToText(Printable(changes));
  return output;
}

}  // namespace permafrost::tool
