// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// `permafrost plan`, `map` and `diff` as processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "permafrost/arena/arena_plan.h"
#include "permafrost/arena/buffer_table.h"
#include "permafrost/arena/declared_steps.h"
#include "permafrost/arena/overlay.h"
#include "permafrost/arena/plan_json.h"
#include "tests/support/program.h"
#include "tests/support/status_matchers.h"

namespace permafrost::tool {
namespace {

using ::permafrost::testing::ProgramResult;
using ::permafrost::testing::ReadFile;
using ::permafrost::testing::RunProgram;
using ::permafrost::testing::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kModel[] = "qwen3-30b-a3b";

ProgramResult Permafrost(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), PERMAFROST_TOOL);
  return RunProgram(std::move(arguments), {});
}

ProgramResult PlanAsJson(const std::string& model,
                         std::vector<std::string> flags) {
  flags.insert(flags.begin(), {"plan", model, "--json"});
  return Permafrost(std::move(flags));
}

std::string LibraryPlan(const std::string& model, const ServingLimits& limits,
                        const PlanOptions& options = {}) {
  const absl::StatusOr<ModelConfig> config = LoadModelConfig(model);
  EXPECT_OK(config.status());
  absl::StatusOr<std::vector<BufferSize>> sizes =
      ComputeBufferSizes(*config, limits);
  EXPECT_OK(sizes.status());
  const absl::StatusOr<ArenaPlan> plan = PlanArena(*std::move(sizes), options);
  EXPECT_OK(plan.status());
  return PlanToJson(*plan);
}

