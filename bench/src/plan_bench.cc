// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "plan_bench.h"

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "permafrost/driver/status.h"
#include "plan_instances.h"
#include "plan_rows.h"

namespace permafrost::bench {
namespace {

using Json = nlohmann::ordered_json;

#ifdef NDEBUG
constexpr bool kIsOptimised = true;
#else
constexpr bool kIsOptimised = false;
#endif

constexpr char kHelp[] =
    "plan_bench: plans the arena of every built-in model with overlay, for "
    "256,\n"
    "2048 and 8192 tokens on one stream and forked, and holds each plan "
    "against\n"
    "its lower bound and the independent verifier.\n\n"
    "  --json[=FILE]    the figures as JSON, to standard output or a file\n"
    "  --instances=DIR  packs the instances DIR/NAME.CAPACITY.csv (columns "
    "id,\n"
    "                   lower, upper, size) instead\n"
    "  --max-nodes=N    nodes that the search of one instance may visit\n"
    "                   (default 1000000)\n"
    "  --help\n\n"
    "A value may also be the next argument. The verdict is the last line, on "
    "the\n"
    "error output where the figures go to standard output as JSON. Exit "
    "status: 0\n"
    "all kept, 1 a promise not kept, 2 bad input.\n";

struct Flags {
  bool wants_help = false;
  bool wants_json = false;
  std::string json_path = {};  ///< empty: standard output
  std::string instances = {};  ///< empty: the built-in models
  int64_t max_nodes = 1'000'000;
};

absl::StatusOr<Flags> ParseFlags(absl::Span<const char* const> arguments) {
  Flags flags;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string argument = arguments[i];
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    bool has_value = equals != std::string::npos;
    std::string value = has_value ? argument.substr(equals + 1) : "";
    if (!has_value && i + 1 < arguments.size() &&
        !absl::StartsWith(arguments[i + 1], "--") &&
        (name == "--json" || name == "--instances" || name == "--max-nodes")) {
      value = arguments[++i];
      has_value = true;
    }
    if (name == "--help" && !has_value) {
      flags.wants_help = true;
    } else if (name == "--json") {
      flags.wants_json = true;
      flags.json_path = value;
      if (has_value && value.empty()) {
        return absl::InvalidArgumentError(
            "--json: got an empty path; accepted: a file, or no value");
      }
    } else if (name == "--instances") {
      flags.instances = value;
      if (value.empty()) {
        return absl::InvalidArgumentError(
            "--instances: got no value; accepted: a folder");
      }
    } else if (name == "--max-nodes") {
      if (!absl::SimpleAtoi(value, &flags.max_nodes) || flags.max_nodes < 1) {
        return absl::InvalidArgumentError(
            absl::StrCat("--max-nodes: got '", value,
                         "'; accepted: a whole number of at least 1"));
      }
    } else {
      return absl::InvalidArgumentError(absl::StrCat(
          "unknown argument: got '", argument,
          "'; accepted: --json, --instances, --max-nodes, --help"));
    }
  }
  return flags;
}

/// Figures of either kind, ready to print.
struct Outcome {
  Json json = {};
  std::string text = {};
  std::vector<std::string> faults = {};
};

absl::StatusOr<Outcome> OfPlans() {
  PERMAFROST_ASSIGN_OR_RETURN(const std::vector<PlanRow> rows, MeasurePlans());
  Outcome outcome;
  outcome.faults = FaultsOf(rows, kIsOptimised);
  Json json_rows = Json::array();
  outcome.text =
      absl::StrFormat("%-26s %6s %7s %9s %9s %6s %9s %8s %8s %6s\n", "model",
                      "tokens", "streams", "off MiB", "on MiB", "on/off",
                      "pinned", "on/bound", "plan us", "unsafe");
  constexpr double kMebi = 1024.0 * 1024.0;
  for (const PlanRow& row : rows) {
    json_rows.push_back({{"model", row.model},
                         {"max_batch_tokens", row.max_batch_tokens},
                         {"streams", row.streams},
                         {"dag", row.dag},
                         {"bytes_off", row.bytes_off},
                         {"bytes_on", row.bytes_on},
                         {"pinned_bytes", row.pinned_bytes},
                         {"bound", row.bound_bytes},
                         {"plan_ns", row.plan_ns},
                         {"unsafe_pairs", row.unsafe_pairs}});
    const double off = static_cast<double>(row.bytes_off);
    const double on = static_cast<double>(row.bytes_on);
    absl::StrAppendFormat(
        &outcome.text,
        "%-26s %6d %7d %9.1f %9.1f %6.3f %9.1f %8.4f %8.0f %6d\n", row.model,
        row.max_batch_tokens, row.streams, off / kMebi, on / kMebi, on / off,
        static_cast<double>(row.pinned_bytes) / kMebi,
        on / static_cast<double>(row.bound_bytes),
        static_cast<double>(row.plan_ns) / 1000.0, row.unsafe_pairs);
  }
  outcome.json = {{"schema", "permafrost.plan_bench/1"},
                  {"is_optimised_build", kIsOptimised},
                  {"rows", std::move(json_rows)}};
  return outcome;
}

absl::StatusOr<Outcome> OfInstances(const Flags& flags) {
  PERMAFROST_ASSIGN_OR_RETURN(const std::vector<InstanceRow> rows,
                              SolveInstances(flags.instances, flags.max_nodes));
  Outcome outcome;
  outcome.faults = FaultsOf(rows);
  Json json_rows = Json::array();
  outcome.text = absl::StrFormat("%-12s %8s %10s %10s %10s %-10s %10s %9s\n",
                                 "instance", "buffers", "capacity", "bound",
                                 "height", "verdict", "nodes", "seconds");
  int64_t solved = 0;
  for (const InstanceRow& row : rows) {
    solved += row.is_solved ? 1 : 0;
    json_rows.push_back({{"name", row.name},
                         {"buffers", row.buffers},
                         {"capacity", row.capacity_bytes},
                         {"bound", row.bound_bytes},
                         {"height", row.height_bytes},
                         {"verdict", row.verdict},
                         {"nodes", row.nodes},
                         {"wall_ns", row.wall_ns},
                         {"solved", row.is_solved}});
    absl::StrAppendFormat(
        &outcome.text, "%-12s %8d %10d %10d %10d %-10s %10d %9.2f\n", row.name,
        row.buffers, row.capacity_bytes, row.bound_bytes, row.height_bytes,
        row.verdict, row.nodes, static_cast<double>(row.wall_ns) / 1e9);
  }
  absl::StrAppendFormat(&outcome.text,
                        "%d of %d packed within 10 seconds each\n", solved,
                        rows.size());
  outcome.json = {{"schema", "permafrost.plan_bench/1"},
                  {"is_optimised_build", kIsOptimised},
                  {"solved", solved},
                  {"instances", std::move(json_rows)}};
  return outcome;
}

ExitCode RefuseInput(const absl::Status& status, std::ostream& verdict,
                     std::ostream& errors) {
  errors << "plan_bench: " << status.message() << "\n";
  verdict << "result: FAIL (" << status.message() << ")\n";
  return ExitCode::kBadInput;
}

}  // namespace

