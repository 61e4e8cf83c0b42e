// SPDX-FileCopyrightText: The permafrost authors
// SPDX-License-Identifier: Apache-2.0
#include "permafrost/arena/plan_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "permafrost/arena/model_config.h"
#include "permafrost/arena/overlay.h"
#include "permafrost/arena/plan_diff.h"
#include "tests/support/status_matchers.h"

namespace permafrost {
namespace {

using ::permafrost::testing::StatusIs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Json = nlohmann::json;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

BufferSize Size(const char* name, int64_t bytes) {
  BufferSize size;
  size.name = name;
  size.bytes = bytes;
  size.tag = "step";
  if (bytes == 0) size.gate_reason = "not in this test";
  return size;
}

ArenaPlan Small() {
  std::vector<BufferSize> sizes = {Size("a", 1000), Size("b", 256),
                                   Size("none", 0), Size("c", 4096)};
  sizes[3].sleep = SleepPolicy::kKeep;
  sizes[3].lifetime = Lifetime::kState;
  absl::StatusOr<ArenaPlan> plan =
      PlanArena(std::move(sizes), {.guard_bytes = 256});
  return *std::move(plan);
}

// a, then b from it, then c from it: a and c are never alive together.
ArenaPlan Overlaid() {
  StepDag step;
  step.name = "chain";
  step.ops = {{.name = "first",
               .accesses = {{.buffer = "a", .access = Access::kWrite}}},
              {.name = "second",
               .accesses = {{.buffer = "a", .access = Access::kRead},
                            {.buffer = "b", .access = Access::kWrite}}},
              {.name = "third",
               .accesses = {{.buffer = "b", .access = Access::kRead},
                            {.buffer = "c", .access = Access::kWrite}}}};
  step.edges = {{0, 1}, {1, 2}};
  absl::StatusOr<OverlaidPlan> plan = PlanArenaWithOverlay(
      {Size("a", 1000), Size("b", 256), Size("c", 512)}, {}, {&step, 1});
  return std::move(plan->plan);
}

absl::Status ReadEdited(const ArenaPlan& plan,
                        const std::function<void(Json&)>& edit) {
  Json json = Json::parse(PlanToJson(plan));
  edit(json);
  return PlanFromJson(json.dump(), "edited.json").status();
}

TEST(PlanJsonTest, EveryPresetComesBackAsItWas) {
  for (const std::string& preset : ModelPresets()) {
    ASSERT_OK_AND_ASSIGN(const ModelConfig config, LoadModelConfig(preset));
    for (const SizeRules rules : {SizeRules::kOurs, SizeRules::kSeed}) {
      ServingLimits limits = {.max_batch_tokens = 2048};
      limits.rules = rules;
      ASSERT_OK_AND_ASSIGN(std::vector<BufferSize> sizes,
                           ComputeBufferSizes(config, limits));
      ASSERT_OK_AND_ASSIGN(const ArenaPlan plan,
                           PlanArena(std::move(sizes), {.guard_bytes = 256}));
      const std::string text = PlanToJson(plan);
      ASSERT_OK_AND_ASSIGN(const ArenaPlan back, PlanFromJson(text, preset));
      EXPECT_THAT(DiffPlans(plan, back), IsEmpty()) << preset;
      EXPECT_EQ(PlanToJson(back), text) << preset;
    }
  }
}

TEST(PlanJsonTest, SharedBytesComeBack) {
  const ArenaPlan plan = Overlaid();
  ASSERT_THAT(plan.Find("a")->shares_with, SizeIs(1));
  ASSERT_OK_AND_ASSIGN(const ArenaPlan back,
                       PlanFromJson(PlanToJson(plan), "overlaid.json"));
  EXPECT_THAT(DiffPlans(plan, back), IsEmpty());
  EXPECT_EQ(back.options().overlay, Overlay::kOn);
}

// A field that the JSON forgets would come back with its default.
TEST(PlanJsonTest, EveryFieldIsInTheFile) {
  PlannedBuffer buffer;
  buffer.name = "n";
  buffer.offset_bytes = 512;
  buffer.bytes = 3;
  buffer.gate_reason = "r";
  buffer.element = ElementType::kF32;
  buffer.lifetime = Lifetime::kState;
  buffer.toucher = Toucher::kHostWritesDeviceReads;
  buffer.tag = "t";
  buffer.meaning = "m";
  buffer.sized_by = "s";
  buffer.shares_with = {"o"};
  buffer.sleep = SleepPolicy::kRestore;
  PlannedSegment segment;
  segment.tag = "t";
  segment.sleep = SleepPolicy::kZero;
  segment.offset_bytes = 768;
  segment.bytes = 1024;
  PlanOptions options;
  options.granularity_bytes = 1280;
  options.guard_bytes = 1536;
  options.overlay = Overlay::kOn;
  const Json json = Json::parse(
      PlanToJson(ArenaPlan::FromParts({buffer}, {segment}, 1792, options)));
  EXPECT_EQ(json["total_bytes"], 1792);
  EXPECT_EQ(json["options"], Json({{"granularity_bytes", 1280},
                                   {"guard_bytes", 1536},
                                   {"overlay", "on"}}));
  EXPECT_EQ(
      json["segments"][0],
      Json(
          {{"tag", "t"}, {"sleep", "zero"}, {"offset", 768}, {"bytes", 1024}}));
  EXPECT_EQ(json["buffers"][0], Json({{"name", "n"},
                                      {"bytes", 3},
                                      {"offset", 512},
                                      {"element", "f32"},
                                      {"lifetime", "state"},
                                      {"toucher", "host writes, device reads"},
                                      {"tag", "t"},
                                      {"sleep", "restore"},
                                      {"shares_with", {"o"}},
                                      {"sized_by", "s"},
                                      {"gate_reason", "r"},
                                      {"meaning", "m"}}));
}

TEST(PlanJsonTest, AnotherVersionIsRefusedBeforeAnythingElse) {
  EXPECT_THAT(ReadEdited(Small(),
                         [](Json& json) {
                           json["schema"] = "permafrost.plan/2";
                           json["later"] = 1;
                         }),
              StatusIs(kInvalid, AllOf(HasSubstr("edited.json"),
                                       HasSubstr("permafrost.plan/2"),
                                       HasSubstr("\"permafrost.plan/1\""))));
}

TEST(PlanJsonTest, AFileEditedSoThatTwoRangesOverlapIsRefused) {
  const auto overlap = [](Json& json) {
    json["buffers"][1]["offset"] = json["buffers"][0]["offset"];
  };
  EXPECT_THAT(ReadEdited(Small(), overlap),
              StatusIs(kInvalid, AllOf(HasSubstr("'a'"), HasSubstr("'b'"))));
  EXPECT_THAT(ReadEdited(Overlaid(), overlap),
              StatusIs(kInvalid, AllOf(HasSubstr("'a'"), HasSubstr("'b'"))));
  EXPECT_OK(ReadEdited(Small(), [](Json&) {}));
}

// Whatever is done to a key, the file is read or the error names it.
TEST(PlanJsonTest, EveryKeyIsReadOrRefusedByName) {
  const Json whole = Json::parse(PlanToJson(Small()));
  const std::vector<Json> values = {nullptr,
                                    -1,
                                    0.5,
                                    true,
                                    "x",
                                    Json::array(),
                                    Json::object(),
                                    Json::array({1}),
                                    1e300,
                                    int64_t{1} << 62,
                                    18446744073709551615u};
  const auto try_all = [&](const Json::json_pointer& object,
                           const std::string& key) {
    Json missing = whole;
    missing[object].erase(key);
    EXPECT_THAT(PlanFromJson(missing.dump(), "m").status(),
                StatusIs(kInvalid, HasSubstr(key)));
    for (const Json& value : values) {
      Json edited = whole;
      edited[object][key] = value;
      const absl::Status status = PlanFromJson(edited.dump(), "m").status();
      if (status.ok()) continue;
      EXPECT_EQ(status.code(), kInvalid) << key << " " << value;
      EXPECT_FALSE(status.message().empty());
    }
  };
  for (const auto& item : whole.items()) {
    try_all(Json::json_pointer(""), item.key());
  }
  for (const char* part : {"/options", "/segments/0", "/buffers/0"}) {
    const Json::json_pointer object(part);
    for (const auto& item : whole[object].items()) {
      try_all(object, item.key());
    }
    Json more = whole;
    more[object]["unheard_of"] = 1;
    EXPECT_THAT(PlanFromJson(more.dump(), "m").status(),
                StatusIs(kInvalid, HasSubstr("unheard_of")));
  }
}

TEST(PlanJsonTest, WordsAndNumbersAreNamedWithWhatIsAccepted) {
  EXPECT_THAT(
      ReadEdited(Small(),
                 [](Json& json) { json["buffers"][2]["lifetime"] = "ages"; }),
      StatusIs(kInvalid,
               AllOf(HasSubstr("buffers[2].lifetime"), HasSubstr("\"ages\""),
                     HasSubstr("constant, host-written"))));
  EXPECT_THAT(
      ReadEdited(Small(),
                 [](Json& json) { json["segments"][1]["bytes"] = "2 MiB"; }),
      StatusIs(kInvalid, AllOf(HasSubstr("segments[1].bytes"),
                               HasSubstr("an integer from 0"))));
}

TEST(PlanJsonTest, WhatIsNoPlanIsRefused) {
  EXPECT_THAT(PlanFromJson("", "empty").status(),
              StatusIs(kInvalid, HasSubstr("empty")));
  EXPECT_THAT(PlanFromJson("[]", "list").status(),
              StatusIs(kInvalid, HasSubstr("an object")));
  EXPECT_THAT(
      PlanFromJson("{\"schema\": \"a\", \"schema\": \"b\"}", "twice").status(),
      StatusIs(kInvalid, HasSubstr("'schema' is there twice")));
  EXPECT_THAT(PlanFromJson(std::string(100000, '['), "deep").status(),
              StatusIs(kInvalid, HasSubstr("deep")));
  EXPECT_THAT(
      PlanFromJson(std::string((size_t{16} << 20) + 1, ' '), "big").status(),
      StatusIs(kInvalid, HasSubstr("limit 16777216")));
}

TEST(PlanDiffTest, EqualPlansHaveNoChange) {
  EXPECT_THAT(DiffPlans(Small(), Small()), IsEmpty());
  EXPECT_EQ(DiffToText({}), "the plans are equal\n");
}

TEST(PlanDiffTest, NamesWhatWasAddedRemovedAndChanged) {
  ASSERT_OK_AND_ASSIGN(
      const ArenaPlan before,
      PlanArena({Size("a", 256), Size("gone", 256)}, {.guard_bytes = 256}));
  ASSERT_OK_AND_ASSIGN(
      const ArenaPlan after,
      PlanArena({Size("new", 256), Size("a", 512)}, {.guard_bytes = 512}));
  EXPECT_EQ(DiffToText(DiffPlans(before, after)),
            "changed  options guard_bytes: 256 -> 512\n"
            "changed  buffer 'a' bytes: 256 -> 512\n"
            "changed  buffer 'a' offset: 0 -> 768\n"
            "removed  buffer 'gone'\n"
            "added    buffer 'new'\n");
}

TEST(PlanDiffTest, SegmentsArePairedByTagAndPolicy) {
  std::vector<BufferSize> sizes = {Size("a", 256), Size("b", 256)};
  ASSERT_OK_AND_ASSIGN(const ArenaPlan before, PlanArena(sizes, {}));
  sizes[1].sleep = SleepPolicy::kKeep;
  ASSERT_OK_AND_ASSIGN(const ArenaPlan after, PlanArena(sizes, {}));
  const std::string text = DiffToText(DiffPlans(before, after));
  EXPECT_THAT(text, HasSubstr("added    segment 'step' (keep)\n"));
  EXPECT_THAT(text, HasSubstr("changed  buffer 'b' sleep: discard -> keep\n"));
}

}  // namespace
}  // namespace permafrost
