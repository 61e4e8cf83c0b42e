// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "plan_rows.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "permafrost/arena/buffer_table.h"
#include "permafrost/arena/declared_steps.h"
#include "permafrost/arena/model_config.h"
#include "permafrost/arena/overlay.h"
#include "permafrost/driver/status.h"

namespace permafrost::bench {
namespace {

constexpr int64_t kTokens[] = {256, 2048, 8192};
constexpr int kRepeats = 7;
constexpr int64_t kMaxPlanNs = 10'000'000;

/// The share of the unshared bytes that a plan may take, where it is promised.
struct Target {
  const char* model;
  int64_t max_batch_tokens;
  int64_t streams;
  int64_t percent;
};
constexpr Target kTargets[] = {{"deepseek-v3", 2048, 2, 40},
                               {"qwen3-next-80b-a3b", 2048, 2, 60}};

absl::StatusOr<PlanRow> MeasurePlan(const ModelConfig& config,
                                    const ServingLimits& limits,
                                    StepStreams streams) {
  PERMAFROST_ASSIGN_OR_RETURN(const std::vector<BufferSize> sizes,
                              ComputeBufferSizes(config, limits));
  const std::vector<StepDag> steps = {
      DeclareStep(config, limits, StepPhase::kDecode, streams),
      DeclareStep(config, limits, StepPhase::kPrefill, streams)};
  PlanRow row = {.max_batch_tokens = limits.max_batch_tokens,
                 .streams = streams == StepStreams::kOne ? 1 : 2,
                 .dag = std::string(DagOriginName(steps.front().origin)),
                 .plan_ns = std::numeric_limits<int64_t>::max()};
  for (int i = 0; i < kRepeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const absl::StatusOr<OverlaidPlan> plan =
        PlanArenaWithOverlay(sizes, {}, steps);
    const auto elapsed = std::chrono::steady_clock::now() - start;
    PERMAFROST_RETURN_IF_ERROR(plan.status());
    row.plan_ns = std::min<int64_t>(
        row.plan_ns,
        std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count());
    if (i > 0) continue;
    PERMAFROST_RETURN_IF_ERROR(ValidatePlan(plan->plan));
    PERMAFROST_ASSIGN_OR_RETURN(const std::vector<OverlayFinding> findings,
                                VerifyOverlayOfLane(plan->plan, steps));
    row.bytes_off = plan->bytes_off;
    row.bytes_on = plan->bytes_on;
    row.pinned_bytes = plan->pinned_bytes;
    row.bound_bytes = plan->bound_bytes;
    row.unsafe_pairs = static_cast<int64_t>(findings.size());
  }
  return row;
}

}  // namespace

absl::StatusOr<std::vector<PlanRow>> MeasurePlans() {
  std::vector<PlanRow> rows;
  for (const std::string& model : ModelPresets()) {
    PERMAFROST_ASSIGN_OR_RETURN(const ModelConfig config,
                                LoadModelConfig(model));
    for (const int64_t tokens : kTokens) {
      for (const StepStreams streams :
           {StepStreams::kOne, StepStreams::kForked}) {
        ServingLimits limits;
        limits.max_batch_tokens = tokens;
        absl::StatusOr<PlanRow> row = MeasurePlan(config, limits, streams);
        if (!row.ok()) {
          return absl::Status(row.status().code(),
                              absl::StrCat(model, " with ", tokens, " tokens: ",
                                           row.status().message()));
        }
        row->model = model;
        rows.push_back(*std::move(row));
      }
    }
  }
  return rows;
}

std::vector<std::string> FaultsOf(absl::Span<const PlanRow> rows,
                                  bool judge_time) {
  std::vector<std::string> faults;
  for (const PlanRow& row : rows) {
    const auto fault = [&](absl::string_view what) {
      faults.push_back(absl::StrCat(row.model, " with ", row.max_batch_tokens,
                                    " tokens on ", row.streams,
                                    " streams: ", what));
    };
    // Doubles would round sums of this size; a hundredth of the bound does not
    // matter.
    if (row.bytes_on > row.bound_bytes + row.bound_bytes / 100) {
      fault(absl::StrCat("got ", row.bytes_on, " bytes, limit 1.01 times ",
                         row.bound_bytes));
    }
    if (row.unsafe_pairs != 0) {
      fault(absl::StrCat("got ", row.unsafe_pairs, " unsafe pairs, limit 0"));
    }
    if (judge_time && row.plan_ns >= kMaxPlanNs) {
      fault(absl::StrCat("got a plan in ", row.plan_ns, " ns, limit ",
                         kMaxPlanNs));
    }
    for (const Target& target : kTargets) {
      if (row.model == target.model &&
          row.max_batch_tokens == target.max_batch_tokens &&
          row.streams == target.streams &&
          row.bytes_on > row.bytes_off / 100 * target.percent) {
        fault(absl::StrFormat("got %d of %d bytes without overlay, limit %d %%",
                              row.bytes_on, row.bytes_off, target.percent));
      }
    }
  }
  for (const Target& target : kTargets) {
    if (std::none_of(rows.begin(), rows.end(), [&](const PlanRow& row) {
          return row.model == target.model &&
                 row.max_batch_tokens == target.max_batch_tokens &&
                 row.streams == target.streams;
        })) {
      faults.push_back(absl::StrCat("no row of ", target.model, " with ",
                                    target.max_batch_tokens, " tokens on ",
                                    target.streams, " streams"));
    }
  }
  return faults;
}

}  // namespace permafrost::bench
