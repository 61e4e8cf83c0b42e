// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "plan_flags.h"

#include <cstdint>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "permafrost/arena/buffer_table.h"
#include "permafrost/arena/declared_steps.h"
#include "permafrost/arena/model_config.h"
#include "permafrost/arena/serving_limits.h"
#include "permafrost/driver/status.h"

ABSL_FLAG(int64_t, max_batch_tokens,
          permafrost::ServingLimits{}.max_batch_tokens,
          "token rows of the largest step; must be given");
ABSL_FLAG(int64_t, max_batch_size, permafrost::ServingLimits{}.max_batch_size,
          "sequences of the largest decode batch");
ABSL_FLAG(int64_t, max_seq_len, permafrost::ServingLimits{}.max_seq_len,
          "tokens of the longest sequence, prompt and answer together");
ABSL_FLAG(int64_t, kv_block_size, permafrost::ServingLimits{}.kv_block_size,
          "tokens of one KV block; 0: no paged KV cache");
ABSL_FLAG(int64_t, sm_count, permafrost::ServingLimits{}.sm_count,
          "multiprocessors of the device");
ABSL_FLAG(int64_t, lora_rank, permafrost::ServingLimits{}.lora_rank,
          "rank of the widest LoRA adapter; 0: no adapters");
ABSL_FLAG(int64_t, draft_tokens, permafrost::ServingLimits{}.draft_tokens,
          "draft tokens verified with each sequence in one step");
ABSL_FLAG(std::string, split_k, "auto",
          "how attention splits keys over thread blocks: auto or legacy");
ABSL_FLAG(bool, four_bit_weights, permafrost::ServingLimits{}.four_bit_weights,
          "dense weights come in 4-bit blocks");
ABSL_FLAG(bool, two_bit_weights, permafrost::ServingLimits{}.two_bit_weights,
          "the weights are quantised to 2 bits");
ABSL_FLAG(bool, rowwise_bf16_copies,
          permafrost::ServingLimits{}.rowwise_bf16_copies,
          "row-wise FP8 weights of linear attention get a bf16 copy");
ABSL_FLAG(std::string, rules, "ours",
          "whose rules the sizes follow: ours, or seed (the original design)");
ABSL_FLAG(std::string, overlay, "off",
          "whether buffers share bytes where the steps allow it: off or on");
ABSL_FLAG(std::string, steps, "both",
          "the declared steps that an overlay is for: decode, prefill or both");
ABSL_FLAG(std::string, streams, "forked",
          "how these steps are issued: one (stream) or forked");
ABSL_FLAG(int64_t, granularity_bytes,
          permafrost::PlanOptions{}.granularity_bytes,
          "segments start and end on multiples of this, itself one of 256");
ABSL_FLAG(int64_t, guard_bytes, permafrost::PlanOptions{}.guard_bytes,
          "bytes left free after each buffer; 0 or a multiple of 256");