ExitCode RunPlanBench(absl::Span<const char* const> arguments,
                      std::ostream& out, std::ostream& errors) {
  const absl::StatusOr<Flags> flags = ParseFlags(arguments);
  if (!flags.ok()) return RefuseInput(flags.status(), out, errors);
  if (flags->wants_help) {
    out << kHelp;
    return ExitCode::kAllProven;
  }
  const bool prints_json = flags->wants_json && flags->json_path.empty();
  // So that all of standard output is JSON.
  std::ostream& verdict = prints_json ? errors : out;
  std::ofstream file;
  if (!flags->json_path.empty()) {
    // Opened before the run, so that a bad path costs no run.
    file.open(flags->json_path);
    if (!file) {
      return RefuseInput(absl::InvalidArgumentError(absl::StrCat(
                             "--json: got '", flags->json_path,
                             "', which cannot be written; accepted: a file in "
                             "an existing folder")),
                         verdict, errors);
    }
  }
  absl::StatusOr<Outcome> outcome =
      flags->instances.empty() ? OfPlans() : OfInstances(*flags);
  if (!outcome.ok()) return RefuseInput(outcome.status(), verdict, errors);
  const std::string reason = absl::StrJoin(outcome->faults, "; ");
  outcome->json["result"] = reason.empty() ? "PASS" : "FAIL";
  outcome->json["reason"] = reason;
  // Names and paths come from outside and need not be UTF-8.
  const std::string json =
      outcome->json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  if (!flags->json_path.empty()) {
    file << json;
    file.close();
    if (!file) {
      verdict << "result: FAIL (--json: writing '" << flags->json_path
              << "' failed)\n";
      return ExitCode::kSomethingFound;
    }
  }
  out << (prints_json ? json : outcome->text);
  if (!reason.empty()) {
    verdict << "result: FAIL (" << reason << ")\n";
    return ExitCode::kSomethingFound;
  }
  verdict << "result: PASS\n";
  return ExitCode::kAllProven;
}

}  // namespace permafrost::bench
