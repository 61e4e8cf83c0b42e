// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// permafrost plan: sizes and places every buffer of a model.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "command_line.h"
#include "commands.h"
#include "foreign_text.h"
#include "permafrost/arena/plan_json.h"
#include "permafrost/driver/status.h"
#include "plan_flags.h"

namespace permafrost::tool {
namespace {

constexpr char kUsage[] =
    "usage: permafrost plan CONFIG --max-batch-tokens=N [flags]\n\n"
    "Sizes and places every buffer of a model's step; needs no device. CONFIG "
    "is a\npreset or the path of a config.json.\n\nFlags:\n";

std::string OverlayText(const PlannedArena& arena) {
  const OverlaidPlan& overlaid = *arena.overlaid;
  size_t operations = 0;
  for (const StepDag& step : arena.steps) operations += step.ops.size();
  std::string text = absl::StrFormat(
      "declared steps: %d, %d operations in all\n"
      "bytes without overlay: %d\nbytes with overlay: %d (%.1f %%)\n"
      "lower bound: %d\nbytes of buffers that keep their own: %d\n",
      arena.steps.size(), operations, overlaid.bytes_off, overlaid.bytes_on,
      100.0 * static_cast<double>(overlaid.bytes_on) /
          static_cast<double>(overlaid.bytes_off),
      overlaid.bound_bytes, overlaid.pinned_bytes);
  for (const KeptApart& kept : overlaid.kept_apart) {
    absl::StrAppend(&text, "  ", kept.buffer, ": ", kept.reason, "\n");
  }
  return text;
}

}  // namespace

absl::StatusOr<CommandOutput> RunPlan(Arguments arguments) {
  std::vector<CommandFlag> flags(PlanFlags().begin(), PlanFlags().end());
  flags.push_back(kJsonFlag);
  PERMAFROST_ASSIGN_OR_RETURN(
      const CommandArguments parsed,
      ParseCommandArguments(arguments, flags, {"CONFIG"}));
  CommandOutput output;
  if (parsed.wants_help) {
    output.text = absl::StrCat(kUsage, FlagsHelp(flags));
    output.is_document = true;
    return output;
  }
  const std::string& config = parsed.operands.front();
  PERMAFROST_ASSIGN_OR_RETURN(const PlannedArena arena,
                              PlanByFlags(config, parsed.given));
  if (!arena.findings.empty()) {
    output.code = ExitCode::kSomethingFound;
    output.reason =
        absl::StrCat("the plan is unsafe: ", arena.findings.front());
  }
  if (const std::string target = JsonTarget(); !target.empty()) {
    PERMAFROST_RETURN_IF_ERROR(
        SendDocument(kJsonFlag, target, PlanToJson(arena.plan), output));
    return output;
  }
  absl::StrAppend(&output.text, PrintableLine(config), " ",
                  PrintableLine(arena.made_by), "\n",
                  PrintableText(arena.plan.ToTable()));
  if (arena.overlaid.has_value()) output.text += OverlayText(arena);
  for (const std::string& finding : arena.findings) {
    absl::StrAppend(&output.text, "unsafe: ", PrintableText(finding), "\n");
  }
  return output;
}

}  // namespace permafrost::tool