namespace permafrost::tool {
namespace {

constexpr CommandFlag kFlags[] = {
    {"max_batch_tokens"},
    {"max_batch_size"},
    {"max_seq_len"},
    {"kv_block_size"},
    {"sm_count"},
    {"lora_rank"},
    {"draft_tokens"},
    {"split_k"},
    {"four_bit_weights", "true"},
    {"two_bit_weights", "true"},
    {"rowwise_bf16_copies", "true"},
    {"rules"},
    {"overlay"},
    {"steps"},
    {"streams"},
    {"granularity_bytes"},
    {"guard_bytes"},
};

absl::StatusOr<ServingLimits> LimitsFromFlags() {
  ServingLimits limits;
  limits.max_batch_tokens = absl::GetFlag(FLAGS_max_batch_tokens);
  limits.max_batch_size = absl::GetFlag(FLAGS_max_batch_size);
  limits.max_seq_len = absl::GetFlag(FLAGS_max_seq_len);
  limits.kv_block_size = absl::GetFlag(FLAGS_kv_block_size);
  limits.sm_count = absl::GetFlag(FLAGS_sm_count);
  limits.lora_rank = absl::GetFlag(FLAGS_lora_rank);
  limits.draft_tokens = absl::GetFlag(FLAGS_draft_tokens);
  limits.four_bit_weights = absl::GetFlag(FLAGS_four_bit_weights);
  limits.two_bit_weights = absl::GetFlag(FLAGS_two_bit_weights);
  limits.rowwise_bf16_copies = absl::GetFlag(FLAGS_rowwise_bf16_copies);
  PERMAFROST_ASSIGN_OR_RETURN(
      const size_t split_k,
      FlagWord("split_k", absl::GetFlag(FLAGS_split_k), {"auto", "legacy"}));
  limits.split_k = split_k == 0 ? SplitKPolicy::kAuto : SplitKPolicy::kLegacy;
  PERMAFROST_ASSIGN_OR_RETURN(
      const size_t rules,
      FlagWord("rules", absl::GetFlag(FLAGS_rules), {"ours", "seed"}));
  limits.rules = rules == 0 ? SizeRules::kOurs : SizeRules::kSeed;
  return limits;
}

struct OverlayWish {
  bool is_on = false;
  std::vector<StepPhase> phases = {};
  StepStreams streams = StepStreams::kForked;
};

absl::StatusOr<OverlayWish> OverlayFromFlags() {
  OverlayWish wish;
  PERMAFROST_ASSIGN_OR_RETURN(
      const size_t overlay,
      FlagWord("overlay", absl::GetFlag(FLAGS_overlay), {"off", "on"}));
  wish.is_on = overlay == 1;
  PERMAFROST_ASSIGN_OR_RETURN(const size_t steps,
                              FlagWord("steps", absl::GetFlag(FLAGS_steps),
                                       {"both", "decode", "prefill"}));
  if (steps != 2) wish.phases.push_back(StepPhase::kDecode);
  if (steps != 1) wish.phases.push_back(StepPhase::kPrefill);
  PERMAFROST_ASSIGN_OR_RETURN(
      const size_t streams,
      FlagWord("streams", absl::GetFlag(FLAGS_streams), {"forked", "one"}));
  wish.streams = streams == 0 ? StepStreams::kForked : StepStreams::kOne;
  return wish;
}

std::string GivenFlags(absl::Span<const std::string> given) {
  std::string text;
  for (const CommandFlag& flag : kFlags) {
    for (const std::string& name : given) {
      if (name != flag.name) continue;
      absl::StrAppend(&text, text.empty() ? "" : " ", SpelledFlag(name), "=",
                      absl::FindCommandLineFlag(name)->CurrentValue());
      break;
    }
  }
  return text;
}

// Judged by code that shares nothing with the planner.
absl::StatusOr<std::vector<std::string>> FindingsOf(const PlannedArena& arena) {
  std::vector<std::string> findings;
  if (const absl::Status valid = ValidatePlan(arena.plan); !valid.ok()) {
    findings.emplace_back(valid.message());
  }
  if (arena.steps.empty()) return findings;
  PERMAFROST_ASSIGN_OR_RETURN(const std::vector<OverlayFinding> unsafe,
                              VerifyOverlayOfLane(arena.plan, arena.steps));
  for (const OverlayFinding& finding : unsafe) {
    findings.push_back(finding.message);
  }
  return findings;
}

}  // namespace

absl::Span<const CommandFlag> PlanFlags() { return kFlags; }

absl::StatusOr<PlannedArena> PlanByFlags(const std::string& config,
                                         absl::Span<const std::string> given) {
  PERMAFROST_ASSIGN_OR_RETURN(const ServingLimits limits, LimitsFromFlags());
  PERMAFROST_ASSIGN_OR_RETURN(const OverlayWish overlay, OverlayFromFlags());
  PERMAFROST_RETURN_IF_ERROR(CheckLimits(limits));
  const PlanOptions options = {
      .granularity_bytes = absl::GetFlag(FLAGS_granularity_bytes),
      .guard_bytes = absl::GetFlag(FLAGS_guard_bytes)};
  PERMAFROST_ASSIGN_OR_RETURN(const ModelConfig model, LoadModelConfig(config));
  PERMAFROST_ASSIGN_OR_RETURN(std::vector<BufferSize> sizes,
                              ComputeBufferSizes(model, limits));
  const std::string made_by = GivenFlags(given);
  std::optional<PlannedArena> arena;
  if (overlay.is_on) {
    std::vector<StepDag> steps;
    for (const StepPhase phase : overlay.phases) {
      steps.push_back(DeclareStep(model, limits, phase, overlay.streams));
    }
    PERMAFROST_ASSIGN_OR_RETURN(
        OverlaidPlan overlaid,
        PlanArenaWithOverlay(std::move(sizes), options, steps));
    ArenaPlan plan = overlaid.plan;
    arena = PlannedArena{.made_by = made_by,
                         .plan = std::move(plan),
                         .overlaid = std::move(overlaid),
                         .steps = std::move(steps)};
  } else {
    PERMAFROST_ASSIGN_OR_RETURN(ArenaPlan plan,
                                PlanArena(std::move(sizes), options));
    arena = PlannedArena{.made_by = made_by, .plan = std::move(plan)};
  }
  PERMAFROST_ASSIGN_OR_RETURN(arena->findings, FindingsOf(*arena));
  return *std::move(arena);
}

}  // namespace permafrost::tool
