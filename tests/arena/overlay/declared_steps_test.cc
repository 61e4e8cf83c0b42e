// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/declared_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "arena/overlay/step_builder.h"
#include "arena/src/declared_step_rows.h"
#include "permafrost/arena/buffer_table.h"
#include "permafrost/arena/overlay.h"
#include "support/status_matchers.h"

namespace permafrost {
namespace {

using ::permafrost::testing::AsLine;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::StartsWith;

constexpr StepPhase kPhases[] = {StepPhase::kDecode, StepPhase::kPrefill};
constexpr StepStreams kStreams[] = {StepStreams::kOne, StepStreams::kForked};

ModelConfig Preset(const std::string& name) {
  const absl::StatusOr<ModelConfig> config = LoadModelConfig(name);
  EXPECT_OK(config.status());
  return config.value_or(ModelConfig());
}

/// Limits with everything that an engine can switch on switched on, or nothing.
std::vector<ServingLimits> ManyLimits() {
  std::vector<ServingLimits> all(5);
  for (ServingLimits& limits : all) limits.max_batch_tokens = 2048;
  all[1].lora_rank = 16;
  all[1].draft_tokens = 3;
  all[2].two_bit_weights = true;
  all[2].four_bit_weights = true;
  all[3].rowwise_bf16_copies = true;
  all[4].rules = SizeRules::kSeed;
  return all;
}

std::set<std::string> BuffersOf(const StepDag& step) {
  std::set<std::string> buffers;
  for (const StepOp& op : step.ops) {
    for (const BufferAccess& access : op.accesses) {
      buffers.insert(access.buffer);
    }
  }
  return buffers;
}

std::set<std::string> BuffersOf(const ModelConfig& config,
                                const ServingLimits& limits) {
  std::set<std::string> buffers;
  for (const StepPhase phase : kPhases) {
    buffers.merge(
        BuffersOf(DeclareStep(config, limits, phase, StepStreams::kOne)));
  }
  return buffers;
}

std::set<std::string> Listed(const std::string& names) {
  return absl::StrSplit(names, ' ', absl::SkipEmpty());
}

/// Names in rows that the buffer table has not; a step would leave them out.
std::set<std::string> UnknownIn(const std::vector<internal::StepRow>& rows) {
  std::set<std::string> names;
  for (const internal::StepRow& row : rows) {
    for (const char* list : {row.reads, row.writes, row.updates, row.fills}) {
      names.merge(Listed(list));
    }
  }
  for (const BufferRow& row : BufferTable()) names.erase(row.name);
  return names;
}

int OpNamed(const StepDag& step, const std::string& ending) {
  for (size_t i = 0; i < step.ops.size(); ++i) {
    const std::string& name = step.ops[i].name;
    if (name.size() >= ending.size() &&
        name.compare(name.size() - ending.size(), ending.size(), ending) == 0) {
      return static_cast<int>(i);
    }
  }
  ADD_FAILURE() << "no operation named " << ending;
  return 0;
}

/// Whether edges lead from one operation to the other.
bool Leads(const StepDag& step, int from, int to) {
  std::vector<bool> reached(step.ops.size(), false);
  reached[static_cast<size_t>(from)] = true;
  // Edges go forward in the list, which the first test checks.
  for (const StepEdge& edge : step.edges) {
    if (reached[static_cast<size_t>(edge.from)]) {
      reached[static_cast<size_t>(edge.to)] = true;
    }
  }
  return reached[static_cast<size_t>(to)];
}

TEST(DeclaredStepsTest, RowsNameBuffersOfTheTableAlone) {
  std::vector<internal::StepRow> rows = internal::AllStepRows();
  for (const char* list :
       {internal::kMixerInput, internal::kDenseInput, internal::kSlabInput,
        internal::kTwoBitScratch, internal::kAdapterSlots,
        internal::kAdapterShrunk, internal::kAdapterDelta}) {
    rows.push_back({.name = "projection", .reads = list});
  }
  EXPECT_THAT(UnknownIn(rows), IsEmpty());
  rows.push_back({.name = "planted", .reads = "norm_output norm_outptu"});
  EXPECT_THAT(UnknownIn(rows), ElementsAre("norm_outptu"));
}

TEST(DeclaredStepsTest, EveryPresetsStepsAreValidAndPlannable) {
  for (const std::string& preset : ModelPresets()) {
    const ModelConfig config = Preset(preset);
    for (const ServingLimits& limits : ManyLimits()) {
      ASSERT_OK_AND_ASSIGN(const std::vector<BufferSize> sizes,
                           ComputeBufferSizes(config, limits));
      for (const StepStreams streams : kStreams) {
        std::vector<StepDag> steps;
        for (const StepPhase phase : kPhases) {
          steps.push_back(DeclareStep(config, limits, phase, streams));
          SCOPED_TRACE(preset + ": " + steps.back().name);
          ASSERT_OK(ValidateStepDag(steps.back()));
          EXPECT_EQ(steps.back().origin, DagOrigin::kDeclared);
          std::set<std::string> names;
          int last_to = 0;
          for (const StepOp& op : steps.back().ops) {
            EXPECT_TRUE(names.insert(op.name).second) << op.name;
          }
          for (const StepEdge& edge : steps.back().edges) {
            EXPECT_LT(edge.from, edge.to);
            EXPECT_LE(last_to, edge.to);
            last_to = edge.to;
          }
        }
        ASSERT_OK_AND_ASSIGN(const OverlaidPlan plan,
                             PlanArenaWithOverlay(sizes, {}, steps));
        ASSERT_OK(ValidatePlan(plan.plan));
        ASSERT_OK_AND_ASSIGN(const std::vector<OverlayFinding> findings,
                             VerifyOverlayOfLane(plan.plan, steps));
        EXPECT_THAT(findings, IsEmpty());
        EXPECT_LE(plan.bytes_on * 100, plan.bound_bytes * 101);
        EXPECT_LT(plan.bytes_on, plan.bytes_off);
      }
    }
  }
}

// A race or a read of what nothing wrote would show as a buffer that is kept
// apart by the step and not by its row.
TEST(DeclaredStepsTest, NoStepRacesOrReadsWhatItDidNotWrite) {
  for (const std::string& preset : ModelPresets()) {
    const ModelConfig config = Preset(preset);
    for (const ServingLimits& limits : ManyLimits()) {
      ASSERT_OK_AND_ASSIGN(const std::vector<BufferSize> sizes,
                           ComputeBufferSizes(config, limits));
      std::set<std::string> transient;
      for (const BufferSize& size : sizes) {
        if (size.toucher == Toucher::kDevice &&
            (size.lifetime == Lifetime::kPerLayer ||
             size.lifetime == Lifetime::kPerStep)) {
          transient.insert(size.name);
        }
      }
      for (const StepStreams streams : kStreams) {
        for (const StepPhase phase : kPhases) {
          const StepDag step = DeclareStep(config, limits, phase, streams);
          SCOPED_TRACE(preset + ": " + step.name);
          ASSERT_OK_AND_ASSIGN(const std::vector<BufferLife> lives,
                               FindLives(step));
          for (const BufferLife& life : lives) {
            if (transient.count(life.buffer) == 0) continue;
            EXPECT_THAT(life.kept_because, IsEmpty()) << life.buffer;
          }
        }
      }
    }
  }
}

// A buffer that the table reserves and no step uses keeps bytes of its own.
TEST(DeclaredStepsTest, StepsOfAPresetUseEveryTransientBufferThatItHas) {
  std::map<std::string, std::set<std::string>> unused;
  for (const std::string& preset : ModelPresets()) {
    SCOPED_TRACE(preset);
    const ModelConfig config = Preset(preset);
    ServingLimits limits;
    limits.max_batch_tokens = 2048;
    ASSERT_OK_AND_ASSIGN(const std::vector<BufferSize> sizes,
                         ComputeBufferSizes(config, limits));
    const std::set<std::string> used = BuffersOf(config, limits);
    for (const BufferSize& size : sizes) {
      if (size.bytes > 0 && used.count(size.name) == 0) {
        unused[size.name].insert(preset);
      }
    }
  }
  // Hyper-connections carry the residual in streams of their own.
  const std::map<std::string, std::set<std::string>> known = {
      {"residual", {"deepseek-v4-flash-defaults", "qwen4-exp-defaults"}}};
  EXPECT_EQ(unused, known);
}

TEST(DeclaredStepsTest, FamiliesUseWhatTheirMixersNeed) {
  ServingLimits limits;
  limits.max_batch_tokens = 2048;
  EXPECT_THAT(BuffersOf(Preset("llama-3.1-8b"), limits),
              IsSupersetOf({"qkv_output", "attn_output", "splitk_workspace",
                            "ffn_gate_up_fused", "expert_gate_out"}));
  EXPECT_THAT(BuffersOf(Preset("deepseek-v3"), limits),
              IsSupersetOf({"ssm_ba", "ssm_deinterleaved", "ssm_conv_out_f32",
                            "fp8_act", "moe_fp8_scratch", "moe_routing"}));
  EXPECT_THAT(BuffersOf(Preset("qwen3-next-80b-a3b"), limits),
              IsSupersetOf({"ssm_qkvz", "ssm_gates", "gdn_fla_scratch",
                            "qkv_output", "expert_down_out"}));
  EXPECT_THAT(BuffersOf(Preset("nemotron-3-nano-30b-a3b"), limits),
              IsSupersetOf({"ssd_scratch", "ssm_qkvz", "qkv_output"}));
  EXPECT_THAT(BuffersOf(Preset("qwen4-exp-defaults"), limits),
              IsSupersetOf({"hc_streams", "hc_post", "hc_comb",
                            "hc_lowrank_scratch", "qsa_select_scratch"}));
}

TEST(DeclaredStepsTest, GatesDecideWhatThereIs) {
  ServingLimits limits;
  limits.max_batch_tokens = 64;
  const ModelConfig config = Preset("qwen3-30b-a3b");
  EXPECT_THAT(BuffersOf(config, limits), Not(Contains(HasSubstr("lora"))));
  EXPECT_THAT(BuffersOf(config, limits), Not(Contains(HasSubstr("q2_"))));
  limits.lora_rank = 8;
  limits.two_bit_weights = true;
  EXPECT_THAT(BuffersOf(config, limits),
              IsSupersetOf({"lora_xa", "lora_delta", "lora_seq_slot",
                            "q2_act_q8", "q2_dequant_scratch"}));
  limits.rules = SizeRules::kSeed;
  EXPECT_THAT(BuffersOf(config, limits), Not(Contains("moe_routing")));
}

TEST(DeclaredStepsTest, TheSideStreamIsBesideTheMainOneAndJoined) {
  ServingLimits limits;
  limits.max_batch_tokens = 2048;
  const struct {
    const char* preset;
    const char* side;
    const char* beside;
    const char* joined;
  } cases[] = {{"deepseek-v3", "latent.kv_norm_store", "latent.q_b_proj",
                "latent.attention"},
               {"deepseek-v3", "experts.shared_down", "experts.router",
                "experts.expert_input"},
               {"qwen3-next-80b-a3b", "delta_net.gates",
                "delta_net.in_proj_qkvz", "delta_net.delta_rule"}};
  for (const auto& c : cases) {
    SCOPED_TRACE(c.side);
    const ModelConfig config = Preset(c.preset);
    const StepDag forked =
        DeclareStep(config, limits, StepPhase::kDecode, StepStreams::kForked);
    const int side = OpNamed(forked, c.side);
    const int beside = OpNamed(forked, c.beside);
    EXPECT_FALSE(Leads(forked, side, beside));
    EXPECT_FALSE(Leads(forked, beside, side));
    EXPECT_TRUE(Leads(forked, side, OpNamed(forked, c.joined)));
    const StepDag one =
        DeclareStep(config, limits, StepPhase::kDecode, StepStreams::kOne);
    EXPECT_TRUE(Leads(one, side, beside) || Leads(one, beside, side));
  }
}

TEST(DeclaredStepsTest, EverythingIsJoinedBeforeTheEnd) {
  for (const std::string& preset : ModelPresets()) {
    const ModelConfig config = Preset(preset);
    for (const StepPhase phase : kPhases) {
      const StepDag step =
          DeclareStep(config, ManyLimits()[0], phase, StepStreams::kForked);
      SCOPED_TRACE(preset + ": " + step.name);
      const int head = OpNamed(step, "lm_head");
      for (int op = 0; op < head; ++op) {
        EXPECT_TRUE(Leads(step, op, head))
            << step.ops[static_cast<size_t>(op)].name;
      }
    }
  }
}

TEST(DeclaredStepsTest, OneStreamIsALine) {
  for (const std::string& preset : ModelPresets()) {
    const StepDag step = DeclareStep(Preset(preset), ManyLimits()[0],
                                     StepPhase::kDecode, StepStreams::kOne);
    const StepDag line = AsLine(step);
    ASSERT_EQ(step.edges.size(), line.edges.size());
    for (size_t i = 0; i < line.edges.size(); ++i) {
      EXPECT_EQ(step.edges[i].from, line.edges[i].from);
      EXPECT_EQ(step.edges[i].to, line.edges[i].to);
    }
  }
}

// Issue order is what a stream's owner sees; the planner must not go by it.
TEST(DeclaredStepsTest, ForksHaveConflictsThatIssueOrderHasNot) {
  for (const char* preset : {"deepseek-v3", "qwen3-next-80b-a3b"}) {
    SCOPED_TRACE(preset);
    const ModelConfig config = Preset(preset);
    ServingLimits limits;
    limits.max_batch_tokens = 2048;
    const StepDag forked =
        DeclareStep(config, limits, StepPhase::kDecode, StepStreams::kForked);
    ASSERT_OK_AND_ASSIGN(const std::vector<BufferLife> lives,
                         FindLives(forked));
    int safe_in_a_line_alone = 0;
    for (size_t a = 0; a < lives.size(); ++a) {
      for (size_t b = a + 1; b < lives.size(); ++b) {
        const ArenaPlan plan = ArenaPlan::FromParts(
            {{.name = lives[a].buffer, .offset_bytes = 0, .bytes = 512},
             {.name = lives[b].buffer, .offset_bytes = 256, .bytes = 512}},
            {}, 768, {});
        ASSERT_OK_AND_ASSIGN(const std::vector<OverlayFinding> in_line,
                             VerifyOverlay(plan, AsLine(forked)));
        ASSERT_OK_AND_ASSIGN(const std::vector<OverlayFinding> in_fork,
                             VerifyOverlay(plan, forked));
        EXPECT_TRUE(in_line.empty() || !in_fork.empty());
        safe_in_a_line_alone += in_line.empty() && !in_fork.empty() ? 1 : 0;
      }
    }
    EXPECT_GT(safe_in_a_line_alone, 0);
  }
}

/// Decode and prefill of a model whose steps fork, and its sizes.
struct Lane {
  std::vector<BufferSize> sizes;
  std::vector<StepDag> steps;
};

Lane ForkedLane(const std::string& preset) {
  const ModelConfig config = Preset(preset);
  ServingLimits limits;
  limits.max_batch_tokens = 2048;
  Lane lane;
  const auto sizes = ComputeBufferSizes(config, limits);
  EXPECT_OK(sizes.status());
  lane.sizes = sizes.value_or(std::vector<BufferSize>());
  for (const StepPhase phase : kPhases) {
    lane.steps.push_back(
        DeclareStep(config, limits, phase, StepStreams::kForked));
  }
  return lane;
}

/// How many pairs of buffers the verifier finds at fault where the plan is made
/// for one lane's steps and another's run.
size_t FaultsOfPlanFor(const std::vector<StepDag>& planned, const Lane& run) {
  const auto plan = PlanArenaWithOverlay(run.sizes, {}, planned);
  EXPECT_OK(plan.status());
  const auto findings = VerifyOverlayOfLane(plan->plan, run.steps);
  EXPECT_OK(findings.status());
  return findings->size();
}

// Where issue order and the fork differ, a plan need not use the difference,
// but of many plans some do.
TEST(DeclaredStepsTest, PlansFromIssueOrderAreFoundOnTheFork) {
  std::set<std::string> found;
  for (const std::string& preset : ModelPresets()) {
    SCOPED_TRACE(preset);
    const Lane both = ForkedLane(preset);
    for (const StepDag& step : both.steps) {
      const Lane lane = {.sizes = both.sizes, .steps = {step}};
      EXPECT_EQ(FaultsOfPlanFor(lane.steps, lane), 0u);
      if (FaultsOfPlanFor({AsLine(step)}, lane) > 0) {
        found.insert(preset + ": " + step.name);
      }
    }
  }
  EXPECT_THAT(found, Contains(StartsWith("qwen3-next-80b-a3b: ")));
}

TEST(DeclaredStepsTest, APlanIsFoundWhereItsJoinsDoNotWait) {
  Lane lane = ForkedLane("deepseek-v3");
  const std::vector<StepDag> planned = lane.steps;
  EXPECT_EQ(FaultsOfPlanFor(planned, lane), 0u);
  for (StepDag& step : lane.steps) {
    for (StepEdge& edge : step.edges) edge.kind = EdgeKind::kProgrammatic;
  }
  EXPECT_GT(FaultsOfPlanFor(planned, lane), 0u);
  for (StepDag& step : lane.steps) {
    for (StepOp& op : step.ops) op.waits_on_grid_dependency = true;
  }
  EXPECT_EQ(FaultsOfPlanFor(planned, lane), 0u);
}

TEST(DeclaredStepsTest, AStepWithoutAUseThatThereIsMakesAPlanThatIsFound) {
  const Lane lane = ForkedLane("qwen3-next-80b-a3b");
  std::set<std::string> found;
  for (const std::string& buffer : BuffersOf(lane.steps[0])) {
    std::vector<StepDag> forgetful = lane.steps;
    for (StepDag& step : forgetful) {
      for (StepOp& op : step.ops) {
        op.accesses.erase(std::remove_if(op.accesses.begin(), op.accesses.end(),
                                         [&](const BufferAccess& access) {
                                           return access.buffer == buffer &&
                                                  access.access ==
                                                      Access::kRead;
                                         }),
                          op.accesses.end());
      }
    }
    if (FaultsOfPlanFor(forgetful, lane) > 0) found.insert(buffer);
  }
  EXPECT_THAT(found, IsSupersetOf({"norm_output", "qkv_output", "ssm_gates",
                                   "moe_fp8_scratch"}));
}

TEST(DeclaredStepsTest, AConfigWithoutLayersIsTakenForFullAttention) {
  ModelConfig config = Preset("llama-3.1-8b");
  const StepDag with = DeclareStep(config, ManyLimits()[0], StepPhase::kDecode,
                                   StepStreams::kOne);
  config.layers.clear();
  const StepDag without = DeclareStep(config, ManyLimits()[0],
                                      StepPhase::kDecode, StepStreams::kOne);
  EXPECT_EQ(with.ops.size(), without.ops.size());
}

}  // namespace
}  // namespace permafrost
