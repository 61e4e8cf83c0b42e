// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// permafrost map: draws a plan, address against lifetime.
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "command_line.h"
#include "commands.h"
#include "map_scene.h"
#include "permafrost/driver/status.h"
#include "plan_file.h"
#include "plan_flags.h"

ABSL_FLAG(std::string, svg, "",
          "the picture as SVG: alone to the standard output, --svg=FILE into a "
          "file");
ABSL_FLAG(std::string, html, "",
          "the picture and a table as one HTML page, which loads nothing; as "
          "--svg");

namespace permafrost::tool {
namespace {

constexpr CommandFlag kSvgFlag = {"svg", "-"};
constexpr CommandFlag kHtmlFlag = {"html", "-"};
constexpr char kLimitsFlag[] = "max_batch_tokens";
constexpr char kUsage[] =
    "usage: permafrost map CONFIG --max-batch-tokens=N [flags] --svg=FILE "
    "--html=FILE\n       permafrost map PLAN --svg=FILE --html=FILE\n\n"
    "Draws a plan: addresses from top to bottom, time from left to right. "
    "Without\n--max-batch-tokens it takes a file that permafrost plan "
    "--json=FILE wrote.\nWith --overlay=on the columns are the operations of "
    "the declared steps.\n\nFlags:\n";

absl::StatusOr<MapScene> SceneOfFile(const std::string& path,
                                     const CommandArguments& parsed) {
  for (const CommandFlag& flag : PlanFlags()) {
    if (!parsed.has(flag.name)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(SpelledFlag(flag.name),
                     ": got it beside a plan file, which has been "
                     "planned already; accepted: with a CONFIG and ",
                     SpelledFlag(kLimitsFlag)));
  }
  absl::StatusOr<ArenaPlan> plan = ReadPlanFile(path);
  if (!plan.ok()) {
    return absl::Status(
        plan.status().code(),
        absl::StrCat(plan.status().message(), "; for a model, give ",
                     SpelledFlag(kLimitsFlag)));
  }
  return MakeMapScene(path, "a plan file", *plan, {}, {});
}

}  // namespace

absl::StatusOr<CommandOutput> RunMap(Arguments arguments) {
  std::vector<CommandFlag> flags = {kSvgFlag, kHtmlFlag};
  flags.insert(flags.end(), PlanFlags().begin(), PlanFlags().end());
  PERMAFROST_ASSIGN_OR_RETURN(
      const CommandArguments parsed,
      ParseCommandArguments(arguments, flags, {"CONFIG or PLAN"}));
  CommandOutput output;
  if (parsed.wants_help) {
    output.text = absl::StrCat(kUsage, FlagsHelp(flags));
    output.is_document = true;
    return output;
  }
  const std::string svg = absl::GetFlag(FLAGS_svg);
  const std::string html = absl::GetFlag(FLAGS_html);
  if (svg.empty() && html.empty()) {
    return absl::InvalidArgumentError(
        "nowhere to draw to: got neither --svg nor --html; accepted: either or "
        "both, as --svg=FILE");
  }
  if (svg == "-" && html == "-") {
    return absl::InvalidArgumentError(
        "--svg, --html: got both without a file; accepted: one of them on the "
        "standard output");
  }
  const std::string& operand = parsed.operands.front();
  absl::StatusOr<MapScene> scene = absl::UnknownError("");
  if (parsed.has(kLimitsFlag)) {
    PERMAFROST_ASSIGN_OR_RETURN(const PlannedArena arena,
                                PlanByFlags(operand, parsed.given));
    if (!arena.findings.empty()) {
      output.code = ExitCode::kSomethingFound;
      output.reason =
          absl::StrCat("the plan is unsafe: ", arena.findings.front());
    }
    scene = MakeMapScene(operand, arena.made_by, arena.plan, arena.steps,
                         arena.overlaid.has_value() ? arena.overlaid->kept_apart
                                                    : std::vector<KeptApart>());
  } else {
    scene = SceneOfFile(operand, parsed);
  }
  PERMAFROST_RETURN_IF_ERROR(scene.status());
  if (!svg.empty()) {
    PERMAFROST_RETURN_IF_ERROR(
        SendDocument(kSvgFlag, svg, MapSvg(*scene), output));
  }
  if (!html.empty()) {
    PERMAFROST_RETURN_IF_ERROR(
        SendDocument(kHtmlFlag, html, MapHtml(*scene), output));
  }
  return output;
}

}  // namespace permafrost::tool