TEST(PlanProgramTest, JsonIsThePlanWithNameBytesAndOffset) {
  const ProgramResult result = PlanAsJson(kModel, {"--max-batch-tokens=8"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(result.out, LibraryPlan(kModel, {.max_batch_tokens = 8}));
  const nlohmann::json json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["schema"], kPlanSchema);
  for (const nlohmann::json& buffer : json["buffers"]) {
    EXPECT_TRUE(buffer["name"].is_string());
    EXPECT_TRUE(buffer["bytes"].is_number_integer());
    EXPECT_TRUE(buffer["offset"].is_number_integer());
  }
}

TEST(PlanProgramTest, TextIsTheTableAndAVerdict) {
  const ProgramResult result =
      Permafrost({"plan", kModel, "--max-batch-tokens", "8"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out,
              AllOf(StartsWith(absl::StrCat(kModel, " --max-batch-tokens=8\n")),
                    HasSubstr("hidden_states"), HasSubstr("segment 'step'"),
                    HasSubstr("absent: ")));
  EXPECT_EQ(result.last_line(), "result: PASS");
}

// Each flag reaches its field, and a model shows it in its sizes.
TEST(PlanProgramTest, EveryLimitHasItsFlag) {
  struct FlagCase {
    const char* flag;
    const char* model;
    ServingLimits limits;
  };
  constexpr char kGated[] = "qwen3-next-80b-a3b";
  const FlagCase cases[] = {
      {"--max-batch-size=200",
       kModel,
       {.max_batch_tokens = 256, .max_batch_size = 200}},
      {"--max-seq-len=65536",
       kModel,
       {.max_batch_tokens = 256, .max_seq_len = 65536}},
      {"--kv-block-size=32",
       kModel,
       {.max_batch_tokens = 256, .kv_block_size = 32}},
      {"--sm-count=78", kModel, {.max_batch_tokens = 256, .sm_count = 78}},
      {"--lora-rank=16", kModel, {.max_batch_tokens = 256, .lora_rank = 16}},
      {"--draft-tokens=3",
       kModel,
       {.max_batch_tokens = 256, .draft_tokens = 3}},
      {"--split-k=legacy",
       kModel,
       {.max_batch_tokens = 256, .split_k = SplitKPolicy::kLegacy}},
      {"--four-bit-weights",
       "llama-3.1-8b",
       {.max_batch_tokens = 256, .four_bit_weights = true}},
      {"--two-bit-weights",
       kModel,
       {.max_batch_tokens = 256, .two_bit_weights = true}},
      {"--rowwise-bf16-copies",
       kGated,
       {.max_batch_tokens = 256, .rowwise_bf16_copies = true}},
      {"--rules=seed",
       kModel,
       {.max_batch_tokens = 256, .rules = SizeRules::kSeed}},
  };
  for (const FlagCase& flag : cases) {
    SCOPED_TRACE(flag.flag);
    const ProgramResult result =
        PlanAsJson(flag.model, {"--max-batch-tokens=256", flag.flag});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_EQ(result.out, LibraryPlan(flag.model, flag.limits));
    EXPECT_NE(result.out, LibraryPlan(flag.model, {.max_batch_tokens = 256}));
  }
}

TEST(PlanProgramTest, GranularityAndGuardAreThePlans) {
  const ProgramResult result =
      PlanAsJson(kModel, {"--max-batch-tokens=8", "--guard-bytes=512",
                          "--granularity-bytes=65536"});
  EXPECT_EQ(result.out,
            LibraryPlan(kModel, {.max_batch_tokens = 8},
                        {.granularity_bytes = 65536, .guard_bytes = 512}));
}

TEST(PlanProgramTest, OverlayIsForTheDeclaredStepsThatWereAskedFor) {
  const ServingLimits limits = {.max_batch_tokens = 64};
  ASSERT_OK_AND_ASSIGN(const ModelConfig config, LoadModelConfig(kModel));
  ASSERT_OK_AND_ASSIGN(const std::vector<BufferSize> sizes,
                       ComputeBufferSizes(config, limits));
  const auto expected = [&](std::vector<StepPhase> phases,
                            StepStreams streams) {
    std::vector<StepDag> steps;
    for (const StepPhase phase : phases) {
      steps.push_back(DeclareStep(config, limits, phase, streams));
    }
    return PlanToJson(PlanArenaWithOverlay(sizes, {}, steps)->plan);
  };
  EXPECT_EQ(PlanAsJson(kModel, {"--max-batch-tokens=64", "--overlay=on"}).out,
            expected({StepPhase::kDecode, StepPhase::kPrefill},
                     StepStreams::kForked));
  EXPECT_EQ(PlanAsJson(kModel, {"--max-batch-tokens=64", "--overlay=on",
                                "--steps=prefill", "--streams=one"})
                .out,
            expected({StepPhase::kPrefill}, StepStreams::kOne));
}

TEST(PlanProgramTest, OverlayTextHasTheBoundAndWhyBuffersShareNothing) {
  const ProgramResult result =
      Permafrost({"plan", kModel, "--max-batch-tokens=64", "--overlay=on"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, AllOf(HasSubstr("lower bound: "),
                                HasSubstr("logits: the host touches it")));
  EXPECT_EQ(result.last_line(), "result: PASS");
}

TEST(PlanProgramTest, FileGetsTheDocumentAndStdoutSaysSo) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/plan.json";
  const ProgramResult result = Permafrost(
      {"plan", kModel, "--max-batch-tokens=8", absl::StrCat("--json=", path)});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr(absl::StrCat("wrote ", path)));
  EXPECT_EQ(ReadFile(path), LibraryPlan(kModel, {.max_batch_tokens = 8}));
}

TEST(PlanProgramTest, FullStandardOutputIsNoSuccess) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  const ProgramResult result =
      RunProgram({"/bin/sh", "-c",
                  absl::StrCat("exec '", PERMAFROST_TOOL, "' plan ", kModel,
                               " --max-batch-tokens=8 --json > /dev/full")},
                 {});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("writing the output failed"));
}

TEST(PlanProgramTest, HelpAndVersionArePrintedAlone) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"--help"},
                                             {"--version"},
                                             {"plan", "--help"},
                                             {"map", "-h"},
                                             {"diff", "--help"},
                                             {"doctor", "--help"}}) {
    const ProgramResult result = Permafrost(arguments);
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.out, HasSubstr("permafrost"));
    EXPECT_THAT(result.out, Not(HasSubstr("result:")));
  }
}

class DiffProgramTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& plan) {
    return folder_.Write(name, plan);
  }
  const std::string small_ = LibraryPlan(kModel, {.max_batch_tokens = 8});
  const std::string large_ = LibraryPlan(kModel, {.max_batch_tokens = 16});
  TemporaryFolder folder_;
};

TEST_F(DiffProgramTest, EqualPlansAreEqual) {
  const std::string a = Write("a.json", small_);
  const ProgramResult result = Permafrost({"diff", a, Write("b.json", small_)});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "the plans are equal\nresult: PASS\n");
}

TEST_F(DiffProgramTest, WhatChangedIsListedAndExitsOne) {
  const std::string a = Write("a.json", small_);
  const std::string b = Write("b.json", large_);
  const ProgramResult result = Permafrost({"diff", a, b});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("changed  buffer 'hidden_states' bytes: "));
  EXPECT_THAT(result.last_line(),
              MatchesRegex("result: FAIL \\([0-9]+ differences\\)"));
  const ProgramResult document = Permafrost({"diff", a, b, "--json"});
  EXPECT_EQ(document.exit_code, 1);
  const nlohmann::json json = nlohmann::json::parse(document.out);
  EXPECT_EQ(json["schema"], "permafrost.plan_diff/1");
  EXPECT_EQ(json["changes"][0]["kind"], "changed");
}

TEST_F(DiffProgramTest, NameThatActsOnATerminalIsDisarmed) {
  nlohmann::json plan = nlohmann::json::parse(small_);
  plan["buffers"][0]["meaning"] = "x\x1B[2J\nadded    buffer 'y'";
  const ProgramResult result = Permafrost(
      {"diff", Write("a.json", small_), Write("b.json", plan.dump())});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out.find('\x1B'), std::string::npos);
  EXPECT_THAT(result.out, Not(HasSubstr("\nadded")));
}

TEST_F(DiffProgramTest, EditedPlanWithAnOverlapIsRefusedByName) {
  nlohmann::json plan = nlohmann::json::parse(small_);
  nlohmann::json& buffers = plan["buffers"];
  buffers[1]["offset"] = buffers[0]["offset"];
  const std::string bad = Write("bad.json", plan.dump());
  const ProgramResult result =
      Permafrost({"diff", Write("a.json", small_), bad});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(
      result.err,
      AllOf(HasSubstr(bad), HasSubstr(buffers[0]["name"].get<std::string>()),
            HasSubstr(buffers[1]["name"].get<std::string>())));
}

TEST_F(DiffProgramTest, PlanOfAnotherVersionIsRefused) {
  const std::string other = Write(
      "other.json", absl::StrReplaceAll(
                        small_, {{"permafrost.plan/1", "permafrost.plan/2"}}));
  const ProgramResult result =
      Permafrost({"diff", other, Write("a.json", small_)});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr(other), HasSubstr("permafrost.plan/2"),
                    HasSubstr("permafrost.plan/1")));
}

TEST(MapProgramTest, WritesBothPictures) {
  const TemporaryFolder folder;
  const std::string svg = folder.path() + "/map.svg";
  const std::string html = folder.path() + "/map.html";
  const ProgramResult result =
      Permafrost({"map", kModel, "--max-batch-tokens=8", "--overlay=on",
                  absl::StrCat("--svg=", svg), absl::StrCat("--html=", html)});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(ReadFile(svg),
              AllOf(StartsWith("<svg "), HasSubstr("decode on two streams"),
                    HasSubstr("prefill on two streams")));
  EXPECT_THAT(ReadFile(html), StartsWith("<!DOCTYPE html>"));
  EXPECT_EQ(result.last_line(), "result: PASS");
}

TEST(MapProgramTest, PlanFileIsDrawnAndDocumentStaysAlone) {
  const TemporaryFolder folder;
  const std::string plan =
      folder.Write("plan.json", LibraryPlan(kModel, {.max_batch_tokens = 8}));
  const std::string html = folder.path() + "/map.html";
  const ProgramResult result =
      Permafrost({"map", plan, "--svg", absl::StrCat("--html=", html)});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, MatchesRegex("<svg (.|\n)*</svg>\n"));
  EXPECT_THAT(result.err, HasSubstr(absl::StrCat("wrote ", html)));
}

