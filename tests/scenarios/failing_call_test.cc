// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// The whole flow, create, warm up, freeze, capture, replay and release, with
// the n-th driver call failing, for every n: nothing leaks, the first error is
// the one returned, and the process goes on.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "moe_step.h"
#include "permafrost/arena/arena.h"
#include "permafrost/arena/buffer_table.h"
#include "permafrost/arena/model_config.h"
#include "permafrost/capture/capture_all.h"
#include "permafrost/capture/lane.h"
#include "permafrost/capture/warm_up.h"
#include "permafrost/driver/context.h"
#include "permafrost/driver/faulting_driver.h"
#include "permafrost/driver/softcuda_control.h"
#include "permafrost/driver/status.h"
#include "support/soft_driver.h"
#include "support/unreported_calls.h"

namespace permafrost::bench {
namespace {

constexpr const char* kConfig = R"({
  "model_type": "qwen3_moe", "hidden_size": 64, "num_hidden_layers": 1,
  "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32,
  "intermediate_size": 128, "moe_intermediate_size": 32, "num_experts": 4,
  "num_experts_per_tok": 2, "norm_topk_prob": true, "vocab_size": 128})";

// Each buffer costs driver calls and each call a run of the flow, so the arena
// has those that the step uses and no others.
std::vector<BufferRow> RowsOfTheStep() {
  const std::set<absl::string_view> used = {
      "hidden_states", "moe_output",      "moe_routing",    "expert_gate_out",
      "expert_up_out", "expert_down_out", "moe_fp8_scratch"};
  std::vector<BufferRow> rows;
  for (const BufferRow& row : BufferTable()) {
    if (used.count(row.name) != 0) rows.push_back(row);
  }
  return rows;
}

// Objects are declared so that each is destroyed before what it needs, which is
// what happens wherever the flow returns early. `after_statements` is called
// before they are, when the flow got that far.
absl::Status RunFlow(const DriverRef& driver,
                     const std::function<void()>& after_statements) {
  PERMAFROST_ASSIGN_OR_RETURN(const ModelConfig config,
                              ParseModelConfig(kConfig, "scenario"));
  const ShapeFigures shape = {.layers = config.num_layers,
                              .hidden = config.hidden_size,
                              .experts = config.num_experts,
                              .distinct_experts = config.num_experts,
                              .experts_per_token = config.experts_per_token,
                              .expert_width = config.moe_intermediate_size};
  const std::vector<Bucket> buckets = {{1}, {2}};
  PERMAFROST_ASSIGN_OR_RETURN(
      std::vector<BufferSize> sizes,
      ComputeBufferSizes(config, {.max_batch_tokens = buckets.back().rows},
                         RowsOfTheStep()));
  PERMAFROST_ASSIGN_OR_RETURN(
      ArenaPlan plan, PlanArena(std::move(sizes), {.guard_bytes = 256}));

  PERMAFROST_ASSIGN_OR_RETURN(const ContextRef context,
                              Context::RetainPrimary(driver));
  const Context::Scope scope = context->MakeCurrent();
  PERMAFROST_RETURN_IF_ERROR(scope.status());
  PERMAFROST_ASSIGN_OR_RETURN(
      StepParts parts,
      StepParts::Create(context, config, shape, buckets.back().rows,
                        /*seed=*/1, Plant::kNone));
  PERMAFROST_ASSIGN_OR_RETURN(Arena arena,
                              Arena::Create(context, std::move(plan)));
  PERMAFROST_ASSIGN_OR_RETURN(const Lane lane, Lane::Create(context, "decode"));
  PERMAFROST_RETURN_IF_ERROR(parts.inputs.Write(
      Routing::kBalanced, buckets.back().rows, lane.stream()));
  PERMAFROST_ASSIGN_OR_RETURN(const WarmSet warm_set,
                              WarmUp(arena, lane, MakeMoeStep(parts), buckets));
  PERMAFROST_ASSIGN_OR_RETURN(FrozenArena frozen, std::move(arena).Freeze());

  CaptureOptions capture;
  capture.externals = parts.regions();
  capture.signatures = &parts.kernels.signatures();
  PERMAFROST_ASSIGN_OR_RETURN(GraphSet graphs,
                              CaptureAll(frozen, warm_set, lane, capture));
  for (CapturedGraph* graph : graphs.graphs()) {
    PERMAFROST_RETURN_IF_ERROR(graph->Replay());
    PERMAFROST_RETURN_IF_ERROR(lane.Drain());
    PERMAFROST_RETURN_IF_ERROR(graph->VerifyNodes());
  }
  PERMAFROST_RETURN_IF_ERROR(frozen.VerifyStable());
  PERMAFROST_RETURN_IF_ERROR(graphs.Destroy());
  PERMAFROST_RETURN_IF_ERROR(frozen.Release());
  const absl::Status released = parts.Release();
  after_statements();
  return released;
}

class FailingCallTest : public testing::DriverTest,
                        public ::testing::WithParamInterface<CUresult> {};

TEST_P(FailingCallTest, EveryCallCanFailOnce) {
  PERMAFROST_NEEDS_SOFTCUDA();
  const std::unique_ptr<FaultingDriver> faulting =
      FaultingDriver::Wrap(driver());
  int64_t statement_calls = 0;
  ASSERT_EQ(
      RunFlow(faulting->driver(), [&] { statement_calls = faulting->calls(); }),
      absl::OkStatus());
  const int64_t flow_calls = faulting->calls();
  const int64_t handles = soft()->live_handles();
  const int64_t bytes = soft()->live_bytes();

  int64_t failed_calls = 0;
  for (int64_t n = 1;; ++n) {
    faulting->FailCall(n, GetParam());
    const absl::Status status = RunFlow(faulting->driver(), [] {});
    const std::string call = faulting->last_failed_call();
    faulting->Disarm();
    if (call.empty()) {
      EXPECT_EQ(status, absl::OkStatus()) << "no call failed";
      break;
    }
    ++failed_calls;
    SCOPED_TRACE(absl::StrCat("call ", n, ", ", call, ": ",
                              std::string(status.message())));
    if (status.ok()) {
      EXPECT_TRUE(testing::MayGoUnreported(n, call, statement_calls));
    } else {
      EXPECT_EQ(CuCallOf(status), call);
      EXPECT_EQ(CuResultOf(status), GetParam());
    }
    EXPECT_EQ(Arena::ReclaimAbandoned(), absl::OkStatus());
    EXPECT_EQ(Arena::abandoned_bytes(), 0);
    EXPECT_EQ(soft()->live_handles(), handles);
    EXPECT_EQ(soft()->live_bytes(), bytes);
    if (HasFailure()) break;
  }
  // A loop that ended early would have proven nothing.
  EXPECT_EQ(failed_calls, flow_calls);
  EXPECT_EQ(RunFlow(faulting->driver(), [] {}), absl::OkStatus());
  EXPECT_EQ(soft()->live_handles(), handles);
  EXPECT_EQ(soft()->live_bytes(), bytes);
}

std::string NameOf(const ::testing::TestParamInfo<CUresult>& info) {
  return info.param == CUDA_ERROR_OUT_OF_MEMORY ? "OutOfMemory" : "Unknown";
}

INSTANTIATE_TEST_SUITE_P(Results, FailingCallTest,
                         ::testing::Values(CUDA_ERROR_OUT_OF_MEMORY,
                                           CUDA_ERROR_UNKNOWN),
                         NameOf);

}  // namespace
}  // namespace permafrost::bench
