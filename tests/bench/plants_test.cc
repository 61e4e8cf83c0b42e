// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// Every fault that --plant can put into a run is found there, by the part that
// should find it and by name; without a fault the same run proves everything.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "program.h"

namespace permafrost::bench {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

struct PlantCase {
  const char* name;
  bool addresses_stable;
  bool results_stable;
  /// Texts that the output must have: who found it, and what it names.
  std::vector<const char*> named;
};

const PlantCase kPlants[] = {
    {"builder-skips-total", true, false, {"moe_fp8_scratch"}},
    {"consumer-reads-past-total",
     true,
     false,
     {"initcheck", "moe_fp8_scratch", "moe_gemm"}},
    {"write-past-buffer",
     false,
     false,
     {"memcheck", "moe_build_worklist", "moe_fp8_scratch"}},
    {"alloc-in-capture",
     false,
     false,
     {"cuMemAlloc", "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "decode"}},
    {"foreign-address", false, false, {"foreign address", "memcpy", "src"}},
    {"skipped-replay", true, false, {"did not write 'moe_output'"}},
    {"remapped-buffer", false, false, {"hidden_states"}},
    {"changed-node-param", false, true, {"moe_combine"}},
};

std::string NameOfPlant(const ::testing::TestParamInfo<PlantCase>& info) {
  std::string name;
  for (absl::string_view part : absl::StrSplit(info.param.name, '-')) {
    std::string word(part);
    word[0] = static_cast<char>(word[0] - 'a' + 'A');
    name += word;
  }
  return name;
}

ProgramResult RunTiny(const TemporaryFolder& folder,
                      std::vector<std::string> arguments) {
  arguments.push_back("--config=" + folder.Write("tiny.json", TinyConfig()));
  arguments.push_back("--buckets=1,4");
  return RunReplayLatency(arguments);
}

class PlantTest : public ::testing::TestWithParam<PlantCase> {};

TEST_P(PlantTest, IsFoundAndNamed) {
  const PlantCase& plant = GetParam();
  const TemporaryFolder folder;
  const std::string json_path = folder.path() + "/out.json";
  const ProgramResult result =
      RunTiny(folder, {absl::StrCat("--plant=", plant.name),
                       absl::StrCat("--json=", json_path)});
  SCOPED_TRACE(result.out + result.err);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.last_line(), MatchesRegex("result: FAIL \\(.+\\)"));
  const auto yes_no = [](bool value) { return value ? "yes" : "no"; };
  EXPECT_TRUE(result.has_line(
      absl::StrCat("addresses stable: ", yes_no(plant.addresses_stable))));
  EXPECT_TRUE(result.has_line(
      absl::StrCat("results stable: ", yes_no(plant.results_stable))));
  for (const char* text : plant.named) EXPECT_THAT(result.out, HasSubstr(text));

  const nlohmann::json json = nlohmann::json::parse(ReadFile(json_path));
  EXPECT_EQ(json["plant"], plant.name);
  EXPECT_EQ(json["result"], "FAIL");
  EXPECT_EQ(json["exit_code"], 1);
  const nlohmann::json& verification = json["verification"];
  EXPECT_EQ(verification["addresses_stable"], plant.addresses_stable);
  EXPECT_EQ(verification["results_stable"], plant.results_stable);
  EXPECT_FALSE(verification["findings"].empty() &&
               json["audit"]["findings"].empty());
  // A graph that is not proven is not timed.
  for (const nlohmann::json& bucket : json["buckets"]) {
    EXPECT_EQ(bucket["samples"], 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Plants, PlantTest, ::testing::ValuesIn(kPlants),
                         NameOfPlant);

TEST(PlantHelpTest, ListsExactlyTheFaultsThatAreTested) {
  const ProgramResult result = RunReplayLatency({"--plant=help"});
  EXPECT_EQ(result.exit_code, 0);
  std::string names;
  for (const PlantCase& plant : kPlants)
    absl::StrAppend(&names, plant.name, "\n");
  EXPECT_EQ(result.out, names);
  EXPECT_EQ(result.err, "");
}

TEST(PlantHelpTest, UnknownFaultIsBadInput) {
  const ProgramResult result = RunReplayLatency({"--plant=no-such-fault"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("--plant: got 'no-such-fault'"),
                                HasSubstr("skipped-replay")));
}

TEST(CleanRunTest, WithoutAFaultEverythingIsProven) {
  const TemporaryFolder folder;
  const std::string json_path = folder.path() + "/out.json";
  const ProgramResult result =
      RunTiny(folder, {absl::StrCat("--json=", json_path)});
  SCOPED_TRACE(result.out + result.err);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.last_line(), "result: PASS");
  EXPECT_TRUE(result.has_line("addresses stable: yes"));
  EXPECT_TRUE(result.has_line("results stable: yes"));
  EXPECT_EQ(result.err, "");
  const nlohmann::json json = nlohmann::json::parse(ReadFile(json_path));
  EXPECT_EQ(json["result"], "PASS");
  EXPECT_EQ(json["plant"], nullptr);
  EXPECT_EQ(json["verification"]["addresses_stable"], true);
  EXPECT_EQ(json["verification"]["results_stable"], true);
  EXPECT_EQ(json["verification"]["audit_findings"], 0);
  EXPECT_TRUE(json["verification"]["findings"].empty());
}

TEST(CleanRunTest, WithoutGuardsEverythingIsProven) {
  const TemporaryFolder folder;
  const ProgramResult result = RunTiny(folder, {"--guard-bytes=0"});
  SCOPED_TRACE(result.out + result.err);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.last_line(), "result: PASS");
}

TEST(CleanRunTest, SeveralLayersWithSharedExpertsAreProven) {
  const TemporaryFolder folder;
  const ProgramResult result =
      RunTiny(folder, {"--layers=2", "--distinct-experts", "3"});
  SCOPED_TRACE(result.out + result.err);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(
      std::vector<std::string>(absl::StrSplit(result.out, '\n')),
      Contains("reduced by: --layers 2 of 4; --distinct-experts 3 of 8"));
  EXPECT_THAT(result.last_line(), StartsWith("result: PASS"));
}

}  // namespace
}  // namespace permafrost::bench