TEST(MapProgramTest, FailedPictureLeavesTheOldOne) {
  const TemporaryFolder folder;
  const std::string svg = folder.Write("map.svg", "old");
  const ProgramResult result = Permafrost(
      {"map", folder.Write("plan.json", "{}"), absl::StrCat("--svg=", svg)});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(ReadFile(svg), "old");
}

struct BadInputCase {
  const char* name;
  std::vector<std::string> arguments;
  std::vector<std::string> messages;
};

const BadInputCase kBadInputs[] = {
    {"NoCommand", {}, {"plan, map, diff, doctor"}},
    {"UnknownCommand", {"plot"}, {"'plot'", "plan, map, diff, doctor"}},
    {"NoConfig", {"plan"}, {"CONFIG", "missing"}},
    {"NoTokens", {"plan", kModel}, {"max_batch_tokens", "got 0"}},
    {"UnknownPreset",
     {"plan", "no-such-model", "--max-batch-tokens=8"},
     {"no-such-model", kModel}},
    {"OverflowingShape",
     {"plan", "deepseek-v3", "--max-batch-tokens=9223372036854775807"},
     {"9223372036854775807"}},
    {"LimitOutOfRange",
     {"plan", kModel, "--max-batch-tokens=8", "--kv-block-size=-1"},
     {"kv_block_size", "-1"}},
    {"MisspeltWord",
     {"plan", kModel, "--max-batch-tokens=8", "--overlay=yes"},
     {"--overlay", "'yes'", "off, on"}},
    {"FlagOfAnotherCommand",
     {"plan", kModel, "--max-batch-tokens=8", "--svg=x.svg"},
     {"--svg", "--overlay"}},
    {"GuardOffTheGrid",
     {"plan", kModel, "--max-batch-tokens=8", "--guard-bytes=100"},
     {"guard_bytes", "100", "256"}},
    {"JsonCannotBeWritten",
     {"plan", kModel, "--max-batch-tokens=8", "--json=/nonexistent/x.json"},
     {"--json", "/nonexistent/x.json"}},
    {"OnePlanOfTwo", {"diff", "a.json"}, {"AFTER", "1 of 2"}},
    {"PlanIsNotThere",
     {"diff", "/nonexistent/a.json", "/nonexistent/b.json"},
     {"/nonexistent/a.json"}},
    {"NowhereToDraw",
     {"map", kModel, "--max-batch-tokens=8"},
     {"--svg", "--html"}},
    {"TwoDocumentsOnOneOutput",
     {"map", kModel, "--max-batch-tokens=8", "--svg", "--html"},
     {"--svg", "--html", "standard output"}},
    {"ModelWithoutTokens",
     {"map", kModel, "--svg=/nonexistent/x.svg"},
     {kModel, "--max-batch-tokens"}},
    {"PlanningFlagBesideAPlan",
     {"map", "plan.json", "--overlay=on", "--svg=/nonexistent/x.svg"},
     {"--overlay", "plan file", "--max-batch-tokens"}},
};

class BadInputTest : public ::testing::TestWithParam<BadInputCase> {};

TEST_P(BadInputTest, IsNamedAndRefused) {
  const ProgramResult result = Permafrost(GetParam().arguments);
  SCOPED_TRACE(result.out + result.err);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.last_line(), MatchesRegex("result: FAIL \\(.+\\)"));
  for (const std::string& message : GetParam().messages) {
    EXPECT_THAT(result.err, HasSubstr(message));
  }
}

INSTANTIATE_TEST_SUITE_P(
    PlanProgramTest, BadInputTest, ::testing::ValuesIn(kBadInputs),
    [](const ::testing::TestParamInfo<BadInputCase>& param) {
      return std::string(param.param.name);
    });

}  // namespace
}  // namespace permafrost::tool
