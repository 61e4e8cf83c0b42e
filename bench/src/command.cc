// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "command.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "command_line.h"
#include "permafrost/driver/status.h"

ABSL_FLAG(std::string, config, "qwen3-30b-a3b",
          "a preset's name, or the path of a model's config.json");
ABSL_FLAG(int64_t, layers, 1, "MoE layers in the captured step");
ABSL_FLAG(std::string, buckets, "1,2,4,8",
          "rows of each captured graph, ascending, separated by commas");
ABSL_FLAG(int64_t, distinct_experts, 0,
          "expert matrices to keep; the other experts point at the same ones; "
          "0 gives every expert its own");
ABSL_FLAG(std::string, json, "", "file to write the results to as JSON");
ABSL_FLAG(std::string, plant, "",
          "a fault to put into this run; 'help' lists the names");
ABSL_FLAG(int64_t, samples, 0,
          "timed replays of each bucket; 0 takes 1000 on a GPU and 3 on "
          "softcuda");
ABSL_FLAG(int64_t, replays, 0,
          "back-to-back replays behind one device time; 0 takes 20 on a GPU; "
          "softcuda has no device time");
ABSL_FLAG(uint64_t, seed, 1, "seed of the random weights and inputs");
ABSL_FLAG(int64_t, guard_bytes, 256,
          "gap behind each buffer of the arena: 0 or a multiple of 256");

namespace permafrost::bench {
namespace {

constexpr CommandFlag kFlags[] = {
    {"config"}, {"layers"},     {"buckets"}, {"distinct_experts"},
    {"json"},   {"plant"},      {"samples"}, {"replays"},
    {"seed"},   {"guard_bytes"}};

absl::StatusOr<std::vector<int64_t>> ParseBuckets(const std::string& text) {
  std::vector<int64_t> buckets;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    int64_t rows = 0;
    if (!absl::SimpleAtoi(part, &rows)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--buckets: got '", part, "' in '", text,
          "'; accepted: numbers of rows, ascending, separated by commas"));
    }
    if (rows < 1 || rows > kMaxRows) {
      return absl::InvalidArgumentError(
          absl::StrCat("--buckets: got ", rows, " rows; accepted: 1 to ",
                       kMaxRows, " rows in a bucket"));
    }
    if (!buckets.empty() && rows <= buckets.back()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--buckets: got ", rows, " after ", buckets.back(), " in '", text,
          "'; accepted: each bucket once, in ascending order"));
    }
    buckets.push_back(rows);
  }
  return buckets;
}

absl::StatusOr<Options> OptionsFromFlags() {
  Options options;
  options.config = absl::GetFlag(FLAGS_config);
  options.layers = absl::GetFlag(FLAGS_layers);
  options.distinct_experts = absl::GetFlag(FLAGS_distinct_experts);
  options.json_path = absl::GetFlag(FLAGS_json);
  options.samples = absl::GetFlag(FLAGS_samples);
  options.replays = absl::GetFlag(FLAGS_replays);
  options.seed = absl::GetFlag(FLAGS_seed);
  options.guard_bytes = absl::GetFlag(FLAGS_guard_bytes);

  PERMAFROST_RETURN_IF_ERROR(CheckFlagRange("layers", options.layers, 1, 1024));
  PERMAFROST_RETURN_IF_ERROR(
      CheckFlagRange("distinct_experts", options.distinct_experts, 0, 65535));
  PERMAFROST_RETURN_IF_ERROR(
      CheckFlagRange("samples", options.samples, 0, 1000000));
  PERMAFROST_RETURN_IF_ERROR(
      CheckFlagRange("replays", options.replays, 0, 1000000));
  PERMAFROST_RETURN_IF_ERROR(
      CheckFlagRange("guard_bytes", options.guard_bytes, 0, int64_t{1} << 30));
  if (options.guard_bytes % kBufferAlignmentBytes != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--guard-bytes: got ", options.guard_bytes,
                     "; accepted: 0 or a multiple of ", kBufferAlignmentBytes));
  }
  PERMAFROST_ASSIGN_OR_RETURN(options.buckets,
                              ParseBuckets(absl::GetFlag(FLAGS_buckets)));
  if (const std::string name = absl::GetFlag(FLAGS_plant); !name.empty()) {
    const std::optional<Plant> plant = FindPlant(name);
    if (!plant.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--plant: got '", name, "'; accepted: help, ",
          absl::StrJoin(Plants(), ", ",
                        [](std::string* out, const PlantInfo& info) {
                          absl::StrAppend(out, info.name);
                        })));
    }
    options.plant = *plant;
  }
  return options;
}

}  // namespace

absl::StatusOr<Command> ParseCommand(absl::Span<const char* const> arguments) {
  Command command;
  PERMAFROST_ASSIGN_OR_RETURN(const CommandArguments parsed,
                              ParseCommandArguments(arguments, kFlags, {}));
  if (parsed.wants_help) {
    command.request = Request::kHelp;
    return command;
  }
  if (absl::GetFlag(FLAGS_plant) == "help") {
    command.request = Request::kPlantHelp;
    return command;
  }
  PERMAFROST_ASSIGN_OR_RETURN(command.options, OptionsFromFlags());
  return command;
}

std::string HelpText() {
  return absl::StrCat(
      "replay_latency: captures a model's MoE decode step into CUDA graphs,\n"
      "proves that its addresses and results stay stable, and times it.\n\n"
      "PERMAFROST_DRIVER=auto|cuda|soft|<path> chooses the driver.\n"
      "Exit status: 0 all proven, 1 something found, 2 bad input, 3 no device."
      "\n\nFlags:\n",
      FlagsHelp(kFlags));
}

}  // namespace permafrost::bench
