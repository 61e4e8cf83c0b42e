// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
//
// What a run prints and writes: the schema's keys and types, and the label that
// goes with every time of the interpreter.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "program.h"

namespace permafrost::bench {
namespace {

using ::testing::HasSubstr;

using Json = nlohmann::json;

class ReportTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const TemporaryFolder folder;
    const std::string path = folder.path() + "/out.json";
    result_ = new ProgramResult(
        RunReplayLatency({"--config=" + folder.Write("tiny.json", TinyConfig()),
                          "--buckets=1,4", "--samples=12", "--json", path}));
    json_ = new Json(Json::parse(ReadFile(path), nullptr, false));
  }
  static void TearDownTestSuite() {
    delete result_;
    delete json_;
  }

  // The value at a path such as "driver.kind"; null when there is none.
  static Json At(const std::string& path) {
    Json value = *json_;
    for (absl::string_view part : absl::StrSplit(path, '.')) {
      const std::string key(part);
      if (!value.contains(key)) {
        ADD_FAILURE() << path << " is not in the report";
        return nullptr;
      }
      value = Json(value.at(key));
    }
    return value;
  }

  static ProgramResult* result_;
  static Json* json_;
};

ProgramResult* ReportTest::result_ = nullptr;
Json* ReportTest::json_ = nullptr;

TEST_F(ReportTest, HasEveryKeyOfTheSchema) {
  ASSERT_EQ(result_->exit_code, 0) << result_->out << result_->err;
  EXPECT_EQ(At("schema"), "permafrost.replay_latency/1");
  EXPECT_EQ(At("driver.kind"), "softcuda");
  EXPECT_TRUE(At("driver.device").is_string());
  EXPECT_EQ(At("timing_is_gpu"), false);
  EXPECT_EQ(At("timing_note"), "interpreter time, not a GPU figure");
  EXPECT_THAT(At("model").get<std::string>(), HasSubstr("tiny.json"));
  EXPECT_EQ(At("shape.config.layers"), 4);
  EXPECT_EQ(At("shape.used.layers"), 1);
  EXPECT_EQ(At("shape.used.hidden"), 256);
  EXPECT_EQ(At("shape.used.experts"), 8);
  EXPECT_EQ(At("shape.used.distinct_experts"), 8);
  EXPECT_EQ(At("shape.reduced_by"), Json({"--layers 1 of 4"}));
  EXPECT_EQ(At("weights.values"), "random");
  EXPECT_GT(At("arena.bytes"), 0);
  // Every row of the table, absent buffers with their reason included.
  EXPECT_GE(At("arena.buffers").size(), 46U);
  EXPECT_TRUE(At("arena.fingerprint").is_string());
  EXPECT_EQ(At("arena.fingerprint_after"), At("arena.fingerprint"));
  EXPECT_EQ(At("arena.epoch"), 1);
  EXPECT_EQ(At("counters.captures"), 2);
  EXPECT_GT(At("counters.replays"), 24);
  EXPECT_EQ(At("counters.fallbacks"), 0);
  EXPECT_EQ(At("counters.recaptures"), 0);
  EXPECT_EQ(At("counters.allocations_after_freeze"), 0);
  EXPECT_EQ(At("verification.addresses_stable"), true);
  EXPECT_EQ(At("verification.results_stable"), true);
  EXPECT_EQ(At("verification.audit_findings"), 0);
  EXPECT_EQ(At("verification.inputs"),
            Json({"balanced", "skewed", "shrinking", "empty"}));
  EXPECT_GT(At("verification.compared_bytes"), 0);
  EXPECT_GT(At("verification.compared_nodes"), 0);
}

TEST_F(ReportTest, EachBucketHasItsTimesOrNull) {
  const Json buckets = At("buckets");
  ASSERT_EQ(buckets.size(), 2U);
  for (const Json& bucket : buckets) {
    // One memcpy and nine kernels.
    EXPECT_EQ(bucket.at("nodes"), 10);
    EXPECT_EQ(bucket.at("samples"), 12);
    for (const char* name :
         {"eager_host_ns", "replay_host_ns", "end_to_end_ns"}) {
      const Json& times = bucket.at(name);
      EXPECT_GT(times.at("p50"), 0) << name;
      EXPECT_GE(times.at("p90"), times.at("p50")) << name;
      EXPECT_EQ(times.at("p99"), nullptr) << name << " of 12 samples";
    }
    for (const char* percentile : {"p50", "p90", "p99"}) {
      EXPECT_EQ(bucket.at("replay_device_ns").at(percentile), nullptr)
          << "softcuda has no device time";
    }
  }
  EXPECT_EQ(buckets[0].at("rows"), 1);
  EXPECT_EQ(buckets[1].at("rows"), 4);
}

TEST_F(ReportTest, EveryTimeIsLabelledAsTheInterpreters) {
  int times = 0;
  for (absl::string_view line : absl::StrSplit(result_->out, '\n')) {
    if (!absl::StrContains(line, "host enqueue") &&
        !absl::StrContains(line, "replay, device") &&
        !absl::StrContains(line, "end to end") &&
        !absl::StrContains(line, "microseconds")) {
      continue;
    }
    ++times;
    EXPECT_THAT(std::string(line),
                HasSubstr("interpreter time, not a GPU figure"));
  }
  EXPECT_EQ(times, 1 + 2 * 4);
}

TEST_F(ReportTest, PrintsTheArenaTheAuditAndTheVerdicts) {
  for (const char* text :
       {"driver: softcuda", "moe_fp8_scratch", "expert_down_out",
        "address fingerprint: 0x", "weights: random",
        "0 device allocations after freeze", "addresses stable: yes",
        "results stable: yes", "result: PASS"}) {
    EXPECT_THAT(result_->out, HasSubstr(text));
  }
}

TEST_F(ReportTest, HelpListsEveryFlag) {
  const ProgramResult help = RunReplayLatency({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  for (const char* flag :
       {"--config", "--layers", "--buckets", "--distinct-experts", "--json",
        "--plant", "--samples", "--replays", "--seed", "--guard-bytes"}) {
    EXPECT_THAT(help.out, HasSubstr(flag));
  }
}

}  // namespace
}  // namespace permafrost::bench
